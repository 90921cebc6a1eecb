"""Handlers of ATen's arithmetic, comparisons and logic on two tensors, or a tensor and a number.

PyTorch promotes operands of different dtypes. The operators here do not, so each operand is cast first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from .... import op as R
from ....ir.dims import SymExpr
from ....ir.dtypes import is_bool, is_float, is_integer
from ....ir.expr import Expr
from ..context import Context, TorchOperand, cast, converts, converts_by_name, dtype_of, promoted_dtype
from .unary import array_function, in_wide_floats, is_signed


def _arithmetic(function: Callable[..., Expr], context: Context, x: TorchOperand, other: TorchOperand) -> Expr:
    """Arithmetic in the promoted dtype."""
    return function(*context.promoted(x, other))


def _product(function: Callable[..., Expr], context: Context, x: TorchOperand, other: TorchOperand) -> Expr:
    """A product in the promoted dtype. A number is not rounded to half floats first, as in PyTorch."""
    return context.narrow(function, x, other)


def _floating(function: Callable[..., Expr], context: Context, x: Expr, other: Expr) -> Expr:
    """Floating arithmetic in the dtype of the result, to which PyTorch converts integers."""
    return function(*[cast(operand, context.output_dtype()) for operand in (x, other)])


def _compared(function: Callable[..., Expr], context: Context, x: TorchOperand, other: TorchOperand) -> Expr:
    """A comparison in the promoted dtype."""
    operands = context.promoted(x, other)
    return function(*[cast(operand, "int8") if is_bool(dtype_of(operand)) else operand for operand in operands])


def _logical(function: Callable[..., Expr], _context: Context, x: Expr, other: Expr) -> Expr:
    """Logic on elements as booleans: true if they are not zero."""
    return function(cast(x, "bool"), cast(other, "bool"))


def _extreme(function: Callable[..., Expr], context: Context, x: Expr, other: Expr) -> Expr:
    """The maximum or minimum of two operands, which ignores NaN."""
    left, right = context.promoted(x, other)
    if not is_float(dtype_of(left)):
        return function(left, right)
    return R.where(R.isnan(left), right, R.where(R.isnan(right), left, function(left, right)))


_BOTH: Final = (".Tensor", ".Scalar")
_SHIFTS: Final = (".Tensor", ".Tensor_Scalar")
_FAMILIES: Final[list[tuple[Callable[..., Expr], dict[str, Callable[..., Expr]], tuple[str, ...]]]] = [
    (_product, {"mul": R.multiply}, _BOTH),
    (_arithmetic, {"remainder": R.floor_mod, "fmod": R.mod}, _BOTH),
    (_arithmetic, {"bitwise_and": R.bitwise_and, "bitwise_or": R.bitwise_or, "bitwise_xor": R.bitwise_xor}, _BOTH),
    (_arithmetic, {"__lshift__": R.left_shift, "__rshift__": R.right_shift}, _BOTH),
    (_arithmetic, {"bitwise_left_shift": R.left_shift, "bitwise_right_shift": R.right_shift}, _SHIFTS),
    (_arithmetic, {"pow": R.power}, (".Tensor_Tensor", ".Scalar")),
    (_arithmetic, {"remainder": R.floor_mod}, (".Scalar_Tensor",)),
    (_arithmetic, {"maximum": R.maximum, "minimum": R.minimum}, ("",)),
    (_floating, {"atan2": R.atan2, "logaddexp": R.log_add_exp}, ("",)),
    (_compared, {"eq": R.equal, "ne": R.not_equal, "lt": R.less, "gt": R.greater}, _BOTH),
    (_compared, {"le": R.less_equal, "ge": R.greater_equal}, _BOTH),
    (_extreme, {"fmax": R.maximum, "fmin": R.minimum}, ("",)),
    (_logical, {"logical_and": R.logical_and, "logical_or": R.logical_or, "logical_xor": R.logical_xor}, ("",)),
]
"""A kind of handler, its operators with the functions for them, and the overloads of each operator."""
for _handler, _functions, _overloads in _FAMILIES:
    for _name, _function in _functions.items():
        converts(*[_name + overload for overload in _overloads])(partial(_handler, _function))


@converts("hypot")
def _hypot(context: Context, x: Expr, other: Expr) -> Expr:
    return in_wide_floats(array_function("hypot"), *context.promoted(x, other))


@converts("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar", "subtract.Tensor")
def _add(context: Context, x: TorchOperand, other: TorchOperand, alpha: float = 1) -> Expr:
    function = R.add if context.operator() == "add" else R.subtract
    if alpha == 1:
        return function(*context.promoted(x, other))
    dtype = promoted_dtype(x, other)

    def scaled(x1: Expr, x2: Expr) -> Expr:
        return function(x1, x2 * (int(alpha) if is_integer(dtype) else float(alpha)))

    return in_wide_floats(scaled, context.scalar(x, dtype), context.scalar(other, dtype))


@converts("div.Tensor", "div.Scalar", "true_divide.Tensor", "divide.Tensor")
def _divide(context: Context, x: TorchOperand, other: TorchOperand) -> Expr:
    dtype = context.output_dtype()
    if is_float(promoted_dtype(x, other)):
        return context.narrow(R.divide, x, other)
    return R.divide(context.scalar(x, dtype), context.scalar(other, dtype))


def _truncated_quotient(x1: Expr, x2: Expr) -> Expr:
    return R.trunc(R.divide(x1, x2))


@converts("div.Tensor_mode", "div.Scalar_mode")
def _divide_rounded(context: Context, x: TorchOperand, other: TorchOperand, *, rounding_mode: str | None) -> Expr:
    if rounding_mode is None:
        return _divide(context, x, other)
    if rounding_mode == "floor":
        return context.narrow(R.floor_divide, x, other)
    if is_float(promoted_dtype(x, other)):
        return context.narrow(_truncated_quotient, x, other)
    return context.narrow(R.divide, x, other)


@converts("pow.Tensor_Scalar")
def _power_of_number(context: Context, x: Expr, exponent: TorchOperand) -> Expr:
    if not isinstance(exponent, SymExpr):
        if exponent == 2:
            return R.square(cast(x, context.output_dtype()))
        if exponent == 0.5 and is_float(dtype_of(x)):
            return R.sqrt(x)
        if exponent == 1:
            return cast(x, context.output_dtype())
    return R.power(*context.promoted(x, exponent))


@converts("copysign.Tensor", "copysign.Scalar")
def _copysign(context: Context, x: Expr, other: TorchOperand) -> Expr:
    dtype = context.output_dtype()
    size = R.abs(cast(x, dtype))
    return R.where(is_signed(context.scalar(other, dtype)), R.negative(size), size)


# --- three operands


@converts("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(context: Context, condition: Expr, x: TorchOperand, other: TorchOperand) -> Expr:
    dtype = context.output_dtype()
    return R.where(cast(condition, "bool"), context.scalar(x, dtype), context.scalar(other, dtype))


@converts("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(context: Context, x: Expr, mask: Expr, value: TorchOperand) -> Expr:
    return R.where(mask, context.scalar(value, dtype_of(x)), x)


@converts_by_name("hardtanh")
def _hardtanh(context: Context, given: Any) -> Expr:
    if (given.min_val, given.max_val) == (0.0, 6.0) and is_float(dtype_of(given.self)):
        return R.nn.relu6(given.self)  # without gradient at the limits, as in PyTorch
    return _between(context, given.self, given.min_val, given.max_val)


@converts("clamp", "clip", "clamp.Tensor", "clip.Tensor")
def _between(context: Context, x: Expr, min: TorchOperand | None = None, max: TorchOperand | None = None) -> Expr:
    dtype = context.output_dtype()
    x = cast(x, dtype)
    if isinstance(min, int | float) and isinstance(max, int | float):
        return R.clip(x, min, max)
    if min is not None:
        x = R.maximum(x, context.scalar(min, dtype))
    return x if max is None else R.minimum(x, context.scalar(max, dtype))


@converts("lerp.Scalar", "lerp.Tensor")
def _lerp(context: Context, x: Expr, end: Expr, weight: TorchOperand) -> Expr:
    dtype = context.output_dtype()

    def between(start: Expr, stop: Expr, *weights: Expr) -> Any:
        share = weights[0] if weights else float(weight)  # pyright: ignore[reportArgumentType]
        return start + (stop - start) * share

    operands = [x, end, weight] if isinstance(weight, Expr) else [x, end]
    return in_wide_floats(between, *[cast(operand, dtype) for operand in operands])
