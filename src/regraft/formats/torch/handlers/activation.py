"""Handlers of ATen's activation functions; those with an operator of their own stay whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .... import op as R
from ....ir.expr import Expr
from ..context import Context, cast, converts, converts_by_name, converts_plainly, rank
from .unary import expm1, in_wide_floats

_SELU_ALPHA: Final = 1.6732632423543772
_SELU_SCALE: Final = 1.0507009873554805


def _gelu(x: Expr, approximate: str) -> Expr:
    return R.nn.gelu_tanh(x) if approximate == "tanh" else R.nn.gelu(x)


_PLAIN: Final[dict[str, Callable[..., Expr]]] = {
    "gelu": _gelu,
    "hardsigmoid": R.nn.hardsigmoid,
    "hardswish": R.nn.hardswish,
    "leaky_relu": R.nn.leakyrelu,
    "mish": R.nn.mish,
    "relu6": R.nn.relu6,
    "selu": R.nn.selu,
    "silu": R.nn.silu,
    "softplus": R.nn.softplus,
}
converts_plainly(_PLAIN)


@converts_by_name("rrelu")
def _rrelu(context: Context, given: Any) -> Expr:
    if given.training:
        context.unsupported("random slopes have no counterpart; export the model in eval mode: model.eval()")
    return R.nn.leakyrelu(given.self, alpha=(given.lower + given.upper) / 2)


@converts("prelu", "_prelu_kernel")
def _prelu(context: Context, x: Expr, weight: Expr) -> Expr:
    slopes = R.reshape(weight, [-1])
    if rank(x) < 2:
        return R.where(R.greater(x, 0.0), x, x * R.reshape(weight, [1] * rank(x)))
    return R.nn.prelu(x, slopes, axis=1)


@converts("elu")
def _elu(context: Context, x: Expr, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Expr:
    if (alpha, scale, input_scale) == (_SELU_ALPHA, _SELU_SCALE, 1):
        return R.nn.selu(x)
    if scale == 1 and input_scale == 1:
        return R.nn.elu(x, float(alpha))

    def whole(x: Expr) -> Expr:
        low = expm1(x if input_scale == 1 else x * float(input_scale)) * float(alpha * scale)
        return R.where(R.greater(x, 0.0), x if scale == 1 else x * float(scale), low)

    return in_wide_floats(whole, x)


@converts("celu")
def _celu(context: Context, x: Expr, alpha: float = 1.0) -> Expr:
    return _elu(context, x, alpha, 1, 1.0 / alpha)


@converts("softmax.int", "_softmax", "special_softmax")
@converts("log_softmax.int", "_log_softmax", "special_log_softmax")
def _softmax(context: Context, x: Expr, dim: int, dtype_or_half: object = None, **_dtype: object) -> Expr:
    is_log = "log_softmax" in context.operator()
    if rank(x) == 0:
        return (R.zeros_like if is_log else R.ones_like)(x, dtype=context.output_dtype())
    return (R.nn.log_softmax if is_log else R.nn.softmax)(cast(x, context.output_dtype()), axis=dim)
