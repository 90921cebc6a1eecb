"""Nodes of ONNX that are kept whole while a program is rewritten: those that are many operators here."""

from __future__ import annotations

from typing import Final

from ...ir.op import Call
from ...ir.program import Binding, MatchCast
from ..whole_calls import Whole
from .source_nodes import source_node_of

_FEWEST_CALLS: Final = 4
"""Nodes of fewer calls are the like of what rules are written for: a product and its bias, a norm and its outputs."""


def whole_node_of(binding: Binding) -> Whole | None:
    """The node that a binding is a step of, where that is kept whole; or what computes the sizes of such a node."""
    source = source_node_of(binding.var)
    if source is None or isinstance(binding, MatchCast):
        return None
    if binding.var not in source.steps:
        # Were these rewritten, what the node takes as it stands might be gone.
        return Whole((id(source), "sizes"), f"{source.node.op_type}_sizes", _FEWEST_CALLS)
    calls = sum(isinstance(step.value, Call) for step in source.steps.values())
    return Whole(id(source), source.node.op_type, len(source.steps)) if calls >= _FEWEST_CALLS else None
