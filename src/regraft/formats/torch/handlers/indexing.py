"""Handlers of ATen's selections: slices, gathers, and indexing by tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .... import op as R
from ....ir.dims import Dim, SymExpr, dim_at_least
from ....ir.expr import Expr, const
from ....ir.types import TensorType
from ..context import Context, axis_of, cast, converts, converts_by_name, dtype_of, expanded, permuted, rank, shape_of

_END: Final = 2**63 - 1
"""PyTorch's end of a slice that has none."""


def _bounds(x: Expr, axis: int, start: Dim | None, end: Dim | None) -> tuple[Dim, Dim]:
    size = shape_of(x)[axis]
    last = size if end is None or (isinstance(end, int) and end >= _END) else end
    return 0 if start is None else start, last


def _along_axes(context: Context, ndim: int, axis: int, value: Dim | Expr, others: int) -> Expr:
    """A vector with one number for each axis: ``value`` for ``axis``, ``others`` for the rest."""
    parts = [const([others] * count, "int64") for count in (axis, ndim - axis - 1)]
    vectors = [parts[0], R.reshape(context.scalar(value, "int64"), (1,)), parts[1]]
    return R.concat([part for part in vectors if shape_of(part) != (0,)], axis=0)


@converts_by_name("slice.Tensor")
def _slice(context: Context, given: Any) -> Expr:
    x, start, end, step = given.self, given.start, given.end, given.step
    axis = axis_of(given.dim, rank(x))
    if isinstance(start, Expr) or isinstance(end, Expr):
        bounds = (0 if start is None else start, _END if end is None else end, step)
        others = (0, _END, 1)
        vectors = [_along_axes(context, rank(x), axis, *pair) for pair in zip(bounds, others, strict=True)]
        return R.dynamic_strided_slice(x, *vectors)
    first, last = _bounds(x, axis, start, end)
    if step == 1 and first == 0 and last == shape_of(x)[axis]:
        return x
    return R.strided_slice(x, [axis], [first], [last], [step])


def _from_front(index: Dim, size: Dim) -> Dim:
    return index + size if dim_at_least(index, 0) is False else index


@converts("select.int")
def _select(context: Context, x: Expr, dim: int, index: Dim) -> Expr:
    axis = axis_of(dim, rank(x))
    size = shape_of(x)[axis]
    if isinstance(index, SymExpr) or not isinstance(size, int):
        first = _from_front(index, size)
        return R.squeeze(R.strided_slice(x, [axis], [first], [first + 1], [1]), axis=axis)
    return R.take(x, const(index % size, "int64"), axis=axis)


@converts("select_scatter")
def _select_scatter(context: Context, x: Expr, src: Expr, dim: int, index: Dim) -> Expr:
    axis = axis_of(dim, rank(x))
    first = _from_front(index, shape_of(x)[axis])
    return R.slice_scatter(x, R.expand_dims(cast(src, dtype_of(x)), axis=axis), first, first + 1, 1, axis=axis)


@converts_by_name("slice_scatter")
def _slice_scatter(context: Context, given: Any) -> Expr:
    x, axis = given.self, axis_of(given.dim, rank(given.self))
    first, last = _bounds(x, axis, given.start, given.end)
    src = cast(given.src, dtype_of(x))
    if given.step == 1 and first == 0 and last == shape_of(x)[axis]:
        return src
    return R.slice_scatter(x, src, first, last, given.step, axis=axis)


@converts("index_select")
def _index_select(context: Context, x: Expr, dim: int, index: Expr) -> Expr:
    if rank(x) == 0:
        return x
    return R.take(x, R.reshape(index, [-1]) if rank(index) == 0 else index, axis=axis_of(dim, rank(x)))


@converts("gather")
def _gather(context: Context, x: Expr, dim: int, index: Expr, *, sparse_grad: bool = False) -> Expr:
    if rank(x) == 0:
        return expanded(x, shape_of(index))
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
    return R.gather_elements(expanded(x, full), expanded(indices, result), axis=axis)


@converts_by_name("embedding")
def _embedding(context: Context, given: Any) -> Expr:
    return R.take(given.weight, given.indices, axis=0)


# --- indexing by tensors


@converts("index.Tensor", "_unsafe_index.Tensor")
def _index(context: Context, x: Expr, indices: Sequence[Expr | None]) -> Expr:
    named, order, before = indexed_axes(context, x, indices)
    if len(named) == 1:
        return R.take(x, named[0], axis=order[0])
    found = R.index_tensor(permuted(x, order), named)
    if not before:
        return found
    width = rank(found) - (rank(x) - len(named))
    axes = [*range(width, width + before), *range(width), *range(width + before, rank(found))]
    return R.permute_dims(found, axes)


def indexed_axes(context: Context, x: Expr, indices: Sequence[Expr | None]) -> tuple[list[Expr], list[int], int]:
    """The indices, all axes of ``x`` with the indexed axes first, and the number of other axes before these.

    Adjacent indices leave their axes in place; otherwise the indexed axes come first, as in NumPy.
    """
    listed = _without_masks(context, indices)
    places = [axis for axis, index in enumerate(listed) if index is not None]
    adjacent = places == list(range(places[0], places[0] + len(places)))
    order = [*places, *[axis for axis in range(rank(x)) if axis not in places]]
    return [index for index in listed if index is not None], order, places[0] if adjacent else 0


def _without_masks(context: Context, indices: Sequence[Expr | None]) -> list[Expr | None]:
    """The indices, with each mask replaced by the indices of its true elements."""
    listed: list[Expr | None] = []
    for index in indices:
        if index is None or dtype_of(index) not in ("bool", "uint8"):
            listed.append(index)
            continue
        if rank(index) == 0:
            context.unsupported("a tensor indexed by a scalar mask")
        rows = context.emit(R.nonzero(index))
        listed.extend([R.take(rows, const(axis, "int64"), axis=0) for axis in range(rank(index))])
    return listed


@converts("masked_select")
def _masked_select(context: Context, x: Expr, mask: Expr) -> Expr:
    whole = R.where(mask, x, x).ty
    assert isinstance(whole, TensorType)
    shape: Any = whole.shape
    line, flags = [R.flatten(expanded(operand, shape)) for operand in (x, mask)]
    return R.take(line, R.squeeze(R.nonzero(flags), axis=0), axis=0)
