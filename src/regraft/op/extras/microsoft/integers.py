"""Products of quantized operands, as ONNX Runtime's quantizer and optimizers write them."""

from __future__ import annotations

from typing import Any

from ....ir.expr import Expr
from ....ir.op import Call, wrong_operand
from ....ir.types import Type
from ...primitive.datatype import astype
from ...primitive.linear_algebra import matmul
from ...rules import require_float, tensor_operand
from ...semantics import cast
from .declaring import contributed


def _float_product_type(call: Call) -> Type:
    operands: list[Expr] = []
    for index in range(2):
        ty = tensor_operand(call, index)
        if index == 1 and ty.dtype not in (None, "int8", "uint8"):
            raise wrong_operand(call, index, "a tensor of int8 or uint8")
        operands.append(astype(call.args[index], "float32"))
    left, right = operands
    return matmul(left, right).ty


def shifted(xp: Any, x: Any, zero_point: Any) -> Any:
    """Quantized numbers as int32, with their zero point subtracted."""
    wide = cast(xp, x, "int32")
    return wide if zero_point is None else wide - cast(xp, zero_point, "int32")


def dynamically_quantized(xp: Any, x: Any) -> tuple[Any, Any]:
    """``x`` quantized to 256 steps between its least and greatest element, minus the zero point; and the step.

    Follows ONNX's DynamicQuantizeLinear: zero is one of the steps.
    """
    zero = xp.zeros_like(xp.min(x))
    low, high = xp.minimum(xp.min(x), zero), xp.maximum(xp.max(x), zero)
    step = (high - low) / 255.0
    safe = xp.where(step == 0.0, xp.ones_like(step), step)
    zero_point = xp.round(xp.clip(-low / safe, 0.0, 255.0))
    numbers = xp.clip(xp.round(x / safe) + zero_point, 0.0, 255.0)
    return cast(xp, numbers - zero_point, "int32"), step


def _scaled(xp: Any, product: Any, factor: Any, bias: Any) -> Any:
    found = cast(xp, product, "float32") * factor
    return found if bias is None else found + bias


@contributed("MatMulIntegerToFloat", _float_product_type)
def matmul_integer_to_float(
    xp: Any,
    a: Any,
    b: Any,
    a_scale: Any,
    b_scale: Any,
    a_zero_point: Any = None,
    b_zero_point: Any = None,
    bias: Any = None,
) -> Any:
    """The product of two quantized operands as float32; ``b_scale`` is a scalar or has one element for each column."""
    product = xp.matmul(shifted(xp, a, a_zero_point), shifted(xp, b, b_zero_point))
    return _scaled(xp, product, a_scale * b_scale, bias)


def _dynamic_type(call: Call) -> Type:
    require_float(call, 0)
    return _float_product_type(call)


@contributed("DynamicQuantizeMatMul", _dynamic_type)
def dynamic_quantize_matmul(xp: Any, a: Any, b: Any, b_scale: Any, b_zero_point: Any = None, bias: Any = None) -> Any:
    """``a``, quantized to uint8 by its range, times a quantized ``b``, as float32."""
    numbers, step = dynamically_quantized(xp, a)
    return _scaled(xp, xp.matmul(numbers, shifted(xp, b, b_zero_point)), step * b_scale, bias)
