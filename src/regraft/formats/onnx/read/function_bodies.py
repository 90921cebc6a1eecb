"""The functions that define operators in ONNX, for reading in place of a node."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir

from ....ir.types import TensorType
from ..element_types import to_onnx_dtype
from .importing import Imported


def function_body(
    node: ir.Node, opset_imports: dict[str, int], types: list[bytes]
) -> tuple[ir.Function, tuple[str, ...]] | None:
    """The function that defines the operator of ``node`` in ONNX, with its attributes filled in; None if there is none.

    Also returns the names of all its outputs in order. The function itself has only the outputs that its nodes compute.
    """
    version = opset_imports.get(node.domain, 1)
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return None
    if schema.has_function:
        proto = onnx.FunctionProto()
        proto.ParseFromString(schema.function_body.SerializeToString())
    elif schema.has_context_dependent_function:
        text = _context_body(schema, node, version, types)
        if not text:
            return None
        proto = onnx.FunctionProto()
        proto.ParseFromString(text)
    else:
        return None
    defaults = {name: attr.default_value for name, attr in schema.attributes.items() if attr.default_value.type}
    given = {attr.name: attr for attr in ir.to_proto(node).attribute}
    _fill_attributes(proto.node, defaults | given)
    names = tuple(proto.output)
    produced = {name for step in proto.node for name in step.output}
    del proto.output[:]
    proto.output.extend(name for name in names if name in produced)
    return ir.from_proto(proto), names


def _context_body(schema: Any, node: ir.Node, version: int, types: list[bytes]) -> bytes | None:
    text = ir.to_proto(node).SerializeToString()
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    try:
        if versions:
            return schema.get_context_dependent_function_with_opset_version(max(versions), text, types)
        return schema.get_context_dependent_function(text, types)
    except Exception:  # onnx raises no error type of its own for a node that it cannot build a body for
        return None


def _fill_attributes(nodes: Any, values: dict[str, onnx.AttributeProto]) -> None:
    """Put the values of the node's attributes into the body of a function that refers to them."""
    for node in nodes:
        kept: list[Any] = []
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                value = values.get(attribute.ref_attr_name)
                if value is None:
                    continue
                copy = onnx.AttributeProto()
                copy.CopyFrom(value)
                copy.name = attribute.name
                kept.append(copy)
                continue
            if attribute.type == onnx.AttributeProto.GRAPH:
                _fill_attributes(attribute.g.node, values)
            kept.append(attribute)
        del node.attribute[:]
        node.attribute.extend(kept)


def type_text(value: Imported | None) -> bytes:
    """The known type of a value, as ONNX reads it."""
    proto = onnx.TypeProto()
    ty = None if value is None else value.ty
    if isinstance(ty, TensorType) and ty.dtype is not None:
        proto.tensor_type.elem_type = int(to_onnx_dtype(ty.dtype))
        for size in ty.shape or ():
            dim = proto.tensor_type.shape.dim.add()
            if isinstance(size, int):
                dim.dim_value = size
    return proto.SerializeToString()
