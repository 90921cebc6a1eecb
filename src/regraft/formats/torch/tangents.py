"""Derivatives that PyTorch wrote out: terms of constant weights, which are zero, are removed."""

from __future__ import annotations

from typing import Any, Final, cast

import torch

_ATEN: Final[Any] = torch.ops.aten
_LINEAR: Final = {
    _ATEN.mm.default,
    _ATEN.bmm.default,
    _ATEN.mul.Tensor,
    _ATEN.expand.default,
    _ATEN.alias.default,
    _ATEN.t.default,
    _ATEN.transpose.int,
    _ATEN.permute.default,
    _ATEN.view.default,
    _ATEN.neg.default,
    _ATEN._to_copy.default,
}
"""Operators whose result is zeros if one of their operands is zeros."""


def is_zeros(node: torch.fx.Node) -> bool:
    """True if a node makes a tensor of zeros."""
    return node.target is _ATEN.zeros.default


def drop_zero_tangents(module: torch.fx.GraphModule) -> None:
    """Remove from ``module`` the sums with zero derivatives, which PyTorch itself never computes. Cost: linear.

    All zeros in the program must stand for such derivatives.
    """
    zeros: set[torch.fx.Node] = set()
    for node in list(module.graph.nodes):
        given = [operand for operand in node.all_input_nodes if operand in zeros]
        if is_zeros(node) or (given and node.target in _LINEAR):
            zeros.add(node)
        elif given and node.target is _ATEN.add.Tensor and not node.kwargs:
            first, second = cast("tuple[torch.fx.Node, torch.fx.Node]", node.args)
            other = second if first in zeros else first
            if _kind(other) == _kind(node):
                node.replace_all_uses_with(other)
    module.graph.eliminate_dead_code()
    module.recompile()


def _kind(node: Any) -> tuple[Any, ...] | None:
    """The shape and the dtype of a node's result; None if it is no tensor."""
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return (value.shape, value.dtype) if isinstance(value, torch.Tensor) else None
