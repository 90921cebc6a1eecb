"""Elementwise functions of one tensor that need no tables: sign, rounding, tests of a value, "not".

Each operator is declared whole here: type rule, meaning, traits, and the function people call. The
functions of mathematics (``exp``, ``sin``, ``erf`` ...) are in `elementary`.
"""

from __future__ import annotations

from typing import Any

from ...ir.dtypes import is_bool, is_float, is_integer
from ...ir.expr import Expr
from ...ir.op import Call, Precision, Trait
from ..row import primitive
from ..rules import OfKinds, boolean_result, has_order, same_type
from ..semantics import array_function, dtype_name, rounded_once, standard

__all__ = [
    "abs",
    "bitwise_not",
    "ceil",
    "floor",
    "isfinite",
    "isinf",
    "isnan",
    "logical_not",
    "negative",
    "round",
    "sign",
    "square",
    "trunc",
]

_NUMERIC = OfKinds(same_type, lambda dtype: not is_bool(dtype), "numbers, not bool")
_REAL = OfKinds(same_type, lambda dtype: is_float(dtype) or is_integer(dtype), "real numbers")
_ROUNDED = OfKinds(same_type, has_order, "real numbers")
_BITS = OfKinds(same_type, lambda dtype: is_integer(dtype) or is_bool(dtype), "integers or bool")
_TEST = boolean_result(same_type)

_ELEMENTWISE = (Trait.ELEMENTWISE,)
_STEPS = (Trait.ELEMENTWISE, Trait.IDEMPOTENT, Trait.STOPS_GRADIENT)
"""Of functions that are constant between jumps: doing it again changes nothing, and the slope is zero."""
_VERDICT = (Trait.ELEMENTWISE, Trait.STOPS_GRADIENT)


def _rounding(name: str) -> Any:
    """The meaning of a rounding function: integers are what they are rounded to."""
    round_floats = rounded_once(array_function(name))

    def reference(xp: Any, x: Any) -> Any:
        return round_floats(xp, x) if is_float(dtype_name(x.dtype)) else x

    return reference


ABS = primitive(
    "relax.abs",
    ("x",),
    infer=_NUMERIC,
    reference=standard("abs"),
    traits=(Trait.ELEMENTWISE, Trait.IDEMPOTENT),
    finite=True,
)


def abs(x: Expr) -> Call:
    """The magnitude of each element; follows ``numpy.abs``.

    Operands: ``x``, a tensor of numbers. Result: its type. The least signed integer stays what it is.
    Raises `OpTypeError` for bool.
    """
    return ABS(x)


NEGATIVE = primitive(
    "relax.negative",
    ("x",),
    infer=_NUMERIC,
    reference=standard("negative"),
    traits=(Trait.ELEMENTWISE, Trait.INVOLUTIVE),
    precision=Precision.FOLLOWS,
    finite=True,
)


def negative(x: Expr) -> Call:
    """``-x``, elementwise; follows ``numpy.negative``.

    Operands: ``x``, a tensor of numbers. Result: its type. Unsigned integers wrap around.
    Raises `OpTypeError` for bool.
    """
    return NEGATIVE(x)


SIGN = primitive("relax.sign", ("x",), infer=_REAL, reference=standard("sign"), traits=_STEPS)


def sign(x: Expr) -> Call:
    """-1, 0 or 1 as each element is below, at or above zero, and NaN for NaN; follows ``numpy.sign``.

    Operands: ``x``, a tensor of real numbers. Result: its type. Raises `OpTypeError` for other dtypes.
    """
    return SIGN(x)


SQUARE = primitive(
    "relax.square", ("x",), infer=_NUMERIC, reference=standard("square"), traits=_ELEMENTWISE, finite=True
)


def square(x: Expr) -> Call:
    """``x * x``, elementwise; follows ``numpy.square``.

    Operands: ``x``, a tensor of numbers. Result: its type. Integers wrap around.
    Raises `OpTypeError` for bool.
    """
    return SQUARE(x)


# --- rounding

CEIL = primitive("relax.ceil", ("x",), infer=_ROUNDED, reference=_rounding("ceil"), traits=_STEPS)


def ceil(x: Expr) -> Call:
    """The least integer that is not below each element; follows ``numpy.ceil``.

    Operands: ``x``, a tensor of real numbers. Result: its type. Raises `OpTypeError` for other dtypes.
    """
    return CEIL(x)


FLOOR = primitive("relax.floor", ("x",), infer=_ROUNDED, reference=_rounding("floor"), traits=_STEPS)


def floor(x: Expr) -> Call:
    """The greatest integer that is not above each element; follows ``numpy.floor``.

    Operands: ``x``, a tensor of real numbers. Result: its type. Raises `OpTypeError` for other dtypes.
    """
    return FLOOR(x)


ROUND = primitive("relax.round", ("x",), infer=_ROUNDED, reference=_rounding("round"), traits=_STEPS)


def round(x: Expr) -> Call:
    """The nearest integer to each element, the even one when two are as near; follows ``numpy.round``.

    Operands: ``x``, a tensor of real numbers. Result: its type. Raises `OpTypeError` for other dtypes.
    """
    return ROUND(x)


TRUNC = primitive("relax.trunc", ("x",), infer=_ROUNDED, reference=_rounding("trunc"), traits=_STEPS)


def trunc(x: Expr) -> Call:
    """Each element without its fraction, so rounded towards zero; follows ``numpy.trunc``.

    Operands: ``x``, a tensor of real numbers. Result: its type. Raises `OpTypeError` for other dtypes.
    """
    return TRUNC(x)


# --- tests of a value

ISFINITE = primitive("relax.isfinite", ("x",), infer=_TEST, reference=array_function("isfinite"), traits=_VERDICT)


def isfinite(x: Expr) -> Call:
    """Whether each element is neither infinite nor NaN; follows ``numpy.isfinite``.

    Operands: ``x``, any tensor. Result: bool, the shape of ``x``.
    """
    return ISFINITE(x)


ISINF = primitive("relax.isinf", ("x",), infer=_TEST, reference=array_function("isinf"), traits=_VERDICT)


def isinf(x: Expr) -> Call:
    """Whether each element is positive or negative infinity; follows ``numpy.isinf``.

    Operands: ``x``, any tensor. Result: bool, the shape of ``x``.
    """
    return ISINF(x)


ISNAN = primitive("relax.isnan", ("x",), infer=_TEST, reference=array_function("isnan"), traits=_VERDICT)


def isnan(x: Expr) -> Call:
    """Whether each element is NaN; follows ``numpy.isnan``.

    Operands: ``x``, any tensor. Result: bool, the shape of ``x``.
    """
    return ISNAN(x)


# --- "not"

_NOT = (Trait.ELEMENTWISE, Trait.INVOLUTIVE, Trait.STOPS_GRADIENT)

BITWISE_NOT = primitive("relax.bitwise_not", ("x",), infer=_BITS, reference=standard("bitwise_invert"), traits=_NOT)


def bitwise_not(x: Expr) -> Call:
    """Each element with all its bits turned; on bool it is "not"; follows ``numpy.bitwise_not``.

    Operands: ``x``, a tensor of integers or bool. Result: its type. Raises `OpTypeError` for other dtypes.
    """
    return BITWISE_NOT(x)


LOGICAL_NOT = primitive("relax.logical_not", ("x",), infer=same_type, reference=standard("logical_not"), traits=_NOT)


def logical_not(x: Expr) -> Call:
    """True where an element is false; follows ``numpy.logical_not`` on bool.

    Operands: ``x``, any tensor; a number counts as true unless it is 0, and the result is 0 or 1. Result: its type.
    """
    return LOGICAL_NOT(x)


# --- gradients


@ABS.define_gradient
def _abs_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    return [adjoint * sign(call.args[0])]


@NEGATIVE.define_gradient
def _negative_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    return [negative(adjoint)]


@SQUARE.define_gradient
def _square_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    return [adjoint * (call.args[0] * 2.0)]
