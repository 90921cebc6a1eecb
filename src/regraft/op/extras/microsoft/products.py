"""Matrix products with a fused factor, transposition or activation, and with weights of a few bits."""

from __future__ import annotations

from typing import Any

from ....ir.dims import dims_equal
from ....ir.dtypes import is_float
from ....ir.expr import Expr
from ....ir.op import Call, wrong_attribute, wrong_operand
from ....ir.types import TensorType, Type
from ...declare import meaning_of
from ...primitive.linear_algebra import matmul
from ...primitive.manipulate import permute_dims
from ...rules import require_float, tensor_operand
from ...semantics import cast, dtype_name, widened
from .declaring import contributed, shaped, sizes_of
from .windows import activated


def _order(rank: int, transposed: int, batch: int) -> list[int]:
    """The permutation of an operand for a matrix product; with ``batch``, the rows are on the first axis."""
    axes = list(range(rank))
    if batch and rank > 2:
        axes = [*axes[1:-1], 0, axes[-1]]
    if transposed and rank > 1:
        axes = [*axes[:-2], axes[-1], axes[-2]]
    return axes


def _fused_type(call: Call) -> Type:
    attrs, operands = call.attrs, list[Expr]()
    flags = ((attrs.transA, attrs.get("transBatchA", 0)), (attrs.transB, attrs.get("transBatchB", 0)))
    for index, (transposed, batch) in enumerate(flags):
        rank = require_float(call, index).ndim
        if rank < 0:
            return TensorType(None, tensor_operand(call, 0).dtype)
        operands.append(permute_dims(call.args[index], _order(rank, transposed, batch)))
    left, right = operands
    return matmul(left, right).ty


def _product(xp: Any, a: Any, b: Any, alpha: float, orders: tuple[list[int], list[int]]) -> Any:
    a, b = (
        x if order == sorted(order) else xp.permute_dims(x, tuple(order))
        for x, order in zip((a, b), orders, strict=True)
    )
    found = meaning_of("relax.matmul", xp, a, b)
    return found if alpha == 1.0 else found * alpha


@contributed("FusedMatMul", _fused_type)
def fused_matmul(
    xp: Any,
    a: Any,
    b: Any,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Any:
    """``alpha * (a @ b)``; an operand's last two axes are swapped first if its ``trans`` attribute is 1.

    With ``transBatch``, the rows of the matrices are on the first axis.
    """
    return _product(xp, a, b, alpha, (_order(a.ndim, transA, transBatchA), _order(b.ndim, transB, transBatchB)))


@contributed("TransposeMatMul", _fused_type)
def transpose_matmul(xp: Any, a: Any, b: Any, *, alpha: float = 1.0, transA: int = 0, transB: int = 0) -> Any:
    """The same as `fused_matmul`, under its older name."""
    return _product(xp, a, b, alpha, (_order(a.ndim, transA, 0), _order(b.ndim, transB, 0)))


@contributed("FusedMatMulActivation", _fused_type)
def fused_matmul_activation(
    xp: Any,
    a: Any,
    b: Any,
    *,
    activation: str,
    activation_alpha: float | None = None,
    activation_axis: int | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Any:
    """A `fused_matmul` followed by an activation."""
    del activation_axis, activation_gamma
    found = _product(xp, a, b, alpha, (_order(a.ndim, transA, transBatchA), _order(b.ndim, transB, transBatchB)))
    return activated(xp, found, activation, tuple([x for x in (activation_alpha, activation_beta) if x is not None]))


@contributed("GemmFastGelu", lambda call: matmul(call.args[0], call.args[1]).ty)
def gemm_fast_gelu(xp: Any, x: Any, w: Any, bias: Any = None) -> Any:
    """The `FastGelu` of ``x @ w + bias``."""
    found = meaning_of("relax.matmul", xp, x, w)
    return meaning_of("relax.nn.gelu_tanh", xp, found if bias is None else found + bias)


# --- weights of a few bits


def _matmul_nbits_type(call: Call) -> Type:
    data, attrs = require_float(call, 0), call.attrs
    if data.ndim == 0:
        raise wrong_operand(call, 0, "a tensor of one dimension or more")
    if attrs.bits not in (2, 4, 8):
        raise wrong_attribute(call, "bits", "2, 4 or 8")
    if data.ndim < 0:
        return data
    sizes = sizes_of(call, 0, data.ndim)
    if sizes[-1] is not None and dims_equal(sizes[-1], attrs.K) is False:
        raise wrong_operand(call, 0, f"a last axis of size {attrs.K}, as K says")
    return shaped((*sizes[:-1], attrs.N), data.dtype)


def unpacked(xp: Any, packed: Any, bits: int, count: int) -> Any:
    """The first ``count`` numbers of each row of bytes, least significant bits first, as uint8."""
    if bits == 8:
        return packed[..., :count]
    # OpenVINO computes a remainder of bytes by a difference of bytes, which saturates at their limits.
    wide = cast(xp, packed, "int32")
    parts = [cast(xp, wide // (1 << shift) % (1 << bits), "uint8") for shift in range(0, 8, bits)]
    rows = xp.reshape(xp.stack(parts, axis=-1), (*packed.shape[:-1], packed.shape[-1] * len(parts)))
    return rows[..., :count]


def dequantized_blocks(
    xp: Any, b: Any, scales: Any, zero_points: Any, g_idx: Any, *, N: int, K: int, bits: int, block_size: int
) -> Any:
    """The dequantized weights of `matmul_nbits`, (N, K), in the dtype in which products are summed."""
    blocks = -(-K // block_size)
    weights = widened_bytes(xp, unpacked(xp, xp.reshape(b, (N, blocks, -1)), bits, block_size), scales)
    factors = widened(xp, xp.reshape(scales, (N, blocks, 1)))
    if zero_points is None:
        zeros: Any = factors * 0.0 + float(1 << (bits - 1))
    elif is_float(dtype_name(zero_points.dtype)):
        zeros = widened(xp, xp.reshape(zero_points, (N, blocks, 1)))
    else:
        zeros = widened_bytes(xp, unpacked(xp, xp.reshape(zero_points, (N, -1)), bits, blocks), scales)
        zeros = xp.reshape(zeros, (N, blocks, 1))
    if g_idx is None:
        return xp.reshape((weights - zeros) * factors, (N, blocks * block_size))[:, :K]
    group = g_idx[:K]
    zeros, factors = (xp.take(xp.reshape(x, (N, blocks)), group, axis=1) for x in (zeros, factors))
    return (xp.reshape(weights, (N, blocks * block_size))[:, :K] - zeros) * factors


def widened_bytes(xp: Any, x: Any, like: Any) -> Any:
    """``x`` cast to the dtype for sums over ``like``."""
    return cast(xp, x, dtype_name(widened(xp, like).dtype))


@contributed("MatMulNBits", _matmul_nbits_type)
def matmul_nbits(
    xp: Any,
    a: Any,
    b: Any,
    scales: Any,
    zero_points: Any = None,
    g_idx: Any = None,
    bias: Any = None,
    *,
    K: int,
    N: int,
    block_size: int,
    accuracy_level: int = 0,
    bits: int = 4,
    weight_prepacked: int = 0,
) -> Any:
    """``a @ weights.T + bias`` for weights (N, K) that are stored in blocks of a few bits with a scale each.

    ``b`` is (N, blocks, bytes) of uint8, ``scales`` (N, blocks) or flat. ``zero_points`` are packed like the weights,
    or of the dtype of ``a``; by default they are 2 ** (bits - 1). ``g_idx`` (K,) gives the block of each column; by
    default it follows from the column's index. ``accuracy_level`` allows a runtime to round ``a`` to int8; the
    reference does not.
    """
    del accuracy_level
    if weight_prepacked:
        raise ValueError("MatMulNBits with prepacked weights has no reference semantics: their layout is the runtime's")
    weights = dequantized_blocks(xp, b, scales, zero_points, g_idx, N=N, K=K, bits=bits, block_size=block_size)
    found = xp.matmul(widened(xp, a), xp.matrix_transpose(weights))
    found = found if bias is None else found + widened(xp, bias)
    return cast(xp, found, dtype_name(a.dtype))
