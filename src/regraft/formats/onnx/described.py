"""The size of a model: its number of nodes, and the bytes of its graph without the numbers of its constants."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import onnx
import onnx_ir as ir

from .external_data import read_proto
from .scopes import with_bodies

_NODE, _NAME, _TYPE, _SIZE, _NO_SIZE, _ATTRIBUTE = 8, 2, 14, 4, 2, 8
"""The approximate bytes of a node, a name, a type, a size, an unknown size and an attribute, without texts."""
_ENTRY: Final = 2
"""The bytes around each entry for the place of a constant in another file."""


def description_size(graph: ir.Graph) -> int:
    """The approximate bytes of ``graph`` in a file, with bodies, without the numbers of constants. Cost: linear."""
    constants = [value for value in graph.initializers.values() if not value.is_graph_input()]
    total = sum(_TYPE + len(value.name or "") for value in constants)  # their sizes are counted with their numbers
    total += _values([*graph.inputs, *graph.outputs])
    for node in ir.traversal.RecursiveGraphIterator(graph):
        texts = [node.op_type, node.domain, node.name or "", node.doc_string or ""]
        operands = [value.name or "" if value is not None else "" for value in (*node.inputs, *node.outputs)]
        texts += [text for pair in node.metadata_props.items() for text in pair]
        total += _NODE + sum(map(len, texts)) + sum(len(name) + _NAME for name in operands)
        total += _values(value for value in node.outputs if value.type is not None)
        for attribute in node.attributes.values():
            total += _ATTRIBUTE + len(attribute.name)
    return total


def node_count(model: Path | onnx.ModelProto) -> int:
    """The number of nodes of a model, a file or a message. Includes the nodes in bodies of loops and branches."""
    return sum(len(graph.node) for graph in with_bodies(message_of(model).graph))


def opset_of(model: Path | onnx.ModelProto) -> int:
    """The version of ONNX's own operator set that a model imports; 0 if it imports none."""
    imports = message_of(model).opset_import
    return max((one.version for one in imports if one.domain in ("", "ai.onnx")), default=0)


def written_out_count(model: Path | onnx.ModelProto) -> int:
    """The number of nodes of a model after inlining: each call of a function counts as the nodes of the function."""
    model = message_of(model)
    functions = {(one.domain, one.name, one.overload): one for one in model.functions}
    counts: dict[tuple[str, str, str], int] = {}

    def count(nodes: Iterable[onnx.NodeProto]) -> int:
        total = 0
        for node in nodes:
            key = node.domain, node.op_type, node.overload
            if key in functions and key not in counts:
                counts[key] = 1  # ends the recursion for a function that calls itself, which is invalid
                counts[key] = count(functions[key].node)
            inner = [graph.node for attribute in node.attribute if attribute.HasField("g") for graph in [attribute.g]]
            total += counts.get(key, 1) + sum(map(count, inner))
        return total

    return count(model.graph.node)


def size_in_one_file(model: Path | onnx.ModelProto) -> int:
    """The bytes of a model if all its constants were in its own file."""
    message = message_of(model)
    total = message.ByteSize()
    for graph in with_bodies(message.graph):
        for tensor in graph.initializer:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                where = sum(entry.ByteSize() + _ENTRY for entry in tensor.external_data)
                total += stored_bytes(tensor) - where
    return total


def stored_bytes(tensor: onnx.TensorProto) -> int:
    """The bytes of the numbers of ``tensor``, wherever they are stored."""
    return math.ceil(math.prod(tensor.dims) * ir.DataType(tensor.data_type).bitwidth / 8)


def message_of(model: Path | onnx.ModelProto) -> onnx.ModelProto:
    """The message of a model; constants that are large, or in other files, stay in their files."""
    return read_proto(str(model)) if isinstance(model, Path) else model


def _values(values: Iterable[ir.Value]) -> int:
    return sum(_TYPE + len(value.name or "") + sum(map(_size, value.shape or ())) for value in values)


def _size(dim: int | ir.SymbolicDim) -> int:
    return _SIZE if isinstance(dim, int) or dim.value is not None else _NO_SIZE
