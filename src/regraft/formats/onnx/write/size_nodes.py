"""The order of the nodes that compute sizes: each is placed before its first reader.

The reader follows sizes through a graph, and the writer makes a tensor of sizes when one is needed. In this order, a
file that is read and written again stays unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from ..attributes import bodies_of
from .graph import GraphWriter


def put_sizes_late(graph: GraphWriter, results: Sequence[ir.Value]) -> None:
    """Place each node that computes integers from shapes and constants alone just before its first other reader.

    Nodes that only ``results`` need come last. Other nodes keep their order. Cost: linear in the nodes.
    """
    held: dict[ir.Value, ir.Node] = {}
    sizes: set[ir.Value] = set()
    order: list[ir.Node] = []

    def place(values: Sequence[ir.Value]) -> None:
        """Place the nodes that were held back and make ``values``, each after the nodes that it reads."""
        stack: list[tuple[ir.Value, bool]] = [(value, False) for value in reversed(values)]
        while stack:
            value, is_open = stack.pop()
            node = held.get(value)
            if node is None:
                continue
            if not is_open:
                inner = [operand for operand in reversed(node.inputs) if operand is not None]
                stack += [(value, True), *[(operand, False) for operand in inner]]
                continue
            for output in node.outputs:
                del held[output]
            order.append(node)

    for node in graph.nodes:
        if _computes_sizes(graph, node, sizes):
            held.update(dict.fromkeys(node.outputs, node))
            sizes.update(node.outputs)
            continue
        place(list(_read_by(node)))
        order.append(node)
    place(results)
    graph.nodes[:] = order


def _computes_sizes(graph: GraphWriter, node: ir.Node, sizes: set[ir.Value]) -> bool:
    if node.domain or node in graph.effects or bodies_of(node):
        return False
    if node.op_type == "Shape":
        return True
    operands = [value for value in node.inputs if value is not None]
    return (
        any(value in sizes for value in operands)
        and all(value in sizes or graph.data_of(value) is not None for value in operands)
        and all(value.dtype is not None and value.dtype.is_integer() for value in node.outputs)
    )


def _read_by(node: ir.Node) -> Iterator[ir.Value]:
    """The values that a node and its bodies read, including values that the bodies make."""
    stack = [node]
    while stack:
        one = stack.pop()
        yield from (value for value in one.inputs if value is not None)
        for body in bodies_of(one):
            yield from body.outputs
            stack.extend(reversed(list(body)))
