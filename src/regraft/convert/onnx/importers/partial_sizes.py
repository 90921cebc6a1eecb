"""The sizes of a result of which some are known, and others only when the model runs.

A type knows all sizes of a tensor or none. So that one unknown size does not take the names of the others away, the
reader asks here, and gives a name of its own only to what is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from ....ir.dims import Dim
from ....ops.rules import broadcast_dims
from ..importing import NodeImporter

_BROADCASTING: Final = frozenset(
    [
        "Add",
        "And",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "Div",
        "Equal",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "Max",
        "Mean",
        "Min",
        "Mod",
        "Mul",
        "Or",
        "PRelu",
        "Pow",
        "Sub",
        "Sum",
        "Where",
        "Xor",
    ]
)
"""Operators whose result is of the shape that their operands broadcast to."""


def partial_sizes(node: NodeImporter) -> list[Dim | None]:
    """The sizes of the first output, None for those that are not known; empty where nothing is."""
    if node.node.domain or not (node.op_type in _BROADCASTING or node.op_type == "MatMul"):
        return []
    shapes = [node.ty(index).shape for index in range(len(node.node.inputs)) if node.has(index)]
    known = [shape for shape in shapes if shape is not None]
    if len(known) != len(shapes):
        return []
    if node.op_type == "MatMul":
        left, right = known
        if min(len(left), len(right)) < 2:
            return []
        return [*_broadcast([left[:-2], right[:-2]]), left[-2], right[-1]]
    return _broadcast(known)


def _broadcast(shapes: Sequence[tuple[Dim, ...]]) -> list[Dim | None]:
    sizes: list[Dim | None] = []
    for column in zip_longest(*[shape[::-1] for shape in shapes], fillvalue=1):
        joined: tuple[Dim, ...] | bool | None = (1,)
        for size in column:
            joined = broadcast_dims(joined, (size,)) if isinstance(joined, tuple) else None
        sizes.append(joined[0] if isinstance(joined, tuple) else None)
    return sizes[::-1]
