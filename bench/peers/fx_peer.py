"""torch.fx: `replace_pattern` over a traced graph."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, GraphModule
from torch.fx.subgraph_rewriter import replace_pattern

from bench.peers import Job

NAME = f"torch.fx {torch.__version__.split('+')[0]}"


def graph_of(count: int, add: Any, relu: Any) -> Graph:
    """The chain as a graph of calls of ``add`` and ``relu``."""
    graph = Graph()
    value = graph.placeholder("x")
    for index in range(count):
        value = graph.call_function(relu, (value,)) if index % 2 else graph.call_function(add, (value, value))
    graph.output(value)
    return graph


def chain(count: int) -> Job:
    """`replace_pattern`, which changes the graph it is given."""

    def rewrite(module: GraphModule) -> GraphModule:
        replace_pattern(module, lambda x: x + x, lambda x: x * 2)
        return module

    return Job(
        lambda: GraphModule(torch.nn.Module(), graph_of(count, operator.add, torch.relu)),
        rewrite,
        lambda module: sum(1 for node in module.graph.nodes if node.target is operator.mul),
    )
