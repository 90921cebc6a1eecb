"""Handlers of ATen's functions of one tensor, element by element: roundings, elementary functions, casts, tests."""

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
from ..context import Context, cast, converts, converts_plainly, dtype_of

_BITS: Final = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}


def is_signed(x: Expr) -> Expr:
    """True for each element whose sign bit is set, zeros and NaN included."""
    if not is_float(dtype_of(x)):
        return R.less(cast(x, "int8") if is_bool(dtype_of(x)) else x, 0)
    return R.less(R.bitcast(x, _BITS[itemsize(dtype_of(x))]), 0)


_SAME: Final[dict[str, Callable[[Expr], Expr]]] = {
    "abs": R.abs,
    "neg": R.negative,
    "positive": lambda x: x,
    "alias": lambda x: x,
    "detach": lambda x: x,
    "lift_fresh_copy": lambda x: x,
    "conj": lambda x: x,
    "isnan": R.isnan,
    "isinf": R.isinf,
    "isfinite": R.isfinite,
    "bitwise_not": R.bitwise_not,
    "logical_not": lambda x: R.logical_not(x) if is_bool(dtype_of(x)) else R.equal(x, 0),
    "signbit": is_signed,
    **dict.fromkeys(("_conj", "_conj_physical", "resolve_conj", "resolve_neg"), lambda x: x),
}
"""Functions of the tensors that the overload takes, in their dtype."""

_ROUNDING: Final[dict[str, Callable[[Expr], Expr]]] = {
    "ceil": R.ceil,
    "floor": R.floor,
    "trunc": R.trunc,
    "fix": R.trunc,
    "sign": R.sign,
    "square": R.square,
    "relu": R.nn.relu,
}
"""Functions that keep integers integers; bool goes through as it is where PyTorch allows it."""


def array_function(name: str) -> Callable[..., Expr]:
    """The function of the array API standard over expressions, as the vocabulary writes it with its operators."""

    def function(xp: Any, *arrays: Any) -> Any:
        return getattr(xp, name)(*arrays)

    return partial(over_expressions, function)


expm1 = array_function("expm1")

FLOATING: Final[dict[str, Callable[[Expr], Expr]]] = {
    **{name: getattr(elementary, name) for name in elementary.__all__},
    "special_expit": R.sigmoid,
    "exp2": lambda x: R.exp(x * math.log(2.0)),
    "expm1": expm1,
    "log10": array_function("log10"),
    "log1p": array_function("log1p"),
    "log2": array_function("log2"),
    "logit": lambda x: R.log(x / (1.0 - x)),
    "reciprocal": lambda x: 1.0 / x,
}
"""Functions of floating tensors: PyTorch makes integers floats first."""


def in_wide_floats(function: Callable[..., Expr], *operands: Expr) -> Expr:
    """``function`` of narrow floats worked out in float32 and rounded once, as PyTorch's kernels do."""
    dtype = dtype_of(operands[0])
    if dtype not in HALF:
        return function(*operands)
    return cast(function(*[cast(x, "float32") for x in operands]), dtype)


_WHOLE: Final = {*elementary.__all__, "special_expit"}
"""Functions that are one operator here, which rounds once by itself."""


def _register_rounding(name: str, function: Callable[[Expr], Expr]) -> None:
    @converts(name)
    def handler(context: Context, x: Expr) -> Expr:
        return function(cast(x, "int8")) if is_bool(dtype_of(x)) else function(x)


def _register_floating(name: str, function: Callable[[Expr], Expr]) -> None:
    @converts(name)
    def handler(context: Context, x: Expr) -> Expr:
        operand = cast(x, context.output_dtype())
        return function(operand) if name in _WHOLE else in_wide_floats(function, operand)


converts_plainly(_SAME)
for _name, _function in _ROUNDING.items():
    _register_rounding(_name, _function)
for _name, _function in FLOATING.items():
    if _name != "logit":
        _register_floating(_name, _function)


@converts("logit", "special_logit")
def _logit(context: Context, x: Expr, eps: float | None = None) -> Expr:
    operand = cast(x, context.output_dtype())
    if eps is not None:
        operand = R.clip(operand, eps, 1.0 - eps)
    return in_wide_floats(FLOATING["logit"], operand)


@converts("round", "round.decimals")
def _round(context: Context, x: Expr, *, decimals: int = 0) -> Expr:
    if is_integer(dtype_of(x)):
        return x
    if not decimals:
        return R.round(x)
    scale = 10.0 ** abs(decimals)
    return R.round(x * scale) / scale if decimals > 0 else R.round(x / scale) * scale


# --- copies and casts


@converts("_to_copy", "to.dtype", "to.device", "to.dtype_layout", "to.other", "to.prim_dtype", "type_as")
@converts("clone", "contiguous")
def copied(context: Context, x: Expr, *_how: Any, **_more: Any) -> Expr:
    """``x`` in the dtype of the result, wherever it lies."""
    return cast(x, context.output_dtype())
