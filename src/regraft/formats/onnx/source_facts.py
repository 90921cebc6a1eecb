"""An ONNX model in its own terms: opsets, and how often each operator occurs."""

from __future__ import annotations

import os
from collections import Counter

import onnx

from ..source import SourceFacts
from .external_data import read_proto
from .scopes import with_bodies


def onnx_facts(source: str | os.PathLike[str] | onnx.ModelProto) -> SourceFacts:
    """The facts of a model or a file; graphs inside nodes are counted, and functions as calls. Cost: linear."""
    proto = source if isinstance(source, onnx.ModelProto) else read_proto(os.fspath(source))
    counts: Counter[str] = Counter()
    for graph in with_bodies(proto.graph):
        for node in graph.node:
            counts[f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type] += 1
    versions: dict[str, int | str] = {one.domain or "ai.onnx": one.version for one in proto.opset_import}
    versions["ir_version"] = proto.ir_version
    producer = " ".join(filter(None, (proto.producer_name, proto.producer_version)))
    return SourceFacts("ONNX", versions, counts, producer)
