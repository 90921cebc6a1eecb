"""The forms of `from_fx`: Relax's importer of traced models keeps most operators whole.

See `torch_forms`, whose forms of other operators both importers share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from .. import op as R
from ..formats.torch.context import dtype_of, fields_of, like, rank, shape_of
from ..formats.torch.tensors import dtype_name
from ..ir.dims import Dim
from ..ir.dtypes import is_float, is_integer
from ..ir.expr import Expr, const
from .torch_forms import FORMS, CallForm, RelaxForm, product, scale_and_shift


def _celu(_call: CallForm, x: Expr, alpha: float = 1.0) -> Any:
    if alpha != 1:
        return NotImplemented  # Relax's importer divides outside the exponential
    low = R.subtract(R.divide(R.exp(x), like(x, alpha)), like(x, 1))
    return R.add(R.multiply(like(x, alpha), R.minimum(like(x, 0), low)), R.nn.relu(x))


def _relu6(_call: CallForm, x: Expr) -> Expr:
    return R.clip(x, 0, 6)


def _hardsigmoid(_call: CallForm, x: Expr) -> Expr:
    return R.divide(R.clip(R.add(x, like(x, 3)), 0, 6), like(x, 6))


def _hardswish(call: CallForm, x: Expr) -> Expr:
    return R.multiply(x, _hardsigmoid(call, x))


def _linear(call: CallForm, x: Expr, weight: Expr, bias: Expr | None = None) -> Any:
    if rank(weight) != 2:
        return NotImplemented
    result = product(call, x, R.permute_dims(weight))
    return result if bias is None else R.add(result, bias)


def _baddbmm(call: CallForm, x: Expr, left: Expr, right: Expr, *, beta: float = 1, alpha: float = 1) -> Any:
    if beta == 0 or alpha == 0 or not is_float(dtype_of(x)):
        return NotImplemented
    result = call.emit(R.matmul(left, right))
    if alpha != 1:
        result = call.emit(R.multiply(result, like(x, alpha)))
    return R.add(result, x if beta == 1 else call.emit(R.multiply(x, like(x, beta))))


def _layer_norm(
    _call: CallForm,
    x: Expr,
    normalized: Sequence[Dim],
    weight: Expr | None = None,
    bias: Expr | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Any:
    return R.nn.layer_norm(
        x, *scale_and_shift(x, normalized, weight, bias), axes=list(range(-len(normalized), 0)), epsilon=eps
    )


def _instance_norm(
    _call: CallForm,
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    _mean: Any,
    _variance: Any,
    use_input: bool,
    _momentum: float,
    eps: float,
    *_: Any,
) -> Any:
    if not use_input or not isinstance(shape_of(x)[1], int):
        return NotImplemented
    gamma, beta = scale_and_shift(x, [shape_of(x)[1]], weight, bias)
    return R.nn.instance_norm(x, gamma, beta, 1, list(range(2, rank(x))), eps)


_REDUCTIONS: Final = ("none", "mean", "sum")


def _cross_entropy(
    _call: CallForm,
    x: Expr,
    targets: Expr,
    weight: Expr | None = None,
    reduction: int = 1,
    ignored: int = -100,
    smoothing: float = 0.0,
) -> Any:
    if rank(x) != 2 or smoothing or not is_integer(dtype_of(targets)):
        return NotImplemented
    return R.nn.nll_loss(R.nn.log_softmax(x), targets, weight, _REDUCTIONS[reduction], ignored)


def _chunk(call: CallForm, x: Expr, chunks: int, dim: int = 0) -> Any:
    size = shape_of(x)[dim]
    if not isinstance(size, int) or size <= -(-size // chunks) * (chunks - 1):
        return NotImplemented  # PyTorch returns fewer chunks than there are sections
    return call.fields(R.split(x, chunks, dim))


def _unbind(call: CallForm, x: Expr, dim: int = 0) -> Any:
    count = shape_of(x)[dim]
    if not isinstance(count, int):
        return NotImplemented
    if count == 1:
        return call.results(call.emit(R.squeeze(x, dim)))
    parts = call.emit(R.split(x, count, dim))
    return call.results(*[call.emit(R.squeeze(part, dim)) for part in fields_of(parts)])


def _roll(call: CallForm, x: Expr, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    if not all(isinstance(size, int) for size in shape_of(x)):
        return NotImplemented
    if not dims:
        rolled = _rolled(call, call.emit(R.reshape(x, [-1])), shifts[0], 0)
        return R.reshape(rolled, list(shape_of(x)))
    for shift, dim in zip(shifts, dims, strict=True):
        x = _rolled(call, x, shift, dim % rank(x))
    return x


def _rolled(call: CallForm, x: Expr, shift: int, axis: int) -> Expr:
    size = int(str(shape_of(x)[axis]))
    cut = size - shift % max(size, 1)
    if cut in (0, size):
        return x
    head, tail = [call.emit(R.strided_slice(x, [axis], [a], [b], [1])) for a, b in ((0, cut), (cut, size))]
    return call.emit(R.concat([tail, head], axis=axis))


def _masked_fill(call: CallForm, x: Expr, mask: Expr, value: float) -> Any:
    if not is_float(dtype_of(x)) and value != int(value):
        return NotImplemented
    return R.where(mask, call.emit(R.full_like(x, like(x, value))), x)


def _filled_like(function: Callable[[Expr], Expr]) -> RelaxForm:
    def form(_call: CallForm, x: Expr, **how: Any) -> Any:
        return NotImplemented if how.get("dtype") is not None else function(x)

    return form


def _hardtanh(_call: CallForm, x: Expr, low: float = -1.0, high: float = 1.0) -> Expr:
    return _relu6(_call, x) if (low, high) == (0, 6) else R.clip(x, low, high)


def _lerp(call: CallForm, start: Expr, end: Expr, weight: Expr | float) -> Expr:
    part = weight if isinstance(weight, Expr) else like(start, weight)
    return R.add(start, call.emit(R.multiply(part, call.emit(R.subtract(end, start)))))


def _narrow(_call: CallForm, x: Expr, dim: int, start: Any, length: Any) -> Any:
    if not isinstance(start, int) or not isinstance(length, int) or start < 0:
        return NotImplemented
    return R.strided_slice(x, [dim], [start], [start + length])


def _squeeze(_call: CallForm, x: Expr) -> Expr:
    return R.squeeze(x)


def _astype(_call: CallForm, x: Expr, dtype: Any, *_how: Any, **_named: Any) -> Any:
    return R.astype(x, dtype_name(dtype)) if isinstance(dtype, torch.dtype) else NotImplemented


def _prelu(_call: CallForm, x: Expr, slopes: Expr) -> Any:
    return R.nn.prelu(x, slopes, 0 if rank(x) == 1 else 1) if rank(slopes) == 1 else NotImplemented


def _take(call: CallForm, x: Expr, indices: Expr) -> Any:
    return R.take(x, call.emit(R.astype(indices, "int32"))) if rank(x) == 1 else NotImplemented


def _norm(call: CallForm, x: Expr, *how: Any, **named: Any) -> Any:
    return FORMS["linalg_vector_norm.default"](call, x, *how, **named) if how else R.sqrt(R.sum(R.multiply(x, x)))


def _nearest(_call: CallForm, x: Expr, size: Sequence[Dim] | None = None, *_scale: Any) -> Any:
    sizes = list(zip(size or (), shape_of(x)[2:], strict=False))
    if not sizes or not all(isinstance(new, int) and isinstance(old, int) and old % new == 0 for new, old in sizes):
        return NotImplemented  # Relax rounds to the nearest place, PyTorch down
    return R.image.resize2d(
        x,
        [new for new, _ in sizes],
        layout="NCHW",
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="round",
    )


def _new_filled(value: float) -> RelaxForm:
    def form(call: CallForm, _x: Expr, size: Sequence[Dim], **_how: Any) -> Expr:
        dtype = dtype_name(call.node.meta["val"].dtype)
        return R.full(list(size), const(value, dtype), dtype)

    return form


FORMS_OF_TRACED: Final[Mapping[str, RelaxForm]] = {
    **FORMS,
    "celu.default": _celu,
    "relu6.default": _relu6,
    "hardsigmoid.default": _hardsigmoid,
    "hardswish.default": _hardswish,
    "matmul.default": product,
    "linear.default": _linear,
    "baddbmm.default": _baddbmm,
    "layer_norm.default": _layer_norm,
    "instance_norm.default": _instance_norm,
    "cross_entropy_loss.default": _cross_entropy,
    "chunk.default": _chunk,
    "unbind.int": _unbind,
    "roll.default": _roll,
    "masked_fill.Scalar": _masked_fill,
    "hardtanh.default": _hardtanh,
    "lerp.Tensor": _lerp,
    "lerp.Scalar": _lerp,
    "narrow.default": _narrow,
    "squeeze.default": _squeeze,
    "to.dtype": _astype,
    "prelu.default": _prelu,
    "take.default": _take,
    "linalg_vector_norm.default": _norm,
    "upsample_nearest2d.vec": _nearest,
    "empty_like.default": _filled_like(R.zeros_like),
    "new_ones.default": _new_filled(1),
    "new_zeros.default": _new_filled(0),
    "zeros_like.default": _filled_like(R.zeros_like),
    "ones_like.default": _filled_like(R.ones_like),
}
"""The forms of `from_fx`, by the overloads of ATen."""

FORMS_OF_WHOLE_OPERATORS: Final[Mapping[str, RelaxForm]] = {
    **FORMS_OF_TRACED,
    "upsample_nearest2d.vec": FORMS["upsample_nearest2d.vec"],
}
"""The forms of exported programs whose operators are not decomposed."""
