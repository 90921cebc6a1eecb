"""Reading operators that gather, scatter, search and sort elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .... import op as ops
from ....ir.dtypes import is_bool
from ....ir.expr import Expr, PrimValue, const
from . import run_time
from .importing import Imported, NodeImporter, in_dtype, reads, reads_as
from .sizes import Sizes

reads_as(
    {
        "GatherElements": lambda node: ops.gather_elements(node.operand(0), node.operand(1), node.attr("axis", 0)),
        "GatherND": lambda node: ops.gather_nd(node.operand(0), node.operand(1), node.attr("batch_dims", 0)),
        "ScatterND": lambda node: _scattered(node, ops.scatter_nd),
        "NonZero": lambda node: ops.nonzero(node.operand(0)),
        "ReverseSequence": lambda node: ops.reverse_sequence(
            node.operand(0), node.operand(1), seq_axis=node.attr("time_axis", 0), batch_axis=node.attr("batch_axis", 1)
        ),
    }
)


@reads("Gather")
def _gather(node: NodeImporter) -> Imported:
    places, axis = node.array(1), node.attr("axis", 0)
    if places is not None and places.ndim == 0:
        return ops.take(node.operand(0), PrimValue(int(places)), axis=axis)
    return ops.take(node.operand(0), node.operand(1), axis=axis)


_OF_TRUTHS = {"add": "max", "mul": "min", "max": "max", "min": "min"}
"""The reduction of booleans as numbers: a sum is true if any is, a product if all are."""


def _scattered(node: NodeImporter, scatter: Callable[[Expr, Expr, Expr, Any], Expr]) -> Imported:
    """The result of ``scatter`` for data, indices, updates and reduction; booleans are reduced as integers."""
    data, places, updates = (node.operand(index) for index in range(3))
    reduction = node.attr("reduction", "none")
    if reduction == "none":
        return scatter(data, places, updates, "update")
    if not is_bool(node.dtype()):
        return scatter(data, places, updates, reduction)
    numbers = [node.emit(in_dtype(x, "int32")) for x in (data, updates)]
    return in_dtype(scatter(numbers[0], places, numbers[1], _OF_TRUTHS[reduction]), "bool")


@reads("ScatterElements", "Scatter")
def _scatter_elements(node: NodeImporter) -> Imported:
    axis = node.attr("axis", 0)
    return _scattered(node, lambda x, at, new, fold: ops.scatter_elements(x, at, new, axis=axis, reduction=fold))


@reads("TensorScatter")
def _tensor_scatter(node: NodeImporter) -> Imported:
    cache, update = node.known_shape(0), node.known_shape(1)
    axis: int = node.attr("axis", -2) % len(cache)
    rows, length = update[0], update[axis % len(update)]
    starts = node.operand(2) if node.has(2) else None
    places = ops.arange(0, length, dtype="int64")
    column = ops.reshape(places, [1, length])
    if starts is not None:
        column = column + ops.reshape(starts, [rows, 1])
    if node.attr("mode", "linear") == "circular":
        column = ops.floor_mod(column, cache[axis])
    shape = [rows, *[1] * (axis - 1), length, *[1] * (len(cache) - axis - 1)]
    full = ops.broadcast_to(ops.reshape(ops.broadcast_to(column, [rows, length]), shape), list(update))
    return ops.scatter_elements(node.operand(0), node.emit(full), node.operand(1), axis)


@reads("Compress")
def _compress(node: NodeImporter) -> Imported:
    flags = node.array(1)
    if flags is None:
        places = node.emit(ops.take(node.emit(ops.nonzero(node.operand(1))), PrimValue(0), axis=0))
    else:
        places = const(np.flatnonzero(flags))
    axis = node.attr("axis")
    x = node.operand(0)
    if axis is None and node.rank() != 1:
        x = ops.flatten(x)
    return ops.take(x, places, axis=axis or 0)


@reads("ArgMax", "ArgMin")
def _place(node: NodeImporter) -> Imported:
    function = ops.argmax if node.op_type == "ArgMax" else ops.argmin
    axis: int = node.attr("axis", 0)
    keepdims = node.flag("keepdims", 1)
    x = node.operand(0)
    if node.rank() == 0:  # runtimes accept this if they do not infer the shape first
        return const(np.asarray(0, np.int64))
    own = axis % node.rank()
    others = [size for place, size in enumerate(node.ty(0).shape or ()) if place != own]
    if 0 in others:  # the result is empty, whether the axis is or not; nothing is searched
        return ops.full([*others[:own], *[1] * keepdims, *others[own:]], 0, "int64")
    if not node.attr("select_last_index", 0):
        return function(x, axis, keepdims)
    last = node.shape()[axis] - 1
    place = function(ops.flip(x, axis), axis, keepdims)
    return Sizes.scalar(last).expression() - place


@reads("TopK")
def _topk(node: NodeImporter) -> tuple[Imported | None, ...]:
    count = node.attr("k")
    if count is None:
        [count] = run_time.sizes_of(node, 1, 1)
    axis, taken = node.attr("axis", -1), count if isinstance(count, int) else 0
    found = node.emit(ops.topk(node.operand(0), taken, axis, "both", node.flag("largest", 1), dtype="int64"))
    if isinstance(count, int):
        return found[0], found[1]
    axis %= node.rank()  # all elements are sorted, and the first ``count`` are taken
    parts = [ops.strided_slice(found[part], [axis], [0], [count], assume_inbound=True) for part in (0, 1)]
    return node.emit(parts[0]), node.emit(parts[1])


@reads("Unique")
def _unique(node: NodeImporter) -> tuple[Imported | None, ...]:
    wanted = [index < len(node.node.outputs) and bool(node.node.outputs[index].name) for index in (1, 2, 3)]
    found = ops.unique(node.operand(0), bool(node.attr("sorted", 1)), *wanted, axis=node.attr("axis"))
    if not any(wanted):
        return (found,)
    parts = node.emit(found)
    fields = iter(range(1, 4))
    return (parts[0], *[parts[next(fields)] if is_wanted else None for is_wanted in wanted])
