"""The graphs of a model's message: its own, those of its functions, and those inside nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx


def scopes(proto: onnx.ModelProto) -> Iterator[Any]:
    """The graph of a model, its functions, and the graphs inside them. Cost: linear in the nodes."""
    pending: list[Any] = [proto.graph, *proto.functions]
    while pending:
        scope = pending.pop()
        yield scope
        pending.extend(graphs_inside(scope))


def graphs_inside(scope: Any) -> Iterator[onnx.GraphProto]:
    """The graphs that the nodes of a graph or a function hold themselves."""
    for node in scope.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield attribute.g
            yield from attribute.graphs
