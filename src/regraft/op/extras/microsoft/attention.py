"""Attention over joined and over separate projections, as ONNX Runtime's optimizers fuse it.

The layouts of masks and of the cache follow ONNX Runtime's documentation of these operators.
"""

from __future__ import annotations

from typing import Any, Final

from ....ir.dims import exact_divide
from ....ir.op import REQUIRED, Call, wrong_operand
from ....ir.types import TupleType, Type
from ...rules import require_float, require_rank
from .declaring import contributed, is_given, product, shaped, sizes_of, total
from .heads import attended, join_heads, split_heads


def attention_type(call: Call, past_index: int = 4, sums: int = 0) -> Type:
    """The type of self-attention; operand number ``sums`` has the dtype of the results."""
    heads, dtype = call.attrs.num_heads, require_float(call, sums).dtype
    require_rank(call, 0, "a tensor of the axes (batch, sequence, hidden)", 3)
    batch, sequence, _ = sizes_of(call, 0, 3)
    columns = sizes_of(call, 1, 2)[1]
    parts = call.attrs.get("qkv_hidden_sizes")
    third = None if columns is None else exact_divide(columns, 3)
    key_width, value_width = (parts[1], parts[2]) if parts else (third, third)
    past = sizes_of(call, past_index, 5)[3] if is_given(call, past_index) else 0
    size = None if key_width is None else exact_divide(key_width, heads)
    present = shaped((2, batch, heads, total(past, sequence), size), dtype)
    return TupleType((shaped((batch, sequence, value_width), dtype), present))


SELF_ATTENTION: Final[dict[str, Any]] = {
    "num_heads": REQUIRED,
    "mask_filter_value": None,
    "scale": None,
    "unidirectional": 0,
}
"""The attributes that all self-attention operators share, with their defaults."""


@contributed("Attention", attention_type, shared=SELF_ATTENTION)
def attention(
    xp: Any,
    input: Any,
    weights: Any,
    bias: Any = None,
    mask_index: Any = None,
    past: Any = None,
    attention_bias: Any = None,
    past_sequence_length: Any = None,
    *,
    do_rotary: int = 0,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: tuple[int, ...] | None = None,
    rotary_embedding_dim: int = 0,
    **how: Any,
) -> Any:
    """Self-attention of ``input @ weights + bias``, which holds queries, keys and values concatenated.

    ``input`` is (batch, sequence, hidden), ``weights`` (hidden, widths), ``past`` (2, batch, heads, before, size),
    ``attention_bias`` broadcasts to (batch, heads, sequence, keys). Results: (batch, sequence, value width), and the
    keys and values of all positions, in the layout of ``past``.
    """
    del past_sequence_length, rotary_embedding_dim
    if do_rotary or past_present_share_buffer:
        raise ValueError("Attention with do_rotary or past_present_share_buffer has no reference semantics here")
    joined = xp.matmul(input, weights)
    joined = joined if bias is None else joined + bias
    return self_attended(xp, joined, mask_index, past, attention_bias, qkv_hidden_sizes, **how)


def self_attended(
    xp: Any,
    joined: Any,
    mask: Any,
    past: Any,
    bias: Any,
    qkv_hidden_sizes: tuple[int, ...] | None,
    *,
    num_heads: int,
    mask_filter_value: float | None,
    scale: float | None,
    unidirectional: int,
) -> Any:
    """The `attention` of queries, keys and values that are concatenated in ``joined``, and all keys and values."""
    width = joined.shape[-1]
    first, second, _ = qkv_hidden_sizes or (width // 3,) * 3
    query = split_heads(xp, joined[..., :first], num_heads)
    key = split_heads(xp, joined[..., first : first + second], num_heads)
    value = split_heads(xp, joined[..., first + second :], num_heads)
    before: Any = 0
    if past is not None:
        before = past.shape[3]
        key, value = xp.concat([past[0, ...], key], axis=2), xp.concat([past[1, ...], value], axis=2)
    found = attended(
        xp,
        query,
        key,
        value,
        scale=scale,
        mask=mask,
        filter_value=mask_filter_value,
        bias=bias,
        past=before if unidirectional else None,
    )
    # If keys and values have heads of different sizes, one tensor cannot hold both.
    present = xp.stack([key, key if key.shape[-1] != value.shape[-1] else value], axis=0)
    return join_heads(xp, found), present


def _multi_head_type(call: Call) -> Type:
    query, heads = require_float(call, 0), call.attrs.num_heads
    dtype = query.dtype
    require_rank(call, 0, "(batch, sequence, hidden), or (batch, sequence, heads, 3, size)", 3, 5)
    batch, sequence = sizes_of(call, 0, query.ndim if query.ndim > 0 else 3)[:2]
    keys, key_size, value_size = _keys_and_sizes(call, query.ndim, heads)
    before = sizes_of(call, 6, 4)[2] if is_given(call, 6) else 0
    present = [shaped((batch, heads, total(before, keys), size), dtype) for size in (key_size, value_size)]
    return TupleType((shaped((batch, sequence, product(value_size, heads)), dtype), *present))


def _keys_and_sizes(call: Call, rank: int, heads: int) -> tuple[Any, Any, Any]:
    """The number of new keys, and the sizes of a head's keys and values."""
    if rank == 5:
        _, keys, _, _, size = sizes_of(call, 0, 5)
        return keys, size, size
    if not is_given(call, 1):
        raise wrong_operand(call, 1, "a tensor of keys, where the query holds no keys and values itself")
    ranks = [call.args[index].ty.ndim if is_given(call, index) else -1 for index in (1, 2)]  # type: ignore[attr-defined]
    if ranks[0] == 5:
        _, keys, _, _, size = sizes_of(call, 1, 5)
        return keys, size, size
    if ranks[0] == 4:
        return sizes_of(call, 1, 4)[2], sizes_of(call, 1, 4)[3], sizes_of(call, 2, 4)[3]
    widths = [sizes_of(call, index, 3)[2] for index in (1, 2)]
    return sizes_of(call, 1, 3)[1], *[None if width is None else exact_divide(width, heads) for width in widths]


@contributed("MultiHeadAttention", _multi_head_type)
def multi_head_attention(
    xp: Any,
    query: Any,
    key: Any = None,
    value: Any = None,
    bias: Any = None,
    key_padding_mask: Any = None,
    attention_bias: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    past_sequence_length: Any = None,
    cache_indirection: Any = None,
    *,
    num_heads: int,
    mask_filter_value: float | None = None,
    scale: float | None = None,
    unidirectional: int = 0,
) -> Any:
    """Attention of queries, keys and values, each (batch, sequence, heads * size), with a cache of earlier ones.

    Keys and values may also be (batch, heads, sequence, size), or packed: (batch, sequence, heads, 2, size) as the
    key, (batch, sequence, heads, 3, size) as the query. ``past_key`` and ``past_value`` are (batch, heads, before,
    size). Results: (batch, sequence, heads * value size), and all keys and values, in the layout of the past ones.
    """
    if past_sequence_length is not None or cache_indirection is not None:
        raise ValueError("MultiHeadAttention with a shared cache has no reference semantics here")
    parts = _projected(xp, query, key, value, bias, num_heads)
    before: Any = 0
    if past_key is not None:
        before = past_key.shape[2]
        parts = [parts[0], xp.concat([past_key, parts[1]], axis=2), xp.concat([past_value, parts[2]], axis=2)]
    found = attended(
        xp,
        *parts,
        scale=scale,
        mask=key_padding_mask,
        filter_value=mask_filter_value,
        bias=attention_bias,
        past=before if unidirectional else None,
    )
    return join_heads(xp, found), parts[1], parts[2]


def _projected(xp: Any, query: Any, key: Any, value: Any, bias: Any, heads: int) -> list[Any]:
    """Queries, keys and values as (batch, heads, sequence, size), with their biases."""
    if query.ndim == 5:
        return [xp.permute_dims(query[:, :, :, part, :], (0, 2, 1, 3)) for part in range(3)]
    width = query.shape[-1]
    biases: list[Any] = [None] * 3
    if bias is not None:
        biases = [bias[:width], bias[width : 2 * width], bias[2 * width :]]
    if key.ndim == 5:
        flat = [query, None, None]
        whole = [xp.permute_dims(key[:, :, :, part, :], (0, 2, 1, 3)) for part in range(2)]
    elif key.ndim == 4:
        flat, whole = [query, None, None], [key, value]
    else:
        flat, whole = [query, key, value], []
    shifted = [x if x is None or shift is None else x + shift for x, shift in zip(flat, biases, strict=True)]
    return [*[split_heads(xp, x, heads) for x in shifted if x is not None], *whole]
