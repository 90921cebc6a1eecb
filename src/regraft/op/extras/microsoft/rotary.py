"""ONNX Runtime's rotary position embedding, with tables of cosines and sines."""

from __future__ import annotations

from typing import Any, Final

from ....ir.op import Call
from ....ir.types import Type
from ...rules import require_float, require_rank
from ...semantics import positions as counted
from .declaring import contributed


def turned(xp: Any, x: Any, cosine: Any, sine: Any, interleaved: int) -> Any:
    """``x`` with the first pairs of elements on its last axis rotated.

    ``x`` is (batch, heads, sequence, size), with the first three axes in any order. ``cosine`` and ``sine`` have the
    pairs on the last axis and size 1 for the heads. The elements of a pair are adjacent if ``interleaved``, else one
    half of the rotated elements apart. Elements after the pairs stay unchanged.
    """
    half = cosine.shape[-1]
    width, size = 2 * half, x.shape[-1]
    head = x[..., :width]
    if interleaved:
        first, second = head[..., 0::2], head[..., 1::2]
    else:
        first, second = head[..., :half], head[..., half:]
    real = first * cosine - second * sine
    imaginary = first * sine + second * cosine
    if interleaved:
        head = xp.reshape(xp.stack([real, imaginary], axis=-1), (*x.shape[:-1], width))
    else:
        head = xp.concat([real, imaginary], axis=-1)
    return head if width == size else xp.concat([head, x[..., width:]], axis=-1)


def at_positions(xp: Any, table: Any, positions: Any) -> Any:
    """The rows of a table at ``positions`` (batch, sequence), as (batch, 1, sequence, pairs)."""
    rows = xp.take(table, xp.reshape(positions, (-1,)), axis=0)
    return xp.reshape(rows, (positions.shape[0], 1, positions.shape[1], table.shape[-1]))


def mixed_positions(xp: Any, table: Any, positions: Any, section: tuple[int, ...], layout: int) -> Any:
    """The rows of a table at three positions for each token (3, batch, sequence), each used for a part of the pairs.

    ``section`` is the number of pairs for each position: consecutive pairs, or, with the layout 1, every third pair.
    """
    rows = [at_positions(xp, table, positions[part, ...]) for part in range(3)]
    if layout == 0:
        first, second = section[0], section[0] + section[1]
        return xp.concat([rows[0][..., :first], rows[1][..., first:second], rows[2][..., second:]], axis=-1)
    number = counted(xp, table.shape[-1], table)
    found = rows[0]
    for part in (1, 2):
        own = xp.logical_and(number % 3 == part, number < 3 * section[part])
        found = xp.where(own, rows[part], found)
    return found


def _type(call: Call) -> Type:
    data = require_float(call, 0)
    require_rank(call, 0, "(batch, sequence, hidden) or (batch, heads, sequence, size)", 3, 4)
    return data


_ROTARY: Final[dict[str, Any]] = {
    "interleaved": 0,
    "is_packed_batching": 0,
    "num_heads": 0,
    "rotary_embedding_dim": 0,
    "scale": 1.0,
}
"""The attributes of both operators. The caches determine the number of rotated pairs; CPU kernels ignore the scale."""


@contributed("RotaryEmbedding", _type, shared=_ROTARY)
def rotary_embedding(xp: Any, input: Any, position_ids: Any, cos_cache: Any, sin_cache: Any, **how: Any) -> Any:
    """``input`` with each head's pairs of elements rotated by the angles of their position.

    ``input`` is (batch, sequence, heads * size) or (batch, heads, sequence, size), the caches (positions, pairs).
    ``position_ids`` is (batch, sequence), or (1,): the first position; the others follow it.
    """
    x = _by_head(xp, input, how["num_heads"], cos_cache)
    batch, _, sequence, _ = x.shape
    positions = position_ids
    if positions.ndim == 1:
        positions = xp.reshape(positions, (1, 1)) + xp.expand_dims(counted(xp, sequence, x), axis=0)
    positions = xp.broadcast_to(positions, (batch, sequence))
    cosine, sine = (at_positions(xp, table, positions) for table in (cos_cache, sin_cache))
    return _as_given(xp, turned(xp, x, cosine, sine, how["interleaved"]), input)


def _by_head(xp: Any, x: Any, heads: int, table: Any) -> Any:
    """``x`` as (batch, heads, sequence, size); if ``heads`` is 0, the size is twice the pairs in ``table``."""
    if x.ndim == 4:
        return x
    batch, sequence, width = x.shape
    size = width // heads if heads else 2 * table.shape[-1]
    return xp.permute_dims(xp.reshape(x, (batch, sequence, width // size, size)), (0, 2, 1, 3))


def _as_given(xp: Any, found: Any, like: Any) -> Any:
    return found if like.ndim == 4 else xp.reshape(xp.permute_dims(found, (0, 2, 1, 3)), like.shape)


@contributed("MRotaryEmbedding", _type, shared=_ROTARY)
def multimodal_rotary_embedding(
    xp: Any,
    input: Any,
    position_ids: Any,
    cos_cache: Any,
    sin_cache: Any,
    *,
    mrope_layout: int = 0,
    mrope_section: tuple[int, ...],
    **how: Any,
) -> Any:
    """A `rotary_embedding` with three positions for each token, (3, batch, sequence): in time, in height, in width.

    ``mrope_section`` is the number of pairs for each: consecutive pairs, or, with ``mrope_layout`` 1, every third pair.
    """
    x = _by_head(xp, input, how["num_heads"], cos_cache)
    cosine, sine = (
        mixed_positions(xp, table, position_ids, tuple(mrope_section), mrope_layout) for table in (cos_cache, sin_cache)
    )
    return _as_given(xp, turned(xp, x, cosine, sine, how["interleaved"]), input)
