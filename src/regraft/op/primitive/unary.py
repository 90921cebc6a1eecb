"""Elementwise functions of one tensor: sign, rounding, tests of a value, "not".

Mathematical functions (``exp``, ``sin``, ``erf`` ...) are in `elementary`.
"""

from __future__ import annotations

from typing import Any

from ...ir.dtypes import is_bool, is_exact, is_float
from ...ir.op import Precision, Trait
from ..row import UnaryFunction, unary
from ..rules import OfKinds, boolean_result, has_order, is_real, same_type
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
_REAL = OfKinds(same_type, is_real, "real numbers")
_ROUNDED = OfKinds(same_type, has_order, "real numbers")
_BITS = OfKinds(same_type, is_exact, "integers or bool")

_STEPS = (Trait.ELEMENTWISE, Trait.IDEMPOTENT, Trait.STOPS_GRADIENT)
"""Traits of functions that are constant between jumps: they are idempotent, and their derivative is zero."""
_VERDICT = (Trait.ELEMENTWISE, Trait.STOPS_GRADIENT)
_NOT = (Trait.ELEMENTWISE, Trait.INVOLUTIVE, Trait.STOPS_GRADIENT)


def _rounding(name: str) -> Any:
    """The reference of a rounding function, which leaves integers unchanged."""
    round_floats = rounded_once(array_function(name))

    def reference(xp: Any, x: Any) -> Any:
        return round_floats(xp, x) if is_float(dtype_name(x.dtype)) else x

    return reference


abs = unary(
    "abs",
    _NUMERIC,
    standard("abs"),
    (Trait.ELEMENTWISE, Trait.IDEMPOTENT),
    "The magnitude of each element",
    "The least signed integer is unchanged.",
    share=lambda adjoint, x, output: adjoint * sign(x),
    finite=True,
)
negative: UnaryFunction = unary(
    "negative",
    _NUMERIC,
    standard("negative"),
    (Trait.ELEMENTWISE, Trait.INVOLUTIVE),
    "``-x``, elementwise",
    "Unsigned integers wrap around.",
    share=lambda adjoint, x, output: negative(adjoint),
    finite=True,
)
sign = unary(
    "sign", _REAL, standard("sign"), _STEPS, "-1, 0 or 1 for an element below, equal to or above zero; NaN for NaN"
)
square = unary(
    "square",
    _NUMERIC,
    standard("square"),
    (Trait.ELEMENTWISE,),
    "``x * x``, elementwise",
    "Integers wrap around.",
    share=lambda adjoint, x, output: adjoint * (x * 2.0),
    precision=Precision.KEEPS,
    finite=True,
)

# --- rounding

ceil = unary("ceil", _ROUNDED, _rounding("ceil"), _STEPS, "The least integer that is not below each element")
floor = unary("floor", _ROUNDED, _rounding("floor"), _STEPS, "The greatest integer that is not above each element")
round = unary(
    "round",
    _ROUNDED,
    _rounding("round"),
    _STEPS,
    "The nearest integer to each element; of two equally near ones, the even one",
)
trunc = unary("trunc", _ROUNDED, _rounding("trunc"), _STEPS, "Each element without its fraction: rounded towards zero")

# --- tests of a value


def _test(name: str, says: str) -> UnaryFunction:
    """Declare a test: an operator with a bool result, computed by the array API function ``name``."""
    rule = boolean_result(same_type)
    return unary(name, rule, array_function(name), _VERDICT, says, result="bool, the shape of ``x``")


isfinite = _test("isfinite", "True where an element is neither infinite nor NaN")
isinf = _test("isinf", "True where an element is positive or negative infinity")
isnan = _test("isnan", "True where an element is NaN")

# --- "not"

bitwise_not = unary(
    "bitwise_not",
    _BITS,
    standard("bitwise_invert"),
    _NOT,
    'Each element with all its bits inverted; on bool it is "not"',
)
logical_not = unary(
    "logical_not",
    same_type,
    standard("logical_not"),
    _NOT,
    "True where an element is false",
    "A number counts as true unless it is 0. The result is 0 or 1.",
)
