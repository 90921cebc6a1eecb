"""Elementwise comparisons of two tensors, with NumPy's broadcasting; the results are bool.

The operands may have two dtypes: elements are compared as the numbers that they are, in a dtype that holds both as
NumPy chooses it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.op import Trait, TypeRule
from ..row import binary
from ..rules import OfKinds, has_order, verdict_rule
from ..semantics import array_function

__all__ = [
    "equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "not_equal",
]

_ORDER = OfKinds(verdict_rule, has_order, "real numbers or bool: complex numbers have no order")
_ONE_WAY = (Trait.ELEMENTWISE, Trait.STOPS_GRADIENT)
_BOTH_WAYS = (*_ONE_WAY, Trait.COMMUTATIVE)
_OF_NAN = "false when either is NaN"


def _declare(name: str, sign: str, infer: TypeRule, traits: Sequence[Trait], says: str):
    """The operator that means the array API function of its name, and the function that people call."""
    text, takes = f"``x1 {sign} x2``: true where {says}", "tensors or scalars"
    return binary(name, infer, array_function(name), traits, text, takes=takes, result="bool")


equal = _declare("equal", "==", verdict_rule, _BOTH_WAYS, "two elements are equal; NaN equals nothing")
greater = _declare("greater", ">", _ORDER, _ONE_WAY, f"the first element is above the second; {_OF_NAN}")
greater_equal = _declare(
    "greater_equal", ">=", _ORDER, _ONE_WAY, f"the first element is not below the second; {_OF_NAN}"
)
less = _declare("less", "<", _ORDER, _ONE_WAY, f"the first element is below the second; {_OF_NAN}")
less_equal = _declare("less_equal", "<=", _ORDER, _ONE_WAY, f"the first element is not above the second; {_OF_NAN}")
not_equal = _declare("not_equal", "!=", verdict_rule, _BOTH_WAYS, "two elements differ; NaN differs from everything")
