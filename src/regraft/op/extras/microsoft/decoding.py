"""Attention of one new token, as ONNX Runtime's optimizer writes it in the decoder of a beam search."""

from __future__ import annotations

from typing import Any

from ....ir.dims import exact_divide
from ....ir.expr import Expr
from ....ir.op import Call
from ....ir.types import TensorType, TupleType, Type
from ...rules import require_float, require_rank
from ...semantics import cast, size_of
from .declaring import contributed, is_given, product, shaped, sizes_of, total
from .heads import join_heads, row, softmax, split_heads


def _rank(operand: Expr) -> int:
    return operand.ty.ndim if isinstance(operand.ty, TensorType) else -1


def _masked_type(call: Call) -> Type:
    query, attrs = require_float(call, 0), call.attrs
    require_rank(call, 0, "a tensor of the axes (batch, 1, hidden)", 3)
    batch, sequence, width = sizes_of(call, 0, 3)
    heads, dtype = attrs.num_heads, query.dtype
    size = None if width is None else exact_divide(width, heads)
    is_cross = is_given(call, 1) and _rank(call.args[1]) == 4
    if is_cross:
        keys = sizes_of(call, 1, 4)[2]
        value_size = sizes_of(call, 2, 4)[3]
    else:
        if not is_given(call, 1):
            size = None if width is None else exact_divide(width, 3 * heads)
        before = sizes_of(call, 5, 4)[2] if is_given(call, 5) else 0
        keys = before if attrs.past_present_share_buffer else total(before, sequence)
        columns = sizes_of(call, 2, 3)[2] if is_given(call, 2) else product(size, heads)
        value_size = None if columns is None else exact_divide(columns, heads)
    present = [shaped((batch, heads, keys, each), dtype) for each in (size, value_size)]
    scores = shaped((batch, heads, sequence, None if attrs.past_present_share_buffer else keys), "float32")
    return TupleType((shaped((batch, sequence, product(value_size, heads)), dtype), *present, scores))


def _scores(xp: Any, query: Any, key: Any, scale: float | None, mask: Any, least: float | None, bias: Any) -> Any:
    scores = xp.matmul(query, xp.matrix_transpose(key)) * (scale or query.shape[-1] ** -0.5)
    if mask is not None:
        batch, keys = mask.shape
        hidden = xp.reshape(mask == 0, (batch, 1, 1, keys))
        low = xp.full_like(scores, -10000.0 if least is None else least)
        scores = scores + xp.where(hidden, low, xp.zeros_like(scores))
    return scores if bias is None else scores + bias


@contributed("DecoderMaskedMultiHeadAttention", _masked_type)
def decoder_masked_multi_head_attention(
    xp: Any,
    query: Any,
    key: Any = None,
    value: Any = None,
    mask_index: Any = None,
    attention_bias: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    past_sequence_length: Any = None,
    beam_width: Any = None,
    cache_indirection: Any = None,
    bias: Any = None,
    *,
    mask_filter_value: float | None = None,
    num_heads: int,
    output_qk: int = 0,
    past_present_share_buffer: int = 0,
    scale: float | None = None,
) -> Any:
    """Attention of one token (batch, 1, hidden) to earlier tokens, or, as cross-attention, to given keys and values.

    ``past_key`` and ``past_value`` are (batch, heads, before, size). With ``past_present_share_buffer`` they have room
    for more keys than the ``past_sequence_length`` that they hold, and the new one is written after these. Keys and
    values of four axes are those of cross-attention. ``mask_index`` (batch, keys) is 0 for masked keys. Results:
    (batch, 1, hidden), the keys, the values, and the attention weights (batch, heads, 1, keys).
    """
    del output_qk, beam_width
    if cache_indirection is not None:
        raise ValueError(
            "DecoderMaskedMultiHeadAttention with a cache ordered by beams has no reference semantics here"
        )
    if key is None:
        width = query.shape[-1] // 3
        query, key, value = query[..., :width], query[..., width : 2 * width], query[..., 2 * width :]
    if bias is not None:
        width = query.shape[-1]
        query = query + bias[:width]
        if key.ndim == 3:
            key, value = key + bias[width : 2 * width], value + bias[2 * width :]
    if key.ndim == 3:
        key, value = split_heads(xp, key, num_heads), split_heads(xp, value, num_heads)
        if past_key is not None and not past_present_share_buffer:
            key, value = xp.concat([past_key, key], axis=2), xp.concat([past_value, value], axis=2)
    keys, values = key, value
    if past_key is not None and past_present_share_buffer:
        held = size_of(xp, xp.reshape(past_sequence_length, ()))
        key, value = _written(xp, past_key, key, held), _written(xp, past_value, value, held)
        keys, values = key[:, :, : held + 1, :], value[:, :, : held + 1, :]
    heads = split_heads(xp, query, num_heads)
    shares = softmax(xp, _scores(xp, heads, keys, scale, mask_index, mask_filter_value, attention_bias))
    return join_heads(xp, xp.matmul(shares, values)), key, value, cast(xp, shares, "float32")


def _written(xp: Any, cache: Any, new: Any, place: Any) -> Any:
    """``cache`` (batch, heads, room, size) with ``new`` (batch, heads, 1, size) at position ``place``."""
    is_there = xp.reshape(row(xp, cache.shape[2], cache) == place, (1, 1, -1, 1))
    return xp.where(is_there, new, cache)
