"""Elementwise logic on truth values, and on the bits of integers, with NumPy's broadcasting.

Both operands have one dtype. The operators of one operand (``logical_not``, ``bitwise_not``) are in `unary`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dtypes import is_exact, is_integer
from ...ir.op import Trait, TypeRule
from ..row import binary
from ..rules import OfKinds, broadcast_rule
from ..semantics import standard

__all__ = [
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "left_shift",
    "logical_and",
    "logical_or",
    "logical_xor",
    "right_shift",
]

_BITS = OfKinds(broadcast_rule, is_exact, "integers or bool")
_INTEGERS = OfKinds(broadcast_rule, is_integer, "integers")
_SHIFT = (Trait.ELEMENTWISE, Trait.STOPS_GRADIENT)
_EXCLUSIVE = (*_SHIFT, Trait.COMMUTATIVE, Trait.ASSOCIATIVE)
_INCLUSIVE = (*_EXCLUSIVE, Trait.IDEMPOTENT)
_OF_TRUTHS = "A number counts as true unless it is 0, and the result is 0 or 1."
_OF_WIDTH = "A negative ``x2``, or one not below the width of the dtype, has no defined result."


def _declare(
    name: str, infer: TypeRule, traits: Sequence[Trait], says: str, note: str = "", meaning: str | None = None
):
    """An operator that means the array API function ``meaning``, and the function that people call."""
    return binary(name, infer, standard(meaning or name), traits, says, note)


logical_and = _declare("logical_and", broadcast_rule, _INCLUSIVE, "True where both elements are true", _OF_TRUTHS)
logical_or = _declare(
    "logical_or", broadcast_rule, _INCLUSIVE, "True where at least one of the elements is true", _OF_TRUTHS
)
logical_xor = _declare(
    "logical_xor", broadcast_rule, _EXCLUSIVE, "True where exactly one of the elements is true", _OF_TRUTHS
)
bitwise_and = _declare("bitwise_and", _BITS, _INCLUSIVE, 'The bits that both elements have; on bool it is "and"')
bitwise_or = _declare(
    "bitwise_or", _BITS, _INCLUSIVE, 'The bits that one of the elements has or both have; on bool it is "or"'
)
bitwise_xor = _declare(
    "bitwise_xor", _BITS, _EXCLUSIVE, "The bits that exactly one of the elements has; on bool it is ``!=``"
)
left_shift = _declare(
    "left_shift",
    _INTEGERS,
    _SHIFT,
    "``x1`` with its bits moved up by ``x2`` places, and lost beyond the width",
    _OF_WIDTH,
    "bitwise_left_shift",
)
right_shift = _declare(
    "right_shift",
    _INTEGERS,
    _SHIFT,
    "``x1 / 2**x2`` rounded down: its bits moved down by ``x2`` places",
    _OF_WIDTH,
    "bitwise_right_shift",
)
