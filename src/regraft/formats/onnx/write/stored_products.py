"""Products with block-quantized weights as one operator of ONNX Runtime, ``MatMulNBits``.

`stored_product` finds them among the definitions: codes that are dequantized and transposed. For other runtimes, they
are written as two nodes of standard ONNX and a transpose.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from .... import op as ops
from ....ir.equality import structural_equal
from ....ir.expr import Constant, Expr, Var, const
from ....ir.op import Call, OnnxName, Op, is_call_of
from ....ir.tensor_data import TensorData, packed
from ..source_nodes import SourceNode, SourceOrigin
from .lowering import Lowering, tensor_type, widely_had

_NAME: Final = OnnxName("com.microsoft", "MatMulNBits")
_BITS: Final = {"uint2": 2, "uint4": 4, "uint8": 8}


def stored_product(lowering: Lowering, call: Call) -> Call | None:
    """The product ``call`` as ``MatMulNBits``; None if it is another product or the runtime lacks this operator.

    A file that was read with standard operators only does not get it.
    """
    data, right = call.args
    ty = tensor_type(data)
    if ty.dtype != "float32" or ty.ndim < 2 or call.attrs["out_dtype"] not in (None, "float32"):
        return None
    source = _source(lowering)
    if source is None and lowering.is_from_onnx and lowering.outside.runtime_has is widely_had:
        return None
    stored = _dequantized(lowering, right)
    if stored is None:
        return None
    weights, rows = stored
    operands = _operands(weights, rows)
    if operands is None:
        return None
    codes, scales, zeros, bits, size = operands
    sizes = {"K": rows, "N": codes.data.shape[0], "bits": bits, "block_size": size}
    level = 0 if source is None else source.node.attributes.get_int("accuracy_level", 0)
    operator = Op.get("com.microsoft.MatMulNBits")
    product = operator(data, codes, scales, *([] if zeros is None else [zeros]), **sizes, accuracy_level=level)
    return product if lowering.outside.runtime_has(_NAME, product) else None


def _source(lowering: Lowering) -> SourceNode | None:
    """The source ``MatMulNBits`` node of the nodes that are being written; None if they come from another node."""
    sources = (origin.source for origin in lowering.graph.origins if isinstance(origin, SourceOrigin))
    return next((source for source in sources if source is not None and source.node.op_type == _NAME.op_type), None)


def _dequantized(lowering: Lowering, right: Expr) -> tuple[Call, int] | None:
    """The dequantize call whose transpose is ``right``, and the number of rows taken of it; None for other operands."""
    turned = _definition(lowering, right, "relax.permute_dims")
    if turned is None or tensor_type(right).ndim != 2 or turned.attrs["axes"] not in (None, (1, 0)):
        return None
    rows = (tensor_type(right).shape or (None,))[0]
    part = _definition(lowering, turned.args[0], "relax.strided_slice")
    whole = turned.args[0] if part is None else part.args[0]
    found = _definition(lowering, whole, "relax.dequantize")
    return None if found is None or not isinstance(rows, int) or not _is_first(part, rows) else (found, rows)


def _definition(lowering: Lowering, expr: Expr, name: str) -> Call | None:
    value = lowering.definitions.get(expr) if isinstance(expr, Var) else None
    return value if is_call_of(value, name) else None


def _is_first(part: Call | None, rows: int) -> bool:
    """True if ``part`` takes the first ``rows`` numbers of each column, or is None."""
    return part is None or structural_equal(part, ops.strided_slice(part.args[0], [1], [0], [rows], [1]))


class _InBlocks(NamedTuple):
    codes: Constant
    scales: Constant
    zeros: Constant | None
    bits: int
    size: int


def _operands(dequantized: Call, rows: int) -> _InBlocks | None:
    """The operands of ``MatMulNBits`` for weights of ``rows`` rows; None if it has no form for their storage."""
    codes, scales, zeros = dequantized.args
    if not isinstance(codes, Constant) or not isinstance(scales, Constant) or not isinstance(zeros, Constant):
        return None
    bits, ty = _BITS.get(codes.data.dtype), scales.data
    if bits is None or ty.dtype != "float32" or len(ty.shape) != 2 or dequantized.attrs["axis"] % 2 != 1:
        return None
    columns, blocks = ty.shape
    width = codes.data.shape[1]
    size = width // blocks
    if codes.data.shape[0] != columns or size < 16 or size & (size - 1) or not width - size < rows <= width:
        return None
    given = _zeros(zeros.data, (columns, blocks), bits)
    if given is None:
        return None
    stored = Constant(_packed(codes.data, (columns, blocks, size * bits // 8), bits))
    return _InBlocks(stored, scales, *given, bits, size)


def _zeros(data: TensorData, shape: tuple[int, int], bits: int) -> tuple[Constant | None] | None:
    """The zero points as an operand, or (None,) if the node needs none; None if the operand cannot hold them."""
    if data.dtype == "float32" and data.shape == shape:
        return (Constant(data),)
    if data.dtype != f"uint{bits}" or data.shape not in ((), shape):
        return None
    codes = np.broadcast_to(data.numpy(), shape).astype(np.uint8)
    return (None if np.all(codes == 2 ** (bits - 1)) else const(packed(codes, bits)),)


def _packed(data: TensorData, shape: tuple[int, ...], bits: int) -> TensorData:
    """Codes packed into bytes: the bytes of the file, if the codes were read from bytes of this shape."""
    held = data.packed
    if held is not None and held.shape == shape:
        return held
    read = data.read if held is None else held.read

    def load() -> np.ndarray:
        return (packed(read().astype(np.uint8), bits) if held is None else read()).reshape(shape)

    return TensorData.lazy(shape, "uint8", load, None, data.sources)
