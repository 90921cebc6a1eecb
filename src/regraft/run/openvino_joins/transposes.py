"""Transposes that OpenVINO removes together.

OpenVINO may combine two transposes around a reshape from four axes to three to a copy, although they are not one.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from .nodes import ALONE, MOST_AFTER, MOVES, REDUCTIONS, Nodes

_TURN: Final = (0, 2, 1)
"""The transpose that OpenVINO may remove together with one before it."""


def follows_transpose(node: ir.Node) -> bool:
    """True if ``node`` swaps the last two of three axes of another transpose's result, after a reshape or the like."""
    if tuple(node.attributes.get_ints("perm", ())) != _TURN:
        return False
    value = node.inputs[0]
    for _ in range(MOST_AFTER):
        made_by = None if value is None else value.producer()
        if made_by is None or made_by.domain or made_by.op_type not in (*MOVES, *REDUCTIONS, *ALONE):
            return False
        if made_by.op_type == "Transpose":
            return True
        value = made_by.inputs[0]
    return False


def turn_four_axes(node: ir.Node) -> None:
    """Make ``node`` swap the last two of four axes, the second of which has size 1."""
    old, graph = node.outputs[0], node.graph
    source = node.inputs[0]
    assert graph is not None
    assert source is not None
    made = Nodes(f"{old.name or 'transpose'}/Four")
    axis = made.constant([1])
    node.replace_input_with(0, made.add("Unsqueeze", [source, axis]))
    node.attributes.add(ir.AttrInt64s("perm", (0, 1, 3, 2)))
    graph.insert_before(node, made.nodes)
    narrow = Nodes(f"{old.name or 'transpose'}/Three")
    narrow.add("Squeeze", [old, axis])
    narrow.stand_after(old)
