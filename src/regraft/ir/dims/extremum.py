"""Minimum and maximum of dims, in canonical form.

In this form no operand is known to be superfluous, terms that all operands share are moved outside, and the operands
have no common divisor.
"""

from __future__ import annotations

from functools import partial
from math import gcd
from typing import cast

from .bounds import dim_less_equal
from .division import divide_by_term
from .symbolic import ONE, Dim, Max, Min, SymExpr, constant_of, dim_key, from_terms, leading_coefficient, terms_of


def dim_min(first: Dim, second: Dim) -> Dim:
    """The smaller of two dims."""
    return _extremum(Min, first, second)


def dim_max(first: Dim, second: Dim) -> Dim:
    """The greater of two dims."""
    return _extremum(Max, first, second)


def over_zero(dim: Dim) -> Dim:
    """``dim`` with each extremum of two operands written with one over zero: ``min(a, b)`` as ``a - max(a - b, 0)``.

    Equal sizes that are written differently get the same form: for example, the parts of a split add up to the whole.
    """
    found = dim
    for atoms, coefficient in terms_of(dim).items():
        if len(atoms) == 1 and isinstance(atoms[0], Min | Max) and len(atoms[0].operands) == 2:
            first, second = atoms[0].operands
            excess = _above_zero(first - second)
            found += ((first - excess if isinstance(atoms[0], Min) else second + excess) - atoms[0]) * coefficient
    return found


def _above_zero(dim: Dim) -> Dim:
    """``max(dim, 0)``; for ``dim = min(cut, end)`` with ``end >= 0``, as ``max(cut, 0) - max(cut - end, 0)``."""
    parts = _alternatives(Min, dim)
    if len(parts) == 2:
        for cut, end in (parts, parts[::-1]):
            if dim_less_equal(0, end) is True:
                return _in_one_form(cut) - _in_one_form(cut - end)
    return _in_one_form(dim)


def _in_one_form(dim: Dim) -> Dim:
    """``max(dim, 0)``, in a form in which ``dim`` and ``-dim`` use the same extremum."""
    return dim_max(dim, 0) if leading_coefficient(dim) > 0 else dim_max(-dim, 0) + dim


def _extremum(kind: type[Min] | type[Max], *operands: Dim) -> Dim:
    if all(isinstance(operand, int) for operand in operands):
        values = cast("tuple[int, ...]", operands)
        return min(values) if kind is Min else max(values)
    flat: dict[Dim, None] = {}
    for operand in operands:
        flat.update(dict.fromkeys(_alternatives(kind, operand)))
    kept: list[Dim] = []
    for operand in sorted(flat, key=dim_key):
        if any(_decides(kind, other, operand) for other in kept):
            continue
        kept = [other for other in kept if not _decides(kind, operand, other)]
        kept.append(operand)
    if len(kept) == 1:
        return kept[0]
    shared = _shared_terms(kept)
    rests = [operand - shared for operand in kept]
    sign = 1
    if all(leading_coefficient(rest) < 0 for rest in rests if isinstance(rest, SymExpr)):
        kind, sign = (Max if kind is Min else Min), -1
        rests = [-rest for rest in rests]
    constant = min(constant_of(rest) for rest in rests)
    rests = [rest - constant for rest in rests]
    content = gcd(*(value for rest in rests for value in terms_of(rest).values()))
    scaled = [divide_by_term(rest, ONE, content, False)[0] for rest in rests]
    return shared + (constant + content * kind(*sorted(scaled, key=_operand_order))) * sign


def _operand_order(dim: Dim) -> tuple[bool, tuple[int, ...]]:
    return isinstance(dim, int), dim_key(dim)


def _decides(kind: type[Min] | type[Max], first: Dim, second: Dim) -> bool:
    """True if the second operand can be omitted because of the first."""
    return (dim_less_equal(first, second) if kind is Min else dim_less_equal(second, first)) is True


def _alternatives(kind: type[Min] | type[Max], operand: Dim) -> list[Dim]:
    """The operands that replace ``operand``: those of its one nested extremum of the same kind, if it has one."""
    nested = [
        (atoms[0], coefficient)
        for atoms, coefficient in terms_of(operand).items()
        if len(atoms) == 1 and isinstance(atoms[0], Min if (kind is Min) == (coefficient > 0) else Max)
    ]
    if len(nested) != 1:
        return [operand]
    atom, coefficient = nested[0]
    rest = operand - atom * coefficient
    return [rest + inner * coefficient for inner in atom.operands]


def _shared_terms(operands: list[Dim]) -> Dim:
    """The sum of the terms that all operands share, without constants."""
    first = terms_of(operands[0]).items()
    shared = {
        atoms: value
        for atoms, value in first
        if atoms and all(terms_of(operand).get(atoms) == value for operand in operands)
    }
    return from_terms(shared)


Min.build = staticmethod(partial(_extremum, Min))
Max.build = staticmethod(partial(_extremum, Max))
