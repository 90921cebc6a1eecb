"""Weights that are stored in a few bits: gathering slices of them, and products with them, as floats."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ....ir.dims import Dim
from ....ir.op import Call, wrong_attribute, wrong_operand
from ....ir.types import TensorType, Type
from ...rules import require_float, tensor_operand
from ...semantics import cast, dtype_name, widened
from .declaring import contributed, shaped, sizes_of
from .products import unpacked


def _gathered_type(call: Call) -> Type:
    attrs, data = call.attrs, tensor_operand(call, 0)
    if data.dtype not in (None, "int4", "uint4", "uint8"):
        raise wrong_operand(call, 0, "a tensor of int4, uint4, or of uint8 that holds several numbers each")
    dtype, rank = require_float(call, 2).dtype, data.ndim
    indices = tensor_operand(call, 1)
    if rank < 0 or indices.ndim < 0:
        return TensorType(None, dtype)
    if not (-rank <= attrs.gather_axis < rank and -rank <= attrs.quantize_axis < rank):
        raise wrong_attribute(call, "gather_axis and quantize_axis", f"axes of data, which has {rank}")
    sizes: list[Dim | None] = list(sizes_of(call, 0, rank))
    if data.dtype == "uint8" and sizes[-1] is not None:
        sizes[-1] = sizes[-1] * (8 // attrs.bits)
    axis = attrs.gather_axis % rank
    return shaped((*sizes[:axis], *sizes_of(call, 1, indices.ndim), *sizes[axis + 1 :]), dtype)


@contributed("GatherBlockQuantized", _gathered_type)
def gather_block_quantized(
    xp: Any,
    data: Any,
    indices: Any,
    scales: Any,
    zero_points: Any = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Any:
    """Slices at ``indices`` of a tensor that is stored in a few bits, with a scale for each block of an axis.

    ``data`` is int4, uint4, or uint8 with ``8 // bits`` numbers in each byte of the last axis. ``zero_points`` are
    stored like ``data``; by default they are 0, or ``2 ** (bits - 1)`` for uint8. The result has the dtype of
    ``scales``.
    """
    rank, packed = data.ndim, dtype_name(data.dtype) == "uint8"
    parts: list[Any] = [data, scales, zero_points]
    across, along = gather_axis % rank, quantize_axis % rank
    is_one = across == along
    if not is_one:
        parts = [None if part is None else _rows(xp, part, indices, across) for part in parts]
        along = along if along < across else along + indices.ndim - 1
    numbers, factors, zeros = parts
    if packed:
        numbers, zeros = (_spread(xp, part, bits) for part in (numbers, zeros))
    size, last = numbers.shape[along], dtype_name(scales.dtype)
    before = (slice(None),) * along
    factors = xp.repeat(factors, block_size, axis=along)[(*before, slice(None, size))]
    wide = cast(xp, numbers, "int32")
    if zeros is not None:
        zeros = zeros[(*before, slice(None, -(-size // block_size)))]
        wide = wide - xp.repeat(cast(xp, zeros, "int32"), block_size, axis=along)[(*before, slice(None, size))]
    elif packed:
        wide = wide - (1 << (bits - 1))
    found = cast(xp, cast(xp, wide, dtype_name(widened(xp, factors).dtype)) * widened(xp, factors), last)
    return _rows(xp, found, indices, across) if is_one else found


def _rows(xp: Any, x: Any, indices: Any, axis: int) -> Any:
    """``x`` at ``indices`` of any shape, whose axes replace ``axis``."""
    flat = xp.take(x, xp.reshape(indices, (-1,)), axis=axis)
    return xp.reshape(flat, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def _spread(xp: Any, x: Any, bits: int) -> Any:
    return None if x is None else unpacked(xp, x, bits, x.shape[-1] * (8 // bits))


# --- weights of four bits that are indices into a table

_FLOAT4: Final = (0.0, 0.0052083333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
"""The eight non-negative numbers of bitsandbytes' 4-bit float, by their three low bits; the highest bit is the sign."""

_NORMAL4: Final = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
"""The middles of sixteen equal quantiles of a normal distribution, scaled to 1 (Dettmers et al., QLoRA, 2023)."""


def _bnb_type(call: Call) -> Type:
    data, attrs = require_float(call, 0), call.attrs
    if attrs.quant_type not in (0, 1):
        raise wrong_attribute(call, "quant_type", "0 (four bits of floating point) or 1 (of a normal distribution)")
    if data.ndim < 1:
        return data if data.ndim < 0 else TensorType((), data.dtype)
    return shaped((*sizes_of(call, 0, data.ndim)[:-1], attrs.N if attrs.transB else attrs.K), data.dtype)


@contributed("MatMulBnb4", _bnb_type)
def matmul_bnb4(
    xp: Any,
    a: Any,
    b: Any,
    absmax: Any,
    *,
    K: int,
    N: int,
    block_size: int,
    quant_type: int,
    training_mode: int = 0,
    transB: int = 1,
) -> Any:
    """``a @ weights.T`` for weights (N, K) of four bits each: an index into a table of 16, times the block's scale.

    ``b`` is flat, two weights in a byte, the first in its upper half. ``absmax`` has a scale for each ``block_size``
    consecutive weights. Without ``transB``, the result is ``a @ weights``.
    """
    del training_mode
    table = _NORMAL4 if quant_type else (*_FLOAT4, *[-number for number in _FLOAT4])
    flat = xp.reshape(b, (-1,))
    places = xp.reshape(xp.stack([flat // 16, flat % 16], axis=-1), (-1,))[: N * K]
    numbers = xp.take(xp.asarray(np.asarray(table, "float32")), cast(xp, places, "int64"), axis=0)
    factors = xp.repeat(widened(xp, xp.reshape(absmax, (-1,))), block_size, axis=0)[: N * K]
    weights = xp.reshape(numbers * factors, (N, K))
    found = xp.matmul(widened(xp, a), xp.matrix_transpose(weights) if transB else weights)
    return cast(xp, found, dtype_name(a.dtype))
