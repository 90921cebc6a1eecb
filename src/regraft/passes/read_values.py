"""Facts that recognizers read off a value: a match, its shape and dtype, one number, a factor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.dims import Dim, dims_equal
from ..ir.expr import Constant, Expr, Var
from ..ir.types import TensorType
from ..pattern import is_const, is_op, wildcard
from ..pattern.pattern import DFPattern


def matched(pattern: DFPattern, expr: Expr, bindings: Mapping[Var, Expr]) -> dict[DFPattern, Any] | None:
    """The match of ``expr``; None if it is none."""
    return pattern.extract_matched_expr(expr, bindings)


def shape_of(expr: Expr) -> tuple[Dim, ...]:
    """The shape of a tensor; none for what has no known shape."""
    return (expr.ty.shape or ()) if isinstance(expr.ty, TensorType) else ()


def dtype_of(tensor: Expr) -> str | None:
    """The dtype of a tensor; None if it is not known."""
    return tensor.ty.dtype if isinstance(tensor.ty, TensorType) else None


def same_sizes(ours: Sequence[Dim], theirs: Sequence[Dim]) -> bool:
    """True if the sizes are certainly the same."""
    return len(ours) == len(theirs) and all(dims_equal(a, b) is True for a, b in zip(ours, theirs, strict=True))


_inner, _number = wildcard(), is_const()
_times = is_op("relax.multiply")(_inner, _number)
_over = is_op("relax.divide")(_inner, _number)
_scaled = _times | _over


def number_of(expr: Expr) -> float | None:
    """The value of a constant of one element; None for others."""
    if not isinstance(expr, Constant) or expr.data.size != 1:
        return None
    return float(np.asarray(expr.data.numpy(), dtype="float64").reshape(()))


def without_factor(expr: Expr, bindings: Mapping[Var, Expr]) -> tuple[Expr, float] | None:
    """``expr`` as a tensor of its own type times a number other than 0; None if it is not written so."""
    found = matched(_scaled, expr, bindings)
    if found is None or found[_inner].ty != expr.ty:
        return None
    number = number_of(found[_number])
    if number is None or number == 0.0 or not np.isfinite(number):
        return None
    return found[_inner], number if _times in found else 1.0 / number
