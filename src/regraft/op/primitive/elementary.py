"""Elementwise mathematical functions: roots, exponentials, trigonometric functions and the like.

All take one tensor of floating dtype and keep its type. Dtypes narrower than float32 are computed in float32 and
rounded once. The functions are a table: each row declares an operator completely (reference, gradient, finiteness,
text).
"""

from __future__ import annotations

import math
from typing import Any, Final

from ...ir.op import Precision, Reference, Trait
from ..row import Share, UnaryFunction, unary
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


_SENSITIVE: Final = ("cosh", "exp", "log", "rsqrt", "sinh", "sqrt", "tan")
"""Functions that amplify the rounding error of their operand, so their operands stay in float32."""


def _declare(
    name: str,
    share: Share,
    says: str,
    outside: str = "",
    *,
    follows: str | None = None,
    reference: Reference | None = None,
    finite: bool = False,
) -> UnaryFunction:
    """Declare an operator of this family. Returns its public function.

    ``share(adjoint, x, output)`` is the adjoint times the derivative at each element. ``outside`` describes the result
    for elements outside of the domain. The default ``reference`` is the array API function of the same name.
    """
    return unary(
        name,
        same_float_type,
        rounded_once(reference or array_function(name)),
        (Trait.ELEMENTWISE,),
        says,
        outside,
        of="floating dtype",
        follows=follows,
        share=share,
        precision=Precision.KEEPS if name in _SENSITIVE else None,
        finite=finite,
    )


def _erf(xp: Any, x: Any) -> Any:
    return special_function(xp, "erf")(x)


def _rsqrt(xp: Any, x: Any) -> Any:
    return 1.0 / xp.sqrt(x)


def _sigmoid(xp: Any, x: Any) -> Any:
    # The exponent is never positive, so exp cannot overflow, and small values in the left tail stay accurate.
    decay = xp.exp(-xp.abs(x))
    return xp.where(x < 0, decay, xp.ones_like(x)) / (1.0 + decay)


acos = _declare(
    "acos",
    lambda adjoint, x, output: adjoint * (-rsqrt(1.0 - x * x)),
    "The angle in radians, from 0 to π, whose cosine is each element",
    "NaN outside of -1 to 1.",
)
acosh = _declare(
    "acosh",
    lambda adjoint, x, output: adjoint * rsqrt((x - 1.0) * (x + 1.0)),
    "The non-negative number whose hyperbolic cosine is each element",
    "NaN below 1.",
)
asin = _declare(
    "asin",
    lambda adjoint, x, output: adjoint * rsqrt(1.0 - x * x),
    "The angle in radians, from -π/2 to π/2, whose sine is each element",
    "NaN outside of -1 to 1.",
)
asinh = _declare(
    "asinh", lambda adjoint, x, output: adjoint * rsqrt(x * x + 1.0), "The number whose hyperbolic sine is each element"
)
atan = _declare(
    "atan",
    lambda adjoint, x, output: adjoint * (1.0 / (x * x + 1.0)),
    "The angle in radians, from -π/2 to π/2, whose tangent is each element",
)
atanh = _declare(
    "atanh",
    lambda adjoint, x, output: adjoint * (1.0 / (1.0 - x * x)),
    "The number whose hyperbolic tangent is each element",
    "Infinite at -1 and 1, NaN beyond.",
)
cos: UnaryFunction = _declare(
    "cos", lambda adjoint, x, output: -adjoint * sin(x), "The cosine, in radians, of each element", finite=True
)
cosh: UnaryFunction = _declare(
    "cosh", lambda adjoint, x, output: adjoint * sinh(x), "The hyperbolic cosine of each element"
)
erf = _declare(
    "erf",
    lambda adjoint, x, output: adjoint * (exp(-(x * x)) * (2.0 / math.sqrt(math.pi))),
    "The error function ``2/√π · ∫ exp(-t²) dt`` from 0 to each element",
    follows="``scipy.special.erf``",
    reference=_erf,
    finite=True,
)
exp = _declare("exp", lambda adjoint, x, output: adjoint * output, "e to the power of each element")
log = _declare(
    "log", lambda adjoint, x, output: adjoint / x, "The natural logarithm of each element", "-inf at 0, NaN below."
)
rsqrt = _declare(
    "rsqrt",
    lambda adjoint, x, output: adjoint * (output * output * output * -0.5),
    "One over the square root of each element",
    "Infinite at 0, NaN below.",
    follows="``torch.rsqrt``",
    reference=_rsqrt,
)
sigmoid = _declare(
    "sigmoid",
    lambda adjoint, x, output: adjoint * output * (1.0 - output),
    "The logistic function ``1 / (1 + exp(-x))`` of each element",
    follows="``scipy.special.expit``",
    reference=_sigmoid,
    finite=True,
)
sin: UnaryFunction = _declare(
    "sin", lambda adjoint, x, output: adjoint * cos(x), "The sine, in radians, of each element", finite=True
)
sinh: UnaryFunction = _declare(
    "sinh", lambda adjoint, x, output: adjoint * cosh(x), "The hyperbolic sine of each element"
)
sqrt = _declare(
    "sqrt",
    lambda adjoint, x, output: 0.5 * adjoint / output,
    "The square root of each element",
    "NaN below 0.",
    finite=True,
)
tan = _declare(
    "tan", lambda adjoint, x, output: adjoint * (output * output + 1.0), "The tangent, in radians, of each element"
)
tanh = _declare(
    "tanh",
    lambda adjoint, x, output: adjoint * (1.0 - output * output),
    "The hyperbolic tangent of each element",
    finite=True,
)
