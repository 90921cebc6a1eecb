"""Conditions on sizes: comparisons, logical operations, and the choice between two sizes.

A condition is an atom, as a minimum is: a value of 0 or 1 that prints as in Python, ``n % 16 == 0``. A condition that
holds for all sizes is True, one that holds for none is False; any other is decided when the sizes are known.
``n < 3`` makes a condition. ``n == 3`` does not, since ``==`` compares canonical forms; use `compare` for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

from .bounds import dim_less, dim_less_equal
from .symbolic import Condition, Dim, Select, SymExpr
from .values import dims_equal


def compare(sign: str, left: Dim, right: Dim) -> Dim:
    """``left sign right`` for one of ``==  !=  <  <=  >  >=``: True, False, or a condition."""
    known = _DECIDED[sign](left, right)
    return _COMPARISONS[sign](left, right) if known is None else known


def both(left: Dim, right: Dim) -> Dim:
    """The condition that two conditions hold together."""
    if not isinstance(left, SymExpr):
        return _truth(right) if left else False
    if not isinstance(right, SymExpr):
        return left if right else False
    return left if left == right else Both(left, right)


def either(left: Dim, right: Dim) -> Dim:
    """The condition that at least one of two conditions holds."""
    if not isinstance(left, SymExpr):
        return True if left else _truth(right)
    if not isinstance(right, SymExpr):
        return True if right else left
    return left if left == right else Either(left, right)


def negation(condition: Dim) -> Dim:
    """The condition that another one does not hold."""
    if not isinstance(condition, SymExpr):
        return not condition
    if isinstance(condition, Negation):
        return condition.operands[0]
    if isinstance(condition, Condition) and condition.sign in _OPPOSITES:
        return compare(_OPPOSITES[condition.sign], *condition.operands)
    return Negation(condition)


def select(condition: Dim, when_true: Dim, when_false: Dim) -> Dim:
    """``when_true`` if the condition holds, else ``when_false``."""
    if not isinstance(condition, SymExpr):
        return when_true if condition else when_false
    return when_true if when_true == when_false else Select(condition, when_true, when_false)


def _truth(condition: Dim) -> Dim:
    return condition if isinstance(condition, SymExpr) else bool(condition)


def _kind(name: str, rank: int, sign: str, build: Callable[..., Dim] | None = None) -> type[Condition]:
    """The class of conditions with the sign ``sign``. ``build`` makes one from its operands; by default `compare`."""
    facts = {"__slots__": (), "__module__": __name__, "rank": rank, "sign": sign}
    kind = cast("type[Condition]", type(name, (Condition,), facts))
    kind.build = staticmethod(partial(compare, sign) if build is None else build)
    return kind


Equal = _kind("Equal", 7, "==")
NotEqual = _kind("NotEqual", 8, "!=")
Less = _kind("Less", 9, "<")
LessEqual = _kind("LessEqual", 10, "<=")
Greater = _kind("Greater", 11, ">")
GreaterEqual = _kind("GreaterEqual", 12, ">=")
Both = _kind("Both", 13, "and", both)
Either = _kind("Either", 14, "or", either)
Negation = _kind("Negation", 15, "not", negation)
Select.build = staticmethod(select)
Condition.compare = staticmethod(compare)

_COMPARISONS = {kind.sign: kind for kind in (Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual)}
_DECIDED: dict[str, Callable[[Dim, Dim], bool | None]] = {
    "==": dims_equal,
    "!=": lambda left, right: None if (same := dims_equal(left, right)) is None else not same,
    "<": dim_less,
    "<=": dim_less_equal,
    ">": lambda left, right: dim_less(right, left),
    ">=": lambda left, right: dim_less_equal(right, left),
}
_OPPOSITES = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", "<=": ">", ">": "<="}
