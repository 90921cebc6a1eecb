"""ONNX nodes that are kept whole while a program is rewritten: nodes that are many operators here."""

from __future__ import annotations

from typing import Final

from ...ir.op import Call
from ...ir.program import Binding, MatchCast
from ..whole_calls import Whole
from .source_nodes import source_node_of

_FEWEST_CALLS: Final = 4
"""The fewest calls of such a node. Rules are written for smaller nodes: a product with bias, a norm with outputs."""


def whole_node_of(binding: Binding) -> Whole | None:
    """The node that a binding is a step of, or whose sizes it computes; None if that is not kept whole."""
    source = source_node_of(binding.var)
    if source is None or isinstance(binding, MatchCast):
        return None
    if binding.var not in source.steps:
        # If these were rewritten, operands that the node needs might be removed.
        return Whole((id(source), "sizes"), f"{source.node.op_type}_sizes", _FEWEST_CALLS)
    calls = sum(isinstance(step.value, Call) for step in source.steps.values())
    return Whole(id(source), source.node.op_type, len(source.steps)) if calls >= _FEWEST_CALLS else None
