"""Inductor's pattern matcher, as the passes of `torch.compile` use it."""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor.pattern_matcher import CallFunction, KeywordArg, Match, PatternMatcherPass, register_graph_pattern
from torch.fx import GraphModule

from bench.peers import Job
from bench.peers.fx_peer import graph_of

NAME = f"Inductor {torch.__version__.split('+')[0]}"

_aten: Any = torch.ops.aten
_pass = PatternMatcherPass()


@register_graph_pattern(CallFunction(_aten.add.Tensor, KeywordArg("x"), KeywordArg("x")), pass_dict=_pass)
def _double(match: Match, x: Any) -> None:
    """x + x -> x * 2, written by hand, because the tracing of a replacement would be timed as well."""
    (node,) = match.nodes
    with match.graph.inserting_before(node):
        product = match.graph.call_function(_aten.mul.Tensor, (x, 2))
    product.meta.update(node.meta)
    node.replace_all_uses_with(product)
    match.graph.erase_node(node)


def chain(count: int) -> Job:
    """`PatternMatcherPass.apply`, which changes the graph it is given."""

    def rewrite(module: GraphModule) -> GraphModule:
        _pass.apply(module)
        return module

    return Job(
        lambda: GraphModule(torch.nn.Module(), graph_of(count, _aten.add.Tensor, _aten.relu.default)),
        rewrite,
        lambda module: sum(1 for node in module.graph.nodes if node.target is _aten.mul.Tensor),
    )
