"""The facts of an ONNX model: its opsets, and the count of each operator."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping

import onnx

from ..errors import ConvertError
from ..source import SourceFacts, StoredTensor
from .described import stored_bytes
from .element_types import from_onnx_dtype
from .external_data import read_proto
from .scopes import with_bodies


def onnx_facts(source: str | os.PathLike[str] | onnx.ModelProto) -> SourceFacts:
    """The facts of a model or a file. Nodes inside bodies are counted; a function counts as its calls. Cost: linear."""
    proto = _message(source)
    versions: dict[str, int | str] = {one.domain or "ai.onnx": one.version for one in proto.opset_import}
    versions["ir_version"] = proto.ir_version
    producer = " ".join(filter(None, (proto.producer_name, proto.producer_version)))
    return SourceFacts("ONNX", versions, _operators(proto), producer, tuple(_stored(proto.graph)))


def onnx_operators(source: str | os.PathLike[str] | onnx.ModelProto) -> Mapping[str, int]:
    """The count of each operator in a model or a file, as in `onnx_facts`. Cost: linear in the nodes."""
    return _operators(_message(source))


def _message(source: str | os.PathLike[str] | onnx.ModelProto) -> onnx.ModelProto:
    return source if isinstance(source, onnx.ModelProto) else read_proto(os.fspath(source))


def _operators(proto: onnx.ModelProto) -> Counter[str]:
    counts: Counter[str] = Counter()
    for graph in with_bodies(proto.graph):
        for node in graph.node:
            counts[f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type] += 1
    return counts


def _stored(graph: onnx.GraphProto) -> Iterator[StoredTensor]:
    """The numeric initializers of a graph and of the graphs inside it."""
    for one in with_bodies(graph):
        for tensor in one.initializer:
            try:
                dtype = from_onnx_dtype(tensor.data_type, tensor.name)
            except ConvertError:
                continue
            yield StoredTensor(tensor.name, dtype, tuple(tensor.dims), stored_bytes(tensor))
