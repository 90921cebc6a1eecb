"""Operators that rearrange, join, slice, gather and scatter elements, as ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from .... import op as ops
from ....ir.dims import Dim, SymExpr, add_all, dim_at_least, dims_equal
from ....ir.dtypes import is_float
from ....ir.expr import Expr, ShapeExpr
from ....ir.op import Call
from ....ir.types import PrimType, TensorType, TupleType
from ....op.primitive.manipulate import inverse
from ....op.program_xp import ProgramArray, ProgramNamespace
from ....op.semantics import widened
from .elementwise import operand_dtype
from .graph import before_transpose, dtype_of, maker
from .kernels import single_at_least
from .lowering import Lowered, Lowering, known_rank, lowers, size_at, tensor_type

_LAST: int = -(2**63)
"""The end of a slice that runs backward: before the first element."""
_END: int = 2**63 - 1
"""The end of a slice that runs forward: after the last element."""


def reshaped(lowering: Lowering, x: ir.Value, before: Sequence[Dim] | None, after: Sequence[Dim]) -> ir.Value:
    """``x`` of shape ``before``, if known, reshaped to ``after``. The shape is a constant if possible.

    A value that was reshaped already is reshaped from its origin, or not at all if that has the shape ``after``.
    """
    x, before = lowering.reshapes.get(x, (x, before))
    # If all other axes keep their size, one axis of unknown size keeps its size too.
    if before is not None and len(before) == len(after) and [*map(_is_same_size, before, after)].count(False) <= 1:
        return x
    result = _reshaped_once(lowering, x, before, after)
    if before is not None:
        lowering.reshapes[result] = (x, before)
    return result


def _is_same_size(ours: Dim, theirs: Dim) -> bool:
    return dims_equal(ours, theirs) is True


def _reshaped_once(lowering: Lowering, x: ir.Value, before: Sequence[Dim] | None, after: Sequence[Dim]) -> ir.Value:
    graph = lowering.graph
    sizes: list[int] = []
    for axis, size in enumerate(after):
        if isinstance(size, int) and size > 0:
            sizes.append(size)
        elif isinstance(size, SymExpr) and before is not None and axis < len(before) and before[axis] == size:
            sizes.append(0)  # copies the size of the same axis of the operand
        elif isinstance(size, SymExpr) and -1 not in sizes:
            sizes.append(-1)
        else:
            break
    if len(sizes) == len(after):
        return graph.op("Reshape", x, graph.integers(sizes))
    return graph.op("Reshape", x, graph.shape(after), allowzero=1)


@lowers("reshape")
def _reshape(lowering: Lowering, call: Call) -> Lowered:
    x, shape = lowering.tensor(call.args[0]), call.args[1]
    if isinstance(shape, ShapeExpr):
        return reshaped(lowering, x, tensor_type(call.args[0]).shape, shape.values)
    return lowering.graph.op("Reshape", x, lowering.tensor(shape), allowzero=1)


@lowers("expand_dims")
def _expand_dims(lowering: Lowering, call: Call) -> Lowered:
    axes = call.attrs["axis"]
    x = lowering.tensor(call.args[0])
    return lowering.graph.op("Unsqueeze", x, lowering.graph.integers(axes)) if axes else x


@lowers("squeeze")
def _squeeze(lowering: Lowering, call: Call) -> Lowered:
    axes = call.attrs["axis"]
    x = lowering.tensor(call.args[0])
    if axes is not None and not axes:
        return x
    if lowering.graph.is_size(x):
        return lowering.graph.scalar(x)
    return lowering.graph.op("Squeeze", x, None if axes is None else lowering.graph.integers(axes))


@lowers("permute_dims")
def _permute_dims(lowering: Lowering, call: Call) -> Lowered:
    x, graph = lowering.tensor(call.args[0]), lowering.graph
    axes = call.attrs["axes"]
    if axes is None:
        return graph.op("Transpose", x)
    order = [axis % len(axes) for axis in axes]
    # The nodes of another operator may end with the inverse transpose.
    source = before_transpose(x, inverse(order))
    if source is not None and x.producer() not in graph.kept:
        return source
    return graph.op("Transpose", x, perm=order)


@lowers("flip")
def _flip(lowering: Lowering, call: Call) -> Lowered:
    graph = lowering.graph
    bounds = [graph.integers([number]) for number in (-1, _LAST, call.attrs["axis"], -1)]
    return graph.op("Slice", lowering.tensor(call.args[0]), *bounds)


@lowers("concat")
def _concat(lowering: Lowering, call: Call) -> Lowered:
    tensors, axis = lowering.fields(call.args[0]), call.attrs["axis"]
    graph = lowering.graph
    if axis is None:
        tensors, axis = tuple([graph.op("Reshape", x, graph.integers([-1])) for x in tensors]), 0
    if isinstance(call.ty, TensorType) and call.ty.ndim == 1:
        tensors = tuple([part for x in tensors for part in _joined_parts(lowering, x)])
    return graph.op("Concat", *tensors, axis=axis)


def _joined_parts(lowering: Lowering, x: ir.Value) -> Sequence[ir.Value]:
    """The parts that a vector, such as a shape, was concatenated from; the vector itself if it was not."""
    concat = maker(x, "Concat")
    if concat is None or concat in lowering.graph.kept:
        return [x]
    return [part for part in concat.inputs if part is not None]


@lowers("stack")
def _stack(lowering: Lowering, call: Call) -> Lowered:
    graph, axis = lowering.graph, call.attrs["axis"]
    rows = [graph.op("Unsqueeze", x, graph.integers([axis])) for x in lowering.fields(call.args[0])]
    return graph.op("Concat", *rows, axis=axis)


@lowers("split", because="1 node in place of one for each part")
def _split(lowering: Lowering, call: Call) -> Lowered | None:
    graph = lowering.graph
    axis: int = call.attrs["axis"]
    assert isinstance(call.ty, TupleType)
    shapes = [field.shape for field in call.ty.fields if isinstance(field, TensorType)]
    sizes: list[Dim] = [shape[axis] for shape in shapes if shape is not None]
    extent = size_at(call.args[0], axis)
    # If some sizes are symbolic, a split takes more nodes than slices, unless all sizes are equal.
    is_short = all(isinstance(size, int) for size in sizes) or len(set(sizes)) == 1
    # Cuts that go back or past the end give parts whose sizes do not add up.
    if extent is None or not is_short or dims_equal(add_all(sizes), extent) is not True:
        return None
    return graph.ops("Split", [lowering.tensor(call.args[0]), graph.shape(sizes)], len(sizes), axis=axis)


@lowers("broadcast_to")
def _broadcast_to(lowering: Lowering, call: Call) -> Lowered:
    return lowering.graph.op("Expand", *lowering.tensors(call.args))


@lowers("repeat")
def _repeat(lowering: Lowering, call: Call) -> Lowered:
    graph, axis, times = lowering.graph, call.attrs["axis"], call.attrs["repeats"]
    x = lowering.tensor(call.args[0])
    if axis is None:
        column = graph.op("Reshape", x, graph.integers([-1, 1]))
        return graph.op("Reshape", graph.op("Tile", column, graph.integers([1, times])), graph.integers([-1]))
    rank = known_rank(call.args[0])
    axis %= rank
    apart = graph.op("Unsqueeze", x, graph.integers([axis + 1]))
    counts = [1] * (rank + 1)
    counts[axis + 1] = times
    # The size of axis `axis` is multiplied by `times`; all other sizes are copied.
    shape = graph.op("Shape", x)
    factors = graph.integers([times if place == axis else 1 for place in range(rank)])
    return graph.op(
        "Reshape", graph.op("Tile", apart, graph.integers(counts)), graph.op("Mul", shape, factors), allowzero=1
    )


@lowers("tile")
def _tile(lowering: Lowering, call: Call) -> Lowered:
    graph = lowering.graph
    counts: list[Dim] = list(call.attrs["repeats"])
    x = lowering.tensor(call.args[0])
    rank = known_rank(call.args[0])
    if rank < len(counts):
        x = graph.op("Unsqueeze", x, graph.integers(list(range(len(counts) - rank))))
    counts = [1] * (rank - len(counts)) + counts
    return graph.op("Tile", x, graph.shape(counts)) if counts else x


# --- picking


def as_indices(lowering: Lowering, expr: Expr) -> ir.Value:
    """A tensor of indices in int64, which every operator takes."""
    return lowering.graph.cast(lowering.tensor(expr), "int64")


@lowers("take")
def _take(lowering: Lowering, call: Call) -> Lowered | None:
    if call.attrs["mode"] != "fast":
        return None
    indices = lowering.tensor(call.args[1])
    if dtype_of(indices) not in ("int32", "int64"):
        indices = lowering.graph.cast(indices, "int64")
    return lowering.graph.op("Gather", lowering.tensor(call.args[0]), indices, axis=call.attrs["axis"] or 0)


@lowers("gather_elements")
def _gather_elements(lowering: Lowering, call: Call) -> Lowered:
    x, indices = lowering.tensor(call.args[0]), as_indices(lowering, call.args[1])
    return lowering.graph.op("GatherElements", x, indices, axis=call.attrs["axis"])


@lowers("gather_nd", because="1 node in place of 7 to 16, 1.3 to 1.7 times as fast")
def _gather_nd(lowering: Lowering, call: Call) -> Lowered | None:
    indices = tensor_type(call.args[1]).shape
    if indices is not None and indices[-1] == 0:
        return None
    x = lowering.tensor(call.args[0])
    return lowering.graph.op("GatherND", x, as_indices(lowering, call.args[1]), batch_dims=call.attrs["batch_dims"])


def _joined_indices(lowering: Lowering, indices: Expr) -> ir.Value:
    """Index tensors, broadcast and stacked along a new last axis."""
    graph = lowering.graph
    columns = [graph.cast(x, "int64") for x in lowering.fields(indices)]
    if len(columns) > 1:
        total = columns[0]
        for column in columns[1:]:
            total = graph.op("Add", total, column)
        shape = graph.op("Shape", total)
        columns = [graph.op("Expand", column, shape) for column in columns]
    return graph.op("Concat", *[graph.op("Unsqueeze", x, graph.integers([-1])) for x in columns], axis=-1)


@lowers("index_tensor")
def _index_tensor(lowering: Lowering, call: Call) -> Lowered:
    return lowering.graph.op("GatherND", lowering.tensor(call.args[0]), _joined_indices(lowering, call.args[1]))


@lowers("strided_slice")
def _strided_slice(lowering: Lowering, call: Call) -> Lowered:
    graph = lowering.graph
    known = _known_slices(call)
    if known is not None:
        bounds = [graph.integers(values) for values in zip(*known, strict=True)]
        return graph.op("Slice", lowering.tensor(call.args[0]), *bounds) if bounds else lowering.tensor(call.args[0])
    axes, begins = (_scalars(lowering, arg) for arg in call.args[1:3])
    sizes = _ends_in_sizes(call)
    ends = _scalars(lowering, call.args[3]) if sizes is None else graph.shape(sizes)
    strides = [_scalars(lowering, arg) for arg in call.args[4:]]
    return graph.op("Slice", lowering.tensor(call.args[0]), begins, ends, axes, *strides)


def _ends_in_sizes(call: Call) -> list[Dim] | None:
    """The ends of the slices as sizes; None if the program computes an axis, an end or a stride.

    The end of a whole axis is ONNX's constant for it, which need not be computed.
    """
    axes, ends, *strides = [_dims(arg) for arg in (call.args[1], *call.args[3:])]
    if axes is None or ends is None or None in strides:
        return None
    steps = strides[0] if strides else None
    found: list[Dim] = []
    for place, (axis, end) in enumerate(zip(axes, ends, strict=True)):
        is_forward = steps is None or dim_at_least(steps[place], 1)
        is_whole = isinstance(end, SymExpr) and isinstance(axis, int) and end == size_at(call.args[0], axis)
        found.append(_END if is_forward and is_whole else end)
    return found


def _known_slices(call: Call) -> list[tuple[int, int, int, int]] | None:
    """Begin, end, axis and stride for each axis as ONNX reads them, if all are known; else None.

    Bounds outside the axis have another meaning in ONNX if the stride is negative, so they are clipped to the axis.
    """
    columns: list[list[int]] = []
    for arg in call.args[1:]:
        dims = _dims(arg) or ()
        assert isinstance(arg.ty, TupleType)
        columns.append([size for size in dims if isinstance(size, int)])
        if len(columns[-1]) < len(arg.ty.fields):
            return None
    columns += [[1] * len(columns[0])] * (4 - len(columns))
    rows: list[tuple[int, int, int, int]] = []
    for axis, begin, end, stride in zip(*columns, strict=True):
        size = size_at(call.args[0], axis)
        if not isinstance(size, int):
            return None
        places = range(*slice(begin, end, stride).indices(size))
        stop = _LAST if places.stop < 0 else places.stop
        rows.append((places.start, stop, axis, stride) if places else (0, 0, axis, 1))
    return rows


def _dims(expr: Expr) -> list[Dim] | None:
    """A tuple of scalars as sizes; None if the program computes one of them."""
    assert isinstance(expr.ty, TupleType)
    values = [field.value if isinstance(field, PrimType) else None for field in expr.ty.fields]
    known = [value for value in values if isinstance(value, int | SymExpr)]
    return known if len(known) == len(values) else None


def _scalars(lowering: Lowering, expr: Expr) -> ir.Value:
    """A tuple of scalars that are not tensors, as a vector."""
    graph, known = lowering.graph, _dims(expr)
    if known is not None:
        return graph.shape(known)
    parts = [graph.op("Reshape", graph.cast(x, "int64"), graph.integers([1])) for x in lowering.fields(expr)]
    return graph.op("Concat", *parts, axis=0)


@lowers("dynamic_strided_slice")
def _dynamic_strided_slice(lowering: Lowering, call: Call) -> Lowered:
    graph = lowering.graph
    begins, ends, strides = [as_indices(lowering, arg) for arg in call.args[1:]]
    axes = graph.integers(range(known_rank(call.args[0])))
    return graph.op("Slice", lowering.tensor(call.args[0]), begins, ends, axes, strides)


@lowers("reverse_sequence", because="1 node in place of 6, though up to 2.5 times as slow")
def _reverse_sequence(lowering: Lowering, call: Call) -> Lowered | None:
    rank = known_rank(call.args[0])
    along, batch = call.attrs["seq_axis"] % rank, call.attrs["batch_axis"] % rank
    if {along, batch} != {0, 1}:
        return None
    x, lengths = lowering.tensor(call.args[0]), as_indices(lowering, call.args[1])
    return lowering.graph.op("ReverseSequence", x, lengths, time_axis=along, batch_axis=batch)


# --- putting


_REDUCTIONS = {"update": None, "add": "add", "mul": "mul", "max": "max", "min": "min"}


def _scattered(
    lowering: Lowering, op_type: str, data: ir.Value, indices: ir.Value, updates: ir.Value, reduction: str, **attrs: Any
) -> ir.Value:
    graph = lowering.graph
    dtype = dtype_of(data)
    if reduction != "update":
        data, updates = (graph.cast(x, single_at_least(dtype)) for x in (data, updates))
    found = graph.op(op_type, data, indices, updates, reduction=_REDUCTIONS[reduction], **attrs)
    return graph.cast(found, dtype)


@lowers("scatter_elements", because="1 node in place of 14, though sums are 1.5 times as slow")
def _scatter_elements(lowering: Lowering, call: Call) -> Lowered:
    if call.attrs["reduction"] == "mean":
        return _scattered_mean(lowering, call)
    data, updates = lowering.tensor(call.args[0]), lowering.tensor(call.args[2])
    indices = as_indices(lowering, call.args[1])
    reduction = call.attrs["reduction"]
    return _scattered(lowering, "ScatterElements", data, indices, updates, reduction, axis=call.attrs["axis"])


def _scattered_mean(lowering: Lowering, call: Call) -> Lowered:
    xp, axis = ProgramNamespace(lowering), call.attrs["axis"]
    name = operand_dtype(call)
    data, indices, updates = (widened(xp, ProgramArray(lowering, arg)) for arg in call.args)

    def summed(values: ProgramArray, new: ProgramArray) -> ProgramArray:
        return xp.emit(ops.scatter_elements(values.expr, indices.expr, new.expr, axis, "add"))

    total, count = summed(data, updates), summed(xp.ones_like(data), xp.ones_like(updates))
    mean = total / count if is_float(name) else total // count
    return lowering.value(xp.astype(mean, name).expr)


@lowers("scatter_nd")
def _scatter_nd(lowering: Lowering, call: Call) -> Lowered:
    data, updates = lowering.tensor(call.args[0]), lowering.tensor(call.args[2])
    return _scattered(lowering, "ScatterND", data, as_indices(lowering, call.args[1]), updates, call.attrs["reduction"])


@lowers("index_put", because="with two index tensors 12 nodes in place of 19, 1.5 times as fast")
def _index_put(lowering: Lowering, call: Call) -> Lowered:
    graph = lowering.graph
    data, values = lowering.tensor(call.args[0]), lowering.tensor(call.args[2])
    indices = _joined_indices(lowering, call.args[1])
    assert isinstance(call.args[1].ty, TupleType)
    depth = len(call.args[1].ty.fields)
    rest = graph.op("Shape", data, start=depth)
    target = graph.op("Concat", graph.op("Shape", indices, end=-1), rest, axis=0)
    updates = graph.op("Expand", values, target)
    return _scattered(lowering, "ScatterND", data, indices, updates, "add" if call.attrs["accumulate"] else "update")
