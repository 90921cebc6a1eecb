"""Elementwise logic on truth values, and on the bits of integers, with NumPy's broadcasting.

Both operands have one dtype. The operators of one operand (``logical_not``, ``bitwise_not``) are in `unary`.
Each operator is declared whole here: type rule, meaning, traits, and the function people call.
"""

from __future__ import annotations

from ...ir.dtypes import is_bool, is_integer
from ...ir.expr import Expr
from ...ir.op import Call, Trait
from ..row import primitive
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

_BITS = OfKinds(broadcast_rule, lambda dtype: is_integer(dtype) or is_bool(dtype), "integers or bool")
_INTEGERS = OfKinds(broadcast_rule, is_integer, "integers")
_SHIFT = (Trait.ELEMENTWISE, Trait.STOPS_GRADIENT)
_EXCLUSIVE = (*_SHIFT, Trait.COMMUTATIVE, Trait.ASSOCIATIVE)
_INCLUSIVE = (*_EXCLUSIVE, Trait.IDEMPOTENT)

LOGICAL_AND = primitive(
    "relax.logical_and", ("x1", "x2"), infer=broadcast_rule, reference=standard("logical_and"), traits=_INCLUSIVE
)


def logical_and(x1: Expr | bool, x2: Expr | bool) -> Call:
    """Whether both elements are true; follows ``numpy.logical_and`` on bool.

    Operands: tensors of one dtype; a number counts as true unless it is 0, and the result is 0 or 1. Result: that
    dtype, the broadcast shape. Raises `OpTypeError` when dtypes differ or shapes do not broadcast.
    """
    return LOGICAL_AND(x1, x2)


LOGICAL_OR = primitive(
    "relax.logical_or", ("x1", "x2"), infer=broadcast_rule, reference=standard("logical_or"), traits=_INCLUSIVE
)


def logical_or(x1: Expr | bool, x2: Expr | bool) -> Call:
    """Whether at least one of the elements is true; follows ``numpy.logical_or`` on bool.

    Operands: tensors of one dtype; a number counts as true unless it is 0, and the result is 0 or 1. Result: that
    dtype, the broadcast shape. Raises `OpTypeError` when dtypes differ or shapes do not broadcast.
    """
    return LOGICAL_OR(x1, x2)


LOGICAL_XOR = primitive(
    "relax.logical_xor", ("x1", "x2"), infer=broadcast_rule, reference=standard("logical_xor"), traits=_EXCLUSIVE
)


def logical_xor(x1: Expr | bool, x2: Expr | bool) -> Call:
    """Whether exactly one of the elements is true; follows ``numpy.logical_xor`` on bool.

    Operands: tensors of one dtype; a number counts as true unless it is 0, and the result is 0 or 1. Result: that
    dtype, the broadcast shape. Raises `OpTypeError` when dtypes differ or shapes do not broadcast.
    """
    return LOGICAL_XOR(x1, x2)


BITWISE_AND = primitive(
    "relax.bitwise_and", ("x1", "x2"), infer=_BITS, reference=standard("bitwise_and"), traits=_INCLUSIVE
)


def bitwise_and(x1: Expr | int, x2: Expr | int) -> Call:
    """The bits that both elements have; on bool it is "and"; follows ``numpy.bitwise_and``.

    Operands: tensors of one dtype, integers or bool. Result: that dtype, the broadcast shape.
    Raises `OpTypeError` for other dtypes, and when dtypes differ or shapes do not broadcast.
    """
    return BITWISE_AND(x1, x2)


BITWISE_OR = primitive(
    "relax.bitwise_or", ("x1", "x2"), infer=_BITS, reference=standard("bitwise_or"), traits=_INCLUSIVE
)


def bitwise_or(x1: Expr | int, x2: Expr | int) -> Call:
    """The bits that one of the elements has or both have; on bool it is "or"; follows ``numpy.bitwise_or``.

    Operands: tensors of one dtype, integers or bool. Result: that dtype, the broadcast shape.
    Raises `OpTypeError` for other dtypes, and when dtypes differ or shapes do not broadcast.
    """
    return BITWISE_OR(x1, x2)


BITWISE_XOR = primitive(
    "relax.bitwise_xor", ("x1", "x2"), infer=_BITS, reference=standard("bitwise_xor"), traits=_EXCLUSIVE
)


def bitwise_xor(x1: Expr | int, x2: Expr | int) -> Call:
    """The bits that exactly one of the elements has; on bool it is ``!=``; follows ``numpy.bitwise_xor``.

    Operands: tensors of one dtype, integers or bool. Result: that dtype, the broadcast shape.
    Raises `OpTypeError` for other dtypes, and when dtypes differ or shapes do not broadcast.
    """
    return BITWISE_XOR(x1, x2)


LEFT_SHIFT = primitive(
    "relax.left_shift", ("x1", "x2"), infer=_INTEGERS, reference=standard("bitwise_left_shift"), traits=_SHIFT
)


def left_shift(x1: Expr | int, x2: Expr | int) -> Call:
    """``x1`` with its bits moved up by ``x2`` places; follows ``numpy.left_shift``.

    Bits beyond the width of the dtype are lost. A negative ``x2``, or one not below the width, has no defined
    result. Operands: tensors of one integer dtype. Result: that dtype, the broadcast shape. Raises
    `OpTypeError` for other dtypes, and when dtypes differ or shapes do not broadcast.
    """
    return LEFT_SHIFT(x1, x2)


RIGHT_SHIFT = primitive(
    "relax.right_shift",
    ("x1", "x2"),
    infer=_INTEGERS,
    reference=standard("bitwise_right_shift"),
    traits=_SHIFT,
)


def right_shift(x1: Expr | int, x2: Expr | int) -> Call:
    """``x1`` with its bits moved down by ``x2`` places, keeping its sign; follows ``numpy.right_shift``.

    So the result is ``x1 / 2**x2`` rounded down. A negative ``x2``, or one not below the width, has no
    defined result. Operands: tensors of one integer dtype. Result: that dtype, the broadcast shape. Raises
    `OpTypeError` for other dtypes, and when dtypes differ or shapes do not broadcast.
    """
    return RIGHT_SHIFT(x1, x2)
