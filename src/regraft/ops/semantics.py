"""Pieces of meaning that several operators share, over any array API namespace ``xp``."""

from __future__ import annotations

from typing import Any


def truncated_divide(xp: Any, x1: Any, x2: Any) -> Any:
    """The quotient rounded towards zero, as C and ONNX divide integers; floats divide as they are."""
    if xp.isdtype(x1.dtype, "integral"):
        quotient = xp.floor_divide(x1, x2)
        inexact = xp.not_equal(xp.multiply(quotient, x2), x1)
        return xp.where(xp.logical_and(inexact, xp.less(quotient, 0)), quotient + 1, quotient)
    return xp.divide(x1, x2)
