"""Reading operators on shapes and arrangement, and operators that create tensors."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from .... import op as ops
from ....ir.dims import Dim, SymExpr, SymVar, dim_max, dim_product, dims_equal
from ....ir.dtypes import is_float, is_integer
from ....ir.expr import Constant, Expr, PrimValue, ShapeExpr, const
from ....ir.tensor_data import TensorData
from ....ir.types import ShapeType
from . import run_time
from .importing import MOST_KEPT, Imported, NodeImporter, constant_of, in_dtype, reads, reads_as
from .sizes import Sizes


@reads("Constant")
def _constant(node: NodeImporter) -> Imported:
    name = node.node.outputs[0].name or "constant"
    tensor = node.attr("value")
    if tensor is not None:
        return constant_of(tensor, name)
    dtypes = {"value_int": "int64", "value_ints": "int64", "value_float": "float32", "value_floats": "float32"}
    for attribute, dtype in dtypes.items():
        value = node.attr(attribute)
        if value is not None:
            return const(np.asarray(value, dtype))
    raise node.refuse("strings and sparse tensors are not supported")


reads_as(
    {
        "Concat": lambda node: ops.concat(node.operands(), axis=node.attr("axis", 1)),
        "EyeLike": lambda node: ops.eye_like(
            node.operand(0), node.attr("k", 0), node.dtype_attr("dtype", node.dtype())
        ),
        "Transpose": lambda node: ops.permute_dims(node.operand(0), node.attr("perm")),
    }
)


@reads("Shape")
def _shape(node: NodeImporter) -> Imported:
    rank = node.rank()
    first, last = node.attr("start", 0), node.attr("end", rank)
    bounds = slice(*slice(first, last).indices(rank)[:2])
    shape = node.ty(0).shape
    if shape is not None:
        node.graph.sizes_of_tensors.update(shape)
        return Sizes.row(shape[bounds])
    sizes = node.emit(ops.shape_to_tensor(node.emit(ops.shape_of(node.operand(0)))))
    return ops.strided_slice(sizes, [0], [bounds.start], [bounds.stop])


@reads("Size")
def _size(node: NodeImporter) -> Imported:
    shape = node.ty(0).shape
    return ops.size(node.operand(0)) if shape is None else Sizes.scalar(dim_product(shape))


@reads("Reshape")
def _reshape(node: NodeImporter) -> Imported:
    given = node.attr("shape")
    known = Sizes.row(given) if given is not None else node.sizes(1)
    if known is None:
        return ops.reshape(node.operand(0), node.named_shape(_resolved(node)))
    allow_zero = node.flag("allowzero")
    sizes = list(known.values)
    if not allow_zero and 0 in sizes:
        sizes = [node.shape()[axis] if size == 0 and isinstance(size, int) else size for axis, size in enumerate(sizes)]
    negative = [axis for axis, size in enumerate(sizes) if isinstance(size, int) and size == -1]
    if not negative or node.ty(0).shape is not None:
        return ops.reshape(node.operand(0), ShapeExpr(sizes) if not negative else sizes)
    return ops.reshape(node.operand(0), _worked_out(node, sizes))


def _resolved(node: NodeImporter) -> Expr:
    """The sizes of a reshape, computed at run time, with sizes of 0 and -1 replaced there."""
    sizes, x = in_dtype(node.operand(1), "int64"), node.operand(0)
    sizes = node.emit(sizes)
    length = node.shape(1)[0]
    shape = node.ty(0).shape
    if not node.flag("allowzero") and shape is not None:
        # The operand's own size at each position, if it has one.
        row = node.emit(Sizes.row((*shape, 0)).expression())
        places = ops.minimum(ops.arange(length, dtype="int64"), len(shape))
        sizes = node.emit(ops.where(ops.equal(sizes, 0), ops.take(row, places, axis=0), sizes))
    is_open = node.emit(ops.equal(sizes, -1))
    rest = ops.prod(ops.where(is_open, const(1, "int64"), sizes))
    return node.emit(ops.where(is_open, node.emit(ops.size(x) // ops.maximum(rest, 1)), sizes))


def _worked_out(node: NodeImporter, sizes: list[Dim]) -> Expr:
    """The shape of a reshape of an operand of unknown shape, with its -1 computed at run time."""
    total = node.emit(ops.size(node.operand(0)))
    rest = dim_product([size for size in sizes if not (isinstance(size, int) and size == -1)])
    divisor = const(np.asarray(rest, "int64")) if isinstance(rest, int) else Sizes.scalar(rest).expression()
    missing = node.emit(ops.reshape(total // divisor, [1]))
    name = SymVar(f"{node.node.outputs[0].name or 'size'}_rest")
    node.call_sizes(missing, [name])
    return ShapeExpr([name if isinstance(size, int) and size == -1 else size for size in sizes])


@reads("Flatten")
def _flatten(node: NodeImporter) -> Imported:
    axis, shape = node.attr("axis", 1), node.shape()
    place = axis % len(shape) if axis != len(shape) else axis
    sizes = [dim_product(shape[:place]), dim_product(shape[place:])]
    return ops.reshape(node.operand(0), ShapeExpr(sizes))


@reads("Squeeze", "Unsqueeze")
def _squeeze(node: NodeImporter) -> Imported:
    if node.attr("axes") is None and node.has(1) and node.array(1) is None:
        return (run_time.unsqueeze if node.op_type == "Unsqueeze" else run_time.squeeze)(node)
    axes = node.axes()
    if node.op_type == "Unsqueeze":
        return ops.expand_dims(node.operand(0), axes or [])
    return ops.squeeze(node.operand(0), _axes_of_one(node) if axes is None else axes)


def _axes_of_one(node: NodeImporter) -> list[int]:
    """The axes of size 1. Raises `UnsupportedNodeError` if these are known at run time only."""
    shape = node.ty(0).shape
    if shape is None:
        raise node.undecided("the axes of size 1 are known at run time only")
    axes = [axis for axis, size in enumerate(shape) if size == 1]
    stated = node.node.outputs[0].shape
    open_sizes = [size for size in shape if isinstance(size, SymExpr) and dims_equal(size, 1) is None]
    if open_sizes and (stated is None or len(stated) != len(shape) - len(axes)):
        hint = node.graph.hint_to_fix(open_sizes[0])
        raise node.undecided(f"the axes of size 1 are known at run time only: {open_sizes[0]} may be 1 or not{hint}")
    return axes


@reads("Split")
def _split(node: NodeImporter) -> tuple[Imported | None, ...]:
    axis = node.attr("axis", 0)
    count = len(node.node.outputs)
    sizes: Any = node.attr("split") or (run_time.sizes_of(node, 1, count) if node.has(1) else None)
    x = node.operand(0)
    if sizes is None:
        if count == 1:
            return (x,)
        if isinstance(x, Constant) and x.data.size <= MOST_KEPT:
            return _constant_parts(node, x, axis % node.rank(), count)
        parts = node.emit(ops.split(x, count, axis))
    else:
        if len(sizes) < 2:
            return (x,)
        parts = node.emit(ops.split(x, list(accumulate(sizes[:-1])), axis))
    return tuple([parts[index] for index in range(count)])


def _constant_parts(node: NodeImporter, x: Constant, axis: int, count: int) -> tuple[Imported, ...]:
    """A constant split into constant parts of equal size; the last one may be smaller."""
    size = x.data.shape[axis]
    step = -(-size // count)
    ends = [min(place * step, size) for place in range(count + 1)]
    return tuple([node.emit(ops.strided_slice(x, [axis], [first], [last])) for first, last in pairwise(ends)])


@reads("Expand")
def _expand(node: NodeImporter) -> Imported:
    known = node.sizes(1)
    x = node.operand(0)
    if known is None:
        shape = node.shape_operand(1)
        assert isinstance(shape.ty, ShapeType)
        if shape.ty.values is None:
            raise node.undecided("the rank of its result is known at run time only")
        # A size of 1 keeps the operand's own: a product with ones of the shape broadcasts in both directions.
        if is_float(node.dtype()) or is_integer(node.dtype()):
            return ops.multiply(x, ops.ones(shape, node.dtype()))
        return ops.logical_and(x, ops.ones(shape, "bool"))
    own = node.shape()
    rank = max(len(own), len(known.values))
    mine, theirs = [1] * (rank - len(own)) + list(own), [1] * (rank - len(known.values)) + list(known.values)
    sizes = [a if isinstance(b, int) and b == 1 else b for a, b in zip(mine, theirs, strict=True)]
    return ops.broadcast_to(x, ShapeExpr(sizes))


@reads("Tile")
def _tile(node: NodeImporter) -> Imported:
    if node.opset < 6:
        return _tile_of_one_axis(node)
    known = node.sizes(1)
    repeats = run_time.sizes_of(node, 1, node.rank()) if known is None else known.values
    return ops.tile(node.operand(0), repeats)


def _tile_of_one_axis(node: NodeImporter) -> Imported:
    """``Tile`` of opsets before 6, whose inputs 1 and 2 are a number of copies and an axis."""
    count, axis = (int(node.number(index, name)) for index, name in ((1, "its copies"), (2, "its axis")))
    repeats = [1] * node.rank()
    repeats[axis] = count
    return ops.tile(node.operand(0), repeats)


@reads("DepthToSpace")
def _depth_to_space(node: NodeImporter) -> Imported:
    size = node.attr("blocksize")
    if node.attr("mode", "DCR") == "CRD":
        return ops.nn.pixel_shuffle(node.operand(0), size)
    batch, channels, height, width = node.shape()
    apart = ops.reshape(node.operand(0), [batch, size, size, channels // size**2, height, width])
    moved = node.emit(ops.permute_dims(node.emit(apart), [0, 3, 4, 1, 5, 2]))
    return ops.reshape(moved, [batch, channels // size**2, height * size, width * size])


@reads("SpaceToDepth")
def _space_to_depth(node: NodeImporter) -> Imported:
    size = node.attr("blocksize")
    batch, channels, height, width = node.shape()
    apart = ops.reshape(node.operand(0), [batch, channels, height // size, size, width // size, size])
    order = [0, 1, 3, 5, 2, 4] if node.attr("mode", "DCR") == "CRD" else [0, 3, 5, 1, 2, 4]
    moved = node.emit(ops.permute_dims(node.emit(apart), order))
    return ops.reshape(moved, [batch, channels * size**2, height // size, width // size])


# --- making tensors


@reads("ConstantOfShape")
def _constant_of_shape(node: NodeImporter) -> Imported:
    tensor = node.attr("value")
    fill = np.zeros(1, np.float32) if tensor is None else tensor.numpy()
    known = node.sizes(0)
    number = const(np.asarray(fill).reshape(()))
    if known is not None and known.is_known and len(known.values) == 1 and is_integer(number.data.dtype):
        length = known.values[0]
        if isinstance(length, int) and length <= 64:
            return const(np.full(length, number.data.numpy()))
    return ops.full(node.shape_operand(0), number)


def _whole_number(node: NodeImporter, index: int) -> Dim | None:
    """The number in operand ``index``, if it is a size, a whole number, or a float cast from a size; else None."""
    found = node.sizes(index)
    value = node.node.inputs[index]
    producer = None if value is None else value.producer()
    if found is None and producer is not None and producer.op_type == "Cast" and producer.inputs[0] is not None:
        source = node.graph.values.get(producer.inputs[0].name or "")
        found = source if isinstance(source, Sizes) else None
    if found is not None:
        return found.values[0]
    array = node.array(index)
    if array is None or array.size != 1 or not float(array.reshape(-1)[0]).is_integer():
        return None
    return int(array.reshape(-1)[0])


@reads("Range")
def _range(node: NodeImporter) -> Imported:
    dtype = node.dtype()
    start, limit, delta = (_whole_number(node, index) for index in range(3))
    if start is not None and limit is not None and isinstance(delta, int):
        return ops.arange(*[PrimValue(value) for value in (start, limit, delta)], dtype=dtype)
    arrays = [node.array(index) for index in range(3)]
    if any(array is None for array in arrays):
        return run_time.arange(node)
    numbers = [np.asarray(array).reshape(()) for array in arrays]
    count = max(int(np.ceil((numbers[1].astype(float) - numbers[0]) / numbers[2])), 0)
    wide = numbers[0] + np.arange(count).astype(numbers[0].dtype) * numbers[2]
    return Constant(TensorData(np.asarray(wide, dtype=numbers[0].dtype)))


@reads("OneHot")
def _one_hot(node: NodeImporter) -> Imported:
    [depth] = run_time.sizes_of(node, 1, 1)
    indices = node.emit(in_dtype(node.operand(0), "int64"))
    behind = indices + node.emit(Sizes.scalar(depth).expression())
    wrapped = node.emit(ops.where(indices < 0, behind, indices))
    off, on = (node.emit(ops.take(node.operand(2), PrimValue(place), axis=0)) for place in (0, 1))
    axis = node.attr("axis", -1)
    if isinstance(depth, int):
        return ops.one_hot(wrapped, on, off, depth=depth, axis=axis)
    beside = node.rank() - axis % (node.rank() + 1)
    places = ops.reshape(ops.arange(depth, dtype="int64"), [depth, *[1] * beside])
    return ops.where(ops.equal(ops.expand_dims(wrapped, axis), places), on, off)


@reads("Trilu")
def _trilu(node: NodeImporter) -> Imported:
    upper = bool(node.attr("upper", 1))
    diagonal = node.sizes(1) if node.has(1) else Sizes.scalar(0)
    if diagonal is None:
        return run_time.triangle(node, upper=upper)
    return (ops.triu if upper else ops.tril)(node.operand(0), PrimValue(diagonal.values[0]))


@reads("Pad")
def _pad(node: NodeImporter) -> Imported:
    mode = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}[
        node.attr("mode", "constant")
    ]
    given = node.attr("pads", node.attr("paddings"))  # opset 1 calls them paddings
    if given is None and any(node.has(index) and node.array(index) is None for index in (1, 2, 3)):
        return run_time.pad(node, mode)
    pads = list(given) if given is not None else node.known_integers(1) or []
    rank = node.rank()
    axes = [axis % rank for axis in (node.integers(3, "its axes") or range(rank))] if rank else []
    widths = [0] * (2 * rank)
    for place, axis in enumerate(axes):
        widths[2 * axis], widths[2 * axis + 1] = pads[place], pads[place + len(axes)]
    fill = node.attr("value", 0.0) if given is not None else 0.0
    if node.has(2) and mode == "constant":
        fill = node.number(2, "the number it pads with")
    x = node.operand(0)
    if mode == "circular" and min(widths, default=0) < 0:
        # After cutting off the ends, ONNX Runtime wraps around what is left.
        x = node.emit(ops.nn.pad(x, [min(width, 0) for width in widths]))
        widths = [max(width, 0) for width in widths]
    return ops.nn.pad(x, widths, mode, float(fill))


@reads("Slice", "DynamicSlice")  # DynamicSlice was experimental before opset 10; ONNX Runtime still runs it
def _slice(node: NodeImporter) -> Imported:
    rank = node.rank()
    begins, ends = (_bound(node, name, index) for name, index in (("starts", 1), ("ends", 2)))
    has_tensor = any(node.has(index) and node.array(index) is None for index in (3, 4))
    if begins is None or ends is None or has_tensor:
        return run_time.cut(node)
    axes = node.attr("axes") or node.integers(3, "its axes") or list(range(len(begins)))
    steps = node.integers(4, "its steps") if node.has(4) else [1] * len(begins)
    assert steps is not None
    bounds = [_inside(node, *row) for row in zip(begins, ends, axes, steps, strict=True)]
    firsts, lasts = [row[0] for row in bounds], [row[1] for row in bounds]
    places = [axis % rank for axis in axes]
    return run_time.named_axes(node, ops.strided_slice(node.operand(0), places, firsts, lasts, steps), places)


def _bound(node: NodeImporter, name: str, index: int) -> list[Dim] | None:
    given = node.attr(name)
    if given is not None:
        return list(given)
    known = node.sizes(index)
    return None if known is None else list(known.values)


def _inside(node: NodeImporter, begin: Dim, end: Dim, axis: int, step: int) -> tuple[Dim, Dim]:
    """Bounds in the meaning of Python's slices: ONNX moves a start before the axis to its first element."""
    shape = node.ty(0).shape
    size = None if shape is None else shape[axis]
    if step < 0:
        if end in run_time.NO_END:
            end = -(2**62)
        if isinstance(begin, int) and begin < -1 and size is not None:
            begin = -size if begin < -(2**31) else dim_max(begin, -size)
    if isinstance(end, int) and end > 2**31:
        end = size if size is not None and step > 0 else 2**62
    if isinstance(size, int) and isinstance(begin, int) and isinstance(end, int):
        return begin, end if end >= -(2**62) else -(2**62)
    if isinstance(end, int) and end < -(2**62):
        end = -(2**62)
    return begin, end
