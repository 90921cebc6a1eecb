"""Operators of ONNX Runtime that are variants or predecessors of ONNX operators."""

from __future__ import annotations

from typing import Any

from ....ir.op import Call, wrong_attribute, wrong_operand
from ....ir.types import TensorType, Type
from ...declare import meaning_of
from ...primitive.binary import multiply
from ...primitive.datatype import astype
from ...primitive.linear_algebra import matmul
from ...rules import normalize_axes, normalize_axis, require_float, tensor_operand
from ...semantics import cast, dtype_name
from .declaring import contributed, shaped, sizes_of
from .elementwise_quantized import dequantized, quantized
from .integers import shifted


def _distance_type(call: Call) -> Type:
    dtype = require_float(call, 0).dtype
    if call.attrs.metric not in ("euclidean", "sqeuclidean"):
        raise wrong_attribute(call, "metric", "euclidean or sqeuclidean, as ONNX Runtime has kernels for")
    return shaped((sizes_of(call, 0, 2)[0], sizes_of(call, 1, 2)[0]), dtype)


@contributed("CDist", _distance_type)
def cdist(xp: Any, a: Any, b: Any, *, metric: str = "sqeuclidean") -> Any:
    """The Euclidean distance of each row of ``a`` from each row of ``b``, or its square."""
    difference = xp.expand_dims(a, axis=1) - xp.expand_dims(b, axis=0)
    squares = xp.sum(difference * difference, axis=-1)
    return squares if metric == "sqeuclidean" else xp.sqrt(squares)


def _unfolded_type(call: Call) -> Type:
    data, attrs = tensor_operand(call, 0), call.attrs
    if data.ndim < 0:
        return TensorType(None, data.dtype)
    axis = normalize_axis(call, "dim", attrs.dim, data.ndim)
    sizes = list(sizes_of(call, 0, data.ndim))
    length = sizes[axis]
    if isinstance(length, int) and length < attrs.size:
        raise wrong_attribute(call, "size", f"{length} at most, the size of the axis")
    sizes[axis] = None if length is None else (length - attrs.size) // attrs.step + 1
    return shaped((*sizes, attrs.size), data.dtype)


@contributed("UnfoldTensor", _unfolded_type)
def unfold_tensor(xp: Any, input: Any, *, dim: int = -1, size: int, step: int = 1) -> Any:
    """The windows of ``size`` elements along an axis, ``step`` apart; their elements are on a new last axis."""
    axis = dim % input.ndim
    count = (input.shape[axis] - size) // step + 1
    front = (slice(None),) * axis
    parts = [input[(*front, slice(at, at + (count - 1) * step + 1, step))] for at in range(size)]
    return xp.stack(parts, axis=-1)


def _pairs_type(call: Call) -> Type:
    data, other = require_float(call, 0), require_float(call, 1)
    sizes = sizes_of(call, 0, data.ndim) if data.ndim > 0 else (2,)
    if sizes[-1] not in (None, 2):
        raise wrong_operand(call, 0, "a last axis of size 2: real and imaginary parts")
    return data if data.ndim == other.ndim else TensorType(None, data.dtype)


def _complex_product(xp: Any, a: Any, b: Any, sign: float) -> Any:
    real, imaginary = a[..., 0], a[..., 1]
    other_real, other_imaginary = b[..., 0], b[..., 1] * sign
    parts = [
        real * other_real - imaginary * other_imaginary,
        real * other_imaginary + imaginary * other_real,
    ]
    return xp.stack(parts, axis=-1)


@contributed("ComplexMul", _pairs_type)
def complex_mul(xp: Any, a: Any, b: Any) -> Any:
    """The product of complex numbers whose real and imaginary parts are on the last axis."""
    return _complex_product(xp, a, b, 1.0)


@contributed("ComplexMulConj", _pairs_type)
def complex_mul_conj(xp: Any, a: Any, b: Any) -> Any:
    """The `complex_mul` of ``a`` and the conjugate of ``b``."""
    return _complex_product(xp, a, b, -1.0)


def _integer_product_type(call: Call) -> Type:
    kinds = [tensor_operand(call, index).dtype or "int16" for index in range(2)]
    dtype = "uint32" if kinds == ["uint16", "uint16"] else "int32"
    return matmul(astype(call.args[0], dtype), astype(call.args[1], dtype)).ty


@contributed("MatMulInteger16", _integer_product_type)
def matmul_integer16(xp: Any, a: Any, b: Any) -> Any:
    """The product of matrices of 16-bit integers, as 32-bit integers."""
    kinds = [dtype_name(x.dtype) for x in (a, b)]
    dtype = "uint32" if kinds == ["uint16", "uint16"] else "int32"
    return meaning_of("relax.matmul", xp, cast(xp, a, dtype), cast(xp, b, dtype))


@contributed("MulInteger", lambda call: multiply(astype(call.args[0], "int32"), astype(call.args[2], "int32")).ty)
def mul_integer(xp: Any, a: Any, a_zero_point: Any | None, b: Any, b_zero_point: Any = None) -> Any:
    """``(a - a_zero_point) * (b - b_zero_point)`` of 8-bit integers, as int32."""
    return shifted(xp, a, a_zero_point) * shifted(xp, b, b_zero_point)


def _reduced(call: Call, dtype: str | None) -> Type:
    data, attrs = tensor_operand(call, 0), call.attrs
    if data.ndim < 0:
        return TensorType(None, dtype)
    axes = normalize_axes(call, "axes", attrs.axes, data.ndim) or tuple(range(data.ndim))
    sizes = [1 if axis in axes else size for axis, size in enumerate(sizes_of(call, 0, data.ndim))]
    return shaped([s for axis, s in enumerate(sizes) if attrs.keepdims or axis not in axes], dtype)


@contributed(
    "ReduceSumInteger", lambda call: _reduced(call, "uint32" if tensor_operand(call, 0).dtype == "uint8" else "int32")
)
def reduce_sum_integer(xp: Any, data: Any, *, axes: tuple[int, ...], keepdims: int) -> Any:
    """The sum of 8-bit integers over ``axes``, as 32-bit integers."""
    dtype = "uint32" if dtype_name(data.dtype) == "uint8" else "int32"
    wide = cast(xp, data, dtype)
    return cast(xp, xp.sum(wide, axis=tuple(axes) or None, keepdims=bool(keepdims)), dtype)


@contributed("QLinearReduceMean", lambda call: _reduced(call, tensor_operand(call, 0).dtype))
def qlinear_reduce_mean(
    xp: Any,
    data: Any,
    data_scale: Any,
    data_zero_point: Any | None,
    reduced_scale: Any,
    reduced_zero_point: Any = None,
    *,
    axes: tuple[int, ...],
    keepdims: int,
) -> Any:
    """The mean of quantized numbers over ``axes``, quantized again."""
    wide = dequantized(xp, data, data_scale, data_zero_point)
    found = xp.mean(wide, axis=tuple(axes) or None, keepdims=bool(keepdims))
    return quantized(xp, found, reduced_scale, reduced_zero_point, dtype_name(data.dtype))


def _verdict_type(call: Call) -> Type:
    for index in range(len(call.args)):
        require_float(call, index)
    return TensorType((), "bool")


@contributed("IsAllFinite", _verdict_type)
def is_all_finite(xp: Any, *input: Any, isinf_only: int = 0, isnan_only: int = 0) -> Any:
    """True if no element is infinite or NaN; with ``isnan_only`` or ``isinf_only``, only that kind is checked."""
    found: Any = None
    for x in input:
        bad = xp.isnan(x) if isnan_only else xp.isinf(x) if isinf_only else xp.logical_not(xp.isfinite(x))
        fine = xp.logical_not(xp.any(bad))
        found = fine if found is None else xp.logical_and(found, fine)
    return found
