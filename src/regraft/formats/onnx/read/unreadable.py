"""The nodes of a model that no reader accepts, found before the model is read, so that one error lists them all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
import onnx_ir as ir

from . import declared, whole
from .importing import IMPORTERS
from .opening import STANDARD
from .refused import REFUSED


def unreadable(graph: ir.Graph, opset: int, imports: Mapping[str, int], carries: bool) -> list[str]:
    """The nodes of operators that are neither in the table nor defined by a function, each with its reason.

    With ``carries``, nodes of ONNX itself are carried instead, if they are valid.
    """
    lines: list[str] = []
    for node in graph.all_nodes():
        domain = "" if node.domain in STANDARD else node.domain
        reason = None if carries else REFUSED.get((domain, node.op_type))
        known = (domain, node.op_type) in IMPORTERS or declared.is_outside(node) or declared.has_declaration(node)
        if reason is None and not known and not (carries and whole.can_be_whole(node, opset)):
            reason = None if _has_function(node, imports) else "the operator is not supported"
        if reason is not None:
            lines.append(f"{place_of(node)}: {reason}")
    return lines


def _has_function(node: ir.Node, imports: Mapping[str, int]) -> bool:
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, imports.get(node.domain, 1), node.domain)
    except onnx.defs.SchemaError:
        return False
    return schema.has_function or schema.has_context_dependent_function


def first_name(node: ir.Node) -> str:
    """The name of the first result that has a name."""
    return next((value.name for value in node.outputs if value.name), "")


def place_of(node: ir.Node) -> str:
    """The text for a node in errors."""
    domain = f"{node.domain}." if node.domain not in STANDARD else ""
    return f"{domain}{node.op_type} (node {node.name or first_name(node) or 'without a name'})"
