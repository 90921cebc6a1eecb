"""Biases of attention that depend on places only, found by computing them: masks of any form, and slopes (ALiBi)."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ...analysis.masks import AS_GOOD_AS_INFINITE
from ...analysis.tensors import shape_of
from ...ir.expr import Expr
from .tables import PositionTables

_AT_ONCE: Final = 1 << 22
"""The number of elements of a bias that are computed at a time."""
_SLACK: Final = 8 * float(np.finfo(np.float32).eps)
"""The largest error of a sum that is computed in another order, relative to its largest term."""


class BiasOfPlaces(NamedTuple):
    """A causal bias: each query sees the last ``window`` keys up to its own; all of them if ``window`` is None.

    ``slopes`` (1, heads, 1, keys) is added to the score of each key, for every query; None if nothing is added. A bias
    of another form is ``computed`` in each step, (texts or 1, heads or 1, queries, keys).
    """

    window: int | None = None
    slopes: np.ndarray | None = None
    computed: Expr | None = None

    @property
    def is_of_all_heads(self) -> bool:
        """True if the bias is the same for all heads."""
        return self.slopes is None and (self.computed is None or shape_of(self.computed)[1] == 1)


def bias_of_places(bias: Expr, places: PositionTables) -> BiasOfPlaces | None:
    """``bias``, (1, heads, queries, keys), as a bias of places; None if it is not causal or depends on inputs.

    A bias with several texts must be the same for all of them. A number that is added to all keys of a query changes
    nothing, and is dropped. All queries up to the longest text are examined, so the cost is the heads of the bias times
    the square of that length.
    """
    longest = places.longest
    last = _rows(bias, places, longest - 1, 1)
    if last is None or last.ndim != 4 or last.shape[0] != 1 or last.shape[2:] != (1, longest):
        return None
    shown = last > AS_GOOD_AS_INFINITE
    window = int(shown[0, 0, 0].sum())
    found = np.where(shown & shown[..., -1:], last - np.where(shown[..., -1:], last[..., -1:], 0), 0)
    is_alike = shown[..., -1].all() and (window == longest or not found.any())
    step = 1 if places.is_of_one else max(1, min(longest, _AT_ONCE // (longest * last.shape[1])))
    blocks = [(first, min(step, longest - first)) for first in range(0, longest, step)]
    for first, count in (*blocks, (longest // 2, 1), (longest - 1, 1)):
        rows = _rows(bias, places, first, count)
        if rows is None or not _is_causal(rows, first, count, last.shape[1]):
            return None
        is_alike = is_alike and _agrees(rows, first, count, window, found)
    if not is_alike:
        return BiasOfPlaces(computed=bias)
    return BiasOfPlaces(None if window == longest else window, found.astype(np.float32) if found.any() else None)


def _rows(bias: Expr, places: PositionTables, first: int, count: int) -> np.ndarray | None:
    """``bias`` of the queries from ``first`` on; of one text if the bias is the same for all texts."""
    rows = places.rows(bias, first, count)
    if rows is None or rows.ndim != 4 or (rows != rows[:1]).any():
        return rows
    return rows[:1]


def _is_causal(rows: np.ndarray, first: int, count: int, heads: int) -> bool:
    """True if ``rows``, the bias of the queries from ``first`` on, shows no later key, and some key to each query."""
    if rows.shape != (1, heads, count, first + count):
        return False
    shown = rows > AS_GOOD_AS_INFINITE
    return bool(shown.any(axis=-1).all()) and not np.triu(shown, first + 1).any()


def _agrees(rows: np.ndarray, first: int, count: int, window: int, found: np.ndarray) -> bool:
    """True if ``rows``, the bias of the queries from ``first`` on, shows ``window`` keys with the slopes ``found``."""
    heads, total = found.shape[1], first + count
    query, key = np.arange(first, total)[:, None], np.arange(total)
    shown = (key <= query) & (key > query - window)
    if not np.array_equal(rows > AS_GOOD_AS_INFINITE, np.broadcast_to(shown, rows.shape)):
        return False
    beside = np.where(shown, rows - found[..., :total], 0)
    own = np.take_along_axis(beside, np.broadcast_to(query, (1, heads, count, 1)), axis=-1)
    return bool((np.abs(np.where(shown, beside - own, 0)) <= _SLACK * np.abs(found).max()).all())
