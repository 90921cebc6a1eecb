"""Quantized matrix products: of 8-bit integers, and with weights of few bits that are stored in blocks.

Quantization itself is in `quantize`.
"""

from __future__ import annotations

from typing import Any

from ...ir.dims import Dim, dims_equal
from ...ir.expr import Expr
from ...ir.op import Call, Trait, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, Type
from ..costs import product_operations
from ..primitive.linear_algebra import matmul
from ..public_function import declares
from ..rules import require_float, require_rank, tensor_operand
from ..semantics import cast

__all__ = ["matmul_blocks", "matmul_integer"]


# --- 8-bit integers


def _integer_operand(call: Call, index: int) -> TensorType:
    ty = tensor_operand(call, index)
    if ty.dtype not in ("int8", "uint8", None):
        raise wrong_operand(call, index, "a tensor of int8 or uint8")
    return ty


def _matmul_integer_type(call: Call) -> Type:
    for index in (0, 1):
        _integer_operand(call, index)
    for index in (2, 3):
        ty = _integer_operand(call, index)
        require_rank(call, index, "a scalar, or a tensor of 1 dimension", 0, 1)
        multiplied = tensor_operand(call, index - 2)
        if None not in (ty.dtype, multiplied.dtype) and ty.dtype != multiplied.dtype:
            raise wrong_operand(call, index, f"the dtype of operand {index - 2}, {multiplied.dtype}")
        _check_zero_points(call, index, ty, multiplied)
    return matmul(call.args[0], call.args[1], "int32").ty


def _check_zero_points(call: Call, index: int, zero_points: TensorType, multiplied: TensorType) -> None:
    """Raise `OpTypeError` unless there is one zero point, or one for each row of ``x1`` or each column of ``x2``."""
    if not zero_points.shape or multiplied.shape is None or dims_equal(zero_points.shape[0], 1) is not False:
        return
    what, axis = ("row", -2) if index == 2 else ("column", -1)
    count = multiplied.shape[axis] if len(multiplied.shape) > 1 else 1
    if dims_equal(zero_points.shape[0], count) is False:
        raise wrong_operand(call, index, f"1 element, or one for each {what} of operand {index - 2}, {count}")


def _matmul_integer(xp: Any, x1: Any, x2: Any, zero_point1: Any, zero_point2: Any) -> Any:
    rows = cast(xp, zero_point1, "int32")
    rows = xp.reshape(rows, (-1, 1)) if rows.ndim == 1 and x1.ndim > 1 else rows
    left = cast(xp, x1, "int32") - rows
    right = cast(xp, x2, "int32") - cast(xp, zero_point2, "int32")
    return xp.matmul(left, right)


@declares(
    "relax.matmul_integer",
    infer=_matmul_integer_type,
    reference=_matmul_integer,
    traits=(Trait.STOPS_GRADIENT,),
    cost=product_operations,
)
def matmul_integer(x1: Expr, x2: Expr, zero_point1: Expr, zero_point2: Expr) -> Call:
    """``(x1 - zero_point1) @ (x2 - zero_point2)``, summed in int32; follows ``MatMulInteger`` of ONNX.

    Operands: ``x1`` of shape (..., n, k) and ``x2`` of shape (..., k, m), each int8 or uint8; ``zero_point1``, a scalar
    or one for each row, in the dtype of ``x1``; ``zero_point2``, a scalar or one for each column, in that of ``x2``.
    Result: int32 of shape (..., n, m); sums beyond int32 wrap around. No gradient passes. Raises
    `OpTypeError` for other dtypes, and for sizes that do not agree.
    """
    ...


# --- weights stored in blocks


def _blocks_type(call: Call) -> Type:
    data, weights, scales = require_float(call, 0), tensor_operand(call, 1), require_float(call, 2)
    bits, size = call.attrs.bits, call.attrs.block_size
    if bits not in (2, 4, 8):
        raise wrong_attribute(call, "bits", "2, 4 or 8")
    if size < 16 or size & (size - 1):
        raise wrong_attribute(call, "block_size", "a power of 2, of 16 or more")
    if weights.dtype not in ("uint8", None) or weights.ndim not in (UNKNOWN_NDIM, 3):
        raise wrong_operand(call, 1, "a uint8 tensor of 3 axes: columns, blocks, bytes of a block")
    require_rank(call, 2, "a tensor of 2 axes: columns, blocks", 2)
    if data.ndim == 0:
        raise wrong_operand(call, 0, "a tensor of rank 1 or more")
    if weights.shape is None or data.shape is None:
        return TensorType(None, data.dtype, data.ndim)
    columns, blocks, packed = weights.shape
    if dims_equal(packed, size * bits // 8) is False:
        raise wrong_operand(call, 1, f"{size * bits // 8} bytes for each block of {size} numbers of {bits} bits")
    if dims_equal(blocks, (data.shape[-1] + size - 1) // size) is False:
        raise wrong_operand(call, 1, f"one block for each {size} of the {data.shape[-1]} elements of data's last axis")
    if scales.shape is not None and any(
        dims_equal(own, wanted) is False for own, wanted in zip(scales.shape, (columns, blocks), strict=True)
    ):
        raise wrong_operand(call, 2, f"one number for each of the {columns} columns and {blocks} blocks of the weights")
    if len(call.args) > 3:
        _check_zeros(call, columns, (blocks * bits + 7) // 8)
    return TensorType((*data.shape[:-1], columns), data.dtype)


def _check_zeros(call: Call, columns: Dim, width: Dim) -> None:
    zeros = tensor_operand(call, 3)
    if zeros.dtype not in ("uint8", None) or zeros.ndim not in (UNKNOWN_NDIM, 2):
        raise wrong_operand(call, 3, "a uint8 tensor of 2 axes: columns, bytes of the codes of their blocks")
    pairs = zip(zeros.shape or (), (columns, width), strict=False)
    if any(dims_equal(own, wanted) is False for own, wanted in pairs):
        raise wrong_operand(
            call, 3, f"{width} bytes of codes, one code for each block, for each of the {columns} columns"
        )


def _matmul_blocks(
    xp: Any, data: Any, weights: Any, scales: Any, zeros: Any = None, *, bits: int, block_size: int
) -> Any:
    columns, blocks = weights.shape[0], weights.shape[1]
    codes = xp.reshape(_unpacked(xp, weights, bits), (columns, blocks, block_size))
    middle: Any = 2 ** (bits - 1)
    if zeros is not None:
        middle = xp.reshape(_unpacked(xp, zeros, bits)[:, :blocks], (columns, blocks, 1))
    values = cast(xp, codes - middle, "float32") * cast(xp, xp.expand_dims(scales, axis=2), "float32")
    matrix = xp.reshape(values, (columns, blocks * block_size))[:, : data.shape[-1]]
    product = xp.matmul(cast(xp, data, "float32"), xp.permute_dims(matrix, (1, 0)))
    return xp.astype(product, data.dtype)


def _unpacked(xp: Any, stored: Any, bits: int) -> Any:
    """The codes in the bytes of each row; the first code of a byte is in its lowest bits."""
    codes = cast(xp, stored, "int32")
    if bits < 8:
        codes = xp.stack([codes // 2**shift % 2**bits for shift in range(0, 8, bits)], axis=-1)
    return xp.reshape(codes, (stored.shape[0], -1))


@declares("relax.matmul_blocks", infer=_blocks_type, reference=_matmul_blocks)
def matmul_blocks(
    data: Expr, weights: Expr, scales: Expr, zeros: Expr | None = None, bits: int = 4, block_size: int = 32
) -> Call:
    """``data @ w`` with ``w`` stored in few bits; follows ``MatMulNBits`` of ONNX Runtime.

    Operands: ``data`` (..., k), floating; ``weights``, uint8 of shape (m, blocks, block_size * bits / 8): each column
    of ``w`` in blocks of ``block_size`` codes, the first code of a byte in its lowest bits;
    ``scales`` (m, blocks), floating; ``zeros``, uint8 of shape (m, bytes): the code that stands for 0 in each block,
    packed like the weights, by default ``2 ** (bits - 1)``. A code stands for the number ``(code - zero) * scale``.
    Attributes: ``bits``, 2, 4 or 8; ``block_size``, a power of 2, at least 16. Result: shape (..., m), the dtype of
    ``data``. An engine may round ``data`` to bytes, or ``data`` and ``scales`` to bfloat16. Raises `OpTypeError` for
    other dtypes and sizes.
    """
    ...
