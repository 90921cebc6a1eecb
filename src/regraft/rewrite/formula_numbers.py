"""The numbers of a formula, compared after the rest of it has matched, so that a reason can name a wrong number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..analysis.values import is_number
from ..ir.expr import Constant, PrimValue, number_of
from ..pattern.build import is_const, wildcard
from ..pattern.pattern import DFPattern

_ANY: Final = 1e300
"""A relative distance that reaches from each number except 0 to all others."""


class FormulaNumbers(dict[DFPattern, float]):
    """The constants of a formula, with the number that each must be."""

    def __call__(self, number: float) -> DFPattern:
        """The pattern of the constant ``number``; it matches other numbers as well."""
        constant = is_const(number, _ANY) if number else is_const()
        self[constant] = number
        return constant

    def bound(self, number: float) -> DFPattern:
        """The pattern of ``number`` for an operator that takes it as a number and not as a tensor."""
        bound = wildcard()
        self[bound] = number
        return bound

    def wrong_in(self, found: Mapping[Any, Any]) -> str | None:
        """A reason that names a wrong constant of a match; None if all are right."""
        for pattern, number in self.items():
            constant = found.get(pattern)
            if isinstance(constant, PrimValue) and constant.value != number:
                return f"a bound is {constant.value}, where the formula has {number}"
            if isinstance(constant, Constant) and not is_number(constant, number, 0.0):
                held = f"{number_of(constant)}" if constant.data.size == 1 else "a tensor"
                return f"a constant is {held}, where the formula has {number}"
        return None
