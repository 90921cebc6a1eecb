"""Sparse attributes of nodes, which onnx-ir cannot hold: they are texts while a model is open.

Only nodes of other domains have such attributes. A sparse constant of ONNX itself is read as a dense tensor.
"""

from __future__ import annotations

import base64
from typing import Any, Final

import onnx
import onnx_ir as ir

from .scopes import scopes

_MARK: Final = "\0sparse attribute\0"
"""The first characters of such a text. The message of the attribute in base 85 follows."""
KINDS: Final = (onnx.AttributeProto.SPARSE_TENSOR, onnx.AttributeProto.SPARSE_TENSORS)


def as_text(attribute: onnx.AttributeProto) -> onnx.AttributeProto:
    """A text attribute that stands for a sparse one."""
    text = _MARK + base64.b85encode(attribute.SerializeToString()).decode("ascii")
    return onnx.helper.make_attribute(attribute.name, text)


def content_of(attribute: ir.Attr) -> str | None:
    """The message, in base 85, of the sparse attribute that a text stands for; None for any other attribute."""
    text: Any = attribute.value
    return text[len(_MARK) :] if isinstance(text, str) and text.startswith(_MARK) else None


def as_message(model: ir.Model) -> onnx.ModelProto:
    """The message of a model, with sparse attributes in their own form. Raises onnx-ir's errors."""
    return with_sparse_attributes(ir.to_proto(model))


def with_sparse_attributes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """``proto``, changed in place: sparse attributes replace the texts that stand for them. Cost: linear in nodes."""
    for scope in scopes(proto):
        for node in scope.node:
            for attribute in node.attribute if node.domain else ():
                if attribute.s.startswith(_MARK.encode()):
                    attribute.ParseFromString(base64.b85decode(attribute.s[len(_MARK) :]))
    return proto
