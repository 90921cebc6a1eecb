"""Operators whose sizes, bounds, counts or axes are tensors that are computed at run time.

The sizes of their results get names, by `tensor_to_shape` and `match_cast`. Everything else is computed by operators
on tensors. The readers of other modules use these functions if an operand is unknown when the model is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

import numpy as np

from .... import op as ops
from ....ir.dims import Dim, dim_at_least
from ....ir.dtypes import is_integer
from ....ir.expr import Expr, PrimValue, ShapeExpr, const
from ....ir.types import TensorType
from ...padding import at_places, between
from .importing import NodeImporter, in_dtype
from .sizes import Sizes

_END = np.iinfo(np.int64).max
NO_END: Final = (np.iinfo(np.int32).max, _END)  # for ONNX Runtime, a backward slice with this end has none


def integers(numbers: Sequence[int] | int) -> Expr:
    """A constant of int64: of rank 1, or a scalar."""
    return const(np.asarray(numbers if isinstance(numbers, int) else list(numbers), dtype=np.int64), "int64")


def row(node: NodeImporter, tensor: Expr) -> Expr:
    """A scalar or a vector as an int64 vector."""
    flat = ops.reshape(tensor, [1]) if isinstance(tensor.ty, TensorType) and tensor.ty.ndim == 0 else tensor
    return node.emit(in_dtype(flat, "int64"))


def scalar(node: NodeImporter, tensor: Expr) -> Expr:
    """A tensor of one element as a scalar (rank 0)."""
    is_scalar = isinstance(tensor.ty, TensorType) and tensor.ty.ndim == 0
    return tensor if is_scalar else node.emit(ops.reshape(tensor, ShapeExpr(())))


def sizes_of(node: NodeImporter, index: int, count: int) -> Sequence[Dim]:
    """The ``count`` elements of operand ``index``, a tensor of sizes; names for those that are computed at run time."""
    known = node.sizes(index)
    return node.named_sizes(row(node, node.operand(index)), count) if known is None else known.values


def shape_row(node: NodeImporter) -> Expr:
    """The shape of operand 0 as a vector."""
    return node.emit(Sizes.row(node.shape(0)).expression())


def named_axes(node: NodeImporter, expr: Expr, axes: Sequence[int]) -> Expr:
    """``expr`` with new names for its sizes along ``axes``. The other sizes are those of operand 0."""
    shape = node.ty(0).shape
    if shape is None or (isinstance(expr.ty, TensorType) and expr.ty.shape is not None):
        return expr
    dims = [node.fresh_size(axis) if axis in axes else size for axis, size in enumerate(shape)]
    return node.graph.builder.match_cast(node.emit(expr), TensorType(dims, node.dtype()))


def count_of(node: NodeImporter, index: int) -> int:
    """The number of elements of operand ``index``, a vector. Raises `UnsupportedNodeError` if it is not known."""
    shape = node.ty(index).shape
    if shape is None or len(shape) > 1 or not all(isinstance(size, int) for size in shape):
        raise node.undecided(f"the number of elements of input {index} is known at run time only")
    [count] = shape or (1,)
    assert isinstance(count, int)
    return count


def _front(node: NodeImporter, axes: Expr, rank: int) -> Expr:
    """Axes counted from the front."""
    return node.emit(ops.where(axes < 0, axes + rank, axes))


# --- ranges and triangles


def arange(node: NodeImporter) -> Expr:
    """``Range`` between bounds that are tensors."""
    start, limit, step = (scalar(node, node.operand(index)) for index in range(3))
    dtype = node.dtype()
    first, _, stride = (node.array(index) for index in range(3))
    by_one = stride is not None and stride.reshape(()) == 1
    if is_integer(dtype):
        wide = [node.emit(in_dtype(bound, "int64")) for bound in (start, limit, step)]
        # Rounded up, by rounding the negative quotient down.
        count = wide[1] - wide[0] if by_one else -((wide[0] - wide[1]) // wide[2])
    else:
        work = "float64" if dtype == "float64" else "float32"
        count = in_dtype(ops.ceil(in_dtype(limit - start, work) / in_dtype(step, work)), "int64")
    [length] = node.named_sizes(row(node, ops.maximum(count, 0)), 1)
    places = in_dtype(ops.arange(length, dtype="int64"), dtype)
    strides = places if by_one else places * step
    return strides if first is not None and first.reshape(()) == 0 else start + strides


def triangle(node: NodeImporter, *, upper: bool) -> Expr:
    """``Trilu`` whose diagonal is a tensor."""
    x, shape = node.operand(0), node.shape()
    rows, columns = (ops.arange(size, dtype="int64") for size in shape[-2:])
    distance = node.emit(ops.expand_dims(columns, 0) - ops.expand_dims(rows, 1))
    diagonal = scalar(node, in_dtype(node.operand(1), "int64"))
    return ops.where(distance >= diagonal if upper else distance <= diagonal, x, ops.zeros_like(x))


# --- slices and padding


def _for_all_axes(node: NodeImporter, index: int, axes: Sequence[int] | Expr, default: int) -> Expr:
    """Operand ``index``, numbers for some axes, as numbers for all axes, with ``default`` for the others."""
    if not node.has(index):
        return integers([default] * node.rank())
    return _spread(node, row(node, node.operand(index)), axes, default)


def _spread(node: NodeImporter, numbers: Expr, axes: Sequence[int] | Expr, default: int) -> Expr:
    rank = node.rank()
    if isinstance(axes, Expr):
        return node.emit(ops.scatter_elements(integers([default] * rank), axes, numbers))
    places = [axis % rank for axis in axes]
    if places == list(range(rank)):
        return numbers
    padded = node.emit(ops.concat([numbers, integers([default])], axis=0))
    return node.emit(ops.take(padded, integers([places.index(a) if a in places else -1 for a in range(rank)]), axis=0))


def axes_of(node: NodeImporter, index: int, count: int) -> list[int] | Expr:
    """The axes in operand ``index``, from the front: numbers or a tensor. By default the first ``count`` axes."""
    rank = node.rank()
    given = node.attr("axes")
    if given is None and not node.has(index):
        return list(range(count))
    known = given if given is not None else node.known_integers(index)
    return _front(node, row(node, node.operand(index)), rank) if known is None else [axis % rank for axis in known]


def cut(node: NodeImporter) -> Expr:
    """``Slice`` whose bounds, axes or steps are tensors."""
    axes = axes_of(node, 3, count_of(node, 1))
    steps = _for_all_axes(node, 4, axes, 1)
    begins = _for_all_axes(node, 1, axes, 0)
    ends = _for_all_axes(node, 2, axes, _END)
    known = node.known_integers(4) if node.has(4) else [1]
    if known is None or any(step < 0 for step in known):
        # In a backward slice, a start before the first element means the first element.
        is_backwards = node.emit(steps < 0)
        begins = node.emit(ops.where(is_backwards, ops.maximum(begins, -shape_row(node)), begins))
        without = reduce(ops.logical_or, [ops.equal(ends, number) for number in NO_END])
        ends = node.emit(ops.where(ops.logical_and(is_backwards, without), integers(-_END), ends))
    found = ops.dynamic_strided_slice(node.operand(0), begins, ends, steps)
    return named_axes(node, found, range(node.rank()) if isinstance(axes, Expr) else axes)


def pad(node: NodeImporter, mode: str) -> Expr:
    """``Pad`` whose widths, axes or fill value are tensors; ``mode`` is one of `ops.nn.pad`."""
    named = _named_widths(node) if mode == "constant" else None
    return _pad_by_places(node, mode) if named is None else _pad_by_parts(node, named)


def _named_widths(node: NodeImporter) -> dict[int, tuple[Dim, Dim]] | None:
    """The padding before and after each padded axis; None unless all widths are known, as numbers or names."""
    known = node.sizes(1)
    if known is None or any(dim_at_least(width, 0) is not True for width in known.values):
        return None
    count = len(known.values) // 2
    axes = axes_of(node, 3, count)
    if isinstance(axes, Expr):
        return None
    pairs = zip(axes, known.values[:count], known.values[count:], strict=True)
    return {axis: (before, after) for axis, before, after in pairs}


def _pad_by_parts(node: NodeImporter, widths: dict[int, tuple[Dim, Dim]]) -> Expr:
    x, number = node.operand(0), _number_to_pad_with(node)
    for axis, pair in widths.items():
        x = between(x, axis, pair, number, node.emit)
    return x


def _pad_by_places(node: NodeImporter, mode: str) -> Expr:
    rank = node.rank()
    pads = row(node, node.operand(1))
    count = count_of(node, 1) // 2
    axes = axes_of(node, 3, count)
    parts = [
        _spread(node, node.emit(ops.strided_slice(pads, [0], [first], [first + count])), axes, 0)
        for first in (0, count)
    ]
    sizes = node.named_sizes(node.emit(parts[0] + parts[1] + shape_row(node)), rank)
    x, number = node.operand(0), _number_to_pad_with(node)
    known = node.sizes(1)
    for place, axis in enumerate(range(rank) if isinstance(axes, Expr) else axes):
        if not isinstance(axes, Expr) and known is not None and known.values[place::count] == (0, 0):
            continue
        before = ops.take(parts[0], PrimValue(axis), axis=0)
        places = node.emit(ops.arange(sizes[axis], dtype="int64") - before)
        x = at_places(x, axis, places, mode, number, node.graph.builder)
    return x


def _number_to_pad_with(node: NodeImporter) -> Expr:
    return scalar(node, node.operand(2)) if node.has(2) else node.like(0)


# --- axes


def axes_among(node: NodeImporter, rank: int) -> Expr:
    """A vector of 1 for each of ``rank`` axes that operand 1 contains, and of 0 for the others."""
    axes = _front(node, row(node, node.operand(1)), rank)
    same = ops.equal(ops.expand_dims(axes, 1), ops.expand_dims(integers(range(rank)), 0))
    return node.emit(ops.max(in_dtype(same, "int64"), axis=0))


def kept_sizes(node: NodeImporter, among: Expr, count: int) -> list[Dim]:
    """The sizes of operand 0 along the ``count`` axes for which ``among`` is 0."""
    places = ops.reshape(ops.nonzero(ops.equal(among, 0)), [count])
    return node.named_sizes(node.emit(ops.take(shape_row(node), places, axis=0)), count)


def squeeze(node: NodeImporter) -> Expr:
    """``Squeeze`` along axes in a tensor."""
    rank = node.rank()
    sizes = kept_sizes(node, axes_among(node, rank), rank - count_of(node, 1))
    return ops.reshape(node.operand(0), ShapeExpr(sizes))


def unsqueeze(node: NodeImporter) -> Expr:
    """``Unsqueeze`` along axes in a tensor."""
    rank = node.rank() + count_of(node, 1)
    among = axes_among(node, rank)
    own = ops.concat([shape_row(node), integers([1])], axis=0)
    sizes = ops.where(ops.equal(among, 1), integers(1), ops.take(own, ops.cumsum(1 - among, 0) - 1, axis=0))
    return ops.reshape(node.operand(0), ShapeExpr(node.named_sizes(node.emit(sizes), rank)))


def along_axis(node: NodeImporter, axis: Expr, function: Callable[[int], Expr]) -> Expr:
    """The result of ``function`` for the axis of operand 0 in a tensor. The result has the same type for all axes."""
    rank = node.rank()
    place = _front(node, scalar(node, in_dtype(axis, "int64")), rank)
    found = function(0)
    for number in range(1, rank):
        found = ops.where(ops.equal(place, number), function(number), node.emit(found))
    return found
