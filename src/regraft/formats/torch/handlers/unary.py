"""Handlers of ATen's functions of one tensor: roundings, elementary and activation functions, casts, tests.

Activation functions that have an operator here stay whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from .... import op as R
from ....ir.dtypes import HALF, is_bool, is_float, is_integer, itemsize
from ....ir.expr import Expr
from ....op.primitive import elementary
from ....op.program_xp import over_expressions
from ..context import Context, cast, converts, converts_by_name, converts_plainly, dtype_of, rank

_BITS: Final = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}


def is_signed(x: Expr) -> Expr:
    """True for each element whose sign bit is set, including zeros and NaN."""
    if not is_float(dtype_of(x)):
        return R.less(cast(x, "int8") if is_bool(dtype_of(x)) else x, 0)
    return R.less(R.bitcast(x, _BITS[itemsize(dtype_of(x))]), 0)


_SAME: Final[dict[str, Callable[[Expr], Expr]]] = {
    "abs": R.abs,
    "neg": R.negative,
    "isnan": R.isnan,
    "isinf": R.isinf,
    "isfinite": R.isfinite,
    "bitwise_not": R.bitwise_not,
    "logical_not": lambda x: R.logical_not(x) if is_bool(dtype_of(x)) else R.equal(x, 0),
    "signbit": is_signed,
    **dict.fromkeys(("positive", "alias", "detach", "lift_fresh_copy"), lambda x: x),
    **dict.fromkeys(("conj", "_conj", "_conj_physical", "resolve_conj", "resolve_neg"), lambda x: x),
}
"""Functions of tensors in their own dtype."""

_ROUNDING: Final[dict[str, Callable[[Expr], Expr]]] = {
    "ceil": R.ceil,
    "floor": R.floor,
    "trunc": R.trunc,
    "fix": R.trunc,
    "sign": R.sign,
    "square": R.square,
    "relu": R.nn.relu,
}
"""Functions that keep integers as integers. A boolean is its own sign; its square is an integer."""


def array_function(name: str) -> Callable[..., Expr]:
    """The function ``name`` of the array API standard on expressions, written with the vocabulary's operators."""

    def function(xp: Any, *arrays: Any) -> Any:
        return getattr(xp, name)(*arrays)

    return partial(over_expressions, function)


_ELEMENTARY: Final[dict[str, Callable[[Expr], Expr]]] = {
    **{name: getattr(elementary, name) for name in elementary.__all__},
    "special_expit": R.sigmoid,
}
"""Functions of floating tensors that are one operator here, which rounds only once."""

_FLOATING: Final[dict[str, Callable[[Expr], Expr]]] = {
    "exp2": lambda x: R.exp(x * math.log(2.0)),
    "expm1": array_function("expm1"),
    "log10": array_function("log10"),
    "log1p": array_function("log1p"),
    "log2": array_function("log2"),
    "reciprocal": lambda x: 1.0 / x,
}
"""Functions of floating tensors that are several operators here. PyTorch first converts integers to floats."""


def in_wide_floats(function: Callable[..., Expr], *operands: Expr) -> Expr:
    """``function`` of narrow floats, computed in float32 and rounded once, as in PyTorch's kernels."""
    dtype = dtype_of(operands[0])
    if dtype not in HALF:
        return function(*operands)
    return cast(function(*[cast(x, "float32") for x in operands]), dtype)


def _rounded(function: Callable[[Expr], Expr], context: Context, x: Expr) -> Expr:
    if not is_bool(dtype_of(x)):
        return function(x)
    dtype = context.output_dtype()
    return x if is_bool(dtype) else function(cast(x, dtype))


def _elementary(function: Callable[[Expr], Expr], context: Context, x: Expr) -> Expr:
    return function(cast(x, context.output_dtype()))


def _floating(function: Callable[[Expr], Expr], context: Context, x: Expr) -> Expr:
    return in_wide_floats(function, cast(x, context.output_dtype()))


converts_plainly(_SAME)
for _handler, _functions in ((_rounded, _ROUNDING), (_elementary, _ELEMENTARY), (_floating, _FLOATING)):
    for _name, _function in _functions.items():
        converts(_name)(partial(_handler, _function))


def _log_of_odds(x: Expr) -> Expr:
    return R.log(x / (1.0 - x))


@converts("logit", "special_logit")
def _logit(context: Context, x: Expr, eps: float | None = None) -> Expr:
    operand = cast(x, context.output_dtype())
    if eps is not None:
        operand = R.clip(operand, eps, 1.0 - eps)
    return in_wide_floats(_log_of_odds, operand)


@converts("round", "round.decimals")
def _round(context: Context, x: Expr, *, decimals: int = 0) -> Expr:
    if is_integer(dtype_of(x)):
        return x
    if not decimals:
        return R.round(x)
    scale = 10.0 ** abs(decimals)
    return R.round(x * scale) / scale if decimals > 0 else R.round(x / scale) * scale


# --- activations

_SELU_ALPHA: Final = 1.6732632423543772
_SELU_SCALE: Final = 1.0507009873554805


def _gelu(x: Expr, approximate: str) -> Expr:
    return R.nn.gelu_tanh(x) if approximate == "tanh" else R.nn.gelu(x)


_ACTIVATIONS: Final[dict[str, Callable[..., Expr]]] = {
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
converts_plainly(_ACTIVATIONS)


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
        low = _FLOATING["expm1"](x if input_scale == 1 else x * float(input_scale)) * float(alpha * scale)
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


# --- copies and casts


@converts("_to_copy", "to.dtype", "to.device", "to.dtype_layout", "to.other", "to.prim_dtype", "type_as")
@converts("clone", "contiguous")
def copied(context: Context, x: Expr, *_how: Any, **_more: Any) -> Expr:
    """``x`` in the dtype of the result; its device and layout do not matter."""
    return cast(x, context.output_dtype())
