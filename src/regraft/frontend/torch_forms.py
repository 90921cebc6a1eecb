"""Relax's forms of PyTorch's core operators, for operators that `from_torch` writes in another way.

Each entry of `FORMS` is an overload of ATen, as `torch.export` leaves it after its decompositions, and a function that
takes a `CallForm` and the operator's operands, and returns the expression. A function that returns `NotImplemented`
leaves the call to `from_torch`; all forms do so if Relax's form would compute something else than PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from string import ascii_lowercase
from typing import Any, Final, TypeAlias

import numpy as np
import torch

from .. import op as R
from ..formats.torch.context import dtype_of, fields_of, like, rank, shape_of
from ..formats.torch.custom import Conversion
from ..formats.torch.tensors import dtype_name
from ..ir.dims import Dim
from ..ir.dtypes import is_bool, is_float, is_integer
from ..ir.expr import Expr, ShapeExpr, Tuple, Var, const

_END: Final = 2**63 - 1
"""The end of a slice up to the end of the axis."""


@dataclass(frozen=True, slots=True)
class CallForm:
    """The call of an operator that is written in Relax's form."""

    node: torch.fx.Node
    conversion: Conversion

    def emit(self, value: Expr) -> Var:
        """A new variable bound to ``value``."""
        return self.conversion.block_builder.emit(value)

    def uses(self, index: int) -> bool:
        """True if the model reads result ``index`` of several results."""
        return any(user.args[1] == index for user in self.node.users)

    def results(self, *values: Expr) -> tuple[Expr | None, ...]:
        """The fields that the model reads of a bound tuple of ``values``, an operator's several results."""
        return self.fields(self.emit(Tuple(values)))

    def fields(self, value: Expr) -> tuple[Expr | None, ...]:
        """The fields that the model reads of ``value``, the results of an operator with several of them."""
        bound = value if isinstance(value, Var) else self.emit(value)
        return tuple([field if self.uses(index) else None for index, field in enumerate(fields_of(bound))])


RelaxForm: TypeAlias = Callable[..., Any]


# --- elementwise


def _elu(_call: CallForm, x: Expr, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    if scale != 1 or input_scale != 1:
        return NotImplemented  # Relax's importer leaves both scales out
    below = R.nn.relu(R.subtract(like(x, 1), R.exp(x)))
    return R.add(R.multiply(like(x, -alpha), below), R.nn.relu(x))


def _clamp(_call: CallForm, x: Expr, low: Any = None, high: Any = None, **named: Any) -> Any:
    low, high = named.get("min", low), named.get("max", high)
    bounds = (-math.inf if low is None else low, math.inf if high is None else high)
    if not is_float(dtype_of(x)) or not all(isinstance(bound, int | float) for bound in bounds):
        return NotImplemented
    return R.clip(x, *bounds)


def _power(call: CallForm, x: Expr, exponent: Any) -> Any:
    if not isinstance(exponent, int | float):
        return NotImplemented
    if is_float(dtype_of(x)):
        return R.power(x, like(x, exponent))
    if not is_integer(dtype_of(x)) or not isinstance(exponent, int) or exponent < 0:
        return NotImplemented
    if exponent == 0:
        return R.ones_like(x)
    result = x
    for _ in range(exponent - 1):
        result = call.emit(R.multiply(result, x))
    return result


def _as_bool(call: CallForm, x: Expr) -> Expr:
    return x if is_bool(dtype_of(x)) else call.emit(R.astype(x, "bool"))


def _logical(function: Callable[..., Expr]) -> RelaxForm:
    def form(call: CallForm, *operands: Expr) -> Expr:
        return function(*[_as_bool(call, x) for x in operands])

    return form


_FLOATING: Final[Mapping[str, Callable[[Expr], Expr]]] = {
    "log2.default": lambda x: R.divide(R.log(x), like(x, math.log(2))),
    "log10.default": lambda x: R.divide(R.log(x), like(x, math.log(10))),
    "log1p.default": lambda x: R.log(R.add(x, like(x, 1))),
    "expm1.default": lambda x: R.subtract(R.exp(x), like(x, 1)),
}
"""Relax's forms of functions of floating tensors."""


def _floating(function: Callable[[Expr], Expr]) -> RelaxForm:
    def form(_call: CallForm, x: Expr) -> Any:
        return function(x) if is_float(dtype_of(x)) else NotImplemented

    return form


def _hardtanh(call: CallForm, x: Expr, low: float = -1.0, high: float = 1.0) -> Any:
    return _clamp(call, x, low, high)


def _clamp_max(call: CallForm, x: Expr, high: Any) -> Any:
    return _clamp(call, x, None, high)


def _same(_call: CallForm, x: Expr, *_how: Any) -> Expr:
    return x


def _dropout(call: CallForm, x: Expr, *_how: Any) -> Any:
    return NotImplemented if call.uses(1) else (x, None)


# --- products


def product(_call: CallForm, x: Expr, y: Expr) -> Expr:
    """A matrix product with an explicit dtype."""
    return R.matmul(x, y, out_dtype=dtype_of(x))


def _addmm(call: CallForm, x: Expr, left: Expr, right: Expr, *, beta: float = 1, alpha: float = 1) -> Any:
    if beta == 0 or alpha == 0 or not is_float(dtype_of(x)):
        return NotImplemented
    product = call.emit(R.matmul(left, right, out_dtype=dtype_of(x)))
    if alpha != 1:
        product = call.emit(R.multiply(product, like(x, alpha)))
    return R.add(x if beta == 1 else call.emit(R.multiply(x, like(x, beta))), product)


# --- reductions


def _axes(dim: Any) -> Any:
    """The axes of a reduction; None, for all axes, if PyTorch names none."""
    return dim if isinstance(dim, int) or dim else None


def _reduction(function: Callable[..., Expr]) -> RelaxForm:
    def reduce(call: CallForm, x: Expr, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        if dtype is not None:
            x = call.emit(R.astype(x, dtype_name(dtype)))
        elif function is R.sum and not is_float(dtype_of(x)) and dtype_of(x) != "int64":
            x = call.emit(R.astype(x, "int64"))
        return function(x, _axes(dim), keepdims=keepdim)

    return reduce


def _variance(
    call: CallForm, x: Expr, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> Any:
    lost = 1 if correction is None else correction
    counted = range(rank(x)) if _axes(dim) is None else [dim] if isinstance(dim, int) else dim
    sizes = [shape_of(x)[axis] for axis in counted]
    if not all(isinstance(size, int) for size in sizes):
        return NotImplemented
    count = math.prod(int(str(size)) for size in sizes)
    result = R.variance(x, _axes(dim), keepdims=keepdim)
    if not lost:
        return result
    return NotImplemented if count <= lost else R.multiply(call.emit(result), like(x, count / (count - lost)))


def _any(_call: CallForm, x: Expr, dim: Any = None, keepdim: bool = False) -> Any:
    if not is_bool(dtype_of(x)):
        return NotImplemented
    return R.astype(R.max(R.astype(x, "int8"), _axes(dim), keepdims=keepdim), "bool")


def _norm(_call: CallForm, x: Expr, order: float = 2, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    axes, size = _axes(dim), R.abs(x)
    if math.isinf(order):
        return (R.max if order > 0 else R.min)(size, axes, keepdims=keepdim)
    if order == 0 or _.get("dtype") is not None:
        return NotImplemented
    powers = R.sum(R.power(size, like(x, float(order))), axes, keepdims=keepdim)
    return R.power(powers, like(x, 1.0 / order))


def _max_over_axis(call: CallForm, x: Expr, dim: int, keepdim: bool = False) -> Any:
    greatest = call.emit(R.topk(x, 1, dim, "both", largest=True, dtype="int64"))
    values, indices = fields_of(greatest)
    if keepdim:
        return call.results(values, indices)
    return call.results(call.emit(R.squeeze(values, axis=[dim])), call.emit(R.squeeze(indices, axis=[dim])))


def _topk(call: CallForm, x: Expr, k: int, dim: int = -1, largest: bool = True, *_ordered: bool) -> Any:
    return call.fields(R.topk(x, k, dim, "both", largest, "int64"))


def _sort(call: CallForm, x: Expr, dim: int = -1, descending: bool = False) -> Any:
    indices = call.emit(R.argsort(x, dim, descending, dtype="int64"))
    return call.results(call.emit(R.gather_elements(x, indices, axis=dim)), indices)


# --- layers


def _layer_norm(
    call: CallForm, x: Expr, normalized: Sequence[Dim], weight: Expr | None, bias: Expr | None, eps: float
) -> Any:
    if call.uses(1) or call.uses(2) or not all(isinstance(size, int) for size in normalized):
        return NotImplemented
    gamma, beta = scale_and_shift(x, normalized, weight, bias)
    return R.nn.layer_norm(x, gamma, beta, list(range(-len(normalized), 0)), eps), None, None


def scale_and_shift(x: Expr, shape: Sequence[Dim], weight: Expr | None, bias: Expr | None) -> tuple[Expr, Expr]:
    """The weights of a normalization; constants of ones and zeros for missing weights."""
    sizes = [int(str(size)) for size in shape]
    gamma = const(np.ones(sizes), dtype_of(x)) if weight is None else weight
    return gamma, const(np.zeros(sizes), dtype_of(x)) if bias is None else bias


def _batch_norm(
    call: CallForm,
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    mean: Expr,
    variance: Expr,
    momentum: float,
    eps: float,
) -> Any:
    if call.uses(1) or call.uses(2) or not isinstance(shape_of(x)[1], int):
        return NotImplemented
    gamma, beta = scale_and_shift(x, [shape_of(x)[1]], weight, bias)
    switches = {"center": bias is not None, "scale": weight is not None, "training": False}
    normalized = R.nn.batch_norm(x, gamma, beta, mean, variance, 1, eps, momentum=momentum, **switches)
    return call.emit(normalized)[0], None, None


def _normalized_by_sample(
    call: CallForm, x: Expr, weight: Expr | None, bias: Expr | None, training: bool, momentum: float, eps: float
) -> Any:
    """A batch norm without statistics over one sample, into which PyTorch decomposes instance norm."""
    if call.uses(1) or call.uses(2) or not training or not isinstance(shape_of(x)[1], int):
        return NotImplemented
    gamma, beta = scale_and_shift(x, [shape_of(x)[1]], weight, bias)
    return R.nn.instance_norm(x, gamma, beta, 1, [0, *range(2, rank(x))], eps), None, None


def _group_norm(
    call: CallForm,
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    _samples: Dim,
    _channels: Dim,
    _places: Dim,
    groups: int,
    eps: float,
) -> Any:
    if call.uses(1) or call.uses(2) or weight is None or bias is None:
        return NotImplemented
    return R.nn.group_norm(x, weight, bias, groups, 1, list(range(2, rank(x))), eps), None, None


def _max_pool(pool: Callable[..., Expr], layout: str) -> RelaxForm:
    def form(
        call: CallForm,
        x: Expr,
        size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:
        if call.uses(1):
            return NotImplemented  # Relax's importer returns zeros for the indices
        alone = rank(x) < len(layout)
        images = call.emit(R.expand_dims(x, [0])) if alone else x
        pooled = call.emit(pool(images, size, stride or size, padding, dilation, ceil_mode, layout=layout))
        if alone:
            pooled = call.emit(R.squeeze(pooled, [0]))
        return call.results(pooled, call.emit(R.zeros_like(pooled)))

    return form


def _nearest(_call: CallForm, x: Expr, size: Any = None, scale: Any = None) -> Any:
    if size is None:
        if not all(isinstance(extent, int) for extent in shape_of(x)[2:]):
            return NotImplemented
        size = [int(int(str(extent)) * factor) for extent, factor in zip(shape_of(x)[2:], scale, strict=True)]
    sizes = list(zip(size, shape_of(x)[2:], strict=True))
    if not all(isinstance(new, int) and isinstance(old, int) and new % old == 0 for new, old in sizes):
        return NotImplemented  # rounding to the nearest centre is PyTorch's rule for whole factors only
    return R.image.resize2d(x, size, layout="NCHW", method="nearest_neighbor", rounding_method="round")


def _interpolated(method: str) -> RelaxForm:
    def form(_call: CallForm, x: Expr, size: Any, align_corners: bool, scale: Any = None) -> Any:
        if scale is not None:
            size = _whole_sizes(x, scale)
        if size is None:
            return NotImplemented
        return R.image.resize2d(
            x,
            size,
            layout="NCHW",
            method=method,
            coordinate_transformation_mode="align_corners" if align_corners else "half_pixel",
            rounding_method="round",
            cubic_alpha=-0.75,
        )

    return form


def _whole_sizes(x: Expr, scale: Sequence[float]) -> list[int] | None:
    """The sizes of an image after scaling. None if a size is symbolic, or not a whole number after scaling."""
    extents = shape_of(x)[2:]
    if not all(isinstance(extent, int) for extent in extents):
        return None
    exact = [int(str(extent)) * factor for extent, factor in zip(extents, scale, strict=True)]
    return [int(size) for size in exact] if all(size == int(size) for size in exact) else None


def _embedding(call: CallForm, weight: Expr, indices: Expr, *_: Any) -> Any:
    narrow = call.emit(R.astype(indices, "int32"))
    if rank(indices) == 1:
        return R.take(weight, narrow, axis=0)
    rows = call.emit(R.take(weight, call.emit(R.reshape(narrow, [-1])), axis=0))
    return R.reshape(rows, [*shape_of(indices), shape_of(weight)[-1]])


# --- shapes and places


def _slice(_call: CallForm, x: Expr, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    start, end = 0 if start is None else start, _END if end is None else end
    whole = end == shape_of(x)[dim] if not isinstance(end, int) else end >= _END
    if whole and (start, step) == (0, 1):
        return x
    if not all(isinstance(bound, int) for bound in (start, end, step)):
        return NotImplemented
    return R.strided_slice(x, [dim], [start], [end], [step])


def _split(call: CallForm, x: Expr, sizes: int | Sequence[int], dim: int = 0) -> Any:
    extent = shape_of(x)[dim]
    if isinstance(sizes, int):
        if not isinstance(extent, int):
            return NotImplemented
        cuts = list(range(sizes, extent, sizes))
    else:
        cuts = list(accumulate(sizes))[:-1]
    return call.fields(R.split(x, cuts, dim)) if cuts else NotImplemented


def _squeeze(_call: CallForm, x: Expr, axes: Sequence[int]) -> Any:
    known = all(isinstance(shape_of(x)[axis], int) for axis in axes)
    return R.squeeze(x, list(axes)) if axes and known else NotImplemented


def _expand(_call: CallForm, x: Expr, sizes: Sequence[Dim], **_: Any) -> Any:
    kept = [0] * (len(sizes) - rank(x)) + list(shape_of(x))
    return R.broadcast_to(x, [old if size == -1 else size for size, old in zip(sizes, kept, strict=True)])


def _view(_call: CallForm, x: Expr, shape: Sequence[Dim]) -> Any:
    return x if list(shape_of(x)) == list(shape) else R.reshape(x, list(shape))


def _permute(_call: CallForm, x: Expr, axes: Sequence[int]) -> Expr:
    return R.permute_dims(x, list(axes))


def _repeat(_call: CallForm, x: Expr, repeats: Sequence[Dim]) -> Expr:
    return R.tile(x, list(repeats))


def _cat(_call: CallForm, tensors: Sequence[Expr], dim: int = 0) -> Any:
    alike = all(dtype_of(x) == dtype_of(tensors[0]) and rank(x) == rank(tensors[0]) for x in tensors)
    return R.concat(list(tensors), dim) if alike else NotImplemented


def _scatter_number(call: CallForm, x: Expr, dim: int, index: Expr, value: float) -> Any:
    source = call.emit(R.broadcast_to(like(x, value), shape_of(index)))
    return R.scatter_elements(x, index, source, axis=dim)


def _index(call: CallForm, x: Expr, indices: Sequence[Expr | None]) -> Any:
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if any(is_bool(dtype_of(index)) for _, index in given):
        return NotImplemented
    if len(given) == 1:
        return R.take(x, given[0][1], axis=given[0][0])
    if len(given) == len(indices):
        return R.index_tensor(x, [index for _, index in given])
    return _rows_and_columns(call, x, given)


def _rows_and_columns(call: CallForm, x: Expr, given: Sequence[tuple[int, Expr]]) -> Any:
    """An index into neighbouring axes as a take for each axis, for indices of shapes such as ``(a, 1)`` and ``(b,)``.

    `NotImplemented` for other indices.
    """
    axes = [axis for axis, _ in given]
    apart = all(
        rank(index) == len(given) - place and all(size == 1 for size in shape_of(index)[1:])
        for place, (_, index) in enumerate(given)
    )
    if not apart or axes != list(range(axes[0], axes[0] + len(axes))):
        return NotImplemented
    for axis, index in reversed(given):
        x = call.emit(R.take(x, index if rank(index) == 1 else call.emit(R.squeeze(index)), axis=axis))
    return x


def _diagonal(_call: CallForm, x: Expr, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    first, second = dim1 % rank(x), dim2 % rank(x)
    if offset or shape_of(x)[first] != shape_of(x)[second]:
        return NotImplemented
    letters = list(ascii_lowercase[: rank(x)])
    kept = "".join(letter for axis, letter in enumerate(letters) if axis not in (first, second))
    letters[first] = letters[second] = "z"
    return R.einsum((x,), f"{''.join(letters)}->{kept}z")


def _index_put(call: CallForm, x: Expr, indices: Sequence[Expr | None], values: Expr, accumulate: bool = False) -> Any:
    given = [index for index in indices if index is not None]
    if len(given) < rank(x) or any(is_bool(dtype_of(index)) for index in given):
        return NotImplemented
    return R.index_put(x, Tuple(given), values, accumulate)


# --- constructors


def _full(call: CallForm, size: Sequence[Dim], value: Any, *, dtype: Any = None, **_: Any) -> Any:
    if not isinstance(value, int | float):
        return NotImplemented
    name = dtype_name(call.node.meta["val"].dtype)
    return R.full(ShapeExpr(list(size)), const(value, name), name)


def _full_like(call: CallForm, x: Expr, value: Any, **_: Any) -> Any:
    if not isinstance(value, int | float):
        return NotImplemented
    name = dtype_name(call.node.meta["val"].dtype)
    return R.full_like(x, const(value, name), None if name == dtype_of(x) else name)


def _linspace(call: CallForm, start: Any, end: Any, steps: Any, **_: Any) -> Any:
    """Evenly spaced numbers. The first half is counted from the start, the second from the end, as PyTorch rounds."""
    name = dtype_name(call.node.meta["val"].dtype)
    if not is_float(name) or not all(isinstance(one, int | float) for one in (start, end, steps)) or steps < 2:
        return NotImplemented

    def away(places: Expr) -> Expr:
        floats = call.emit(R.astype(places, name))
        return call.emit(R.multiply(floats, const((end - start) / (steps - 1), name)))

    places = call.emit(R.arange(0, steps, 1, dtype="int64"))
    early = call.emit(R.less(places, const(steps // 2, "int64")))
    from_start = call.emit(R.add(away(places), const(float(start), name)))
    left = call.emit(R.subtract(const(steps - 1, "int64"), places))
    from_end = call.emit(R.subtract(const(float(end), name), away(left)))
    return R.where(early, from_start, from_end)


def _scalar(call: CallForm, value: Any, **_: Any) -> Any:
    if not isinstance(value, int | float):
        return NotImplemented
    return call.emit(const(value, dtype_name(call.node.meta["val"].dtype)))


def _scan(function: Callable[..., Expr]) -> RelaxForm:
    def form(_call: CallForm, x: Expr, dim: int, *, dtype: Any = None) -> Any:
        return NotImplemented if dtype is None else function(x, dim, dtype_name(dtype))

    return form


def _clamp_tensors(call: CallForm, x: Expr, low: Expr | None = None, high: Expr | None = None, **named: Any) -> Any:
    for bound, pick in ((named.get("min", low), R.maximum), (named.get("max", high), R.minimum)):
        if bound is not None:
            x = call.emit(pick(x, call.emit(R.broadcast_to(bound, shape_of(x)))))
    return R.clip(x, -math.inf, math.inf) if is_float(dtype_of(x)) else x


def _item(_call: CallForm, x: Expr) -> Any:
    return R.take(x, const(0, "int64"), axis=0) if rank(x) == 1 and is_float(dtype_of(x)) else NotImplemented


def _copy(_call: CallForm, x: Expr, source: Expr, *_: Any) -> Any:
    return R.broadcast_to(source, shape_of(x)) if dtype_of(source) == dtype_of(x) else NotImplemented


FORMS: Final[Mapping[str, RelaxForm]] = {
    **{name: _floating(function) for name, function in _FLOATING.items()},
    "elu.default": _elu,
    "hardtanh.default": _hardtanh,
    "clamp.default": _clamp,
    "clamp_min.default": _clamp,
    "clamp_max.default": _clamp_max,
    "pow.Tensor_Scalar": _power,
    "logical_and.default": _logical(R.logical_and),
    "logical_or.default": _logical(R.logical_or),
    "logical_xor.default": _logical(R.logical_xor),
    "logical_not.default": _logical(R.logical_not),
    "mm.default": product,
    "bmm.default": product,
    "addmm.default": _addmm,
    "sum.default": _reduction(R.sum),
    "sum.dim_IntList": _reduction(R.sum),
    "mean.default": _reduction(R.mean),
    "mean.dim": _reduction(R.mean),
    "prod.default": _reduction(R.prod),
    "max.default": _reduction(R.max),
    "min.default": _reduction(R.min),
    "var.correction": _variance,
    "any.dim": _any,
    "any.dims": _any,
    "linalg_vector_norm.default": _norm,
    "max.dim": _max_over_axis,
    "sort.default": _sort,
    "topk.default": _topk,
    "native_layer_norm.default": _layer_norm,
    "_native_batch_norm_legit_no_training.default": _batch_norm,
    "_native_batch_norm_legit.no_stats": _normalized_by_sample,
    "native_group_norm.default": _group_norm,
    "max_pool2d_with_indices.default": _max_pool(R.nn.max_pool2d, "NCHW"),
    "max_pool3d_with_indices.default": _max_pool(R.nn.max_pool3d, "NCDHW"),
    "upsample_nearest2d.vec": _nearest,
    "upsample_bilinear2d.vec": _interpolated("linear"),
    "upsample_bicubic2d.vec": _interpolated("cubic"),
    "embedding.default": _embedding,
    "slice.Tensor": _slice,
    "squeeze.dims": _squeeze,
    "split.Tensor": _split,
    "split_with_sizes.default": _split,
    "expand.default": _expand,
    "view.default": _view,
    "reshape.default": _view,
    "permute.default": _permute,
    "repeat.default": _repeat,
    "diagonal.default": _diagonal,
    "cat.default": _cat,
    "scatter.value": _scatter_number,
    "index.Tensor": _index,
    "index_put.default": _index_put,
    "full.default": _full,
    "full_like.default": _full_like,
    "linspace.default": _linspace,
    "scalar_tensor.default": _scalar,
    "cumsum.default": _scan(R.cumsum),
    "cumprod.default": _scan(R.cumprod),
    "clamp.Tensor": _clamp_tensors,
    "item.default": _item,
    "_local_scalar_dense.default": _item,
    "copy.default": _copy,
    "dropout.default": _same,
    "native_dropout.default": _dropout,
}
"""Relax's forms, by the overloads of ATen."""
