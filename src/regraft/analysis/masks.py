"""Masks that are added to scores: numbers that hide scores, and constants that are triangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..ir.dims import Dim
from .tensors import same_sizes

AS_GOOD_AS_INFINITE: Final = -1e30
"""A number so low that adding a score to it in float32 returns the number itself."""


def causal_kind(added: np.ndarray[Any, Any], sizes: Sequence[Dim], *, alone: bool) -> str | None:
    """The kind of causal mask that ``added`` is, exactly, for scores whose last axes have ``sizes``.

    None if it is not one, or if it leaves a query without keys. ``alone`` says that there is no other mask, so that a
    very low number is as good as minus infinity. Cost: the elements.
    """
    hidden, (queries, keys) = added != 0, added.shape[-2:]
    if (
        same_sizes([queries, keys], sizes)
        and keys
        and np.all(added[hidden] <= (AS_GOOD_AS_INFINITE if alone else -np.inf))
    ):
        for kind, offset in (("TopLeft", 0), ("BottomRight", keys - queries)):
            if offset >= 0 and np.all(hidden != np.tri(queries, keys, offset, dtype=bool)):
                return kind
    return None
