"""Nodes of ONNX's own operators that cannot be read, carried as foreign calls that only the ONNX writer understands.

The type of a result is what the model states or ONNX infers, and may be unknown. The bodies of a node are attributes:
the bytes of their graphs. Values that the bodies read from around them become operands of the call.
"""

from __future__ import annotations

from base64 import b85encode
from collections.abc import Sequence
from itertools import count
from keyword import iskeyword
from typing import Any, Final

import onnx
import onnx_ir as ir

from ....ir.expr import Expr
from ....ir.op import Call, Op
from ....ir.types import TensorType, TupleType, Type
from ....op.rules import shaped
from ...errors import ConvertError
from ..attributes import (
    CAPTURED,
    GRAPH,
    GRAPHS,
    STANDARD_DOMAIN,
    bodies_of,
    foreign_attribute,
    graphs_of,
    whole_attribute,
)
from ..element_types import from_onnx_dtype
from .importing import NodeImporter, UnsupportedNodeError
from .refused import REFUSED

_STANDARD: Final = ("", "ai.onnx")
_MOST_BYTES: Final = 1 << 22
"""Larger bodies, with constants of their own, would make programs that cannot be printed."""
_TAKEN: Final = ("ty_args", CAPTURED)
"""The names that a foreign call uses for other things than attributes."""
_OF_ONE_RANK: Final = frozenset({"ConvTranspose", "DeformConv", "MaxUnpool", "Pad", "TensorScatter"})
"""Operators whose result has the rank of operand 0, even if its sizes are unknown."""
_RANKS: Final = {"MelWeightMatrix": 2, "STFT": 4}


def can_be_whole(node: ir.Node, opset: int) -> bool:
    """True if ``node`` is a valid node of ONNX's own domain in ``opset``."""
    if node.domain not in _STANDARD or not onnx.defs.has(node.op_type, max_inclusive_version=opset):
        return False
    context = onnx.checker.DEFAULT_CONTEXT.__class__()
    context.ir_version, context.opset_imports = onnx.IR_VERSION, {"": opset}
    if bodies_of(node):  # the checker does not know the values that they read from around them
        return True
    try:
        onnx.checker.check_node(ir.to_proto(node), context)
    except onnx.checker.ValidationError:
        return False
    return True


def is_random(node: ir.Node) -> bool:
    """True if a node, or one in its bodies, gives different values in each run: it must not be shared or removed."""
    if node.domain in _STANDARD and (node.op_type == "Dropout" or "random" in REFUSED.get(("", node.op_type), "")):
        return True
    return any(is_random(inner) for body in bodies_of(node) for inner in body)


def read_whole(node: NodeImporter, reason: UnsupportedNodeError) -> tuple[Expr | None, ...]:
    """The results of a node as a call of its operator. Raises ``reason`` if the node cannot be carried."""
    if not can_be_whole(node.node, node.opset):
        raise reason
    try:
        call = foreign_call(node, STANDARD_DOMAIN, _types(node), is_pure=not is_random(node.node))
    except ConvertError:
        raise reason from None
    if any(isinstance(operand.ty, TupleType) and operand.ty.fields for operand in call.args):
        raise reason
    return results_of(node, call)


def foreign_call(node: NodeImporter, domain: str, types: Sequence[Type], *, is_pure: bool) -> Call:
    """A call that keeps the attributes of ``node``; what its bodies read from around them are further operands."""
    attributes = _attributes(node)
    captured = _captured_values(node.node)
    if captured:
        attributes[CAPTURED] = tuple(captured)
    operands = [*optional_operands(node), *map(node.graph.expression, captured.values())]
    op = Op.foreign(f"{domain}::{node.op_type}", version=node.opset, pure=is_pure)
    return op(*operands, ty_args=types or [TupleType(())], **attributes)


def optional_operands(node: NodeImporter) -> list[Expr | None]:
    """The operands of ``node``, None for those that are left out."""
    return [node.optional(index) for index in range(len(node.node.inputs))]


def asked_results(node: NodeImporter) -> Sequence[ir.Value]:
    """The results of ``node``, up to the last one that it names."""
    outputs = list(node.node.outputs)
    while outputs and not outputs[-1].name:
        outputs.pop()
    return outputs


def results_of(node: NodeImporter, call: Expr) -> tuple[Expr | None, ...]:
    """The results that ``node`` names, of a call that computes the same."""
    if not isinstance(call.ty, TupleType):
        return (call,)
    found = node.emit(call)
    return tuple([found[index] if value.name else None for index, value in enumerate(asked_results(node))])


def _attributes(node: NodeImporter) -> dict[str, Any]:
    """The attributes of ``node`` as a call holds them, including bodies. Raises `ConvertError` for too large ones."""
    found: dict[str, Any] = {}
    for name, attribute in node.node.attributes.items():
        if name.isidentifier() and not iskeyword(name) and name not in _TAKEN:
            found[name] = _carried(node, attribute)
        elif graphs_of(attribute):
            raise ConvertError(f"the body {name} of {node.op_type} cannot be carried: programs cannot show that name")
        else:
            place = next(key for at in count() if (key := f"attribute{at}") not in {*node.node.attributes, *found})
            found[place] = whole_attribute(attribute)
    return found


def _carried(node: NodeImporter, attribute: ir.Attr) -> Any:
    match [_carried_body(node, attribute.name, body) for body in graphs_of(attribute)]:
        case []:
            return foreign_attribute(attribute)
        case [body] if attribute.type == ir.AttributeType.GRAPH:
            return GRAPH, body
        case bodies:
            return GRAPHS, *bodies


def _carried_body(node: NodeImporter, name: str, body: ir.Graph) -> str:
    """A body with the versions of its operators, as text."""
    domains = {"", *(each.domain for each in ir.traversal.RecursiveGraphIterator(body))}
    versions = {domain: node.graph.version_of(domain) for domain in sorted(domains)}
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in versions.items()]
    content = onnx.ModelProto(graph=ir.to_proto(body), opset_import=imports).SerializeToString()
    if len(content) > _MOST_BYTES:
        raise ConvertError(f"the body {name} is too large to be carried")
    return b85encode(content).decode("ascii")


def _captured_values(node: ir.Node) -> dict[str, ir.Value]:
    """The values that the bodies of ``node`` read from around it, by name."""
    found: dict[str, ir.Value] = {}
    for body in bodies_of(node):
        inside: set[ir.Value] = set()
        within = [inner for each in ir.traversal.RecursiveGraphIterator(body) for inner in bodies_of(each)]
        for graph in (body, *within):
            inside.update(graph.inputs, graph.initializers.values(), *[each.outputs for each in graph])
        read = [value for each in ir.traversal.RecursiveGraphIterator(body) for value in each.inputs]
        for value in (*read, *body.outputs):
            if value is not None and value.name and value not in inside:
                found[value.name] = value
    return found


def _types(node: NodeImporter) -> list[TensorType]:
    """The types of the results that are named: as stated, else as ONNX infers them, else unknown."""
    inferred = _inferred(node)
    return [_type(node, value, inferred.get(value.name or "")) for value in asked_results(node)]


def _type(node: NodeImporter, value: ir.Value, inferred: onnx.TypeProto | None) -> TensorType:
    for kind in (value.type, inferred):
        if isinstance(kind, ir.TypeProtocol) and not isinstance(kind, ir.TensorType):
            raise ConvertError(f"{value.name} is no tensor")
        if isinstance(kind, onnx.TypeProto) and kind.WhichOneof("value") not in (None, "tensor_type"):
            raise ConvertError(f"{value.name} is no tensor")
    told = None if inferred is None or not inferred.tensor_type.elem_type else inferred.tensor_type
    dtype = node.graph.stated_dtype(value)
    if dtype is None and told is not None:
        dtype = from_onnx_dtype(told.elem_type, value.name or "a result")
    if value.shape is not None:
        return shaped(node.graph.stated_sizes(value), dtype)
    if told is None or not told.HasField("shape"):
        return TensorType(None, dtype, _defined_rank(node))
    return shaped([size.dim_value if size.HasField("dim_value") else None for size in told.shape.dim], dtype)


def _defined_rank(node: NodeImporter) -> int:
    """The rank of a result that ONNX defines but does not infer; -1 for other operators."""
    if node.op_type in _OF_ONE_RANK and node.ty(0).ndim >= 0:
        return node.ty(0).ndim
    return _RANKS.get(node.op_type, -1)


def _inferred(node: NodeImporter) -> dict[str, onnx.TypeProto]:
    """The types that ONNX can infer for the results from the types of the operands."""
    if bodies_of(node.node):
        return {}
    given: dict[str, onnx.TypeProto] = {}
    for value, text in zip(node.node.inputs, node.graph.input_types(node.node), strict=True):
        if value is not None and value.name:
            given[value.name] = onnx.TypeProto.FromString(text)
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, node.opset, "")
        return onnx.shape_inference.infer_node_outputs(schema, ir.to_proto(node.node), given)
    except Exception as error:  # onnx raises errors of many kinds
        if all(kind.tensor_type.elem_type for kind in given.values()):
            raise ConvertError(f"{node.op_type} does not fit its operands: {error}") from error
        return {}
