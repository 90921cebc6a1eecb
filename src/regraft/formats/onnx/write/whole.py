"""Operators of a model that the vocabulary lacks, written as the nodes that they were, including bodies."""

from __future__ import annotations

from base64 import b85decode
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir

from ....ir.op import Call, OnnxName
from ...errors import ConvertError
from ..attributes import CAPTURED, GRAPH, GRAPHS, STANDARD_DOMAIN, bodies_of, onnx_attribute
from .graph import GraphWriter


def whole_node(
    graph: GraphWriter, call: Call, name: OnnxName, inputs: Sequence[ir.Value | None], outputs: Sequence[ir.Value]
) -> ir.Node:
    """The node of a foreign call, added to ``graph``. One of ONNX's own keeps the opset for which it was read."""
    captured: tuple[str, ...] = call.attrs.get(CAPTURED, ())
    count = len(inputs) - len(captured)
    around = {key: value for key, value in zip(captured, inputs[count:], strict=True) if value is not None}
    operands = list(inputs[:count])
    while operands and operands[-1] is None:
        operands.pop()
    keeps_names = name.domain != STANDARD_DOMAIN
    attributes: dict[str, Any] = {}
    for key, value in call.attrs.items():
        attribute = None if key == CAPTURED else _attribute(graph, key, value, around, keeps_names)
        if attribute is not None:
            attributes[attribute.name if isinstance(attribute, ir.Attr) else key] = attribute
    node = graph.add(name.op_type, operands, outputs, domain=name.domain if keeps_names else "")
    for attribute in ir.convenience.convert_attributes(attributes):  # with any names, including "domain"
        node.attributes.add(attribute)
    _is_of(graph, node, name.version)
    return node


def _is_of(graph: GraphWriter, node: ir.Node, opset: int) -> None:
    """Fix a standard node in its form of ``opset``; for another domain, record ``opset`` as its version."""
    if node.domain not in ("", STANDARD_DOMAIN):
        graph.domains[node.domain] = max(opset, graph.domains.get(node.domain, 1))
        return
    graph.kept[node], graph.kept_from[node] = opset, id(node)
    graph.fixed.add(node)


def _attribute(graph: GraphWriter, key: str, value: Any, around: Mapping[str, ir.Value], keeps_names: bool) -> Any:
    match value:
        case (str() as tag, str() as content) if tag == GRAPH:
            return _body(graph, key, content, around, keeps_names)
        case (str() as tag, *contents) if tag == GRAPHS:
            return [_body(graph, key, content, around, keeps_names) for content in contents]
        case _:
            return onnx_attribute(key, value)


def _body(graph: GraphWriter, key: str, content: str, around: Mapping[str, ir.Value], keeps_names: bool) -> ir.Graph:
    """A body that reads ``around`` by name; its own values get unique names.

    With ``keeps_names``, its inputs and outputs keep their names, which an operator of another domain may rely on.
    """
    try:
        held = onnx.ModelProto.FromString(b85decode(content))
        held.graph.input.extend(onnx.ValueInfoProto(name=name) for name in around)
        body = ir.from_proto(held.graph)
    except Exception as error:  # the errors of protobuf and onnx-ir for damaged bytes share no other base
        raise ConvertError(f"the body {key} cannot be read: {error}") from error
    outside = {body.inputs.pop(): value for value in reversed(list(around.values()))}
    for stand_in, outer in outside.items():
        stand_in.replace_all_uses_with(outer)
    opsets = {one.domain: one.version for one in held.opset_import}
    known = {value.name for value in (*body.inputs, *body.outputs)} if keeps_names else set[str | None]()
    if any(outer.name in known for outer in outside.values()):
        raise ConvertError(f"the body {key} reads an outer value with the same name as one of its own values")
    graphs = [body]
    for inner in graphs:
        own = [*inner.inputs, *inner.initializers.values(), *[value for node in inner for value in node.outputs]]
        for value in {id(each): each for each in own if each.name}.values():
            fresh = graph.names.fresh(value.name or "value")
            if inner is not body or value.name not in known:
                value.name = fresh
        for node in inner:
            _is_of(graph, node, opsets.get(node.domain, 1))
            graphs += bodies_of(node)
        for index, value in enumerate(inner.outputs):
            if value in outside:  # a value from around a body cannot be its output
                outer = outside[value]
                copy = ir.node("Identity", [outer], name=graph.node_names.fresh("Identity"))
                copy.outputs[0].name = graph.names.fresh(f"{outer.name}_inner")
                inner.append(copy)
                _is_of(graph, copy, opsets[""])
                inner.outputs[index] = copy.outputs[0]
    return body
