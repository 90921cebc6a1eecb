"""The least and the greatest value of a dim, and the comparisons that follow from them."""

from __future__ import annotations

from math import gcd
from typing import TypeAlias

from .symbolic import (
    Condition,
    Dim,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Monomial,
    Operation,
    Select,
    SymExpr,
    SymVar,
    constant_of,
)

Limit: TypeAlias = "int | None"

# The number of atoms that are tried, in order, because they may cancel other terms; also the depth of the search.
_MOST_ATOMS = 3


def bounds(dim: Dim) -> tuple[Limit, Limit]:
    """The known lower and upper bound of ``dim``, both inclusive; None if no bound is known.

    Computed once per expression. Cost: linear in the terms for sums of variables. If divisions, minima or
    maxima may cancel other terms, a search over at most `_MOST_ATOMS` of them.
    """
    if not isinstance(dim, SymExpr):
        return dim, dim
    if dim.known_bounds is None:
        dim.known_bounds = _bounds_of(dim)
    return dim.known_bounds


def dim_at_least(dim: Dim, least: int) -> bool | None:
    """The answer to ``dim >= least``: True for all sizes, False for none, None if that is not known."""
    if isinstance(dim, int):
        return dim >= least
    low, high = bounds(dim)
    if low is not None and low >= least:
        return True
    if high is not None and high < least:
        return False
    return None


def dim_less_equal(first: Dim, second: Dim) -> bool | None:
    """The answer to ``first <= second``: True for all sizes, False for none, None if that is not known."""
    return dim_at_least(second - first, 0)


def dim_less(first: Dim, second: Dim) -> bool | None:
    """The answer to ``first < second``: True for all sizes, False for none, None if that is not known."""
    return dim_at_least(second - first, 1)


def _bounds_of(dim: SymExpr) -> tuple[Limit, Limit]:
    if isinstance(dim, SymVar):
        return dim.least, None
    if isinstance(dim, Operation):
        return _operation_bounds(dim)
    low, negated_high = _lower_bound(dim, _MOST_ATOMS), _lower_bound(-dim, _MOST_ATOMS)
    high = None if negated_high is None else -negated_high
    # All values are equal modulo the common divisor of all coefficients except the constant.
    constant, step = constant_of(dim), gcd(*(value for atoms, value in dim.coefficients.items() if atoms))
    low = None if low is None else low + (constant - low) % step
    high = None if high is None else high - (high - constant) % step
    return low, high


def _operation_bounds(atom: Operation) -> tuple[Limit, Limit]:
    if isinstance(atom, Condition):
        return 0, 1
    limits = [bounds(operand) for operand in (atom.operands[1:] if isinstance(atom, Select) else atom.operands)]
    if isinstance(atom, (FloorDiv, FloorMod)):
        (low, high), (divisor_low, divisor_high) = limits
        if divisor_low is not None and divisor_low >= 0:
            if isinstance(atom, FloorDiv):
                return _quotient_bounds(low, high, max(divisor_low, 1), divisor_high)
            tops = [] if divisor_high is None else [divisor_high - 1]
            tops += [high] if low is not None and low >= 0 and high is not None else []
            return 0, min(tops, default=None)
        if isinstance(atom, FloorMod):
            return (
                None if divisor_low is None else min(divisor_low + 1, 0),
                None if divisor_high is None else max(divisor_high - 1, 0),
            )
        if low is None or high is None:
            return None, None
        return -max(abs(low), abs(high)), max(abs(low), abs(high))
    lows = [low for low, _ in limits if low is not None]
    highs = [high for _, high in limits if high is not None]
    least = min(lows) if len(lows) == len(limits) else None
    greatest = max(highs) if len(highs) == len(limits) else None
    if isinstance(atom, Select):
        return least, greatest
    return (least, min(highs, default=None)) if isinstance(atom, Min) else (max(lows, default=None), greatest)


def _quotient_bounds(low: Limit, high: Limit, least: int, greatest: Limit) -> tuple[Limit, Limit]:
    """The bounds of a floor quotient whose divisor lies between ``least``, at least 1, and ``greatest``."""
    if low is not None:
        low = low // least if low < 0 else (0 if greatest is None else low // greatest)
    if high is not None:
        high = high // least if high >= 0 else (-1 if greatest is None else high // greatest)
    return low, high


def _lower_bound(dim: Dim, fuel: int) -> Limit:
    """A lower bound of ``dim``: the better result of two ways.

    The first way takes each term at its own least value. The second replaces an atom by a bound of it that may cancel
    other terms, as ``n`` does in ``n - 4 * (n // 4) >= n - n``.
    """
    if isinstance(dim, int):
        return dim
    best: Limit = 0
    pressed = False
    for atoms, coefficient in dim.coefficients.items():
        term_low, term_high = _monomial_bounds(atoms)
        limit = term_low if coefficient > 0 else term_high
        best = None if best is None or limit is None else best + coefficient * limit
        pressed = pressed or (coefficient < 0 and bool(atoms)) or limit is None
    if fuel == 0 or not pressed or len(dim.coefficients) == 1:
        return best
    linear = [(atoms[0], value) for atoms, value in dim.terms if len(atoms) == 1 and isinstance(atoms[0], Operation)]
    for atom, coefficient in linear[:_MOST_ATOMS]:
        for choice in _weaker_forms(atom, coefficient > 0):
            rest = dim - atom * coefficient
            limits: list[Limit] = []
            for numerator, denominator in choice:
                limit = _lower_bound(rest * denominator + numerator * coefficient, fuel - 1)
                limits.append(None if limit is None else -(-limit // denominator))
            known = [limit for limit in limits if limit is not None]
            if len(known) == len(limits) and (best is None or min(known) > best):
                best = min(known)
    return best


def _weaker_forms(atom: Operation, below: bool) -> list[list[tuple[Dim, int]]]:
    """Bounds of an atom, below or above it, as (numerator, positive denominator) pairs.

    Each inner list is one bound: the atom is on the wanted side of at least one of its pairs.
    """
    operands = atom.operands
    if isinstance(atom, (Condition, Select)):
        return []
    if isinstance(atom, (Min, Max)):
        if isinstance(atom, Max) == below:
            return [[(operand, 1)] for operand in operands]
        return [[(operand, 1) for operand in operands]]
    dividend, divisor = operands
    if isinstance(divisor, int):
        if isinstance(atom, FloorMod):
            exact = dividend - divisor * (dividend // divisor)
            above = not below and dim_at_least(dividend, 0) is True
            return [[(exact, 1)], [(dividend, 1)]] if above else [[(exact, 1)]]
        return [[(dividend - (divisor - 1) if below else dividend, divisor)]]
    if not below and dim_at_least(divisor, 0) and dim_at_least(dividend, 0):
        return [[(dividend, 1)]]
    return []


def _monomial_bounds(atoms: Monomial) -> tuple[Limit, Limit]:
    low: Limit = 1
    high: Limit = 1
    for atom in atoms:
        atom_low, atom_high = bounds(atom)
        if low is not None and low >= 0 and atom_low is not None and atom_low >= 0:
            high = 0 if 0 in (high, atom_high) else None if high is None or atom_high is None else high * atom_high
            low = low * atom_low
        elif low is None or high is None or atom_low is None or atom_high is None:
            low = high = None
        else:
            corners = (low * atom_low, low * atom_high, high * atom_low, high * atom_high)
            low, high = min(corners), max(corners)
    return low, high
