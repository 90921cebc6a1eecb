"""Elementwise arithmetic on two tensors, with NumPy's broadcasting.

Both operands have one dtype: there are no implicit conversions, except that a Python number takes the dtype of the
tensor beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.dtypes import is_bool, is_float, is_integer, is_unsigned
from ...ir.expr import Expr, number_of
from ...ir.op import Call, GradientRule, Precision, Trait
from ..adjoints import collapse_to
from ..row import binary
from ..rules import OfKinds, broadcast_rule, has_order, is_real
from ..semantics import array_function, cast, dtype_name, rounded_once, standard, truncated_divide
from . import unary
from .comparison import equal, greater, greater_equal, less, logical_and
from .elementary import log, sigmoid
from .ternary import where

__all__ = [
    "add",
    "atan2",
    "divide",
    "floor_divide",
    "floor_mod",
    "log_add_exp",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "power",
    "subtract",
]

_NUMERIC = OfKinds(broadcast_rule, lambda dtype: not is_bool(dtype), "numbers, not bool")
_REAL = OfKinds(broadcast_rule, is_real, "real numbers")
_ORDERED = OfKinds(broadcast_rule, has_order, "real numbers or bool")
_FLOATING = OfKinds(broadcast_rule, is_float, 'a floating dtype; convert it first: R.astype(x, "float32")')
_ARITHMETIC = (Trait.ELEMENTWISE,)
_SYMMETRIC = (Trait.ELEMENTWISE, Trait.COMMUTATIVE, Trait.ASSOCIATIVE)
_EXTREME = (*_SYMMETRIC, Trait.IDEMPOTENT)


# --- references

_float_power = rounded_once(array_function("pow"))


def _divide(xp: Any, x1: Any, x2: Any) -> Any:
    return cast(xp, xp.asarray(truncated_divide(xp, x1, x2)), dtype_name(x1.dtype))


def _mod(xp: Any, x1: Any, x2: Any) -> Any:
    name = dtype_name(x1.dtype)
    if is_integer(name):
        remainder = xp.subtract(x1, xp.multiply(truncated_divide(xp, x1, x2), x2))
    else:
        remainder = xp.copysign(xp.remainder(xp.abs(x1), xp.abs(x2)), x1)
    return cast(xp, xp.asarray(remainder), name)


def _power(xp: Any, x1: Any, x2: Any) -> Any:
    name = dtype_name(x1.dtype)
    if not is_integer(name):
        return _float_power(xp, x1, x2)
    if is_unsigned(name):
        return cast(xp, xp.asarray(xp.pow(x1, x2)), name)
    # The exact 1 / base ** |exponent| is a fraction, which truncates to 0, unless the base is 1 or -1.
    zero = xp.zeros_like(x2)
    whole = xp.pow(x1, xp.maximum(x2, zero))
    one = xp.ones_like(x1)
    unit = xp.logical_or(xp.equal(x1, one), xp.equal(x1, xp.negative(one)))
    odd = xp.bitwise_and(x2, xp.ones_like(x2))
    inverse = xp.where(unit, xp.pow(x1, odd), zero)
    return cast(xp, xp.where(xp.less(x2, zero), inverse, whole), name)


# --- gradients


_Shares = Callable[[Expr, Expr, Expr, Expr], tuple[Expr, Expr]]
"""``shares(adjoint, x1, x2, output)``: the adjoint's shares of the two operands, in the shape of the result."""


def _of_two(shares: _Shares) -> GradientRule:
    """The gradient rule of an operator of two tensors: ``shares``, summed to the shapes of the operands."""

    def rule(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
        x1, x2 = call.args
        first, second = shares(adjoint, x1, x2, output)
        return [collapse_to(first, x1), collapse_to(second, x2)]

    return rule


def _mod_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    x1, x2 = call.args
    # The quotient, computed from the remainder: dividing again could round to the next integer.
    quotient = unary.round((x1 - output) / x2)
    return [collapse_to(adjoint, x1), -collapse_to(adjoint * quotient, x2)]


def _power_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    base, exponent = call.args
    known = number_of(exponent)
    if known is not None:
        share = adjoint * (base * 2.0) if known == 2 else adjoint * exponent * power(base, exponent - 1.0)
        return [None if known == 0 else collapse_to(share, base), _exponent_share(call, output, adjoint)]
    # x ** 0 is 1 for all x, and 0 ** y is 0 for all y > 0. The slope is 0 in both cases; computed plainly, 0 * inf.
    lower = where(equal(exponent, 0.0), 0.0, exponent - 1.0)
    return [collapse_to(adjoint * (exponent * power(base, lower)), base), _exponent_share(call, output, adjoint)]


def _exponent_share(call: Call, output: Expr, adjoint: Expr) -> Expr:
    base, exponent = call.args
    flat = logical_and(equal(base, 0.0), greater_equal(exponent, 0.0))
    return collapse_to(adjoint * (output * log(where(flat, 1.0, base))), exponent)


def _atan2_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    height, width = call.args
    squares = height * height + width * width
    scaled = adjoint / where(equal(squares, 0.0), 1.0, squares)  # at the origin there is no slope
    return [collapse_to(scaled * width, height), -collapse_to(scaled * height, width)]


def _extreme_gradient(loses: Callable[[Expr, Expr], Expr]) -> GradientRule:
    """The gradient rule of an extreme: an operand that does not lose gets the adjoint, equal ones half each, as in
    PyTorch."""

    def shares(adjoint: Expr, x1: Expr, x2: Expr, output: Expr) -> tuple[Expr, Expr]:
        shared = where(equal(x1, x2), adjoint * 0.5, adjoint)
        return where(loses(x1, x2), 0.0, shared), where(loses(x2, x1), 0.0, shared)

    return _of_two(shares)


# --- the operators

add = binary(
    "add",
    broadcast_rule,
    standard("add"),
    _SYMMETRIC,
    "``x1 + x2``, elementwise with broadcasting",
    'Integers wrap around; on bool it is "or".',
    gradient=_of_two(lambda adjoint, x1, x2, output: (adjoint, adjoint)),
    finite=True,
)
subtract = binary(
    "subtract",
    _NUMERIC,
    standard("subtract"),
    _ARITHMETIC,
    "``x1 - x2``, elementwise with broadcasting",
    "Integers wrap around.",
    gradient=_of_two(lambda adjoint, x1, x2, output: (adjoint, -adjoint)),
    finite=True,
)
multiply = binary(
    "multiply",
    broadcast_rule,
    standard("multiply"),
    _SYMMETRIC,
    "``x1 * x2``, elementwise with broadcasting",
    'Integers wrap around; on bool it is "and".',
    gradient=_of_two(lambda adjoint, x1, x2, output: (adjoint * x2, adjoint * x1)),
    finite=True,
)

# --- division

divide = binary(
    "divide",
    _NUMERIC,
    _divide,
    _ARITHMETIC,
    "``x1 / x2``, elementwise with broadcasting; integers give the quotient rounded towards zero",
    "On integers, ``divide(-7, 2)`` is -3, and the result of a division by zero is not defined.",
    follows="ONNX ``Div`` and C",
    gradient=_of_two(lambda adjoint, x1, x2, output: (adjoint / x2, -adjoint * output / x2)),
)
floor_divide = binary(
    "floor_divide",
    _REAL,
    standard("floor_divide"),
    (Trait.ELEMENTWISE, Trait.STOPS_GRADIENT),
    "The greatest integer not above ``x1 / x2``, elementwise with broadcasting",
    "The result of a division of integers by zero is not defined.",
)
mod = binary(
    "mod",
    _REAL,
    _mod,
    _ARITHMETIC,
    "The remainder of ``x1 / x2`` rounded towards zero; it has the sign of ``x1``",
    "`floor_mod` has the sign of ``x2``. The remainder by zero is NaN for floats, and not defined for integers.",
    follows="``numpy.fmod``",
    gradient=_mod_gradient,
    primitive=False,
)
floor_mod = binary(
    "floor_mod",
    _REAL,
    standard("remainder"),
    _ARITHMETIC,
    "The remainder of `floor_divide`; it has the sign of ``x2``",
    "The remainder by zero is NaN for floats, and not defined for integers.",
    follows="``numpy.remainder``",
    gradient=_mod_gradient,
)

# --- powers, angles, extremes

power = binary(
    "power",
    _NUMERIC,
    _power,
    _ARITHMETIC,
    "``x1`` to the power of ``x2``, elementwise with broadcasting",
    "A negative float to the power of a fraction is NaN. Integers wrap around; with a negative exponent, the result is "
    "the true power without its fraction (0 for base 0).",
    follows="``torch.pow``",
    gradient=_power_gradient,
    precision=Precision.KEEPS,
)
atan2 = binary(
    "atan2",
    _FLOATING,
    rounded_once(array_function("atan2")),
    _ARITHMETIC,
    "The angle in radians, from -π to π, of the point with abscissa ``x2`` and ordinate ``x1``",
    gradient=_atan2_gradient,
)
log_add_exp = binary(
    "log_add_exp",
    _FLOATING,
    rounded_once(array_function("logaddexp")),
    _SYMMETRIC,
    "``log(exp(x1) + exp(x2))`` without overflow in between",
    follows="``numpy.logaddexp``",
    gradient=_of_two(lambda adjoint, x1, x2, output: (adjoint * sigmoid(x1 - x2), adjoint * sigmoid(x2 - x1))),
    precision=Precision.KEEPS,
)
maximum = binary(
    "maximum",
    _ORDERED,
    standard("maximum"),
    _EXTREME,
    'The greater of two elements, NaN if one of them is NaN; on bool it is "or"',
    gradient=_extreme_gradient(less),
    finite=True,
)
minimum = binary(
    "minimum",
    _ORDERED,
    standard("minimum"),
    _EXTREME,
    'The smaller of two elements, NaN if one of them is NaN; on bool it is "and"',
    gradient=_extreme_gradient(greater),
    finite=True,
)
