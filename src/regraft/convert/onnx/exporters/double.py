"""Functions of mathematics in double precision, out of those that ONNX Runtime has in double precision.

Those are exp, log, sin, cos, sqrt, tanh and arithmetic. The arcus tangent starts from its value in single precision,
and one step of the addition theorem makes up for the rest. Errors are a few units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from .... import ops
from ....ir.op import Call
from ..lowering import Lowered, Lowering
from ..traced import TracedArray, TracedNamespace


def _cosh(xp: TracedNamespace, x: TracedArray) -> TracedArray:
    half = xp.exp(xp.abs(x) - math.log(2))
    return half + 0.25 / half


def _sinh(xp: TracedNamespace, x: TracedArray) -> TracedArray:
    size = xp.abs(x)
    rest = xp.expm1(size)
    near = (rest + rest / (rest + 1.0)) * 0.5
    return xp.copysign(xp.where(size < 1.0, near, xp.exp(size - math.log(2)) - 0.25 / xp.exp(size - math.log(2))), x)


def _tan(xp: TracedNamespace, x: TracedArray) -> TracedArray:
    return xp.sin(x) / xp.cos(x)


def _atan(xp: TracedNamespace, x: TracedArray) -> TracedArray:
    start = xp.astype(xp.emit(ops.atan(xp.astype(x, "float32").expr)), "float64")
    sine, cosine = xp.sin(start), xp.cos(start)
    # The angle that is missing, by the tangent of a difference; its cube is beyond the last digit.
    missing = (x * cosine - sine) / (cosine + x * sine)
    endless = xp.abs(x) > 1e300
    return xp.where(endless, xp.copysign(xp.full_like(x, math.pi / 2), x), start + missing)


def _asin(xp: TracedNamespace, x: TracedArray) -> TracedArray:
    return _atan(xp, x / xp.sqrt((1.0 - x) * (x + 1.0)))


def _acos(xp: TracedNamespace, x: TracedArray) -> TracedArray:
    return _atan(xp, xp.sqrt((1.0 - x) / (x + 1.0))) * 2.0


def _asinh(xp: TracedNamespace, x: TracedArray) -> TracedArray:
    size = xp.abs(x)
    large = size > 1e150
    square = xp.where(large, xp.zeros_like(size), size) * xp.where(large, xp.zeros_like(size), size)
    near = xp.log1p(size + square / (xp.sqrt(square + 1.0) + 1.0))
    return xp.copysign(xp.where(large, xp.log(size) + math.log(2), near), x)


def _acosh(xp: TracedNamespace, x: TracedArray) -> TracedArray:
    large = x > 1e150
    above = xp.where(large, xp.ones_like(x), x) - 1.0
    near = xp.log1p(above + xp.sqrt(above * (above + 2.0)))
    return xp.where(large, xp.log(x) + math.log(2), near)


def _atanh(xp: TracedNamespace, x: TracedArray) -> TracedArray:
    return xp.log1p((x + x) / (1.0 - x)) * 0.5


_FORMULAS: Final[dict[str, Callable[[TracedNamespace, TracedArray], TracedArray]]] = {
    "acos": _acos,
    "acosh": _acosh,
    "asin": _asin,
    "asinh": _asinh,
    "atan": _atan,
    "atanh": _atanh,
    "cosh": _cosh,
    "sinh": _sinh,
    "tan": _tan,
}


def in_double(lowering: Lowering, call: Call, name: str) -> Lowered | None:
    """The value of the function ``name`` of a double; None for functions that nothing here makes up."""
    formula = _FORMULAS.get(name)
    if formula is None:
        return None
    xp = TracedNamespace(lowering)
    return lowering.value(formula(xp, TracedArray(lowering, call.args[0])).expr)
