"""Elementwise comparisons of two tensors, with NumPy's broadcasting; the results are bool.

The operands may have two dtypes: elements are compared as the numbers that they are, in a dtype that holds both as
NumPy chooses it. Each row declares an operator whole, and gives the function that people call.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.op import Trait, TypeRule
from ..row import BinaryFunction, binary_function, primitive
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


def _declare(name: str, sign: str, infer: TypeRule, traits: Sequence[Trait], says: str) -> BinaryFunction:
    """The operator that means the array API function of its name, and the function that people call."""
    text = f"""``x1 {sign} x2``: {says}.

    Follows ``numpy.{name}``. Operands: tensors or scalars. Result: bool, the broadcast shape.
    Raises `OpTypeError` when shapes do not broadcast.
    """
    reference = array_function(name)
    row = primitive(f"relax.{name}", ("x1", "x2"), infer=infer, reference=reference, traits=traits)
    return binary_function(row, text)


equal = _declare("equal", "==", verdict_rule, _BOTH_WAYS, "true where two elements are equal; NaN equals nothing")
greater = _declare(
    "greater", ">", _ORDER, _ONE_WAY, "true where the first element is above the second; false when either is NaN"
)
greater_equal = _declare(
    "greater_equal",
    ">=",
    _ORDER,
    _ONE_WAY,
    "true where the first element is not below the second; false when either is NaN",
)
less = _declare(
    "less", "<", _ORDER, _ONE_WAY, "true where the first element is below the second; false when either is NaN"
)
less_equal = _declare(
    "less_equal",
    "<=",
    _ORDER,
    _ONE_WAY,
    "true where the first element is not above the second; false when either is NaN",
)
not_equal = _declare(
    "not_equal", "!=", verdict_rule, _BOTH_WAYS, "true where two elements differ; NaN differs from everything"
)
