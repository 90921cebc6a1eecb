"""Mathematical functions in double precision, built from those that ONNX Runtime has in double precision.

Those are exp, log, sin, cos, sqrt, tanh and arithmetic. The arctangent starts from its value in single precision,
which one step of the addition theorem corrects. The error function is a polynomial near zero, and a Gaussian times a
polynomial farther out. Errors are a few units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from .... import op as ops
from ....op.program_xp import ProgramArray, ProgramNamespace


def _cosh(xp: ProgramNamespace, x: ProgramArray) -> ProgramArray:
    half = xp.exp(xp.abs(x) - math.log(2))
    return half + 0.25 / half


def _sinh(xp: ProgramNamespace, x: ProgramArray) -> ProgramArray:
    size = xp.abs(x)
    rest = xp.expm1(size)
    near = (rest + rest / (rest + 1.0)) * 0.5
    return xp.copysign(xp.where(size < 1.0, near, xp.exp(size - math.log(2)) - 0.25 / xp.exp(size - math.log(2))), x)


def _atan(xp: ProgramNamespace, x: ProgramArray) -> ProgramArray:
    start = xp.astype(xp.emit(ops.atan(xp.astype(x, "float32").expr)), "float64")
    sine, cosine = xp.sin(start), xp.cos(start)
    # The missing angle, by the tangent of a difference; its cube is below the last digit.
    missing = (x * cosine - sine) / (cosine + x * sine)
    endless = xp.abs(x) > 1e300
    return xp.where(endless, xp.copysign(xp.full_like(x, math.pi / 2), x), start + missing)


def _asinh(xp: ProgramNamespace, x: ProgramArray) -> ProgramArray:
    size = xp.abs(x)
    large = size > 1e150
    square = xp.where(large, xp.zeros_like(size), size) * xp.where(large, xp.zeros_like(size), size)
    near = xp.log1p(size + square / (xp.sqrt(square + 1.0) + 1.0))
    return xp.copysign(xp.where(large, xp.log(size) + math.log(2), near), x)


def _acosh(xp: ProgramNamespace, x: ProgramArray) -> ProgramArray:
    large = x > 1e150
    above = xp.where(large, xp.ones_like(x), x) - 1.0
    near = xp.log1p(above + xp.sqrt(above * (above + 2.0)))
    return xp.where(large, xp.log(x) + math.log(2), near)


_ERF_NEAR: Final = (
    0.9654687386698673,
    -0.1405360890227171,
    0.019852496688983708,
    -0.0022854855611441132,
    0.00021751715604159932,
    -1.7537169441124866e-05,
    1.223382738359897e-06,
    -7.511569286591727e-08,
    4.115800583208149e-09,
    -2.035228405815769e-10,
    9.167619596865806e-12,
    -3.8078824063194953e-13,
    1.4543887079465116e-14,
)
"""``erf(x) / x`` for ``|x| <= 1``, in powers of ``2 x² - 1``, lowest first: interpolation at Chebyshev points."""

_ERFC_FAR: Final = (
    0.885637101864549,
    0.47966144308433484,
    0.22387273334256322,
    0.0876257166529294,
    0.027317987192582875,
    0.0059921014446319065,
    0.000511159874798044,
    -0.00020565983275512198,
    -8.285365091597254e-05,
    -2.2201343576034777e-06,
    6.227273860591469e-06,
    1.1155426602713427e-06,
    -4.44493366074041e-07,
    -1.5278518415931944e-07,
    3.592240905087427e-08,
    1.856416605062983e-08,
    -3.6210140380051802e-09,
    -2.22723114119188e-09,
    4.142803603018051e-10,
    2.467937054544688e-10,
    -3.42549123639671e-11,
    -1.825227781888422e-11,
)
"""``(x + 3) exp(x²) erfc(x)`` for ``x >= 1``, in powers of ``8 / (x + 3) - 1``, lowest first: as above."""

_ERFC_ENDS: Final = 28.0
"""From here on, erfc is 0 in double precision."""


def _polynomial(coefficients: Sequence[float], x: ProgramArray) -> ProgramArray:
    *rest, highest = coefficients
    total = x * highest + rest[-1]
    for coefficient in reversed(rest[:-1]):
        total = total * x + coefficient
    return total


def _erf_near(xp: ProgramNamespace, x: ProgramArray, size: ProgramArray) -> ProgramArray:
    """The error function of ``x`` if ``size``, which is ``|x|``, is below 1; any number elsewhere."""
    near = xp.where(size < 1.0, size, xp.ones_like(size))
    return _polynomial(_ERF_NEAR, near * near * 2.0 - 1.0) * x


def _erfc_far(xp: ProgramNamespace, size: ProgramArray) -> ProgramArray:
    """1 minus the error function if ``size`` is 1 or more; any number elsewhere.

    The square is computed in two parts. The larger part is exact, so its exponential is too.
    """
    size = xp.where(size > _ERFC_ENDS, xp.full_like(size, _ERFC_ENDS), size)
    short = xp.astype(xp.astype(size, "float32"), "float64")
    gaussian = xp.exp(-(short * short)) * xp.exp((short - size) * (short + size))
    inverse = 1.0 / (size + 3.0)
    return gaussian * (_polynomial(_ERFC_FAR, inverse * 8.0 - 1.0) * inverse)


def _erf(xp: ProgramNamespace, x: ProgramArray) -> ProgramArray:
    size = xp.abs(x)
    far = xp.copysign(1.0 - _erfc_far(xp, size), x)
    return xp.where(size < 1.0, _erf_near(xp, x, size), far)


def _gelu(xp: ProgramNamespace, x: ProgramArray) -> ProgramArray:
    turned = x * -math.sqrt(0.5)
    size = xp.abs(turned)
    far = _erfc_far(xp, size)
    # Left of -1 the two terms of the sum would cancel; erfc itself is exact there.
    outside = xp.where(turned < 0.0, 2.0 - far, far)
    return x * 0.5 * xp.where(size < 1.0, 1.0 - _erf_near(xp, turned, size), outside)


DOUBLE_FORMULAS: Final[dict[str, Callable[[ProgramNamespace, ProgramArray], ProgramArray]]] = {
    "acos": lambda xp, x: _atan(xp, xp.sqrt((1.0 - x) / (x + 1.0))) * 2.0,
    "acosh": _acosh,
    "asin": lambda xp, x: _atan(xp, x / xp.sqrt((1.0 - x) * (x + 1.0))),
    "asinh": _asinh,
    "atan": _atan,
    "atanh": lambda xp, x: xp.log1p((x + x) / (1.0 - x)) * 0.5,
    "cosh": _cosh,
    "erf": _erf,
    "gelu": _gelu,
    "sinh": _sinh,
    "tan": lambda xp, x: xp.sin(x) / xp.cos(x),
}
"""The functions of doubles that ONNX Runtime has in single precision only."""
