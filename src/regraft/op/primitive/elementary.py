"""The functions of mathematics, elementwise: roots, exponentials, trigonometry and their kin.

All take one tensor of floating dtype and keep its type. Dtypes narrower than float32 are worked out in
float32 and rounded once. Each operator is declared whole here: type rule, meaning, traits, and the function
people call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...ir.expr import Expr
from ...ir.op import Call, Op, Reference, Trait
from ..row import primitive
from ..rules import same_float_type
from ..semantics import array_function, rounded_once, special_function

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "erf",
    "exp",
    "log",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]


def _declare(name: str, reference: Reference | None = None, *, finite: bool = False) -> Op:
    """An operator of this family; without ``reference`` it means the array API function of its name."""
    return primitive(
        f"relax.{name}",
        ("x",),
        infer=same_float_type,
        reference=rounded_once(reference or array_function(name)),
        traits=(Trait.ELEMENTWISE,),
        finite=finite,
    )


ACOS = _declare("acos")


def acos(x: Expr) -> Call:
    """The angle in radians, from 0 to π, whose cosine is each element; follows ``numpy.acos``.

    Operands: ``x``, a tensor of floating dtype. Result: its type. NaN outside of -1 to 1.
    Raises `OpTypeError` for other dtypes.
    """
    return ACOS(x)


ACOSH = _declare("acosh")


def acosh(x: Expr) -> Call:
    """The non-negative number whose hyperbolic cosine is each element; follows ``numpy.acosh``.

    Operands: ``x``, a tensor of floating dtype. Result: its type. NaN below 1.
    Raises `OpTypeError` for other dtypes.
    """
    return ACOSH(x)


ASIN = _declare("asin")


def asin(x: Expr) -> Call:
    """The angle in radians, from -π/2 to π/2, whose sine is each element; follows ``numpy.asin``.

    Operands: ``x``, a tensor of floating dtype. Result: its type. NaN outside of -1 to 1.
    Raises `OpTypeError` for other dtypes.
    """
    return ASIN(x)


ASINH = _declare("asinh")


def asinh(x: Expr) -> Call:
    """The number whose hyperbolic sine is each element; follows ``numpy.asinh``.

    Operands: ``x``, a tensor of floating dtype. Result: its type.
    Raises `OpTypeError` for other dtypes.
    """
    return ASINH(x)


ATAN = _declare("atan")


def atan(x: Expr) -> Call:
    """The angle in radians, from -π/2 to π/2, whose tangent is each element; follows ``numpy.atan``.

    Operands: ``x``, a tensor of floating dtype. Result: its type.
    Raises `OpTypeError` for other dtypes.
    """
    return ATAN(x)


ATANH = _declare("atanh")


def atanh(x: Expr) -> Call:
    """The number whose hyperbolic tangent is each element; follows ``numpy.atanh``.

    Operands: ``x``, a tensor of floating dtype. Result: its type. Infinite at -1 and 1, NaN beyond.
    Raises `OpTypeError` for other dtypes.
    """
    return ATANH(x)


COS = _declare("cos", finite=True)


def cos(x: Expr) -> Call:
    """The cosine, in radians, of each element; follows ``numpy.cos``.

    Operands: ``x``, a tensor of floating dtype. Result: its type.
    Raises `OpTypeError` for other dtypes.
    """
    return COS(x)


COSH = _declare("cosh")


def cosh(x: Expr) -> Call:
    """The hyperbolic cosine of each element; follows ``numpy.cosh``.

    Operands: ``x``, a tensor of floating dtype. Result: its type.
    Raises `OpTypeError` for other dtypes.
    """
    return COSH(x)


def _erf(xp: Any, x: Any) -> Any:
    return special_function(xp, "erf")(x)


ERF = _declare("erf", _erf, finite=True)


def erf(x: Expr) -> Call:
    """The error function ``2/√π · ∫ exp(-t²) dt`` from 0 to each element; follows ``scipy.special.erf``.

    Operands: ``x``, a tensor of floating dtype. Result: its type.
    Raises `OpTypeError` for other dtypes.
    """
    return ERF(x)


EXP = _declare("exp")


def exp(x: Expr) -> Call:
    """e to the power of each element; follows ``numpy.exp``.

    Operands: ``x``, a tensor of floating dtype. Result: its type.
    Raises `OpTypeError` for other dtypes.
    """
    return EXP(x)


LOG = _declare("log")


def log(x: Expr) -> Call:
    """The natural logarithm of each element; follows ``numpy.log``.

    Operands: ``x``, a tensor of floating dtype. Result: its type. -inf at 0, NaN below.
    Raises `OpTypeError` for other dtypes.
    """
    return LOG(x)


def _rsqrt(xp: Any, x: Any) -> Any:
    return 1.0 / xp.sqrt(x)


RSQRT = _declare("rsqrt", _rsqrt)


def rsqrt(x: Expr) -> Call:
    """One over the square root of each element; follows ``torch.rsqrt``.

    Operands: ``x``, a tensor of floating dtype. Result: its type. Infinite at 0, NaN below.
    Raises `OpTypeError` for other dtypes.
    """
    return RSQRT(x)


def _sigmoid(xp: Any, x: Any) -> Any:
    # exp of what is never positive cannot overflow, and keeps the small values of the left tail exact.
    decay = xp.exp(-xp.abs(x))
    return xp.where(x < 0, decay, xp.ones_like(x)) / (1.0 + decay)


SIGMOID = _declare("sigmoid", _sigmoid, finite=True)


def sigmoid(x: Expr) -> Call:
    """The logistic function ``1 / (1 + exp(-x))`` of each element; follows ``scipy.special.expit``.

    Operands: ``x``, a tensor of floating dtype. Result: its type.
    Raises `OpTypeError` for other dtypes.
    """
    return SIGMOID(x)


SIN = _declare("sin", finite=True)


def sin(x: Expr) -> Call:
    """The sine, in radians, of each element; follows ``numpy.sin``.

    Operands: ``x``, a tensor of floating dtype. Result: its type.
    Raises `OpTypeError` for other dtypes.
    """
    return SIN(x)


SINH = _declare("sinh")


def sinh(x: Expr) -> Call:
    """The hyperbolic sine of each element; follows ``numpy.sinh``.

    Operands: ``x``, a tensor of floating dtype. Result: its type.
    Raises `OpTypeError` for other dtypes.
    """
    return SINH(x)


SQRT = _declare("sqrt", finite=True)


def sqrt(x: Expr) -> Call:
    """The square root of each element; follows ``numpy.sqrt``.

    Operands: ``x``, a tensor of floating dtype. Result: its type. NaN below 0.
    Raises `OpTypeError` for other dtypes.
    """
    return SQRT(x)


TAN = _declare("tan")


def tan(x: Expr) -> Call:
    """The tangent, in radians, of each element; follows ``numpy.tan``.

    Operands: ``x``, a tensor of floating dtype. Result: its type.
    Raises `OpTypeError` for other dtypes.
    """
    return TAN(x)


TANH = _declare("tanh", finite=True)


def tanh(x: Expr) -> Call:
    """The hyperbolic tangent of each element; follows ``numpy.tanh``.

    Operands: ``x``, a tensor of floating dtype. Result: its type.
    Raises `OpTypeError` for other dtypes.
    """
    return TANH(x)


# --- gradients


def _slope(op: Op, slope: Callable[[Expr, Expr], Expr]) -> None:
    """Declare the gradient of ``op``: the adjoint times ``slope(x, output)``, the derivative at each element."""

    def gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
        return [adjoint * slope(call.args[0], output)]

    op.define_gradient(gradient)


_slope(ACOS, lambda x, output: -rsqrt(1.0 - x * x))
_slope(ACOSH, lambda x, output: rsqrt((x - 1.0) * (x + 1.0)))
_slope(ASIN, lambda x, output: rsqrt(1.0 - x * x))
_slope(ASINH, lambda x, output: rsqrt(x * x + 1.0))
_slope(ATAN, lambda x, output: 1.0 / (x * x + 1.0))
_slope(ATANH, lambda x, output: 1.0 / (1.0 - x * x))
_slope(COS, lambda x, output: -sin(x))
_slope(COSH, lambda x, output: sinh(x))
_slope(ERF, lambda x, output: exp(-(x * x)) * (2.0 / math.sqrt(math.pi)))
_slope(EXP, lambda x, output: output)
_slope(LOG, lambda x, output: 1.0 / x)
_slope(RSQRT, lambda x, output: output * output * output * -0.5)
_slope(SIGMOID, lambda x, output: output * (1.0 - output))
_slope(SIN, lambda x, output: cos(x))
_slope(SINH, lambda x, output: cosh(x))
_slope(SQRT, lambda x, output: 0.5 / output)
_slope(TAN, lambda x, output: output * output + 1.0)
_slope(TANH, lambda x, output: 1.0 - output * output)
