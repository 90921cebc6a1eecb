"""Floor division and remainder of dims, in canonical form."""

from __future__ import annotations

from math import gcd
from typing import cast

from .bounds import bounds, dim_at_least, dim_less
from .symbolic import (
    ONE,
    Dim,
    FloorDiv,
    FloorMod,
    Monomial,
    SymExpr,
    constant_of,
    from_terms,
    leading_coefficient,
    monomial_product,
    term_key,
    terms_of,
)


def floordiv(dividend: Dim, divisor: Dim) -> Dim:
    """``dividend // divisor``, rounded towards minus infinity. Raises ZeroDivisionError for the divisor 0."""
    if not isinstance(divisor, SymExpr) and divisor == 0:
        raise ZeroDivisionError(f"({dividend}) // 0: a size cannot be divided by zero")
    if not isinstance(dividend, SymExpr) and not isinstance(divisor, SymExpr):
        return dividend // divisor
    if leading_coefficient(divisor) < 0:
        dividend, divisor = -dividend, -divisor
    quotient, rest = _divide(dividend, divisor)
    return quotient + _proper_quotient(rest, divisor)


def floormod(dividend: Dim, divisor: Dim) -> Dim:
    """``dividend % divisor``, with the sign of the divisor. Raises ZeroDivisionError for the divisor 0."""
    if not isinstance(divisor, SymExpr) and divisor == 0:
        raise ZeroDivisionError(f"({dividend}) % 0: a size cannot be divided by zero")
    if not isinstance(dividend, SymExpr) and not isinstance(divisor, SymExpr):
        return dividend % divisor
    if leading_coefficient(divisor) < 0:
        return -floormod(-dividend, -divisor)
    if isinstance(divisor, int):
        dividend = _without_inner_remainders(dividend, divisor)
    _, rest = _divide(dividend, divisor, partial=True)
    if (known := _quotient_in_range(rest, divisor)) is not None:
        return rest - divisor * known
    factor = _common_factor(rest, divisor)
    if factor == 1:
        return FloorMod(rest, divisor)
    scaled, constant = _divide_by_factor(rest, factor)
    return factor * floormod(scaled, _divide_by_factor(divisor, factor)[0]) + constant


def ceildiv(dividend: Dim, divisor: Dim) -> Dim:
    """``dividend / divisor`` rounded towards plus infinity. Raises ZeroDivisionError for the divisor 0."""
    return -floordiv(-dividend, divisor)


def exact_divide(dividend: Dim, divisor: Dim) -> Dim | None:
    """``dividend / divisor`` if the dividend is known to be a multiple of the divisor, else None.

    A symbolic divisor is assumed not to be 0. For the divisor 0 the answer is None.
    """
    if isinstance(dividend, int) and isinstance(divisor, int):
        return dividend // divisor if divisor and dividend % divisor == 0 else None
    if divisor == 0:
        return None
    for candidate in (dividend, expand_divisions(dividend)):
        quotient, rest = _divide(candidate, divisor)
        if rest == 0:
            return quotient
    return None


def _monomial_quotient(dividend: Monomial, divisor: Monomial) -> Monomial | None:
    rest = list(dividend)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def _divide(dividend: Dim, divisor: Dim, *, partial: bool = False) -> tuple[Dim, Dim]:
    """A quotient and the rest, ``dividend == quotient * divisor + rest``, by long division of polynomials.

    A term goes into the quotient if it is a multiple of the divisor's leading term. A constant multiple of that term
    leaves a coefficient from 0 up to the divisor's, so dims that differ by a multiple of the divisor
    have the same rest. With ``partial``, every term is reduced, towards zero. Division by a sum is done only
    if it shortens the dividend.
    """
    if isinstance(divisor, int):
        return divide_by_term(dividend, ONE, divisor, partial)
    (leading, coefficient), *others = divisor.terms
    if not others:
        return divide_by_term(dividend, leading, coefficient, partial)
    quotient: Dim = 0
    work = dividend
    settled: set[Monomial] = set()
    while open_terms := [term for term in terms_of(work).items() if term[0] not in settled]:
        # A step changes only this term and terms of lower order, so each term is handled once.
        monomial, value = min(open_terms, key=term_key)
        settled.add(monomial)
        step, _ = divide_by_term(monomial_product(monomial, value), leading, coefficient, partial)
        quotient = quotient + step
        work = work - step * divisor
    return (quotient, work) if len(terms_of(work)) < len(terms_of(dividend)) else (0, dividend)


def divide_by_term(dividend: Dim, atoms: Monomial, coefficient: int, partial: bool) -> tuple[Dim, Dim]:
    """The quotient and the rest of the division by one term, ``coefficient`` times the product of ``atoms``."""
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, value in terms_of(dividend).items():
        count = 0
        quotient_atoms = _monomial_quotient(monomial, atoms) if atoms else monomial
        if quotient_atoms is not None:
            count, over = divmod(value, coefficient)
            if over and quotient_atoms and not partial:
                count = 0
            elif over and quotient_atoms and count < 0:
                count += 1
        if quotient_atoms is not None and count:
            quotient[quotient_atoms] = count
        if value != count * coefficient:
            rest[monomial] = value - count * coefficient
    return from_terms(quotient), from_terms(rest)


def _common_factor(rest: Dim, divisor: Dim) -> Dim:
    """The common factor of the divisor and the rest.

    If the factor is a number and the divisor is known to be positive, the rest's constant term is ignored.
    """
    monomials = [*terms_of(rest).items(), *terms_of(divisor).items()]
    shared: Monomial = monomials[0][0]
    for monomial, _ in monomials:
        rest_of_shared = list(monomial)
        kept: list[SymExpr] = []
        for atom in shared:
            if atom in rest_of_shared:
                rest_of_shared.remove(atom)
                kept.append(atom)
        shared = tuple(kept)
    skip_constant = shared == ONE and dim_at_least(divisor, 0) is True
    content = gcd(*terms_of(divisor).values())
    content = gcd(content, *(value for atoms, value in terms_of(rest).items() if atoms or not skip_constant))
    return monomial_product(shared, content)


def _divide_by_factor(dim: Dim, factor: Dim) -> tuple[Dim, int]:
    """The floor of ``dim / factor`` for a one-term factor, and the constant that is lost by rounding down."""
    [(atoms, content)] = terms_of(factor).items()
    if atoms == ONE:
        constant = constant_of(dim) % content
        terms = terms_of(dim - constant)
        return from_terms({monomial: value // content for monomial, value in terms.items()}), constant
    quotient: dict[Monomial, int] = {}
    for monomial, value in terms_of(dim).items():
        quotient[cast(Monomial, _monomial_quotient(monomial, atoms))] = value // content
    return from_terms(quotient), 0


def _quotient_in_range(rest: Dim, divisor: Dim) -> int | None:
    """The quotient, if the bounds of both operands allow only one; else None."""
    if rest == 0:
        return 0
    low, high = bounds(rest)
    if isinstance(divisor, int):
        if low is not None and high is not None and low // divisor == high // divisor:
            return low // divisor
        return None
    if low is not None and low >= 0 and dim_less(rest, divisor):
        return 0
    if high is not None and high < 0 and dim_at_least(rest + divisor, 0):
        return -1
    return None


def _proper_quotient(rest: Dim, divisor: Dim) -> Dim:
    """``rest // divisor`` for a rest of `_divide`, from which no multiple of the divisor can be split off."""
    if isinstance(rest, int) and isinstance(divisor, int):
        return rest // divisor
    if (known := _quotient_in_range(rest, divisor)) is not None:
        return known
    factor = _common_factor(rest, divisor)
    if factor != 1:
        return floordiv(_divide_by_factor(rest, factor)[0], _divide_by_factor(divisor, factor)[0])
    if dim_at_least(divisor, 0):  # then it is positive, since it cannot be 0
        if (merged := _merge_inner_quotient(rest, divisor)) is not None:
            return merged
        if leading_coefficient(rest) < 0:
            rounded_up = divisor - 1 - rest
            if leading_coefficient(_divide(rounded_up, divisor)[1]) >= 0:
                return -floordiv(rounded_up, divisor)
    return FloorDiv(rest, divisor)


def _merge_inner_quotient(rest: Dim, divisor: Dim) -> Dim | None:
    """``rest // divisor`` as one quotient, if ``rest`` has exactly one inner quotient with coefficient 1 or -1.

    ``(p + x // a) // b`` is ``(a * p + x) // (a * b)`` for a positive b. ``(p - x // a) // b`` is one quotient too, if
    a is also positive. Returns None in other cases.
    """
    inner = [
        (atoms[0], coefficient)
        for atoms, coefficient in terms_of(rest).items()
        if len(atoms) == 1 and isinstance(atoms[0], FloorDiv) and abs(coefficient) == 1
    ]
    if len(inner) != 1:
        return None
    atom, sign = inner[0]
    inner_dividend, inner_divisor = atom.operands
    if sign < 0 and not dim_at_least(inner_divisor, 0):
        return None
    outer = (rest - atom * sign) * inner_divisor + inner_dividend * sign
    return floordiv(outer if sign > 0 else outer + inner_divisor - 1, divisor * inner_divisor)


def _without_inner_remainders(dim: Dim, divisor: int) -> Dim:
    """A dim equal to ``dim`` modulo the divisor: ``k * (x % d)`` becomes ``k * x`` if the divisor divides ``k * d``."""
    for atoms, coefficient in terms_of(dim).items():
        if len(atoms) == 1 and isinstance(atoms[0], FloorMod):
            inner_dividend, inner_divisor = atoms[0].operands
            if isinstance(inner_divisor, int) and coefficient * inner_divisor % divisor == 0:
                dim = dim + (inner_dividend - atoms[0]) * coefficient
    return dim


def expand_divisions(dim: Dim) -> Dim:
    """``dim`` with ``p % q`` as ``p - q * (p // q)`` and whole parts moved out of ``p // q``, for use in proofs."""
    if not any(isinstance(atom, (FloorDiv, FloorMod)) for monomial in terms_of(dim) for atom in monomial):
        return dim
    expanded: Dim = 0
    for monomial, coefficient in terms_of(dim).items():
        product: Dim = coefficient
        for atom in monomial:
            product = product * (_expand_atom(atom) if isinstance(atom, (FloorDiv, FloorMod)) else atom)
        expanded = expanded + product
    return expanded


def _expand_atom(atom: FloorDiv | FloorMod) -> Dim:
    dividend, divisor = atom.operands
    quotient, rest = _divide(dividend, divisor, partial=True)
    floor = quotient + _proper_quotient(rest, divisor)
    return floor if isinstance(atom, FloorDiv) else dividend - divisor * floor


FloorDiv.build = staticmethod(floordiv)
FloorMod.build = staticmethod(floormod)
