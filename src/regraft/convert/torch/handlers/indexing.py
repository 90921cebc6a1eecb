"""Handlers of ATen's selections: slices, gathers, scatters, and indexing by tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from .... import ops as R
from ....ir.dims import Dim, SymExpr, dim_at_least
from ....ir.expr import Expr, const
from ..context import Context, Operand, axis_of, cast, converts, dtype_of, rank, shape_of

_END: Final = 2**63 - 1
"""How PyTorch writes a slice without an end."""

_Reduction: TypeAlias = Literal["update", "add", "mul", "mean", "max", "min"]
_REDUCTIONS: Final[dict[str, _Reduction]] = {
    "sum": "add",
    "prod": "mul",
    "mean": "mean",
    "amax": "max",
    "amin": "min",
    "add": "add",
    "multiply": "mul",
}


def _bounds(x: Expr, axis: int, start: Dim | None, end: Dim | None) -> tuple[Dim, Dim]:
    size = shape_of(x)[axis]
    last = size if end is None or (isinstance(end, int) and end >= _END) else end
    return 0 if start is None else start, last


@converts("slice.Tensor")
def _slice(
    context: Context, x: Expr, dim: int = 0, start: Dim | None = None, end: Dim | None = None, step: int = 1
) -> Expr:
    axis = axis_of(dim, rank(x))
    first, last = _bounds(x, axis, start, end)
    if step == 1 and first == 0 and last == shape_of(x)[axis]:
        return x
    return R.strided_slice(x, [axis], [first], [last], [step])


@converts("narrow")
def _narrow(context: Context, x: Expr, dim: int, start: Dim, length: Dim) -> Expr:
    axis = axis_of(dim, rank(x))
    first = start + shape_of(x)[axis] if dim_at_least(start, 0) is False else start
    return R.strided_slice(x, [axis], [first], [first + length], [1])


@converts("select.int")
def _select(context: Context, x: Expr, dim: int, index: Dim) -> Expr:
    axis = axis_of(dim, rank(x))
    size = shape_of(x)[axis]
    if isinstance(index, SymExpr) or not isinstance(size, int):
        first = index + size if dim_at_least(index, 0) is False else index
        return R.squeeze(R.strided_slice(x, [axis], [first], [first + 1], [1]), axis=axis)
    return R.take(x, const(index % size, "int64"), axis=axis)


@converts("select_scatter")
def _select_scatter(context: Context, x: Expr, src: Expr, dim: int, index: Dim) -> Expr:
    axis = axis_of(dim, rank(x))
    first = index + shape_of(x)[axis] if dim_at_least(index, 0) is False else index
    return R.slice_scatter(x, R.expand_dims(cast(src, dtype_of(x)), axis=axis), first, first + 1, 1, axis=axis)


@converts("slice_scatter")
def _slice_scatter(
    context: Context,
    x: Expr,
    src: Expr,
    dim: int = 0,
    start: Dim | None = None,
    end: Dim | None = None,
    step: int = 1,
) -> Expr:
    axis = axis_of(dim, rank(x))
    first, last = _bounds(x, axis, start, end)
    src = cast(src, dtype_of(x))
    if step == 1 and first == 0 and last == shape_of(x)[axis]:
        return src
    return R.slice_scatter(x, src, first, last, step, axis=axis)


@converts("index_select")
def _index_select(context: Context, x: Expr, dim: int, index: Expr) -> Expr:
    if rank(x) == 0:
        return x
    return R.take(x, R.reshape(index, [-1]) if rank(index) == 0 else index, axis=axis_of(dim, rank(x)))


@converts("gather")
def _gather(context: Context, x: Expr, dim: int, index: Expr, *, sparse_grad: bool = False) -> Expr:
    if rank(x) == 0:
        return x if rank(index) == 0 else R.broadcast_to(x, shape_of(index))
    if rank(index) == 0:
        return R.take(x, index, axis=0)
    return R.gather_elements(x, index, axis=dim)


@converts("take_along_dim")
def _take_along(context: Context, x: Expr, indices: Expr, dim: int | None = None) -> Expr:
    if dim is None:
        return R.take(R.flatten(x), R.flatten(indices), axis=0)
    axis = axis_of(dim, rank(x))
    result = context.output_shape()
    full = [shape_of(x)[axis] if place == axis else size for place, size in enumerate(result)]
    wide = x if tuple(full) == shape_of(x) else R.broadcast_to(x, full)
    return R.gather_elements(
        wide, indices if shape_of(indices) == result else R.broadcast_to(indices, result), axis=axis
    )


@converts("take")
def _take(context: Context, x: Expr, index: Expr) -> Expr:
    return R.take(R.flatten(x), index, axis=0)


@converts("embedding")
def _embedding(
    context: Context,
    weight: Expr,
    indices: Expr,
    padding_idx: Dim = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Expr:
    return R.take(weight, indices, axis=0)


# --- scatters


def _scattered(context: Context, x: Expr, dim: int, index: Expr, src: Expr, reduction: _Reduction) -> Expr:
    """``x`` with elements of ``src`` put along an axis; ``src`` may be larger than the index, as in PyTorch."""
    src = cast(src, dtype_of(x))
    if rank(x) == 0:
        lifted = [R.reshape(operand, [1]) for operand in (x, index, src)]
        return R.reshape(R.scatter_elements(*lifted, axis=0, reduction=reduction), [])
    sizes = shape_of(index)
    if shape_of(src) != sizes:
        axes = list(range(len(sizes)))
        src = R.strided_slice(src, axes, [0] * len(sizes), list(sizes), [1] * len(sizes))
    return R.scatter_elements(x, index, src, axis=dim, reduction=reduction)


@converts("scatter.src", "scatter_add")
def _scatter(context: Context, x: Expr, dim: int, index: Expr, src: Expr) -> Expr:
    return _scattered(context, x, dim, index, src, "add" if context.operator() == "scatter_add" else "update")


@converts("scatter.value")
def _scatter_value(context: Context, x: Expr, dim: int, index: Expr, value: Operand) -> Expr:
    return _scattered(context, x, dim, index, _filled(context, value, x, index), "update")


def _filled(context: Context, value: Operand, x: Expr, index: Expr) -> Expr:
    return R.broadcast_to(context.scalar(value, dtype_of(x)), shape_of(index))


@converts("scatter.reduce")
def _scatter_reduced(context: Context, x: Expr, dim: int, index: Expr, src: Expr, *, reduce: str) -> Expr:
    return _scattered(context, x, dim, index, src, _REDUCTIONS[reduce])


@converts("scatter.value_reduce")
def _scatter_value_reduced(context: Context, x: Expr, dim: int, index: Expr, value: Operand, *, reduce: str) -> Expr:
    return _scattered(context, x, dim, index, _filled(context, value, x, index), _REDUCTIONS[reduce])


@converts("scatter_reduce.two")
def _scatter_reduce(
    context: Context, x: Expr, dim: int, index: Expr, src: Expr, reduce: str, *, include_self: bool = True
) -> Expr:
    if not include_self:
        context.unsupported("include_self=False, which leaves out what stood there before")
    return _scattered(context, x, dim, index, src, _REDUCTIONS[reduce])


@converts("index_add")
def _index_add(context: Context, x: Expr, dim: int, index: Expr, source: Expr, *, alpha: float = 1) -> Expr:
    source = cast(source, dtype_of(x))
    axis = axis_of(dim, rank(x))
    if alpha != 1:
        source = source * alpha
    return _along(axis, x, index, source, accumulate=True)


@converts("index_copy")
def _index_copy(context: Context, x: Expr, dim: int, index: Expr, source: Expr) -> Expr:
    return _along(axis_of(dim, rank(x)), x, index, cast(source, dtype_of(x)), accumulate=False)


@converts("index_fill.int_Scalar", "index_fill.int_Tensor")
def _index_fill(context: Context, x: Expr, dim: int, index: Expr, value: Operand) -> Expr:
    axis = axis_of(dim, rank(x))
    return _along(axis, x, index, context.scalar(value, dtype_of(x)), accumulate=False)


def _along(axis: int, x: Expr, index: Expr, source: Expr, *, accumulate: bool) -> Expr:
    """``x`` with slices of one axis replaced or added to."""
    order = [axis, *[place for place in range(rank(x)) if place != axis]]
    back = [order.index(place) for place in range(rank(x))]
    moved = R.permute_dims(source, order) if axis and rank(source) else source
    turned = R.permute_dims(x, order) if axis else x
    put = R.index_put(turned, [R.flatten(index)], moved, accumulate=accumulate)
    return R.permute_dims(put, back) if axis else put


@converts("masked_scatter")
def _masked_scatter(context: Context, x: Expr, mask: Expr, source: Expr) -> Expr:
    shape = context.output_shape()
    wide = R.broadcast_to(mask, shape) if shape_of(mask) != shape else mask
    flags = context.emit(R.flatten(wide))
    places = R.cumsum(cast(flags, "int64"), axis=0) - 1
    taken = R.take(R.flatten(cast(source, dtype_of(x))), R.maximum(places, 0), axis=0, mode="clip")
    return R.where(wide, R.reshape(taken, shape), x)


# --- indexing by tensors


@converts("index.Tensor", "_unsafe_index.Tensor")
def _index(context: Context, x: Expr, indices: Sequence[Expr | None]) -> Expr:
    listed, x = _without_masks(context, x, indices)
    places = [axis for axis, index in enumerate(listed) if index is not None]
    named = [index for index in listed if index is not None]
    if len(places) == 1:
        return R.take(x, named[0], axis=places[0])
    rest = [axis for axis in range(rank(x)) if axis not in places]
    turned = R.permute_dims(x, [*places, *rest]) if places != list(range(len(places))) else x
    found = R.index_tensor(turned, named)
    adjacent = places == list(range(places[0], places[0] + len(places)))
    before = places[0] if adjacent else 0
    if not before:
        return found
    # Indices that stand side by side leave their axes in place; others come first, as in NumPy.
    width = rank(found) - len(rest)
    axes = [*range(width, width + before), *range(width), *range(width + before, rank(found))]
    return R.permute_dims(found, axes)


def _without_masks(context: Context, x: Expr, indices: Sequence[Expr | None]) -> tuple[list[Expr | None], Expr]:
    """The indices with each mask replaced by the places where it is true."""
    listed: list[Expr | None] = []
    for index in indices:
        if index is None or dtype_of(index) not in ("bool", "uint8"):
            listed.append(index)
            continue
        if rank(index) == 0:
            context.unsupported("a tensor indexed by a scalar mask")
        rows = context.emit(R.nonzero(index))
        listed.extend([R.take(rows, const(axis, "int64"), axis=0) for axis in range(rank(index))])
    return listed, x


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
    listed, x = _without_masks(context, x, indices)
    places = [axis for axis, index in enumerate(listed) if index is not None]
    named = [index for index in listed if index is not None]
    if places == list(range(len(places))):
        return R.index_put(x, named, values, accumulate=accumulate)
    if places != list(range(places[0], places[0] + len(places))) or rank(values) > max(map(rank, named)):
        context.unsupported("values put at indices of axes that are not the first; move these axes first")
    rest = [axis for axis in range(rank(x)) if axis not in places]
    order = [*places, *rest]
    if rank(values):
        values = R.reshape(values, [*shape_of(values), *([1] * len(rest))])
    put = R.index_put(R.permute_dims(x, order), named, values, accumulate=accumulate)
    return R.permute_dims(put, [order.index(axis) for axis in range(rank(x))])


@converts("masked_select")
def _masked_select(context: Context, x: Expr, mask: Expr) -> Expr:
    shape: Any = shape_of(x) if rank(x) >= rank(mask) else shape_of(mask)
    wide = [
        R.flatten(R.broadcast_to(operand, shape) if shape_of(operand) != shape else operand) for operand in (x, mask)
    ]
    rows = R.nonzero(wide[1])
    return R.take(wide[0], R.squeeze(rows, axis=0), axis=0)
