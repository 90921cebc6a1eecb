"""Attention, and Mish in a graph with attention.

OpenVINO fuses elementwise operators with attention, and then has no kernel for Mish, so the model does not compile. If
the sum of attention and an elementwise result is read twice, compiling the model crashes the process.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from .nodes import ALONE, KEEPING, MOST_AFTER, MOVES, Nodes, is_constant, rank_of
from .pools import GATES, insert_pool

ATTENTION: Final = ("Attention", "Softmax")
"""Operators of attention; any graph with attention contains one of them."""
_MOST_OF_TANH: Final = 30.0
"""A number whose hyperbolic tangent is 1 in single precision."""


def products_of(node: ir.Node) -> list[ir.Value]:
    """The weighted sums of the attention ``node``, or of the attention whose softmax ``node`` is."""
    if node.op_type == "Attention":
        return [node.outputs[0]]
    users = [use.node for use in node.outputs[0].uses()]
    return [user.outputs[0] for user in users if user.op_type == "MatMul" and user.inputs[0] is node.outputs[0]]


def stand_alone(product: ir.Value) -> None:
    """Insert a pool of single elements after ``product`` of attention, if OpenVINO would fuse it with its users."""
    rank, node = rank_of(product), product.producer()
    if rank is not None and rank > 2 and node is not None and _is_joined_to_what_is_read_twice(product):
        insert_pool(node, rank - 2)


def _is_joined_to_what_is_read_twice(value: ir.Value) -> bool:
    """True if elementwise operators combine ``value`` with a computed value, and several nodes read the result."""
    is_joined = False
    for _ in range(MOST_AFTER):
        users = [use.node for use in value.uses()]
        if len(users) + value.is_graph_output() != 1 or not users:
            return is_joined and len(users) + value.is_graph_output() > 1
        if users[0].op_type not in (*ALONE, *GATES, *KEEPING, *MOVES):
            return False
        others = [one for one in users[0].inputs if one is not None and one is not value]
        is_joined |= any(one.producer() is not None and not is_constant(one) for one in others)
        value = users[0].outputs[0]
    return False


def softplus_of(node: ir.Node) -> ir.Value | None:
    """The operand of the softplus in Mish, for the Mish ``node``, or for the hyperbolic tangent ``node`` that ends
    Mish.

    None if there is no softplus, or if its operand is a convolution, which OpenVINO fuses it with.
    """
    data = node.inputs[0]
    made_by = None if data is None else data.producer()
    if node.op_type == "Tanh":
        if made_by is None or made_by.op_type != "Softplus":
            return None
        data = made_by.inputs[0]
        made_by = None if data is None else data.producer()
    return None if made_by is not None and made_by.op_type.startswith("Conv") else data


def write_out_mish(node: ir.Node, data: ir.Value) -> None:
    """Make the tangent in Mish read the softplus of ``data``, limited to a number at which the tangent is 1."""
    graph, made = node.graph, Nodes(f"{node.outputs[0].name or 'mish'}/Apart")
    assert graph is not None
    softplus = made.add("Softplus", [data])
    least = made.add("Min", [softplus, made.number(_MOST_OF_TANH, data.dtype or ir.DataType.FLOAT)])
    if node.op_type == "Tanh":
        node.replace_input_with(0, least)
    else:
        node.op_type = "Mul"
        node.resize_inputs(2)
        node.replace_input_with(1, made.add("Tanh", [least]))
    graph.insert_before(node, made.nodes)
