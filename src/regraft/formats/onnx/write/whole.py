"""Operators of ONNX that a model has and the vocabulary lacks: written as the nodes that they were, bodies included."""

from __future__ import annotations

from base64 import b85decode
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir

from ....ir.op import Call, OnnxName
from ...errors import ConvertError
from ..attributes import CAPTURED, GRAPH, onnx_attribute
from .graph import GraphWriter


def whole_node(
    graph: GraphWriter, call: Call, name: OnnxName, inputs: Sequence[ir.Value | None], outputs: Sequence[ir.Value]
) -> ir.Node:
    """The node of a call that `read.whole` made, as of the opset that it was read for, added to ``graph``."""
    captured: tuple[str, ...] = call.attrs.get(CAPTURED, ())
    count = len(inputs) - len(captured)
    around = {key: value for key, value in zip(captured, inputs[count:], strict=True) if value is not None}
    operands = list(inputs[:count])
    while operands and operands[-1] is None:
        operands.pop()
    attributes = {
        key: _attribute(graph, key, value, around, name.version) for key, value in call.attrs.items() if key != CAPTURED
    }
    node = graph.add(name.op_type, operands, outputs, **attributes)
    _is_of(graph, node, name.version)
    return node


def _is_of(graph: GraphWriter, node: ir.Node, opset: int) -> None:
    """Let a node stay as it is, or be found to be no node of the opset that is written."""
    graph.kept[node], graph.kept_from[node] = opset, id(node)
    graph.fixed.add(node)


def _attribute(graph: GraphWriter, key: str, value: Any, around: Mapping[str, ir.Value], opset: int) -> Any:
    match value:
        case (str() as tag, str() as content) if tag == GRAPH:
            return _body(graph, key, content, around, opset)
        case _:
            return onnx_attribute(key, value)


def _body(graph: GraphWriter, key: str, content: str, around: Mapping[str, ir.Value], opset: int) -> ir.Graph:
    """A body that reads ``around`` by name; its own values get names that nothing else has."""
    try:
        body = ir.from_proto(onnx.GraphProto.FromString(b85decode(content)))
    except Exception as error:  # what protobuf and onnx-ir raise for damaged bytes shares no base but this
        raise ConvertError(f"the body {key} cannot be read: {error}") from error
    graphs = [body]
    for inner in graphs:
        own = [*inner.inputs, *inner.initializers.values(), *[value for node in inner for value in node.outputs]]
        for value in {id(each): each for each in own if each.name}.values():
            value.name = graph.names.fresh(value.name or "value")
        for node in inner:
            _is_of(graph, node, opset)
            graphs += [one.as_graph() for one in node.attributes.values() if one.type == ir.AttributeType.GRAPH]
    for inner in graphs:
        own_values = {value for node in inner for value in node.outputs} | set(inner.inputs)
        for node in inner:
            for index, value in enumerate(node.inputs):
                outer = None if value is None or value in own_values else around.get(value.name or "")
                if outer is not None and value is not None and value.producer() is None and value.graph is None:
                    node.replace_input_with(index, outer)
        for index, value in enumerate(inner.outputs):
            outer = None if value in own_values else around.get(value.name or "")
            if outer is not None:  # what is around a body is no output of it
                copy = ir.node("Identity", [outer], name=graph.node_names.fresh("Identity"))
                copy.outputs[0].name = graph.names.fresh(f"{outer.name}_inner")
                inner.append(copy)
                _is_of(graph, copy, opset)
                inner.outputs[index] = copy.outputs[0]
    return body
