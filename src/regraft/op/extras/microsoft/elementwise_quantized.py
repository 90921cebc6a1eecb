"""Operators on quantized tensors: dequantize, compute, quantize.

A result is rounded to the nearest step, ties to even, and limited to its dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ....ir.expr import Expr
from ....ir.op import REQUIRED, Call, Op, Reference, Trait, TypeRule, wrong_operand
from ....ir.types import TensorType, Type
from ...primitive.join import concat
from ...primitive.manipulate import permute_dims
from ...rules import broadcast_types, tensor_operand
from ...semantics import apply, cast, dtype_name, namespace_dtype
from .declaring import contributed, is_given, shaped, sizes_of

_QUANTIZED = (None, "int8", "uint8")
_QUANTIZE: Final = Op.get("relax.quantize")
_DEQUANTIZE: Final = Op.get("relax.dequantize")


def quantized_operand(call: Call, index: int) -> TensorType:
    """The type of operand ``index``, a tensor of int8 or uint8. Raises `OpTypeError` for another dtype."""
    ty = tensor_operand(call, index)
    if ty.dtype not in _QUANTIZED:
        raise wrong_operand(call, index, "a tensor of int8 or uint8")
    return ty


def _like_quantized(call: Call) -> Type:
    return quantized_operand(call, 0)


def _pair_type(call: Call) -> Type:
    dtype = quantized_operand(call, 0).dtype
    quantized_operand(call, 3)
    return TensorType(*_dims(call, (0, 3), dtype))


def _dims(call: Call, indices: tuple[int, ...], dtype: str | None) -> tuple[Any, Any, int]:
    dims, ndim = broadcast_types(call, indices)
    return dims, dtype, ndim


def dequantized(xp: Any, x: Any, scale: Any, zero_point: Any, axis: int = -1) -> Any:
    """A quantized tensor dequantized to float32; parameters of one dimension are along ``axis``."""
    zeros = xp.zeros((), dtype=namespace_dtype(xp, "uint8")) if zero_point is None else zero_point
    return apply(xp, _DEQUANTIZE, x, cast(xp, scale, "float32"), zeros, axis=axis)


def quantized(xp: Any, x: Any, scale: Any, zero_point: Any, dtype: str, axis: int = -1) -> Any:
    """``x``, of float32, quantized to ``dtype``; parameters of one dimension are along ``axis``."""
    zeros = xp.zeros((), dtype=namespace_dtype(xp, dtype)) if zero_point is None else zero_point
    return apply(xp, _QUANTIZE, x, cast(xp, scale, "float32"), zeros, axis=axis, out_dtype=dtype)


def _between(function: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
    def reference(
        xp: Any,
        a: Any,
        a_scale: Any,
        a_zero_point: Any | None,
        b: Any,
        b_scale: Any,
        b_zero_point: Any | None,
        c_scale: Any,
        c_zero_point: Any = None,
    ) -> Any:
        left, right = dequantized(xp, a, a_scale, a_zero_point), dequantized(xp, b, b_scale, b_zero_point)
        return quantized(xp, function(xp, left, right), c_scale, c_zero_point, dtype_name(a.dtype))

    return reference


qlinear_add = contributed("QLinearAdd", _pair_type)(_between(lambda xp, a, b: a + b))
qlinear_mul = contributed("QLinearMul", _pair_type)(_between(lambda xp, a, b: a * b))


# --- conversion from and to floats


def _quantize_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    return TensorType(ty.shape, tensor_operand(call, 2).dtype if is_given(call, 2) else "uint8", ty.ndim)


@contributed("QuantizeLinear", _quantize_type)
def quantize_linear(xp: Any, x: Any, y_scale: Any, y_zero_point: Any = None, *, axis: int | None = None) -> Any:
    """ONNX's QuantizeLinear; ONNX Runtime also has it for 16 bits and for older opsets."""
    dtype = "uint8" if y_zero_point is None else dtype_name(y_zero_point.dtype)
    return quantized(xp, cast(xp, x, "float32"), y_scale, y_zero_point, dtype, -1 if axis is None else axis)


def _dequantize_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    return TensorType(ty.shape, tensor_operand(call, 1).dtype, ty.ndim)


@contributed("DequantizeLinear", _dequantize_type, traits=(Trait.STORED,))
def dequantize_linear(xp: Any, x: Any, x_scale: Any, x_zero_point: Any = None, *, axis: int | None = None) -> Any:
    """ONNX's DequantizeLinear, the inverse of `quantize_linear`."""
    wide = dequantized(xp, x, x_scale, x_zero_point, -1 if axis is None else axis)
    return cast(xp, wide, dtype_name(x_scale.dtype))


# --- one operand


def _of_one(name: str, infer: TypeRule, **attributes: Any) -> Callable[[Reference], Op]:
    """Declare ``com.microsoft.<name>`` by a function of the dequantized tensor."""

    def declare(function: Reference) -> Op:
        def reference(
            xp: Any,
            x: Any,
            x_scale: Any,
            x_zero_point: Any | None,
            y_scale: Any,
            y_zero_point: Any = None,
            **given: Any,
        ) -> Any:
            found = function(xp, dequantized(xp, x, x_scale, x_zero_point), **given)
            return quantized(xp, found, y_scale, y_zero_point, dtype_name(x.dtype))

        return contributed(name, infer, shared=attributes)(reference)

    return declare


@_of_one("QLinearSigmoid", _like_quantized)
def qlinear_sigmoid(xp: Any, x: Any) -> Any:
    """The logistic function of a quantized tensor."""
    return apply(xp, Op.get("relax.sigmoid"), x)


@_of_one("QLinearLeakyRelu", _like_quantized, alpha=0.01)
def qlinear_leaky_relu(xp: Any, x: Any, alpha: float) -> Any:
    """A quantized tensor with its negative elements multiplied by ``alpha``."""
    return apply(xp, Op.get("relax.nn.leakyrelu"), x, alpha=alpha)


@_of_one("QLinearSoftmax", _like_quantized, opset=REQUIRED, axis=-1)
def qlinear_softmax(xp: Any, x: Any, opset: int, axis: int) -> Any:
    """The softmax of a quantized tensor along ``axis``; before opset 13, over that axis and all later axes together."""
    if opset >= 13 or axis % x.ndim == x.ndim - 1:
        return apply(xp, Op.get("relax.nn.softmax"), x, axis=axis)
    axes = tuple(range(axis % x.ndim, x.ndim))
    exponentials = xp.exp(x - xp.max(x, axis=axes, keepdims=True))
    return exponentials / xp.sum(exponentials, axis=axes, keepdims=True)


def _pooled_type(call: Call) -> Type:
    ty = quantized_operand(call, 0)
    if ty.shape is None or ty.ndim < 3:
        return TensorType(None, ty.dtype, ty.ndim)
    first = 1 if call.attrs.channels_last else 2
    pooled = range(first, first + ty.ndim - 2)
    return TensorType([1 if axis in pooled else size for axis, size in enumerate(ty.shape)], ty.dtype)


@_of_one("QLinearGlobalAveragePool", _pooled_type, channels_last=0)
def qlinear_global_average_pool(xp: Any, x: Any, channels_last: int) -> Any:
    """The mean over all spatial axes of a quantized tensor; their sizes become 1."""
    first = 1 if channels_last else 2
    return xp.mean(x, axis=tuple(range(first, first + x.ndim - 2)), keepdims=True)


def _concat_type(call: Call) -> Type:
    if len(call.args) % 3 != 2:
        raise wrong_operand(call, len(call.args) - 1, "a tensor, its scale and its zero point for each input")
    parts = [call.args[index] for index in range(2, len(call.args), 3)]
    return concat(parts, call.attrs.axis).ty


@contributed("QLinearConcat", _concat_type)
def qlinear_concat(xp: Any, y_scale: Any, y_zero_point: Any, *inputs: Any, axis: int) -> Any:
    """Quantized tensors joined along ``axis``; each is given with its scale and its zero point."""
    dtype = dtype_name(y_zero_point.dtype)
    parts = [
        quantized(xp, dequantized(xp, *inputs[first : first + 3]), y_scale, y_zero_point, dtype)
        for first in range(0, len(inputs), 3)
    ]
    return xp.concat(parts, axis=axis)


def _where_type(call: Call) -> Type:
    dtype = quantized_operand(call, 1).dtype
    dims, ndim = broadcast_types(call, (0, 1, 4))
    return TensorType(dims, dtype, ndim)


@contributed("QLinearWhere", _where_type)
def qlinear_where(
    xp: Any,
    condition: Any,
    x: Any,
    x_scale: Any,
    x_zero_point: Any,
    y: Any,
    y_scale: Any,
    y_zero_point: Any,
    z_scale: Any,
    z_zero_point: Any,
) -> Any:
    """``x`` where the condition is true, else ``y``, both quantized with the result's scale and zero point."""
    dtype = dtype_name(x.dtype)
    left = quantized(xp, dequantized(xp, x, x_scale, x_zero_point), z_scale, z_zero_point, dtype)
    right = quantized(xp, dequantized(xp, y, y_scale, y_zero_point), z_scale, z_zero_point, dtype)
    return xp.where(condition, left, right)


def _gemm_type(call: Call) -> Type:
    quantized_operand(call, 0)
    operands: list[Expr] = []
    for index, turned in ((0, call.attrs.transA), (3, call.attrs.transB)):
        operands.append(permute_dims(call.args[index]) if turned else call.args[index])
    sizes = [sizes_of(call, 0, 2)[1 if call.attrs.transA else 0], sizes_of(call, 3, 2)[0 if call.attrs.transB else 1]]
    return shaped(sizes, tensor_operand(call, 0).dtype if is_given(call, 7) else "float32")


@contributed("QGemm", _gemm_type)
def qgemm(
    xp: Any,
    a: Any,
    a_scale: Any,
    a_zero_point: Any,
    b: Any,
    b_scale: Any,
    b_zero_point: Any,
    c: Any = None,
    y_scale: Any = None,
    y_zero_point: Any = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Any:
    """``alpha * (a @ b) + c`` of quantized matrices; ``c`` is int32, with the scale ``alpha * a_scale * b_scale``.

    The result is quantized if ``y_scale`` is given, else float32.
    """
    left = dequantized(xp, a, a_scale, a_zero_point)
    # A scale for each row of a transposed b is a scale for each column of the product.
    right = dequantized(xp, b, b_scale, b_zero_point, 0 if transB else 1)
    left = xp.permute_dims(left, (1, 0)) if transA else left
    right = xp.permute_dims(right, (1, 0)) if transB else right
    found = xp.matmul(left, right)
    found = found if alpha == 1 else found * alpha
    found = found if c is None else found + dequantized(xp, c, a_scale * b_scale * alpha, None)
    return found if y_scale is None else quantized(xp, found, y_scale, y_zero_point, dtype_name(a.dtype))
