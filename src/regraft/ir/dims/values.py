"""Equality of values, substitution and evaluation of variables, and matching."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import cast

from .bounds import bounds, dim_at_least
from .division import exact_divide, expand_divisions
from .extremum import over_zero
from .symbolic import (
    Dim,
    FloorDiv,
    FloorMod,
    Operation,
    SymVar,
    add_all,
    constant_of,
    dim_product,
    free_symvars,
    terms_of,
)


def dims_equal(first: Dim, second: Dim) -> bool | None:
    """The equality of two dims: True for all sizes, False for none, None if that is not known."""
    if first is second:
        return True
    difference = first - second
    if isinstance(difference, int):
        return difference == 0
    expanded = over_zero(expand_divisions(difference))
    if isinstance(expanded, int):
        return expanded == 0
    for form in (difference,) if expanded is difference else (difference, expanded):
        low, high = bounds(form)
        if (low is not None and low > 0) or (high is not None and high < 0):
            return False
        if constant_of(form) % gcd(*(value for atoms, value in form.coefficients.items() if atoms)):
            return False
    return None


def substitute(dim: Dim, mapping: Mapping[SymVar, Dim]) -> Dim:
    """``dim`` with all variables of ``mapping`` replaced at once; other variables stay.

    Raises ZeroDivisionError if a divisor becomes 0.
    """
    if isinstance(dim, int) or not mapping:
        return dim
    if isinstance(dim, SymVar):
        return mapping.get(dim, dim)
    if not any(variable in mapping for variable in dim.free_symvars):
        return dim
    if isinstance(dim, Operation):
        return dim.build(*(substitute(operand, mapping) for operand in dim.operands))
    return add_all(
        dim_product((coefficient, *(substitute(atom, mapping) for atom in atoms))) for atoms, coefficient in dim.terms
    )


def evaluate(dim: Dim, mapping: Mapping[SymVar, int]) -> int:
    """The value of ``dim`` for given sizes.

    Raises ValueError for a variable without a value or with a negative size, ZeroDivisionError if a divisor
    is 0.
    """
    for variable in free_symvars(dim):
        if variable not in mapping:
            raise ValueError(f"{dim} has no value: no size is given for {variable}")
        if variable.least is not None and mapping[variable] < variable.least:
            raise ValueError(f"{variable} = {mapping[variable]} in {dim}: a size is at least 0")
    return _value(dim, mapping)


def _value(dim: Dim, mapping: Mapping[SymVar, int]) -> int:
    if isinstance(dim, int):
        return dim
    if isinstance(dim, SymVar):
        return mapping[dim]
    if isinstance(dim, Operation):
        values = [_value(operand, mapping) for operand in dim.operands]
        if isinstance(dim, (FloorDiv, FloorMod)) and values[1] == 0:
            raise ZeroDivisionError(f"{dim} has no value: its divisor {dim.operands[1]} is 0")
        return cast(int, dim.build(*values))
    total = 0
    for atoms, coefficient in dim.coefficients.items():
        for atom in atoms:
            coefficient *= _value(atom, mapping)
        total += coefficient
    return total


def match_dim(pattern: Dim, value: Dim, binding: dict[SymVar, Dim]) -> bool | None:
    """True if ``pattern``, with its variables replaced by ``binding``, equals ``value``; None if it is not known.

    A pattern that is linear in one unbound variable, such as ``n`` or ``n * 4 + 1``, binds it: ``binding`` is
    extended only if the answer is True. A size variable is never bound to a value that is known to be negative. The
    variables of ``value`` are not the pattern's, even if they are the same objects.
    """
    if isinstance(pattern, SymVar) and pattern not in binding:
        if pattern.least is not None and dim_at_least(value, pattern.least) is False:
            return False
        binding[pattern] = value
        return True
    unbound = [variable for variable in free_symvars(pattern) if variable not in binding]
    if not unbound:
        return dims_equal(substitute(pattern, binding), value)
    fresh = {variable: SymVar(variable.name, variable.dtype, least=variable.least) for variable in unbound}
    expected = substitute(pattern, {**binding, **fresh})
    verdict = dims_equal(expected, value)
    if verdict is not None or len(unbound) != 1:
        return verdict
    [(variable, stand_in)] = fresh.items()
    factor = terms_of(expected).get((stand_in,), 0)
    rest = expected - stand_in * factor
    if not factor or stand_in in free_symvars(rest):
        return None
    solution = exact_divide(value - rest, factor)
    if solution is None:
        return None
    if variable.least is not None and dim_at_least(solution, variable.least) is False:
        return False
    binding[variable] = solution
    return True
