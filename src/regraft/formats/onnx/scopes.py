"""The graphs in a model's message: the main graph, functions, and the graphs inside nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx


def scopes(proto: onnx.ModelProto) -> Iterator[Any]:
    """The graph of a model, its functions, and the graphs inside them. Cost: linear in the nodes."""
    for whole in (proto.graph, *proto.functions):
        yield from with_bodies(whole)


def with_bodies(scope: Any) -> Iterator[Any]:
    """A graph or a function, and the graphs inside its nodes, at any depth. Cost: linear in the nodes."""
    pending: list[Any] = [scope]
    while pending:
        one = pending.pop()
        yield one
        for attribute in (attribute for node in one.node for attribute in node.attribute):
            if attribute.type == onnx.AttributeProto.GRAPH:
                pending.append(attribute.g)
            pending.extend(attribute.graphs)
