"""Dtypes that a model does not state but ONNX implies: an operator's values of one type variable have one dtype.

A foreign node does not state the dtype of its results, but the nodes around it do. An operand of a sum with a float32
weight is float32, and so is each value that reaches a float32 output through nodes that keep the dtype.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir

from ..attributes import bodies_of
from ..element_types import TENSOR_TYPES


def untold_dtypes(graph: ir.Graph, opset: int, imports: Mapping[str, int]) -> dict[ir.Value, ir.DataType]:
    """The dtypes that the nodes of ``graph`` imply for values without a stated one. Cost: linear in its size."""
    parents: dict[object, object] = {}

    def root(key: object) -> object:
        while key in parents:
            above = parents[key]
            parents[key] = key = parents.get(above, above)
        return key

    values: dict[int, ir.Value] = {}
    told: dict[object, ir.DataType] = {}
    for node in ir.traversal.RecursiveGraphIterator(graph):
        for value, kind in _kinds(node, opset, imports):
            values[id(value)] = value
            if isinstance(kind, ir.DataType):
                told.setdefault(id(value), kind)
                continue
            one, other = root(id(value)), root(kind)
            if one != other:
                parents[one] = other
    for key, value in values.items():
        dtype = _stated(value) or told.get(key)
        if dtype is not None:
            told.setdefault(root(key), dtype)
    return {value: told[root(key)] for key, value in values.items() if value.dtype is None and root(key) in told}


def _stated(value: ir.Value) -> ir.DataType | None:
    held = value.const_value
    return value.dtype if held is None else held.dtype


def _kinds(node: ir.Node, opset: int, imports: Mapping[str, int]) -> Iterator[tuple[ir.Value, object]]:
    """The values that a node reads and writes, each with its dtype or a key shared by values of the same dtype."""
    if node.op_type == "If" and not node.domain:
        for body in bodies_of(node):
            for outer, inner in zip(node.outputs, body.outputs, strict=False):
                yield outer, ("result", id(outer))
                yield inner, ("result", id(outer))
        return
    try:
        domain = "" if node.domain == "ai.onnx" else node.domain
        schema: Any = onnx.defs.get_schema(node.op_type, imports.get(node.domain, opset), domain)
    except onnx.defs.SchemaError:
        return
    ends: tuple[tuple[Sequence[ir.Value | None], Any], ...] = (
        (node.inputs, schema.inputs),
        (node.outputs, schema.outputs),
    )
    for given, formals in ends:
        for index, value in enumerate(given):
            formal = formals[min(index, len(formals) - 1)] if formals else None
            if value is None or formal is None or not formal.is_homogeneous:
                continue
            text: str = formal.type_str
            yield value, TENSOR_TYPES.get(text, (id(node), text))
