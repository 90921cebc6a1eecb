"""Handlers of ATen's arithmetic, comparisons and logic on two tensors, or a tensor and a number.

PyTorch promotes operands of different dtypes; the operators here do not, so each operand is converted first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from typing import cast as cast_to

from .... import op as R
from ....ir.dims import SymExpr
from ....ir.dtypes import is_bool, is_float, is_integer
from ....ir.expr import Expr
from ..context import Context, TorchOperand, cast, converts, converts_by_name, dtype_of, promoted_dtype
from .unary import array_function, in_wide_floats, is_signed


def _arithmetic(function: Callable[..., Expr]) -> Callable[..., Expr]:
    """A handler for arithmetic in the promoted dtype."""

    def handler(context: Context, x: TorchOperand, other: TorchOperand) -> Expr:
        return context.narrow(function, x, other)

    return handler


def _compared(function: Callable[..., Expr]) -> Callable[..., Expr]:
    """A handler for comparisons in the promoted dtype."""

    def handler(context: Context, x: TorchOperand, other: TorchOperand) -> Expr:
        return function(*_comparable(context, x, other))

    return handler


def _comparable(context: Context, x: TorchOperand, other: TorchOperand) -> tuple[Expr, Expr]:
    left, right = context.promoted(x, other)
    if is_bool(dtype_of(left)):
        left, right = cast(left, "int8"), cast(right, "int8")
    return left, right


def _logical(function: Callable[..., Expr]) -> Callable[..., Expr]:
    """A handler for logic on whether elements are not zero."""

    def handler(context: Context, x: Expr, other: Expr) -> Expr:
        return function(cast(x, "bool"), cast(other, "bool"))

    return handler


def _extreme(function: Callable[..., Expr]) -> Callable[..., Expr]:
    """A handler for the greater or smaller of two that leaves out NaN."""

    def handler(context: Context, x: Expr, other: Expr) -> Expr:
        left, right = context.promoted(x, other)
        if not is_float(dtype_of(left)):
            return function(left, right)
        return R.where(R.isnan(left), right, R.where(R.isnan(right), left, function(left, right)))

    return handler


_TENSOR_AND_SCALAR: Final[dict[str, Callable[..., Expr]]] = {
    "mul": _arithmetic(R.multiply),
    "remainder": _arithmetic(R.floor_mod),
    "fmod": _arithmetic(R.mod),
    "eq": _compared(R.equal),
    "ne": _compared(R.not_equal),
    "lt": _compared(R.less),
    "le": _compared(R.less_equal),
    "gt": _compared(R.greater),
    "ge": _compared(R.greater_equal),
    "bitwise_and": _arithmetic(R.bitwise_and),
    "bitwise_or": _arithmetic(R.bitwise_or),
    "bitwise_xor": _arithmetic(R.bitwise_xor),
    "__lshift__": _arithmetic(R.left_shift),
    "__rshift__": _arithmetic(R.right_shift),
}
_TWO_TENSORS: Final[dict[str, Callable[..., Expr]]] = {
    "atan2": _arithmetic(R.atan2),
    "pow.Tensor_Tensor": _arithmetic(R.power),
    "pow.Scalar": _arithmetic(R.power),
    "remainder.Scalar_Tensor": _arithmetic(R.floor_mod),
    "maximum": _arithmetic(R.maximum),
    "minimum": _arithmetic(R.minimum),
    "logaddexp": _arithmetic(R.log_add_exp),
    "fmax": _extreme(R.maximum),
    "fmin": _extreme(R.minimum),
    "logical_and": _logical(R.logical_and),
    "logical_or": _logical(R.logical_or),
    "logical_xor": _logical(R.logical_xor),
    "bitwise_left_shift.Tensor": _arithmetic(R.left_shift),
    "bitwise_right_shift.Tensor": _arithmetic(R.right_shift),
    "bitwise_left_shift.Tensor_Scalar": _arithmetic(R.left_shift),
    "bitwise_right_shift.Tensor_Scalar": _arithmetic(R.right_shift),
}
for _name, _handler in _TENSOR_AND_SCALAR.items():
    converts(f"{_name}.Tensor", f"{_name}.Scalar")(_handler)
for _name, _handler in _TWO_TENSORS.items():
    converts(_name)(_handler)


@converts("hypot")
def _hypot(context: Context, x: Expr, other: Expr) -> Expr:
    return in_wide_floats(array_function("hypot"), *context.promoted(x, other))


@converts("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar", "subtract.Tensor")
def _add(context: Context, x: TorchOperand, other: TorchOperand, alpha: float = 1) -> Expr:
    function = R.add if context.operator() == "add" else R.subtract
    if alpha == 1:
        return context.narrow(function, x, other)
    if not isinstance(other, Expr):
        scaled_number: Any = other * cast_to(Any, alpha)
        return context.narrow(function, x, scaled_number)
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
    return context.narrow(R.power, x, exponent)


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
        return R.nn.relu6(given.self)  # without gradient at the limits, as PyTorch has it
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
