"""Conversion between node attributes and call attributes: numbers, strings, lists of these, and tensors as bytes."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import numpy as np
import onnx
import onnx_ir as ir

from ...ir.dims import SymExpr
from ...ir.dtypes import as_dtype, numpy_dtype
from ..errors import ConvertError
from .element_types import from_onnx_dtype, to_onnx_dtype
from .sparse_attributes import KINDS, as_text, content_of

_TENSOR: Final = "tensor"
"""The first field of a tuple that holds a tensor. Its dtype, shape and little-endian bytes in base64 follow."""

GRAPH: Final = "graph"
"""The first field of a pair that holds the body of a node: the bytes of a model of that graph in base 85."""
GRAPHS: Final = "graphs"
"""The first field of a tuple that holds the bodies of one attribute, each in the form of ``GRAPH``."""
WHOLE: Final = "attribute"
"""The first field of a pair that holds an attribute with its name: the bytes of the message in base 85.

It is for other kinds of attributes, and for names that programs cannot show."""
CAPTURED: Final = "captured"
"""The attribute of a call with the names under which bodies read its last operands, if there are any."""
_TAGS: Final = frozenset({_TENSOR, GRAPH, GRAPHS, WHOLE})
STANDARD_DOMAIN: Final = "ai.onnx"
"""The name of ONNX's own domain in the names of foreign operators."""

_READ: Final = frozenset(
    {
        ir.AttributeType.FLOAT,
        ir.AttributeType.FLOATS,
        ir.AttributeType.INT,
        ir.AttributeType.INTS,
        ir.AttributeType.STRING,
        ir.AttributeType.STRINGS,
    }
)


def bodies_of(node: ir.Node) -> list[ir.Graph]:
    """The graphs that a node holds, such as its branches or the body of a loop."""
    return [body for attribute in node.attributes.values() for body in graphs_of(attribute)]


def graphs_of(attribute: ir.Attr) -> Sequence[ir.Graph]:
    """The graphs that an attribute holds; empty for other kinds of attributes."""
    if attribute.type == ir.AttributeType.GRAPHS:
        return attribute.as_graphs()
    return [attribute.as_graph()] if attribute.type == ir.AttributeType.GRAPH else []


def foreign_attribute(attribute: ir.Attr) -> Any:
    """An attribute, not of graphs, as a foreign call holds it: plain if `call_attribute` has a form, else whole."""
    kind, value = attribute.type, attribute.value
    sparse = content_of(attribute)
    if sparse is not None:
        return WHOLE, sparse
    if kind == ir.AttributeType.TENSOR:
        is_plain = value.dtype != ir.DataType.STRING
    else:
        is_plain = kind in _READ and _is_text(value) and value not in ((), [])
    return call_attribute(attribute) if is_plain else whole_attribute(attribute)


def whole_attribute(attribute: ir.Attr) -> tuple[str, str]:
    """An attribute with its name, as a foreign call holds it."""
    return WHOLE, base64.b85encode(ir.to_proto(attribute).SerializeToString()).decode("ascii")


def _is_text(value: Any) -> bool:
    """False for bytes that are not UTF-8, for lists that hold such bytes, and for lists that begin with a tag."""
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        return all(map(_is_text, items)) and not (items and items[0] in _TAGS)
    return not isinstance(value, bytes) or value.decode(errors="ignore").encode() == value


def call_attribute(attribute: ir.Attr) -> Any:
    """A node attribute as a call holds it. Raises `ConvertError` for a graph, a type, and bytes that are not UTF-8."""
    name, kind = attribute.name, attribute.type
    value: Any = attribute.value
    if kind == ir.AttributeType.TENSOR:
        array = np.asarray(value.numpy())
        dtype = from_onnx_dtype(value.dtype, f"attribute {name}")
        held = array.astype(array.dtype.newbyteorder("<")).tobytes()
        return (_TENSOR, dtype, tuple([int(size) for size in array.shape]), base64.b64encode(held).decode("ascii"))
    if kind not in _READ:
        raise ConvertError(f"attribute {name} is of the kind {kind.name}, which only declared operators may have")
    if isinstance(value, list | tuple):
        return tuple([_plain(item, name) for item in cast("Iterable[Any]", value)])
    return _plain(value, name)


def _plain(value: Any, name: str) -> Any:
    return _text(value, name) if isinstance(value, bytes) else value


def _text(value: bytes, name: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ConvertError(f"attribute {name} holds bytes that are no text in UTF-8") from None


def _whole(name: str, content: str) -> ir.Attr:
    try:
        held = onnx.AttributeProto.FromString(base64.b85decode(content))
        return ir.from_proto(as_text(held) if held.type in KINDS else held)
    except Exception as error:  # the errors of protobuf and onnx-ir for damaged bytes share no other base
        raise ConvertError(f"attribute {name} cannot be read: {error}") from error


def onnx_attribute(name: str, value: Any) -> Any:
    """A call attribute as a node holds it. Raises `ConvertError` for a size that is known at run time only."""
    match value:
        case bool():
            return int(value)
        case (str() as tag, str() as content) if tag == WHOLE:
            return _whole(name, content)
        case (str() as tag, str() as dtype, tuple(), str() as content) if tag == _TENSOR:
            element, shape = numpy_dtype(as_dtype(dtype)), cast("tuple[str, str, tuple[int, ...], str]", value)[2]
            array = np.frombuffer(base64.b64decode(content), element.newbyteorder("<"))
            return ir.Tensor(array.astype(element).reshape(shape), dtype=to_onnx_dtype(dtype))
        case tuple():
            items = cast("tuple[Any, ...]", value)
            plain = [onnx_attribute(name, item) for item in items]
            if any(isinstance(item, float) for item in plain):
                return [float(item) for item in plain]
            return plain or None
        case SymExpr():
            raise ConvertError(
                f"attribute {name} is {value}, which is known at run time only; an attribute of ONNX is a number"
            )
        case _:
            return value
