"""Low-precision numbers as ONNX: quantization and back, products of bytes, weights in blocks.

A product with weights in blocks is ONNX Runtime's own operator, which OpenVINO reads too; the rest is standard ONNX.
"""

from __future__ import annotations

from typing import Any, Final

import onnx_ir as ir

from ....ir.dtypes import itemsize
from ....ir.expr import Constant, Expr
from ....ir.op import Call
from ....op.composite.quantize import dequantize, quantize
from ....op.primitive.datatype import astype
from ....op.primitive.ternary import clip
from ....op.semantics import integer_range
from .graph import dtype_of
from .lowering import Lowered, Lowering, known_dtype, lowers, tensor_type

RUNTIME_DOMAIN: Final = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""

_SUMMED_IN_BYTES: Final = 4
"""The accuracy level of ``MatMulNBits`` that rounds the other operand to bytes; its error is below the weights'."""

_QUANTIZED = ("int8", "uint8", "int16", "uint16")

_SINCE: Final = {"int4": 21, "uint4": 21, "int2": 25, "uint2": 25}
"""The first opsets in which ``DequantizeLinear`` reads codes of less than a byte."""

_BLOCKS_SINCE: Final = 21
_HALF_SINCE: Final = 19


@lowers("quantize", because="1 node in place of 9, 16 times as fast")
def _quantize(lowering: Lowering, call: Call) -> Lowered | None:
    data, scale, zero_point = lowering.tensors(call.args)
    result = call.attrs["out_dtype"]
    fits = dtype_of(data) == dtype_of(scale) == "float32" and dtype_of(zero_point) == result in _QUANTIZED
    if not fits or not _is_even(call):
        return None
    return lowering.graph.op("QuantizeLinear", data, scale, zero_point, axis=call.attrs["axis"])


@lowers("dequantize", because="1 node in place of 4, 1.3 times as fast")
def _dequantize(lowering: Lowering, call: Call) -> Lowered | None:
    data, scale, zero_point = lowering.tensors(call.args)
    codes, given, opset = dtype_of(data), dtype_of(scale), lowering.graph.opset
    placed: dict[str, Any] = {"axis": call.attrs["axis"]}
    block = _block_size(call)
    if block is not None and opset >= _BLOCKS_SINCE:
        placed["block_size"] = block
    elif not _is_even(call):
        return None
    # A float16 cannot hold each difference of 16-bit codes.
    is_half = given == "float16" and opset >= _HALF_SINCE and itemsize(codes) < itemsize("int16")
    if given != call.attrs["out_dtype"] or (given != "float32" and not is_half):
        return None
    if codes == "int32" and _is_zero(call.args[2]):
        # Sums, such as a bias, have no zero point in ONNX.
        return lowering.graph.op("DequantizeLinear", data, scale, dtype=given, **placed)
    if codes not in _QUANTIZED and opset < _SINCE.get(codes, opset + 1):
        return None
    if block is not None and _is_zero(call.args[2]):
        return lowering.graph.op("DequantizeLinear", data, scale, dtype=given, **placed)
    if dtype_of(zero_point) != codes:
        return None
    return lowering.graph.op("DequantizeLinear", data, scale, zero_point, dtype=given, **placed)


def _block_size(call: Call) -> int | None:
    """The number of elements along the axis that share a scale; None if scales are not by block, or this is unknown."""
    data, scale, zero_point = (tensor_type(arg) for arg in call.args)
    if scale.ndim < 2 or data.shape is None or scale.shape is None:
        return None
    axis: int = call.attrs["axis"]
    whole, blocks = data.shape[axis], scale.shape[axis]
    if not isinstance(whole, int) or not isinstance(blocks, int):
        return None
    return whole // blocks if zero_point.shape == scale.shape or _is_zero(call.args[2]) else None


_IMITATED: Final = ("fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine")


@lowers(*_IMITATED, family="aten", because="2 nodes in place of 13, which low-precision engines recognize")
def _imitated(lowering: Lowering, call: Call) -> Lowered:
    from ....op.extras.aten import codes_between  # the operators of that family are loaded on first use

    (data, scale, zero_point), attrs = call.args, call.attrs
    least, greatest, axis = attrs["quant_min"], attrs["quant_max"], attrs.get("axis", -1)
    dtype = codes_between(least, greatest)
    factor, zeros = (lowering.emit(astype(value, name)) for value, name in ((scale, "float32"), (zero_point, dtype)))
    codes = lowering.emit(quantize(data, factor, zeros, axis, dtype))
    if (least, greatest) != integer_range(dtype):
        codes = lowering.emit(clip(codes, least, greatest))
    return lowering.value(lowering.emit(dequantize(codes, factor, zeros, axis, known_dtype(tensor_type(data)))))


def _is_even(call: Call) -> bool:
    """True if scale and zero point are both scalars, or both have one element for each index of the axis."""
    data, scale, zero_point = (tensor_type(arg) for arg in call.args)
    if scale.ndim == zero_point.ndim == 0:
        return True
    if scale.ndim != 1 or zero_point.ndim != 1 or data.shape is None or not data.shape:
        return False
    return scale.shape == zero_point.shape == (data.shape[call.attrs["axis"]],)


@lowers("dynamic_quantize", because="1 node in place of 31, 17 times as fast")
def _dynamic_quantize(lowering: Lowering, call: Call) -> Lowered:
    graph = lowering.graph
    [data] = lowering.tensors(call.args)
    return graph.ops("DynamicQuantizeLinear", [graph.cast(data, "float32")], 3)


@lowers("matmul_integer", because="1 node in place of 5, twice as fast")
def _matmul_integer(lowering: Lowering, call: Call) -> Lowered | None:
    rows, right_side, columns = (tensor_type(call.args[index]) for index in (2, 1, 3))
    if rows.ndim or (columns.ndim and right_side.ndim > 2):
        return None  # ONNX Runtime takes no zero points by row, nor by column for a batch of right operands
    left, right, *zero_points = lowering.tensors(call.args)
    given = [None if _is_zero(arg) else point for arg, point in zip(call.args[2:], zero_points, strict=True)]
    return lowering.graph.op("MatMulInteger", left, right, *given)


def _is_zero(arg: Expr) -> bool:
    return isinstance(arg, Constant) and not arg.data.numpy().any()


@lowers("matmul_blocks", because="1 node in place of 15, 2.9 times as fast on one row, with int8 products")
def _matmul_blocks(lowering: Lowering, call: Call) -> Lowered | None:
    graph = lowering.graph
    data, weights, scales, *zeros = lowering.tensors(call.args)
    operand, packed = tensor_type(call.args[0]), tensor_type(call.args[1])
    if operand.shape is None or packed.shape is None or dtype_of(data) not in ("float32", "float16"):
        return None
    rows, columns = operand.shape[-1], packed.shape[0]
    if not isinstance(rows, int) or not isinstance(columns, int) or operand.ndim < 2:
        return None
    given: list[ir.Value] = [data, weights, graph.cast(scales, dtype_of(data)), *zeros]
    attributes = {"K": rows, "N": columns, "bits": call.attrs["bits"], "block_size": call.attrs["block_size"]}
    made = graph.value(dtype_of(data), f"{graph.hint}/MatMulNBits")
    graph.add("MatMulNBits", given, [made], domain=RUNTIME_DOMAIN, accuracy_level=_SUMMED_IN_BYTES, **attributes)
    return made
