"""Batches of sequences of different lengths without their padding, and attention over them."""

from __future__ import annotations

from typing import Any

from ....ir.op import Call
from ....ir.types import TensorType, TupleType, Type
from ...rules import require_float, require_rank
from ...semantics import cast
from .declaring import contributed, shaped, sizes_of
from .heads import attended, join_heads, row, split_heads


def _removed_type(call: Call) -> Type:
    data = require_float(call, 0)
    require_rank(call, 0, "a tensor of the axes (batch, sequence, hidden)", 3)
    batch, sequence, _ = sizes_of(call, 0, 3)
    counts = shaped((None if batch is None else batch + 1,), "int32")
    tokens = TensorType(None, data.dtype, 2)  # the number of tokens is only known in a run
    return TupleType((tokens, shaped((batch, sequence), "int32"), counts, TensorType((1,), "int32")))


@contributed("RemovePadding", _removed_type)
def remove_padding(xp: Any, input: Any, sequence_token_count: Any) -> Any:
    """The tokens of (batch, sequence, hidden) without the padding at the end of each row.

    ``sequence_token_count`` (batch,) is the number of tokens of each row. Results: (tokens, hidden); the positions of
    all tokens, followed by those of the padding, as (batch, sequence); the number of tokens before each row and in
    total, (batch + 1,); and the length of the longest row.
    """
    batch, sequence, hidden = input.shape
    counts = xp.reshape(sequence_token_count, (batch, 1))
    is_token = xp.reshape(row(xp, sequence, input) < cast(xp, counts, "int64"), (-1,))
    order = xp.argsort(cast(xp, xp.logical_not(is_token), "int32"), stable=True)
    tokens = xp.reshape(input, (batch * sequence, hidden))[is_token]
    zero = xp.zeros((1,), dtype=xp.int32)
    total = xp.concat([zero, cast(xp, xp.cumulative_sum(sequence_token_count), "int32")])
    longest = xp.reshape(xp.max(sequence_token_count), (1,))
    return tokens, cast(xp, xp.reshape(order, (batch, sequence)), "int32"), total, longest


def _restored_type(call: Call) -> Type:
    data = require_float(call, 0)
    return shaped((*sizes_of(call, 1, 2), sizes_of(call, 0, 2)[1]), data.dtype)


def restored(xp: Any, tokens: Any, token_offset: Any) -> Any:
    """Tokens (tokens, hidden) put at their positions, with zeros for the padding, as (batch, sequence, hidden)."""
    batch, sequence = token_offset.shape
    count, hidden = tokens.shape
    number = xp.argsort(xp.reshape(token_offset, (-1,)), stable=True)
    held = xp.take(tokens, xp.clip(number, 0, count - 1), axis=0)
    found = xp.where(xp.expand_dims(number < count, axis=1), held, xp.zeros_like(held))
    return xp.reshape(found, (batch, sequence, hidden))


@contributed("RestorePadding", _restored_type)
def restore_padding(xp: Any, input: Any, token_offset: Any) -> Any:
    """The inverse of `remove_padding`, with zeros for the padding."""
    return restored(xp, input, token_offset)


def _seen(xp: Any, offsets: Any, lengths: Any) -> Any:
    """The mask of the keys of each row that are tokens, 1 or 0, as (batch, sequence)."""
    batch, sequence = offsets.shape
    counts = xp.reshape(lengths[1:] - lengths[:batch], (batch, 1))
    return cast(xp, row(xp, sequence, offsets) < cast(xp, counts, "int64"), "int32")


def _attended(
    xp: Any, parts: list[Any], offsets: Any, lengths: Any, bias: Any, heads: int, scale: Any, unseen: Any = None
) -> Any:
    """Attention of tokens (tokens, widths) within their rows, as (tokens, width)."""
    batch, sequence = offsets.shape
    operands = [split_heads(xp, restored(xp, part, offsets), heads) for part in parts]
    mask = _seen(xp, offsets, lengths)
    found = join_heads(xp, attended(xp, *operands, mask=mask, bias=bias, scale=scale, filter_value=unseen, past=None))
    flat = xp.reshape(found, (batch * sequence, found.shape[-1]))
    count = parts[0].shape[0]
    return xp.take(flat, cast(xp, xp.reshape(offsets, (-1,))[:count], "int64"), axis=0)


def _packed_attention_type(call: Call) -> Type:
    data, sizes = require_float(call, 0), call.attrs.qkv_hidden_sizes
    columns = sizes_of(call, 1, 2)[1]
    width = sizes[2] if sizes else None if columns is None else columns // 3
    return shaped((sizes_of(call, 0, 2)[0], width), data.dtype)


@contributed("PackedAttention", _packed_attention_type)
def packed_attention(
    xp: Any,
    input: Any,
    weights: Any,
    bias: Any,
    token_offset: Any,
    cumulative_sequence_length: Any,
    attention_bias: Any = None,
    *,
    num_heads: int,
    qkv_hidden_sizes: tuple[int, ...] | None = None,
    scale: float | None = None,
) -> Any:
    """Self-attention of tokens (tokens, hidden) without padding; the other operands are `remove_padding`'s results."""
    joined = xp.matmul(input, weights) + bias
    width = joined.shape[-1]
    first, second, _ = qkv_hidden_sizes or (width // 3,) * 3
    parts = [joined[:, :first], joined[:, first : first + second], joined[:, first + second :]]
    return _attended(xp, parts, token_offset, cumulative_sequence_length, attention_bias, num_heads, scale)


def _packed_heads_type(call: Call) -> Type:
    data = require_float(call, 0)
    if data.ndim == 4:
        tokens, heads, _, size = sizes_of(call, 0, 4)
        return shaped((tokens, None if heads is None or size is None else heads * size), data.dtype)
    return shaped((sizes_of(call, 0, 2)[0], sizes_of(call, 2, 2)[1]), data.dtype)


@contributed("PackedMultiHeadAttention", _packed_heads_type)
def packed_multi_head_attention(
    xp: Any,
    query: Any,
    key: Any | None,
    value: Any | None,
    bias: Any | None,
    token_offset: Any,
    cumulative_sequence_length: Any,
    attention_bias: Any = None,
    *,
    mask_filter_value: float | None = None,
    num_heads: int,
    scale: float | None = None,
) -> Any:
    """The `packed_attention` of queries, keys and values (tokens, width), or of a query (tokens, heads, 3, size)."""
    parts: list[Any] = [query, key, value]
    if query.ndim == 4:
        tokens, heads, _, size = query.shape
        parts = [xp.reshape(query[:, :, part, :], (tokens, heads * size)) for part in range(3)]
    if bias is not None:
        first, second = parts[0].shape[-1], parts[1].shape[-1]
        shifts = (bias[:first], bias[first : first + second], bias[first + second :])
        parts = [part + shift for part, shift in zip(parts, shifts, strict=True)]
    rows, unseen = (token_offset, cumulative_sequence_length), mask_filter_value
    return _attended(xp, parts, *rows, attention_bias, num_heads, scale, unseen)
