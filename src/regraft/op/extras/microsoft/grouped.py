"""Grouped-query attention of decoders, whose heads share keys and values, with a cache and rotary embedding."""

from __future__ import annotations

from math import inf
from typing import Any

from ....ir.dims import exact_divide
from ....ir.op import Call
from ....ir.types import TensorType, TupleType, Type
from ...rules import require_float, require_rank
from ...semantics import cast, positions, size_of
from .declaring import contributed, is_given, product, shaped, sizes_of
from .heads import join_heads, row, softmax, split_heads
from .rotary import at_positions, turned


def _type(call: Call) -> Type:
    query, attrs = require_float(call, 0), call.attrs
    require_rank(call, 0, "a tensor of the axes (batch, sequence, hidden)", 3)
    batch, sequence, width = sizes_of(call, 0, 3)
    heads = attrs.num_heads if is_given(call, 1) else attrs.num_heads + 2 * attrs.kv_num_heads
    size = None if width is None else exact_divide(width, heads)
    present = TensorType(None, query.dtype, 4)  # the length of the cache is only known in a run
    return TupleType((shaped((batch, sequence, product(size, attrs.num_heads)), query.dtype), present, present))


@contributed("GroupQueryAttention", _type)
def group_query_attention(
    xp: Any,
    query: Any,
    key: Any | None,
    value: Any | None,
    past_key: Any | None,
    past_value: Any | None,
    seqlens_k: Any,
    total_sequence_length: Any,
    cos_cache: Any = None,
    sin_cache: Any = None,
    position_ids: Any = None,
    attention_bias: Any = None,
    head_sink: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    q_norm_weight: Any = None,
    k_norm_weight: Any = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    causal: int = 1,
    do_rotary: int = 0,
    k_quant_type: str = "NONE",
    kv_cache_bit_width: int = 0,
    local_window_size: int = -1,
    qk_norm_epsilon: float = 1e-6,
    qk_output: int = 0,
    rotary_interleaved: int = 0,
    scale: float | None = None,
    sliding_window_cache: int = 0,
    smooth_softmax: int = -1,
    softcap: float = 0.0,
    v_quant_type: str = "NONE",
) -> Any:
    """Causal attention in which ``num_heads // kv_num_heads`` heads share their keys and values.

    ``query`` is (batch, sequence, num_heads * size), ``key`` and ``value`` (batch, sequence, kv_num_heads * size), or
    all three are concatenated in ``query``. The cache is (batch, kv_num_heads, positions, size); after this step, batch
    ``b`` uses ``seqlens_k[b] + 1`` positions, and ``total_sequence_length`` is the greatest of these numbers.
    ``attention_bias`` is (batch or 1, num_heads or 1, sequence, total_sequence_length). Results: (batch, sequence,
    num_heads * size), and the two caches, with zeros at unused positions.
    """
    del qk_norm_epsilon, kv_cache_bit_width, qk_output
    unknown = [k_scale, v_scale, q_norm_weight, k_norm_weight]
    if any(x is not None for x in unknown) or (k_quant_type, v_quant_type) != ("NONE", "NONE") or sliding_window_cache:
        told = "a quantized or sliding cache, or norms of queries and keys,"
        raise ValueError(f"GroupQueryAttention with {told} has no reference semantics here")
    query, key, value = _heads(xp, query, key, value, num_heads, kv_num_heads)
    batch, _, sequence, size = query.shape
    longest = size_of(xp, total_sequence_length)
    ends = cast(xp, xp.reshape(seqlens_k, (batch, 1)), "int64") + 1
    before = xp.zeros_like(ends) if longest == sequence else ends - sequence
    places = before + row(xp, sequence, query)
    if do_rotary:
        asked = places if position_ids is None else position_ids
        asked = xp.clip(asked, 0, cos_cache.shape[0] - 1)
        cosine, sine = (at_positions(xp, table, asked) for table in (cos_cache, sin_cache))
        query, key = (turned(xp, x, cosine, sine, rotary_interleaved) for x in (query, key))
    room = longest if past_key is None else max(past_key.shape[2], longest)
    cache = [_cached(xp, past, new, before, room) for past, new in ((past_key, key), (past_value, value))]
    shared = num_heads // kv_num_heads
    keys, values = (_repeated(xp, x, shared) for x in cache)
    scores = xp.matmul(query, xp.matrix_transpose(keys)) * (scale or size**-0.5)
    if softcap:
        scores = xp.tanh(scores / softcap) * softcap
    if attention_bias is not None:
        beyond = xp.zeros((*attention_bias.shape[:3], room - longest), dtype=attention_bias.dtype)
        scores = scores + xp.concat([attention_bias, beyond], axis=3)
    scores = xp.where(_seen(xp, places, room, causal, local_window_size), scores, xp.full_like(scores, -inf))
    if smooth_softmax == 1 or head_sink is not None:
        sink = xp.zeros_like(scores[:, :, :, :1])
        if head_sink is not None:
            sink = sink + xp.reshape(head_sink, (1, num_heads, 1, 1))
        shares = softmax(xp, xp.concat([scores, sink], axis=-1))[..., :room]
    else:
        shares = softmax(xp, scores)
    return join_heads(xp, xp.matmul(shares, values)), cache[0], cache[1]


def _heads(xp: Any, query: Any, key: Any, value: Any, heads: int, shared: int) -> list[Any]:
    """Queries, keys and values as (batch, heads, sequence, size)."""
    if key is None:
        size = query.shape[-1] // (heads + 2 * shared)
        first, second = heads * size, (heads + shared) * size
        query, key, value = query[..., :first], query[..., first:second], query[..., second:]
    return [split_heads(xp, x, count) for x, count in ((query, heads), (key, shared), (value, shared))]


def _cached(xp: Any, past: Any, new: Any, before: Any, room: Any) -> Any:
    """The cache with the new rows after the ``before`` (batch, 1) rows of each batch, followed by zeros."""
    batch, heads, sequence, size = new.shape
    old = 0 if past is None else past.shape[2]
    both = new if past is None else xp.concat([past, new], axis=2)
    place = row(xp, room, new)
    source = xp.where(place < before, place, place - before + old)
    source = xp.clip(source, 0, old + sequence - 1)
    index = xp.broadcast_to(xp.reshape(source, (batch, 1, room, 1)), (batch, heads, room, size))
    held = xp.reshape(place < before + sequence, (batch, 1, room, 1))
    found = xp.take_along_axis(both, index, axis=2)
    return xp.where(held, found, xp.zeros_like(found))


def _repeated(xp: Any, x: Any, count: int) -> Any:
    batch, heads, room, size = x.shape
    if count == 1:
        return x
    wide = xp.broadcast_to(xp.expand_dims(x, axis=2), (batch, heads, count, room, size))
    return xp.reshape(wide, (batch, heads * count, room, size))


def _seen(xp: Any, places: Any, room: Any, causal: int, window: int) -> Any:
    """The mask, over ``room`` keys, of the keys that the queries at positions ``places`` (batch, sequence) see."""
    batch, sequence = places.shape
    own = xp.reshape(places, (batch, 1, sequence, 1))
    key = xp.reshape(positions(xp, room, places), (1, 1, 1, room))
    seen = key <= own if causal else key >= 0
    return xp.logical_and(seen, key > own - window) if window > 0 else seen
