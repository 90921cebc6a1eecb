"""Handlers of ATen's changes of shape: views, permutations, concatenations and splits. Results are never aliases."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from .... import op as R
from ....analysis.tensors import same_sizes
from ....ir.dims import Dim, dim_less_equal, dim_product, dims_equal
from ....ir.expr import Expr, const
from ....op.primitive.manipulate import inverse
from ..context import Context, axis_of, cast, converts, converts_plainly, dtype_of, expanded, permuted, rank, shape_of


@converts("view", "reshape", "_unsafe_view", "flatten.using_ints", "unflatten.int", "view_as", "reshape_as", "ravel")
def _reshape(context: Context, x: Expr, *_shape: Any, **_more: Any) -> Expr:
    return R.reshape(x, context.output_shape())


@converts("view.dtype")
def _view_as_dtype(context: Context, x: Expr, dtype: Any) -> Expr:
    if context.output_dtype() == dtype_of(x):
        return x
    if context.output_shape() != shape_of(x):
        context.unsupported("the bits of several elements read as one, or of one as several")
    return R.bitcast(x, context.output_dtype())


converts_plainly({"unsqueeze": R.expand_dims, "pixel_shuffle": R.nn.pixel_shuffle})


@converts("squeeze", "squeeze.dim", "squeeze.dims")
def _squeeze(context: Context, x: Expr, dim: int | Sequence[int] | None = None) -> Expr:
    listed = range(rank(x)) if dim is None else [dim] if isinstance(dim, int) else dim
    sizes = shape_of(x)
    ones = sorted({axis_of(axis, rank(x)) for axis in listed if sizes and sizes[axis] == 1})
    return R.squeeze(x, axis=ones) if ones else x


@converts("expand", "broadcast_to", "expand_as")
def _expand(context: Context, x: Expr, *_size: Any, **_more: Any) -> Expr:
    return expanded(x, context.output_shape())


@converts("permute")
def _permute(context: Context, x: Expr, dims: Sequence[int]) -> Expr:
    return R.permute_dims(x, [axis_of(axis, rank(x)) for axis in dims])


@converts("transpose.int", "swapaxes", "swapdims")
def _transpose(context: Context, x: Expr, dim0: int, dim1: int) -> Expr:
    axes = list(range(rank(x)))
    if not axes or axis_of(dim0, rank(x)) == axis_of(dim1, rank(x)):
        return x
    axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
    return R.permute_dims(x, axes)


@converts("t", "numpy_T", "mT")
def _t(context: Context, x: Expr) -> Expr:
    return x if rank(x) < 2 else _transpose(context, x, -2, -1) if rank(x) > 2 else R.permute_dims(x, [1, 0])


@converts("cat", "concat", "concatenate")
def _cat(context: Context, tensors: Sequence[Expr], dim: int = 0) -> Expr:
    dtype = context.output_dtype()
    # PyTorch ignores tensors of shape (0,), whatever the rank of the others.
    full = [x for x in tensors if rank(x) != 1 or shape_of(x)[0] != 0] or list(tensors[:1])
    return cast(full[0], dtype) if len(full) == 1 else R.concat([cast(x, dtype) for x in full], axis=dim)


@converts("stack")
def _stack(context: Context, tensors: Sequence[Expr], dim: int = 0) -> Expr:
    return R.stack([cast(x, context.output_dtype()) for x in tensors], axis=dim)


def _cut(context: Context, x: Expr, sizes: Sequence[Dim], dim: int) -> tuple[Expr, ...]:
    """``x`` split into pieces of ``sizes`` along an axis."""
    if len(sizes) == 1:
        return (x,)
    parts = context.emit(R.split(x, list(accumulate(sizes[:-1])), axis=dim))
    return tuple([parts[i] for i in range(len(sizes))])


@converts("split.Tensor", "split_with_sizes", "chunk", "tensor_split.sections", "tensor_split.indices", "split.sizes")
@converts("unsafe_split.Tensor", "unsafe_split_with_sizes", "unsafe_chunk")
def _split(context: Context, x: Expr, _parts: Any, dim: int = 0) -> tuple[Expr, ...]:
    axis = axis_of(dim, rank(x))
    return _cut(context, x, [context.output_shape(i)[axis] for i in range(len(context.results()))], axis)


@converts("unbind.int")
def _unbind(context: Context, x: Expr, dim: int = 0) -> tuple[Expr, ...]:
    axis = axis_of(dim, rank(x))
    count = len(context.results())
    parts = _cut(context, x, [1] * count, axis)
    return tuple([R.squeeze(part, axis=axis) for part in parts])


@converts("flip")
def _flip(context: Context, x: Expr, dims: Sequence[int]) -> Expr:
    for axis in dims:
        x = R.flip(x, axis=axis)
    return x


@converts("roll")
def _roll(context: Context, x: Expr, shifts: Dim | Sequence[Dim], dims: int | Sequence[int] = ()) -> Expr:
    amounts = list(shifts) if isinstance(shifts, Sequence) else [shifts]
    axes = [dims] if isinstance(dims, int) else list(dims)
    if not axes:
        return R.reshape(_roll(context, R.flatten(x), amounts, [0]), shape_of(x))
    for amount, axis in zip(amounts, axes, strict=True):
        size = shape_of(x)[axis]
        cut = _start_after_roll(amount, size)
        if cut is None:
            places = R.arange(0 - amount, size - amount, dtype="int64")
            x = R.take(x, R.floor_mod(places, context.scalar(size, "int64")), axis=axis)
        elif cut != 0:
            x = context.emit(x)
            head = R.strided_slice(x, [axis], [0], [cut])
            tail = R.strided_slice(x, [axis], [cut], [size])
            x = R.concat([tail, head], axis=axis)
    return x


def _start_after_roll(amount: Dim, size: Dim) -> Dim | None:
    """The index of the element that a roll moves to the start of an axis; None if it is not known for all sizes."""
    if isinstance(amount, int) and isinstance(size, int):
        return -amount % size if size else 0
    if dim_less_equal(amount, size) is True and dim_less_equal(0, amount) is True:
        return size - amount
    return 0 - amount if dim_less_equal(0 - amount, size) is True and dim_less_equal(amount, 0) is True else None


@converts("unfold")
def _windows(context: Context, x: Expr, dimension: int, size: int, step: int) -> Expr:
    if rank(x) == 0:
        return R.reshape(x, context.output_shape())
    axis = axis_of(dimension, rank(x))
    found = windows(context, x, axis, context.output_shape()[axis], size, step)
    return R.permute_dims(found, [*[place for place in range(rank(x) + 1) if place != axis + 1], axis + 1])


def windows(context: Context, x: Expr, axis: int, count: Dim, size: int, step: Dim) -> Expr:
    """``x`` with two axes in place of one: ``count`` windows, and the ``size`` elements of each."""
    shape = shape_of(x)
    if size == step:
        is_all = dims_equal(count * size, shape[axis]) is True
        inside = x if is_all else R.strided_slice(x, [axis], [0], [count * size])
        return R.reshape(inside, [*shape[:axis], count, size, *shape[axis + 1 :]])
    starts = R.expand_dims(_every(context, count, step), 1)
    return R.take(x, starts + const(np.arange(size), "int64"), axis=axis)


def _every(context: Context, count: Dim, step: Dim, first: Dim = 0) -> Expr:
    """``count`` indices from ``first`` on, ``step`` apart."""
    if isinstance(count, int) and isinstance(step, int) and isinstance(first, int):
        return const(np.arange(count) * step + first, "int64")
    places = R.arange(count, dtype="int64")
    if step != 1:
        places = places * context.scalar(step, "int64")
    return places if first == 0 else places + context.scalar(first, "int64")


@converts("unfold_backward")
def _windows_added(context: Context, grad_in: Expr, input_sizes: Sequence[Dim], dim: int, size: int, step: int) -> Expr:
    axis, order = axis_of(dim, len(input_sizes)), list(range(rank(grad_in) - 1))
    lead = [place for place in order if place != axis]
    shape = shape_of(grad_in)
    columns = R.reshape(R.permute_dims(grad_in, [*lead, len(order), axis]), [-1, size, shape[axis]])
    line = R.nn.col2im(columns, [input_sizes[axis]], [size], [step])
    whole = R.reshape(line, [*[shape[place] for place in lead], input_sizes[axis]])
    return expanded(R.permute_dims(whole, [[*lead, axis].index(place) for place in order]), context.output_shape())


@converts("repeat", "tile")
def _repeat(context: Context, x: Expr, repeats: Sequence[Dim]) -> Expr:
    counts = [count for count in repeats if isinstance(count, int)]
    if len(counts) < len(repeats):
        shape = shape_of(x)
        full = [1] * (len(repeats) - len(shape)) + list(shape)
        pairs = [size for count, size in zip(repeats, full, strict=True) for size in (count, size)]
        single = [size for size in full for size in (1, size)]
        return R.reshape(R.broadcast_to(R.reshape(x, single), pairs), context.output_shape())
    return x if all(count == 1 for count in counts) and len(counts) <= rank(x) else R.tile(x, counts)


@converts("repeat_interleave.self_int")
def _repeat_interleave(
    context: Context, x: Expr, repeats: Dim, dim: int | None = None, *, output_size: Dim | None = None
) -> Expr:
    if not isinstance(repeats, int):
        context.unsupported(f"the number of repeats is symbolic, {repeats}")
    return R.repeat(x, repeats, axis=dim)


@converts("meshgrid", "meshgrid.indexing")
def _meshgrid(context: Context, tensors: Sequence[Expr], *, indexing: str = "ij") -> tuple[Expr, ...]:
    lines = [R.reshape(x, [1]) if rank(x) == 0 else x for x in tensors]
    grid = context.emit(R.meshgrid(lines, indexing=indexing))
    return tuple([grid[i] for i in range(len(lines))])


@converts("cartesian_prod")
def _cartesian_product(context: Context, tensors: Sequence[Expr]) -> Expr:
    if len(tensors) == 1:
        return tensors[0]
    grid = _meshgrid(context, tensors)
    return R.stack([R.flatten(line) for line in grid], axis=1)


@converts("diagonal")
def _diagonal(context: Context, x: Expr, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Expr:
    order = _diagonal_last(rank(x), dim1, dim2)
    *lead, rows, columns = [shape_of(x)[axis] for axis in order]
    line = R.reshape(permuted(x, order), [*lead, rows * columns])
    return R.take(line, _diagonal_places(context, columns, context.output_shape()[-1], offset), axis=-1)


def _diagonal_last(count: int, dim1: int, dim2: int) -> list[int]:
    """The order of ``count`` axes that puts the two axes of a diagonal last."""
    both = [axis_of(dim1, count), axis_of(dim2, count)]
    return [*[axis for axis in range(count) if axis not in both], *both]


def _diagonal_places(context: Context, columns: Dim, length: Dim, offset: int) -> Expr:
    """The indices of a diagonal in a flattened matrix."""
    return _every(context, length, columns + 1, offset if offset > 0 else -offset * columns)


@converts("diagonal_scatter")
def _diagonal_scatter(context: Context, x: Expr, src: Expr, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Expr:
    *rest, first, second = _diagonal_last(rank(x), dim1, dim2)
    order = [first, second, *rest]
    turned = permuted(x, order)
    rows, columns, *others = [shape_of(x)[axis] for axis in order]
    values = cast(src, dtype_of(x))
    if rest:
        values = R.permute_dims(values, [len(rest), *range(len(rest))])
    places = _diagonal_places(context, columns, shape_of(src)[-1], offset)
    put = R.index_put(R.reshape(turned, [rows * columns, *others]), [places], values)
    return permuted(R.reshape(put, [rows, columns, *others]), inverse(order))


@converts("as_strided")
def _as_strided(
    context: Context, x: Expr, size: Sequence[Dim], stride: Sequence[Dim], storage_offset: Any = None
) -> Expr:
    order = context.order_in_memory(0)
    if order is None:
        context.unsupported("a view by strides of a tensor that does not fill its memory; write it with slices")
    start = _start(context, storage_offset)
    x = permuted(x, order)
    shape = shape_of(x)
    natural = [dim_product(shape[axis + 1 :]) for axis in range(len(shape))]
    if not start and same_sizes((*size, *stride), (*shape, *natural)):
        return x
    rows = 0
    while rows < min(len(size), len(shape)) - 1 and size[rows] == shape[rows] and stride[rows] == natural[rows]:
        rows += 1
    places = _places(context, start, size[rows:], stride[rows:])
    line = dim_product(shape[rows:])
    is_within = isinstance(line, int) and (not places.size or places.max() < line)
    if not is_within and (rows or isinstance(line, int)):
        context.unsupported("a view of a tensor's memory beyond its rows; write it with slices and views")
    return R.take(R.reshape(x, [*shape[:rows], line]), const(places, "int64"), axis=rows)


def _places(context: Context, start: int, sizes: Sequence[Dim], strides: Sequence[Dim]) -> np.ndarray:
    """The indices in memory of the elements of a view by strides."""
    places = np.full((), start, np.int64)
    for count, step in zip(sizes, strides, strict=True):
        if not isinstance(count, int) or not isinstance(step, int):
            context.unsupported("a view of a tensor's memory by symbolic strides; write it with slices and views")
        places = places[..., None] + np.arange(count) * step
    return places


def _start(context: Context, storage_offset: Any) -> int:
    """The offset of a view by strides from the first element of its base tensor."""
    start = 0 if storage_offset is None else storage_offset - context.start_in_memory(0)
    if not isinstance(start, int) or start < 0:
        context.unsupported(
            "a view of a tensor's memory from a place before the tensor; write it with slices and views"
        )
    return start


@converts("as_strided_scatter")
def _as_strided_scatter(
    context: Context, x: Expr, src: Expr, size: Sequence[Dim], stride: Sequence[Dim], storage_offset: Any = None
) -> Expr:
    if not context.is_contiguous(0):
        context.unsupported("a view by strides of a tensor that does not fill its memory; write it with slices")
    places = _places(context, _start(context, storage_offset), size, stride)
    if np.unique(places).size != places.size:
        context.unsupported("a write to a view with overlapping elements")
    line = R.reshape(x, [dim_product(shape_of(x))])
    put = R.index_put(line, [const(places.reshape(-1), "int64")], R.reshape(cast(src, dtype_of(x)), [places.size]))
    return R.reshape(put, shape_of(x))
