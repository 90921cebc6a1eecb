"""Elementwise comparisons of two tensors, with NumPy's broadcasting; the results are bool.

The operands may have two dtypes: elements are compared as the numbers that they are, in a dtype that holds both as
NumPy chooses it. Each row declares an operator whole, and gives the function that people call.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.op import Reference, Trait, TypeRule
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

_EQUALITY = verdict_rule
_ORDER = OfKinds(verdict_rule, has_order, "real numbers or bool: complex numbers have no order")
_ONE_WAY = (Trait.ELEMENTWISE, Trait.STOPS_GRADIENT)
_BOTH_WAYS = (*_ONE_WAY, Trait.COMMUTATIVE)


def _declare(name: str, infer: TypeRule, reference: Reference, traits: Sequence[Trait], text: str) -> BinaryFunction:
    """An operator of this family, and the function that people call."""
    return binary_function(
        primitive(f"relax.{name}", ("x1", "x2"), infer=infer, reference=reference, traits=traits), text
    )


equal = _declare(
    "equal",
    _EQUALITY,
    array_function("equal"),
    _BOTH_WAYS,
    """``x1 == x2``: whether two elements are equal; NaN equals nothing.

    Follows ``numpy.equal``. Operands: tensors or scalars. Result: bool, the broadcast shape.
    Raises `OpTypeError` when shapes do not broadcast.
    """,
)
greater = _declare(
    "greater",
    _ORDER,
    array_function("greater"),
    _ONE_WAY,
    """``x1 > x2``: whether the first element is above the second; false when either is NaN.

    Follows ``numpy.greater``. Operands: tensors or scalars. Result: bool, the broadcast shape.
    Raises `OpTypeError` when shapes do not broadcast.
    """,
)
greater_equal = _declare(
    "greater_equal",
    _ORDER,
    array_function("greater_equal"),
    _ONE_WAY,
    """``x1 >= x2``: whether the first element is not below the second; false when either is NaN.

    Follows ``numpy.greater_equal``. Operands: tensors or scalars. Result: bool, the broadcast shape.
    Raises `OpTypeError` when shapes do not broadcast.
    """,
)
less = _declare(
    "less",
    _ORDER,
    array_function("less"),
    _ONE_WAY,
    """``x1 < x2``: whether the first element is below the second; false when either is NaN.

    Follows ``numpy.less``. Operands: tensors or scalars. Result: bool, the broadcast shape.
    Raises `OpTypeError` when shapes do not broadcast.
    """,
)
less_equal = _declare(
    "less_equal",
    _ORDER,
    array_function("less_equal"),
    _ONE_WAY,
    """``x1 <= x2``: whether the first element is not above the second; false when either is NaN.

    Follows ``numpy.less_equal``. Operands: tensors or scalars. Result: bool, the broadcast shape.
    Raises `OpTypeError` when shapes do not broadcast.
    """,
)
not_equal = _declare(
    "not_equal",
    _EQUALITY,
    array_function("not_equal"),
    _BOTH_WAYS,
    """``x1 != x2``: whether two elements differ; NaN differs from everything.

    Follows ``numpy.not_equal``. Operands: tensors or scalars. Result: bool, the broadcast shape.
    Raises `OpTypeError` when shapes do not broadcast.
    """,
)
