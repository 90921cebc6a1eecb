"""Operators of object detection as ONNX."""

from __future__ import annotations

from ....ir.op import Call
from ...errors import ConvertError
from .lowering import Lowered, Lowering, lowers, tensor_type


@lowers("vision.all_class_non_max_suppression")
def _non_max_suppression(lowering: Lowering, call: Call) -> Lowered:
    if call.attrs.output_format != "onnx":
        raise ConvertError('ONNX gives the rows of all images together; use output_format="onnx"')
    graph = lowering.graph
    boxes, scores, limit, overlap, least = lowering.tensors(call.args)
    found = graph.op(
        "NonMaxSuppression",
        graph.cast(boxes, "float32"),
        graph.cast(scores, "float32"),
        graph.op("Reshape", graph.cast(limit, "int64"), graph.integers([1])),
        *[graph.op("Reshape", graph.cast(bound, "float32"), graph.integers([1])) for bound in (overlap, least)],
    )
    shape = tensor_type(call.args[1]).shape
    if shape is None:
        raise ConvertError(f"{call.args[1]!r}: its shape is not known, but the number of rows depends on it")
    count = graph.op("Shape", found, start=0, end=1)
    rest = graph.op("Sub", graph.size(shape[0] * shape[1] * shape[2]), count)
    filler = graph.op("Expand", graph.integers([-1]), graph.op("Concat", rest, graph.integers([3]), axis=0))
    return graph.op("Concat", found, filler, axis=0), count
