"""Handlers of ATen's writes at indices: scatters, writes along one axis, and bags of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from .... import op as R
from ....ir.dims import Dim, dim_product
from ....ir.dtypes import is_float
from ....ir.expr import Expr, const
from ....op.primitive.manipulate import inverse
from ....op.primitive.reduction import extreme_of_none
from ..context import (
    Context,
    axis_of,
    cast,
    converts,
    converts_by_name,
    dtype_of,
    expanded,
    like,
    permuted,
    rank,
    shape_of,
)
from .indexing import indexed_axes

ScatterReduction: TypeAlias = Literal["update", "add", "mul", "mean", "max", "min"]
_REDUCTIONS: Final[dict[str, ScatterReduction]] = {
    "sum": "add",
    "prod": "mul",
    "mean": "mean",
    "amax": "max",
    "amin": "min",
    "add": "add",
    "multiply": "mul",
}


def _scattered(context: Context, x: Expr, dim: int, index: Expr, src: Expr, reduction: ScatterReduction) -> Expr:
    """``x`` with elements of ``src`` scattered along an axis; ``src`` may be larger than the index, as in PyTorch."""
    src = cast(src, dtype_of(x))
    if rank(x) == 0:
        lifted = [R.reshape(operand, [1]) for operand in (x, index, src)]
        return R.reshape(R.scatter_elements(*lifted, axis=0, reduction=reduction), [])
    sizes = shape_of(index)
    if shape_of(src) != sizes:
        axes = list(range(len(sizes)))
        src = R.strided_slice(src, axes, [0] * len(sizes), list(sizes), [1] * len(sizes))
    return R.scatter_elements(x, index, src, axis=dim, reduction=reduction)


@converts_by_name("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_add")
def _scatter(context: Context, given: Any) -> Expr:
    x, index, src = given.self, given.index, getattr(given, "src", None)
    if src is None:
        src = R.broadcast_to(context.scalar(given.value, dtype_of(x)), shape_of(index))
    fold = "add" if context.operator() == "scatter_add" else _REDUCTIONS.get(getattr(given, "reduce", ""), "update")
    return _scattered(context, x, given.dim, index, src, fold)


@converts("scatter_reduce.two")
def _scatter_reduce(
    context: Context, x: Expr, dim: int, index: Expr, src: Expr, reduce: str, *, include_self: bool = True
) -> Expr:
    if include_self:
        return _scattered(context, x, dim, index, src, _REDUCTIONS[reduce])
    counts = context.emit(_scattered(context, R.zeros_like(x), dim, index, R.ones_like(src), "add"))
    start = R.where(R.greater(counts, like(x, 0)), _neutral(reduce, x), x)
    if reduce != "mean":
        return _scattered(context, start, dim, index, src, _REDUCTIONS[reduce])
    total = _scattered(context, start, dim, index, src, "add")
    divide = R.divide if is_float(dtype_of(x)) else R.floor_divide
    return divide(total, R.maximum(counts, like(x, 1)))


def _neutral(reduce: str, x: Expr) -> Expr:
    """The start value of a reduction that ignores the previous elements."""
    if reduce in ("amax", "amin"):
        return like(x, extreme_of_none(dtype_of(x), greatest=reduce == "amax"))
    return like(x, 1 if reduce == "prod" else 0)


def put_at_places(shape: Sequence[Dim], places: Expr, values: Expr, count: int, reduction: ScatterReduction) -> Expr:
    """Zeros of ``shape`` with ``values`` at ``places``, which are indices in the last ``count`` axes, flattened."""
    lead = shape[:-count]
    start = R.zeros([*lead, dim_product(shape[-count:])], dtype_of(values))
    lines = [R.reshape(value, [*lead, -1]) for value in (places, values)]
    return R.reshape(R.scatter_elements(start, *lines, axis=len(lead), reduction=reduction), shape)


# --- along one axis


@converts("index_reduce")
def _index_reduce(
    context: Context, x: Expr, dim: int, index: Expr, source: Expr, reduce: str, *, include_self: bool = True
) -> Expr:
    axis = axis_of(dim, rank(x))
    line = [-1 if place == axis else 1 for place in range(rank(x))]
    places = R.broadcast_to(R.reshape(index, line), shape_of(source))
    return _scatter_reduce(context, x, axis, places, source, reduce, include_self=include_self)


@converts("masked_scatter")
def _masked_scatter(context: Context, x: Expr, mask: Expr, source: Expr) -> Expr:
    shape = context.output_shape()
    wide = expanded(mask, shape)
    flags = context.emit(R.flatten(wide))
    places = R.cumsum(cast(flags, "int64"), axis=0) - 1
    taken = R.take(R.flatten(cast(source, dtype_of(x))), R.maximum(places, 0), axis=0, mode="clip")
    return R.where(wide, R.reshape(taken, shape), x)


# --- at indices of several axes


@converts("index_put", "_unsafe_index_put")
def _index_put(
    context: Context, x: Expr, indices: Sequence[Expr | None], values: Expr, accumulate: bool = False
) -> Expr:
    values = cast(values, dtype_of(x))
    masks = [index for index in indices if index is not None and dtype_of(index) in ("bool", "uint8")]
    if len(masks) == 1 and len(indices) == 1 and rank(values) == 0 and not accumulate:
        mask = cast(masks[0], "bool")
        wide = R.reshape(mask, [*shape_of(mask), *([1] * (rank(x) - rank(mask)))])
        return R.where(wide, values, x)
    named, order, before = indexed_axes(context, x, indices)
    if before and rank(values) and order != sorted(order):
        values = _indexed_first(values, max(map(rank, named)), rank(x) - len(named), before)
    return permuted(R.index_put(permuted(x, order), named, values, accumulate=accumulate), inverse(order))


def _indexed_first(values: Expr, width: int, rest: int, before: int) -> Expr:
    """``values`` with its ``width`` indexed axes moved to the front, before the ``before`` axes that precede them."""
    missing = width + rest - rank(values)
    full = R.reshape(values, [*[1] * missing, *shape_of(values)]) if missing > 0 else values
    indexed = range(before, before + width)
    return R.permute_dims(full, [*indexed, *[axis for axis in range(width + rest) if axis not in indexed]])


# --- bags of embeddings

_MEAN, _MOST = 1, 2
"""PyTorch's numbers for the modes of a bag; 0 is the sum."""


@converts_by_name("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag", "embedding_bag.padding_idx")
def _embedding_bag(context: Context, given: Any) -> tuple[Any, ...]:
    weight, indices, offsets, mode = given.weight, given.indices, given.offsets, given.mode
    per_sample_weights, padding_idx = given.per_sample_weights, getattr(given, "padding_idx", -1)
    if any(context.uses(index) for index in (1, 2, 3)):
        context.unsupported("what the operator keeps for its adjoint; only the bags have a counterpart")
    bags, width = context.output_shape()
    dtype = dtype_of(weight)
    count = shape_of(indices)[0]
    places = R.arange(0, count, 1, dtype_of(offsets))
    bag = context.emit(R.bucketize(places, offsets, right=True) - 1)
    kept = R.ones([count], dtype)
    if padding_idx is not None and padding_idx >= 0:
        kept = cast(R.not_equal(indices, const(padding_idx, dtype_of(indices))), dtype)
    kept = context.emit(kept)
    sizes = context.emit(R.index_put(R.zeros([bags], dtype), [bag], kept, accumulate=True))
    rows = R.take(weight, indices, axis=0)
    if per_sample_weights is not None:
        rows = rows * R.expand_dims(per_sample_weights, axis=1)
    if mode == _MOST:
        # Ignored rows go to an extra bag, before the others.
        target = R.where(R.greater(kept, like(weight, 0)), bag + 1, const(0, dtype_of(bag)))
        target = R.broadcast_to(R.expand_dims(target, axis=1), [count, width])
        start = R.full([bags + 1, width], const(float("-inf"), dtype), dtype)
        most = R.scatter_elements(start, target, rows, axis=0, reduction="max")
        most = R.strided_slice(most, [0], [1], [bags + 1])
        found = R.where(R.expand_dims(R.equal(sizes, like(weight, 0)), axis=1), like(weight, 0), most)
    else:
        rows = rows * R.expand_dims(kept, axis=1)
        found = R.index_put(R.zeros([bags, width], dtype), [bag], rows, accumulate=True)
        if mode == _MEAN:
            found = found / R.expand_dims(R.maximum(sizes, like(weight, 1)), axis=1)
    return found, None, None, None
