"""Elementwise comparisons of two tensors, logical and bitwise operators, with NumPy's broadcasting.

The operands of a comparison may have different dtypes: they are compared in their common dtype by NumPy's promotion.
The operands of the other operators have one dtype. The operators of one operand (``logical_not``,
``bitwise_not``) are in `unary`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dtypes import is_exact, is_integer
from ...ir.op import Trait, TypeRule
from ..row import binary
from ..rules import OfKinds, broadcast_rule, has_order, verdict_rule
from ..semantics import array_function, standard

__all__ = [
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "equal",
    "greater",
    "greater_equal",
    "left_shift",
    "less",
    "less_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "not_equal",
    "right_shift",
]

_ORDER = OfKinds(verdict_rule, has_order, "real numbers or bool: complex numbers have no order")
_ONE_WAY = (Trait.ELEMENTWISE, Trait.STOPS_GRADIENT)
_BOTH_WAYS = (*_ONE_WAY, Trait.COMMUTATIVE)
_OF_NAN = "false if either is NaN"


def _comparison(name: str, sign: str, infer: TypeRule, traits: Sequence[Trait], says: str):
    """Declare a comparison, computed by the array API function of the same name. Returns its public function."""
    text, takes = f"``x1 {sign} x2``: true where {says}", "tensors or scalars"
    return binary(name, infer, array_function(name), traits, text, takes=takes, result="bool")


equal = _comparison("equal", "==", verdict_rule, _BOTH_WAYS, "the two elements are equal; NaN equals nothing")
greater = _comparison("greater", ">", _ORDER, _ONE_WAY, f"the first element is greater than the second; {_OF_NAN}")
greater_equal = _comparison(
    "greater_equal", ">=", _ORDER, _ONE_WAY, f"the first element is greater than or equal to the second; {_OF_NAN}"
)
less = _comparison("less", "<", _ORDER, _ONE_WAY, f"the first element is less than the second; {_OF_NAN}")
less_equal = _comparison(
    "less_equal", "<=", _ORDER, _ONE_WAY, f"the first element is less than or equal to the second; {_OF_NAN}"
)
not_equal = _comparison(
    "not_equal", "!=", verdict_rule, _BOTH_WAYS, "the two elements differ; NaN differs from everything"
)

# --- logic

_BITS = OfKinds(broadcast_rule, is_exact, "integers or bool")
_INTEGERS = OfKinds(broadcast_rule, is_integer, "integers")
_EXCLUSIVE = (*_BOTH_WAYS, Trait.ASSOCIATIVE)
_INCLUSIVE = (*_EXCLUSIVE, Trait.IDEMPOTENT)
_OF_TRUTHS = "A number counts as true unless it is 0. The result is 0 or 1."
_OF_WIDTH = "The result is not defined for an ``x2`` that is negative, or not below the width of the dtype in bits."


def _logic(name: str, infer: TypeRule, traits: Sequence[Trait], says: str, note: str = "", meaning: str | None = None):
    """Declare an operator that is the array API function ``meaning``. Returns its public function."""
    return binary(name, infer, standard(meaning or name), traits, says, note)


logical_and = _logic("logical_and", broadcast_rule, _INCLUSIVE, "True where both elements are true", _OF_TRUTHS)
logical_or = _logic(
    "logical_or", broadcast_rule, _INCLUSIVE, "True where at least one of the elements is true", _OF_TRUTHS
)
logical_xor = _logic(
    "logical_xor", broadcast_rule, _EXCLUSIVE, "True where exactly one of the elements is true", _OF_TRUTHS
)
bitwise_and = _logic("bitwise_and", _BITS, _INCLUSIVE, 'The bits that are set in both elements; on bool it is "and"')
bitwise_or = _logic(
    "bitwise_or", _BITS, _INCLUSIVE, 'The bits that are set in at least one of the elements; on bool it is "or"'
)
bitwise_xor = _logic(
    "bitwise_xor", _BITS, _EXCLUSIVE, "The bits that are set in exactly one of the elements; on bool it is ``!=``"
)
left_shift = _logic(
    "left_shift",
    _INTEGERS,
    _ONE_WAY,
    "``x1`` with its bits shifted left by ``x2`` places; bits beyond the width are lost",
    _OF_WIDTH,
    "bitwise_left_shift",
)
right_shift = _logic(
    "right_shift",
    _INTEGERS,
    _ONE_WAY,
    "``x1 / 2**x2`` rounded down: ``x1`` with its bits shifted right by ``x2`` places",
    _OF_WIDTH,
    "bitwise_right_shift",
)
