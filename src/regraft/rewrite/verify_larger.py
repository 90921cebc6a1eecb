"""Larger operands for the check of an edit by value, since small operands may hide an error.

In most programs the operands of a match are related (a value and its sum with something, three products of one value),
and a rule may rely on it. So they are not enlarged one by one. `independent` finds values that do not depend on each
other, and the operands are computed from these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import floor, log2
from typing import Any, Final, cast

import numpy as np

from ..analysis.uses import variables_of
from ..ir.dtypes import as_dtype, is_float
from ..ir.expr import Expr, Var
from ..ir.walks import needs_first

_NEAR: Final = 8
"""The number of bindings before an operand that count when two are compared: no known rule relies on more."""

_MOST_NEAR: Final = 400


def independent(operands: Iterable[Var], definitions: Mapping[Var, Expr]) -> list[Var]:
    """Values from which all ``operands`` are computed, and which have no near values in common with each other.

    An operand that shares nothing is such a value itself. Values computed from constants alone are left out. Values
    whose common part is farther back than `_NEAR` bindings count as independent. Cost: the bindings up to that
    distance.
    """
    start = list(operands)
    parents = _near(start, definitions)
    order = _in_order(start, parents)
    constant: set[Var] = set()
    roots: dict[Var, set[Var]] = {}
    for var in order:
        before = parents.get(var)
        if before is not None and constant.issuperset(before):
            constant.add(var)
        else:
            roots[var] = {var}.union(*(roots[one] for one in before or () if one not in constant))
    cut = {var for var in start if var not in constant}
    for var in reversed(order):
        before = [one for one in parents.get(var, ()) if one not in constant]
        if var in cut and before and any(roots[var] & roots[other] for other in cut if other is not var):
            cut.remove(var)
            cut.update(before)
    return [var for var in order if var in cut]


def _near(start: Iterable[Var], definitions: Mapping[Var, Expr]) -> dict[Var, list[Var]]:
    """The operands of each variable within `_NEAR` bindings; inputs and variables farther away have no entry."""
    parents: dict[Var, list[Var]] = {}
    level = list(dict.fromkeys(start))
    for _ in range(_NEAR):
        following: dict[Var, None] = {}
        for var in level:
            bound = definitions.get(var)
            if bound is None or var in parents or len(parents) >= _MOST_NEAR:
                continue
            parents[var] = list(variables_of(bound))
            following.update(dict.fromkeys(parents[var]))
        level = list(following)
    return parents


def _in_order(start: Iterable[Var], parents: Mapping[Var, list[Var]]) -> list[Var]:
    """All variables of ``parents``, each after the variables it is computed from."""
    order: dict[Var, None] = {}
    for var in needs_first(start, lambda one: parents.get(one, ()), order):
        order[var] = None
    return list(order)


def made_larger(value: Any, scale: float = 1.0) -> Any:
    """``value`` times a power of two that brings its spread to about ``scale``, if it is small and of both signs.

    Other values are returned unchanged. ``scale`` is a power of two.
    """
    if isinstance(value, tuple):
        return tuple([made_larger(one, scale) for one in cast("tuple[Any, ...]", value)])
    spread = _spread(value)
    if spread is None or (spread >= _SMALL and scale == 1):
        return value
    larger = 2.0 ** -floor(log2(spread)) if spread < _SMALL else 1.0
    with np.errstate(over="ignore"):
        return value * value.dtype.type(larger * scale)


_SMALL: Final = 0.5


def scale_of(values: Iterable[Any]) -> float:
    """The power of two that brings the largest spread of ``values`` to about 1; 1 if it is not small, or undefined."""
    spreads = [spread for value in values if (spread := _spread(value)) is not None]
    return 2.0 ** -floor(log2(max(spreads))) if spreads and max(spreads) < _SMALL else 1.0


def _spread(value: Any) -> float | None:
    """The standard deviation of a finite float array of both signs; None for any other value."""
    array: Any = value
    if not isinstance(value, np.ndarray) or not is_float(as_dtype(array.dtype)) or array.size < 2:
        return None
    wide: np.ndarray[Any, Any] = array.astype(np.float64)
    spread = float(wide.std()) if np.isfinite(wide).all() else 0.0
    return spread if spread > 0 and abs(float(wide.mean())) <= spread else None
