"""Variants of the common activations: made of straight lines to be cheaper, or smoother than a rectifier.

float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ...ir.expr import Expr
from ...ir.op import Call, Trait
from ..primitive.comparison import greater, less
from ..primitive.elementary import sigmoid, tanh
from ..primitive.logical import logical_and
from ..primitive.ternary import clip, where
from ..public_function import declares, operator_of
from ..row import of_one
from ..rules import same_float_type
from ..semantics import apply, rounded_once
from .activation import softplus

__all__ = ["elu", "hardsigmoid", "hardswish", "mish"]

_smooth: Final = partial(declares, infer=same_float_type, traits=(Trait.ELEMENTWISE,))


def _hardsigmoid(xp: Any, x: Any, alpha: float, beta: float) -> Any:
    line = x * alpha + beta
    return xp.minimum(xp.maximum(line, xp.zeros_like(line)), xp.ones_like(line))


def _hardsigmoid_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    inside = logical_and(greater(output, 0.0), less(output, 1.0))
    return [where(inside, adjoint * call.attrs.alpha, 0.0)]


@_smooth("relax.nn.hardsigmoid", reference=rounded_once(_hardsigmoid), gradient=_hardsigmoid_gradient)
def hardsigmoid(data: Expr, alpha: float = 1 / 6, beta: float = 0.5) -> Call:
    """``alpha * data + beta``, limited to 0 to 1; follows ``torch.nn.functional.hardsigmoid`` and ONNX ``HardSigmoid``.

    Operands: a floating tensor. Result: the same shape and dtype; NaN stays NaN. Raises `OpTypeError` for other dtypes.
    """
    ...


def _hardswish(xp: Any, x: Any) -> Any:
    return x * _hardsigmoid(xp, x, 1 / 6, 0.5)


def _hardswish_share(adjoint: Expr, x: Expr, output: Expr) -> Expr:
    line = clip(x, -3.0, 3.0) * (1 / 3) + 0.5
    return where(greater(x, -3.0), where(less(x, 3.0), adjoint * line, adjoint), 0.0)


@_smooth("relax.nn.hardswish", reference=rounded_once(_hardswish), gradient=of_one(_hardswish_share))
def hardswish(data: Expr) -> Call:
    """``data`` times its `hardsigmoid`; follows ``torch.nn.functional.hardswish`` and ONNX ``HardSwish``.

    Operands: a floating tensor. Result: the same shape and dtype. Raises `OpTypeError` for other dtypes.
    """
    ...


def _elu(xp: Any, x: Any, alpha: float) -> Any:
    # Where the other branch is taken, a large x is kept from overflowing.
    return xp.where(x > 0, x, xp.expm1(xp.minimum(x, xp.zeros_like(x))) * alpha)


def _elu_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    # Below 0 the slope, alpha * exp(x), is how far the output is above its limit.
    return [where(greater(call.args[0], 0.0), adjoint, adjoint * (output + call.attrs.alpha))]


@_smooth("relax.nn.elu", reference=rounded_once(_elu), gradient=_elu_gradient)
def elu(data: Expr, alpha: float = 1.0) -> Call:
    """``data`` where it is above 0, else ``alpha * (exp(data) - 1)``; follows ``torch.nn.functional.elu``.

    Operands: a floating tensor. Result: the same shape and dtype. Raises `OpTypeError` for other dtypes.
    """
    ...


def _mish(xp: Any, x: Any) -> Any:
    return x * xp.tanh(apply(xp, operator_of(softplus), x))


def _mish_share(adjoint: Expr, x: Expr, output: Expr) -> Expr:
    gate = tanh(softplus(x))
    return adjoint * (gate + x * sigmoid(x) * (1.0 - gate * gate))


@_smooth("relax.nn.mish", reference=rounded_once(_mish), gradient=of_one(_mish_share))
def mish(data: Expr) -> Call:
    """``data * tanh(softplus(data))``; follows ``torch.nn.functional.mish``.

    Operands: a floating tensor. Result: the same shape and dtype. Raises `OpTypeError` for other dtypes.
    """
    ...
