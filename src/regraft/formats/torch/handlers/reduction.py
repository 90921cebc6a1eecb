"""Handlers of ATen's reductions, scans, sorts and searches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from .... import op as R
from ....ir.dims import Dim, dim_product
from ....ir.dtypes import HALF, is_float, numpy_dtype
from ....ir.expr import Expr, const
from ..context import Context, axes_of, axis_of, cast, converts, converts_by_name, dtype_of, fields_of, rank, shape_of
from .unary import in_wide_floats

Axes: TypeAlias = "int | Sequence[int] | None"


def _fold(function: Callable[..., Expr], x: Expr, axes: Axes, keepdim: bool) -> Expr:
    return x if rank(x) == 0 else function(x, axis=axes_of(axes, rank(x)), keepdims=keepdim)


def _folded(
    function: Callable[..., Expr], context: Context, x: Expr, dim: Axes = None, keepdim: bool = False, **_dtype: Any
) -> Expr:
    """A reduction in the dtype of the result."""
    return _fold(function, cast(x, context.output_dtype()), dim, keepdim)


converts("sum", "sum.dim_IntList")(partial(_folded, R.sum))
converts("mean", "mean.dim")(partial(_folded, R.mean))
converts("prod", "prod.dim_int")(partial(_folded, R.prod))
converts("amax", "max")(partial(_folded, R.max))
converts("amin", "min")(partial(_folded, R.min))


@converts("any", "any.dim", "any.dims", "_is_any_true", "all", "all.dim", "all.dims", "_is_all_true")
def _truth(context: Context, x: Expr, dim: Axes = None, keepdim: bool = False) -> Expr:
    function = R.max if "any" in context.operator() else R.min
    return cast(_fold(function, cast(x, "bool"), dim, keepdim), context.output_dtype())


@converts("max.dim", "min.dim")
def _extreme_and_place(context: Context, x: Expr, dim: int, keepdim: bool = False) -> tuple[Expr, Expr]:
    fold, place = (R.max, R.argmax) if context.operator() == "max" else (R.min, R.argmin)
    return _fold(fold, x, dim, keepdim), _place(place, x, dim, keepdim)


@converts("argmax", "argmin")
def _place_of_extreme(context: Context, x: Expr, dim: int | None = None, keepdim: bool = False) -> Expr:
    return _place(R.argmax if context.operator() == "argmax" else R.argmin, x, dim, keepdim)


def _place(function: Callable[..., Expr], x: Expr, dim: int | None, keepdim: bool) -> Expr:
    if rank(x) == 0:
        return const(0, "int64")
    return function(x, axis=dim, keepdims=keepdim)


@converts_by_name("var.correction", "var.dim", "var")
def _var(context: Context, given: Any) -> Expr:
    return _corrected_variance(context, given.self, *_correction(given))


@converts_by_name("var_mean.correction", "var_mean.dim", "var_mean")
def _var_mean(context: Context, given: Any) -> tuple[Expr, Expr]:
    axes, correction, keepdim = _correction(given)
    mean = _fold(R.mean, given.self, axes, keepdim)
    return _corrected_variance(context, given.self, axes, correction, keepdim), mean


def _correction(given: Any) -> tuple[Axes, float, bool]:
    """The axes, the correction of the count, and keepdim, from the arguments of any overload."""
    correction = given.correction if hasattr(given, "correction") else int(given.unbiased)
    return getattr(given, "dim", None), 1 if correction is None else correction, getattr(given, "keepdim", False)


def _corrected_variance(context: Context, x: Expr, dim: Axes, correction: float, keepdim: bool) -> Expr:
    """The variance divided by ``count - correction`` as in PyTorch; the operator here divides by the count."""
    if not correction:
        return _fold(R.variance, x, dim, keepdim) if rank(x) else R.zeros_like(x)
    count: Dim = dim_product([shape_of(x)[axis] for axis in axes_of(dim, rank(x))])

    def whole(x: Expr) -> Expr:
        variance = _fold(R.variance, x, dim, keepdim) if rank(x) else R.zeros_like(x)
        if isinstance(count, int):
            rest = max(count - correction, 0)
            return variance * (count / rest if rest else math.inf)
        size = context.scalar(count, dtype_of(x))
        return variance * (size / R.maximum(size - float(correction), 0.0))

    return in_wide_floats(whole, x)


# --- scans


@converts("cumsum", "cumprod")
def _running(context: Context, x: Expr, dim: int, *, dtype: Any = None) -> Expr:
    x = cast(x, context.output_dtype())
    function = R.cumsum if context.operator() == "cumsum" else R.cumprod
    return x if rank(x) == 0 else function(x, axis=dim)


@converts("logcumsumexp")
def _log_of_running_sum(context: Context, x: Expr, dim: int) -> Expr:
    if rank(x) == 0:
        return x
    axis = axis_of(dim, rank(x))
    size = shape_of(x)[axis]
    if not isinstance(size, int):
        context.unsupported(f"running sums of exponentials along an axis of symbolic size {size}")
    wide = cast(x, "float32") if dtype_of(x) in HALF else x
    (sums,) = _scanned(context, [wide], axis, size, lambda early, late: [R.log_add_exp(early[0], late[0])])
    return cast(sums, dtype_of(x))


def _scanned(
    context: Context,
    parts: Sequence[Expr],
    axis: int,
    size: int,
    joined: Callable[[Sequence[Expr], Sequence[Expr]], Sequence[Expr]],
) -> list[Expr]:
    """Tensors in which each element along an axis is joined with all elements before it.

    Each element covers as many elements as ``reach``, which doubles in each round (Hillis and Steele, 1986).
    """
    found, reach = [context.emit(part) for part in parts], 1
    while reach < size:
        first, early, late = [
            [R.strided_slice(part, [axis], [begin], [end]) for part in found]
            for begin, end in ((0, reach), (0, size - reach), (reach, size))
        ]
        pairs = zip(first, joined(early, late), strict=True)
        found, reach = [context.emit(R.concat(list(pair), axis=axis)) for pair in pairs], 2 * reach
    return found


@converts("cummax", "cummin")
def _running_extreme(context: Context, x: Expr, dim: int) -> tuple[Expr, Expr]:
    if rank(x) == 0:
        return x, const(0, "int64")
    axis = axis_of(dim, rank(x))
    size = shape_of(x)[axis]
    if not isinstance(size, int):
        context.unsupported(f"running extremes along an axis of symbolic size {size}")
    line = [size if place == axis else 1 for place in range(rank(x))]
    places = R.broadcast_to(R.reshape(R.arange(0, size, 1, "int64"), line), shape_of(x))
    reaches = R.greater_equal if context.operator() == "cummax" else R.less_equal

    def joined(early: Sequence[Expr], late: Sequence[Expr]) -> list[Expr]:
        is_later = reaches(late[0], early[0])
        if is_float(dtype_of(x)):
            is_later = R.logical_or(R.isnan(late[0]), R.logical_and(R.logical_not(R.isnan(early[0])), is_later))
        return [R.where(is_later, after, before) for before, after in zip(early, late, strict=True)]

    values, places = _scanned(context, [x, places], axis, size, joined)
    return values, places


# --- sorts and searches


def _sorted(context: Context, x: Expr, dim: int, descending: bool) -> tuple[Expr, Expr]:
    if rank(x) == 0:
        return x, const(0, "int64")
    places = context.emit(R.argsort(x, axis=dim, descending=descending, dtype="int64"))
    return R.gather_elements(x, places, axis=dim), places


@converts_by_name("sort", "sort.stable")
def _sort(context: Context, given: Any) -> tuple[Expr, Expr]:
    return _sorted(context, given.self, given.dim, given.descending)


@converts("argsort", "argsort.stable")
def _argsort(context: Context, x: Expr, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Expr:
    return const(0, "int64") if rank(x) == 0 else R.argsort(x, axis=dim, descending=descending, dtype="int64")


@converts("topk")
def _topk(
    context: Context, x: Expr, k: Dim, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Expr, ...]:
    if not isinstance(k, int):
        context.unsupported(f"the number of elements to take is symbolic, k={k}")
    if rank(x) == 0:
        return x, const(0, "int64")
    if k == 0:
        empty = [0 if axis == dim % rank(x) else size for axis, size in enumerate(shape_of(x))]
        return R.zeros(empty, dtype_of(x)), R.zeros(empty, "int64")
    return fields_of(context.emit(R.topk(x, k, axis=dim, largest=largest, dtype="int64")))


@converts("kthvalue")
def _kthvalue(context: Context, x: Expr, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Expr, Expr]:
    if rank(x) == 0:
        return x, const(0, "int64")
    values, places = _sorted(context, x, dim, False)
    at = const([k - 1] if keepdim else k - 1, "int64")
    return R.take(values, at, axis=dim), R.take(places, at, axis=dim)


@converts("median")
def _median(context: Context, x: Expr) -> Expr:
    return x if rank(x) == 0 else R.median(x)


@converts("median.dim")
def _median_along(context: Context, x: Expr, dim: int, keepdim: bool = False) -> tuple[Expr, ...]:
    if rank(x) == 0:
        return x, const(0, "int64")
    return fields_of(context.emit(R.median(x, axis=dim, keepdims=keepdim)))


_NEAREST: Final[dict[str, Callable[[float], float]]] = {"lower": math.floor, "higher": math.ceil, "nearest": round}
"""The rounding for a quantile between two elements, by the name of PyTorch's interpolation."""


@converts_by_name("quantile.scalar")
def _quantile(context: Context, given: Any) -> Expr:
    x = given.self
    line = x if given.dim is not None else R.reshape(x, [dim_product(shape_of(x))])
    axis = axis_of(given.dim or 0, rank(line))
    size = shape_of(line)[axis] if rank(line) else 1
    if not isinstance(size, int):
        context.unsupported(f"a quantile of a symbolic number of elements, {size}")
    ordered = context.emit(R.sort(line if rank(line) else R.reshape(line, [1]), axis=axis))

    def element(place: float) -> Expr:
        return R.take(ordered, const(int(place), "int64"), axis=axis)

    # PyTorch computes the position in the dtype of the elements, and interpolates from the nearer neighbour.
    place = numpy_dtype(dtype_of(x)).type(given.q) * numpy_dtype(dtype_of(x)).type(size - 1)
    below, part = math.floor(place), float(place - np.floor(place))
    if given.interpolation == "midpoint":
        part = 0.5
    if given.interpolation in _NEAREST:
        found = element(_NEAREST[given.interpolation](float(place)))
    else:
        first, last = context.emit(element(below)), context.emit(element(math.ceil(place)))
        step = R.subtract(last, first)
        found = R.add(first, step * part) if part < 0.5 else R.subtract(last, step * (1.0 - part))
    greatest = context.emit(element(size - 1))  # NaN, if there is one
    return R.reshape(R.where(R.isnan(greatest), greatest, found), context.output_shape())


@converts("bucketize.Tensor")
def _bucketize(context: Context, x: Expr, boundaries: Expr, *, out_int32: bool = False, right: bool = False) -> Expr:
    values, places = context.promoted(x, boundaries)
    return R.bucketize(values, places, out_int32=out_int32, right=right)


@converts_by_name("searchsorted.Tensor")
def _searchsorted(context: Context, given: Any) -> Expr:
    ordered = given.sorted_sequence
    if given.sorter is not None:
        ordered = R.gather_elements(ordered, given.sorter, axis=-1)
    values, places = context.promoted(given.self, ordered)
    right = given.right or given.side == "right"
    if rank(ordered) == 1:
        return R.bucketize(values, places, out_int32=given.out_int32, right=right)
    # Each row has its own sequence: the index is the number of its elements that come before the value.
    before = (R.less_equal if right else R.less)(R.expand_dims(places, axis=-2), R.expand_dims(values, axis=-1))
    return R.sum(cast(before, context.output_dtype()), axis=-1)


@converts("histc")
def _histogram(context: Context, x: Expr, bins: int = 100, min: float = 0, max: float = 0) -> Expr:
    dtype = dtype_of(x)
    if min == max:
        context.unsupported("a histogram between the least and the greatest of the data; give min and max")
    flat = context.emit(R.flatten(x))
    inside = R.logical_and(R.greater_equal(flat, float(min)), R.less_equal(flat, float(max)))
    place = R.floor((flat - float(min)) * (bins / (max - min)))
    # The last bin includes its upper edge. Elements outside of the range go to an extra bin.
    place = R.where(inside, R.clip(place, 0, bins - 1), R.full_like(flat, const(float(bins), dtype)))
    start = R.zeros([bins + 1], dtype)
    counts = R.index_put(start, [cast(place, "int64")], R.ones_like(flat), accumulate=True)
    return R.strided_slice(counts, [0], [0], [bins])


@converts("nonzero", "argwhere")
def _nonzero(context: Context, x: Expr) -> Expr:
    if rank(x) == 0:
        context.unsupported("the places in a scalar")
    return R.permute_dims(R.nonzero(x), [1, 0])


@converts("item", "_local_scalar_dense")
def _item(context: Context, x: Expr) -> Any:
    from torch import SymFloat, SymInt

    value = context.node.meta.get("val")
    scalar = R.reshape(x, []) if rank(x) else x
    if isinstance(value, SymFloat):
        return context.emit(R.grad.no_grad(scalar))  # a Python number carries no gradient
    if not isinstance(value, SymInt) or context.sizes.may_be_negative(value):
        return context.emit(scalar)
    size = context.sizes.dim(value)
    context.read_size(x, size)
    return size
