"""Conditions on sizes: comparisons, and what joins and chooses by them.

A condition is an atom like a minimum is: a value of 0 or 1 that prints as Python says it, ``n % 16 == 0``. One that
holds for all sizes is True, one that holds for none is False, at once; any other is decided when the sizes are known.
``n < 3`` makes one, too; ``n == 3`` does not, since ``==`` compares canonical forms: that is `compare`.
"""

from __future__ import annotations

from .bounds import dim_less, dim_less_equal
from .symbolic import Condition, Dim, Select, SymExpr
from .values import dims_equal


def compare(sign: str, left: Dim, right: Dim) -> Dim:
    """``left sign right`` for one of ``==  !=  <  <=  >  >=``: True, False, or a condition."""
    return _COMPARISONS[sign](left, right)


def equal(left: Dim, right: Dim) -> Dim:
    """The condition that two dims have the same value."""
    known = dims_equal(left, right)
    return Equal(left, right) if known is None else known


def not_equal(left: Dim, right: Dim) -> Dim:
    """The condition that two dims have different values."""
    known = dims_equal(left, right)
    return NotEqual(left, right) if known is None else not known


def less(left: Dim, right: Dim) -> Dim:
    """The condition that ``left`` is less than ``right``."""
    known = dim_less(left, right)
    return Less(left, right) if known is None else known


def less_equal(left: Dim, right: Dim) -> Dim:
    """The condition that ``left`` is at most ``right``."""
    known = dim_less_equal(left, right)
    return LessEqual(left, right) if known is None else known


def greater(left: Dim, right: Dim) -> Dim:
    """The condition that ``left`` is greater than ``right``."""
    known = dim_less(right, left)
    return Greater(left, right) if known is None else known


def greater_equal(left: Dim, right: Dim) -> Dim:
    """The condition that ``left`` is at least ``right``."""
    known = dim_less_equal(right, left)
    return GreaterEqual(left, right) if known is None else known


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
    """``when_true`` where the condition holds, else ``when_false``."""
    if not isinstance(condition, SymExpr):
        return when_true if condition else when_false
    return when_true if when_true == when_false else Select(condition, when_true, when_false)


def _truth(condition: Dim) -> Dim:
    return condition if isinstance(condition, SymExpr) else bool(condition)


class Equal(Condition):
    """``operands[0] == operands[1]``."""

    __slots__ = ()
    rank = 7
    sign = "=="


class NotEqual(Condition):
    """``operands[0] != operands[1]``."""

    __slots__ = ()
    rank = 8
    sign = "!="


class Less(Condition):
    """``operands[0] < operands[1]``."""

    __slots__ = ()
    rank = 9
    sign = "<"


class LessEqual(Condition):
    """``operands[0] <= operands[1]``."""

    __slots__ = ()
    rank = 10
    sign = "<="


class Greater(Condition):
    """``operands[0] > operands[1]``."""

    __slots__ = ()
    rank = 11
    sign = ">"


class GreaterEqual(Condition):
    """``operands[0] >= operands[1]``."""

    __slots__ = ()
    rank = 12
    sign = ">="


class Both(Condition):
    """``operands[0] and operands[1]``."""

    __slots__ = ()
    rank = 13
    sign = "and"


class Either(Condition):
    """``operands[0] or operands[1]``."""

    __slots__ = ()
    rank = 14
    sign = "or"


class Negation(Condition):
    """``not operands[0]``."""

    __slots__ = ()
    rank = 15
    sign = "not"


Equal.build = staticmethod(equal)
NotEqual.build = staticmethod(not_equal)
Less.build = staticmethod(less)
LessEqual.build = staticmethod(less_equal)
Greater.build = staticmethod(greater)
GreaterEqual.build = staticmethod(greater_equal)
Both.build = staticmethod(both)
Either.build = staticmethod(either)
Negation.build = staticmethod(negation)
Select.build = staticmethod(select)

_COMPARISONS = {
    "==": equal,
    "!=": not_equal,
    "<": less,
    "<=": less_equal,
    ">": greater,
    ">=": greater_equal,
}
Condition.compare = staticmethod(compare)

_OPPOSITES = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", "<=": ">", ">": "<="}
