"""Common parts of ONNX Runtime's attention operators."""

from __future__ import annotations

from math import inf
from typing import Any

from ...semantics import cast, filled, positions


def split_heads(xp: Any, x: Any, heads: int) -> Any:
    """``x`` (batch, sequence, heads * size) as (batch, heads, sequence, size)."""
    batch, sequence, width = x.shape
    return xp.permute_dims(xp.reshape(x, (batch, sequence, heads, width // heads)), (0, 2, 1, 3))


def join_heads(xp: Any, x: Any) -> Any:
    """``x`` (batch, heads, sequence, size) as (batch, sequence, heads * size)."""
    batch, heads, sequence, size = x.shape
    return xp.reshape(xp.permute_dims(x, (0, 2, 1, 3)), (batch, sequence, heads * size))


def row(xp: Any, count: Any, like: Any) -> Any:
    """The numbers from 0 to ``count`` - 1 as (1, count), on the device of ``like``."""
    return xp.expand_dims(positions(xp, count, like), axis=0)


def softmax(xp: Any, x: Any) -> Any:
    """The softmax along the last axis."""
    exponentials = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return exponentials / xp.sum(exponentials, axis=-1, keepdims=True)


def seen_keys(xp: Any, mask: Any, batch: int, queries: Any, keys: Any, past: Any) -> Any:
    """The mask of visible keys, as booleans that broadcast to (batch, heads, queries, keys).

    ``mask`` may hold the number of keys of each row (batch,); the ends and then the starts (2 * batch,); the
    number of keys, and offsets that are ignored here (3 * batch + 2,); or 1 and 0 for (batch, keys),
    (batch, queries, keys), or a greater number of positions (batch, 1, positions, positions).
    """
    mask = cast(xp, mask, "int64")
    if mask.ndim == 1:
        ends = xp.expand_dims(mask[:batch], axis=1)
        seen = row(xp, keys, mask) < ends
        if mask.shape[0] == 2 * batch:
            seen = xp.logical_and(seen, row(xp, keys, mask) >= xp.expand_dims(mask[batch:], axis=1))
        return xp.reshape(seen, (batch, 1, 1, keys))
    if mask.ndim == 4:
        return mask[:, :, past : past + queries, :keys] > 0
    return xp.reshape(mask > 0, (batch, 1, 1 if mask.ndim == 2 else queries, keys))


def attended(
    xp: Any,
    query: Any,
    key: Any,
    value: Any,
    *,
    scale: float | None,
    mask: Any,
    filter_value: float | None,
    bias: Any,
    past: Any = None,
) -> Any:
    """Attention over operands of (batch, heads, sequence, size).

    ``filter_value`` (by default -10000) is added to the scores of keys that ``mask`` hides; ``bias`` is added to all
    scores. If ``past``, the number of earlier keys, is given, each query only sees keys up to its own, except the last
    query, which sees all.
    """
    batch, _, queries, size = query.shape
    keys = key.shape[2]
    scores = xp.matmul(query, xp.matrix_transpose(key)) * (scale or size**-0.5)
    if mask is not None:
        seen = seen_keys(xp, mask, batch, queries, keys, past or 0)
        least = -10000.0 if filter_value is None else filter_value
        scores = scores + xp.where(seen, filled(xp, seen.shape, 0.0, scores), filled(xp, seen.shape, least, scores))
    if bias is not None:
        scores = scores + bias
    if past is not None:
        number = xp.expand_dims(positions(xp, queries, scores), axis=1)
        seen = xp.logical_or(row(xp, keys, scores) <= number + past, number == queries - 1)
        scores = xp.where(seen, scores, xp.full_like(scores, -inf))
    return xp.matmul(softmax(xp, scores), value)
