"""The bits of numbers read as another dtype, as ONNX."""

from __future__ import annotations

from ....ir.op import Call
from ...errors import ConvertError
from ..element_types import to_onnx_dtype
from .elementwise import operand_dtype
from .lowering import Lowered, Lowering, lowers


@lowers("bitcast")
def _bitcast(lowering: Lowering, call: Call) -> Lowered:
    graph, source, target = lowering.graph, operand_dtype(call), call.attrs["dtype"]
    if source.startswith("float8") or target.startswith("float8"):
        raise ConvertError(f"ONNX Runtime does not read the bits of {source} as {target}; another engine does")
    # bool is no type of BitCast in ONNX Runtime 1.31; its bits are those of 0 and 1.
    x = graph.cast(lowering.tensor(call.args[0]), "uint8" if source == "bool" else source)
    return graph.op("BitCast", x, dtype=target, to=int(to_onnx_dtype(target)))
