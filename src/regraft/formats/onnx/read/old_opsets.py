"""Models of the first opsets, brought by ONNX's own converter to one that is read as a whole."""

from __future__ import annotations

import onnx
from onnx import version_converter

_FIRST_WITH_IMPORTS = 3
"""The version of the format from which on a model says its opset; before, there was one only."""
_FIRST_WITH_SHAPES = 6
"""The opset from which on ONNX infers the shapes that its converter needs."""


def in_readable_opset(proto: onnx.ModelProto, oldest: int) -> onnx.ModelProto:
    """``proto`` in opset ``oldest`` where it is of an older one, as far as ONNX converts it; else itself.

    What ONNX does not convert stays as it is: its nodes that mean something else today are refused by name.
    """
    stated = [one.version for one in proto.opset_import if one.domain in ("", "ai.onnx")]
    opset = max(stated, default=1 if proto.ir_version < _FIRST_WITH_IMPORTS else oldest)
    if not 0 < opset < oldest:
        return proto
    model = proto
    if not stated:
        model = onnx.ModelProto()
        model.CopyFrom(proto)
        model.opset_import.add(version=opset)
    try:
        # The converter infers shapes once, and before opset 6 few operators have a rule for it.
        for target in (_FIRST_WITH_SHAPES, oldest):
            model = version_converter.convert_version(model, target) if opset < target else model
    except Exception:  # the converter raises whatever its parts raise
        return proto
    _align_slopes(model)
    return model


def _align_slopes(proto: onnx.ModelProto) -> None:
    """Let the slopes of each ``PRelu`` stand for its channels, as before opset 7; from then on they are broadcast."""
    graph = proto.graph
    if not any(node.op_type == "PRelu" for node in graph.node):
        return
    inferred = onnx.shape_inference.infer_shapes(proto).graph
    ranks = {one.name: len(one.dims) for one in graph.initializer}
    for value in (*inferred.value_info, *inferred.input):
        if value.type.tensor_type.HasField("shape"):
            ranks[value.name] = len(value.type.tensor_type.shape.dim)
    nodes: list[onnx.NodeProto] = []
    for place, node in enumerate(graph.node):
        rank = ranks.get(node.input[0], 0) if node.op_type == "PRelu" else 0
        if rank > 2 and ranks.get(node.input[1]) == 1:
            aligned = f"{node.input[1]}_of_channels_{place}"
            axes = list(range(1, rank - 1))
            nodes.append(onnx.helper.make_node("Unsqueeze", [node.input[1]], [aligned], axes=axes))
            node.input[1] = aligned
        nodes.append(node)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)
