"""Handlers of PyTorch's quantized programs: operators of PT2E, of quantization-aware training, and integer products.

They follow ``torch.ao.quantization.fx._decomposed``. PyTorch multiplies by the reciprocal of a scale, in float32.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from .... import op as R
from ....ir.dtypes import is_float, is_integer
from ....ir.expr import Expr, const
from ....ir.op import Op
from ..context import (
    Context,
    axis_of,
    cast,
    converts,
    converts_by_name,
    converts_plainly,
    dtype_of,
    promoted_dtype,
    rank,
    shape_of,
)
from ..tensors import dtype_name
from .unary import copied

_NAMESPACE = "quantized_decomposed"


def _number(value: Expr | float, dtype: str) -> Expr:
    if not isinstance(value, Expr):
        return const(value, dtype)
    return cast(value if rank(value) == 0 else R.reshape(value, []), dtype)


def _along(x: Expr, parameter: Expr, axis: int) -> Expr:
    """``parameter``, one number for each index of ``axis``, in a shape that broadcasts to ``x``."""
    count = rank(x)
    return R.expand_dims(parameter, axis=[other for other in range(count) if other != axis_of(axis, count)])


def _rounded(given: Any, scale: Expr, zero_point: Expr) -> Expr:
    wide = cast(given.input, "float32")
    places = R.round(wide * (const(1.0, "float32") / scale)) + zero_point
    return _limited(places, given)


def _limited(places: Expr, given: Any) -> Expr:
    """``places`` clipped to the limits of the call, which are numbers or tensors, in its dtype."""
    if isinstance(given.quant_min, Expr):
        limits = _number(given.quant_min, "float32"), _number(given.quant_max, "float32")
        return cast(R.minimum(R.maximum(places, limits[0]), limits[1]), dtype_name(given.dtype))
    return cast(R.clip(places, float(given.quant_min), float(given.quant_max)), dtype_name(given.dtype))


@converts_by_name(
    "quantize_per_tensor", "quantize_per_tensor.tensor", "quantize_per_tensor.tensor2", namespace=_NAMESPACE
)
def _quantize_tensor(context: Context, given: Any) -> Expr:
    return _rounded(given, _number(given.scale, "float32"), _number(given.zero_point, "float32"))


@converts_by_name("quantize_per_channel", namespace=_NAMESPACE)
def _quantize_channel(context: Context, given: Any) -> Expr:
    factor, offset = [
        _along(given.input, cast(value, "float32"), given.axis) for value in (given.scales, given.zero_points)
    ]
    return _rounded(given, factor, offset)


@converts_by_name(
    "dequantize_per_tensor", "dequantize_per_tensor.tensor", "dequantize_per_tensor.tensor2", namespace=_NAMESPACE
)
def _dequantize_tensor(context: Context, given: Any) -> Expr:
    x, offset = given.input, _number(given.zero_point, dtype_of(given.input))
    return R.dequantize(x, _number(given.scale, "float32"), offset, out_dtype=context.output_dtype())


@converts_by_name("dequantize_per_channel", namespace=_NAMESPACE)
def _dequantize_channel(context: Context, given: Any) -> Expr:
    x, factor, zeros = given.input, cast(given.scales, "float32"), given.zero_points
    axis = axis_of(given.axis, rank(x))
    if zeros is not None and is_float(dtype_of(zeros)):
        numbers = (cast(x, "float32") - _along(x, cast(zeros, "float32"), axis)) * _along(x, factor, axis)
        return cast(numbers, context.output_dtype())
    return R.dequantize(x, factor, _places_of_zero(x, factor, zeros), axis=axis, out_dtype=context.output_dtype())


def _places_of_zero(x: Expr, factor: Expr, zeros: Expr | None) -> Expr:
    """``zeros``, integers, in the dtype of ``x``; by default a 0 for each element of ``factor``."""
    return R.zeros_like(factor, dtype=dtype_of(x)) if zeros is None else cast(zeros, dtype_of(x))


# --- groups of a row, and whole rows


def _in_groups(x: Expr, parameter: Expr) -> Expr:
    """``parameter``, one number for each group of a row of the matrix ``x``, as (rows, groups)."""
    return R.reshape(parameter, [shape_of(x)[0], -1])


@converts_by_name("quantize_per_channel_group", namespace=_NAMESPACE)
def _quantize_groups(context: Context, given: Any) -> Expr:
    x, wide = given.input, promoted_dtype(given.input, given.scales)
    groups = context.emit(_in_groups(x, cast(given.scales, wide)))
    rows, count = shape_of(groups)
    factor, zeros = (R.expand_dims(one, axis=[2]) for one in (groups, _in_groups(x, cast(given.zero_points, wide))))
    apart = R.reshape(cast(x, wide), [rows, count, -1])
    places = R.round(apart * (const(1.0, wide) / factor) + zeros)
    return R.reshape(_limited(places, given), shape_of(x))


@converts_by_name("dequantize_per_channel_group", namespace=_NAMESPACE)
def _dequantize_groups(context: Context, given: Any) -> Expr:
    x, factor, zeros = given.input, _in_groups(given.input, given.scales), given.zero_points
    offset = _places_of_zero(x, factor, None if zeros is None else _in_groups(x, zeros))
    return cast(R.dequantize(x, factor, offset, axis=1, out_dtype=dtype_of(factor)), context.output_dtype())


@converts("choose_qparams_per_token", namespace=_NAMESPACE)
def _choose_by_row(context: Context, x: Expr, dtype: Any) -> tuple[Expr, Expr]:
    largest = R.max(R.abs(x), axis=[-1], keepdims=True)
    wide = "float32" if dtype_of(x) == "float16" else dtype_of(x)
    scale = R.maximum(cast(largest, wide), const(1e-5, wide)) / const(127.0, wide)
    # PyTorch states float64 and int64 for them, although it returns other dtypes.
    return cast(scale, "float64"), R.zeros_like(largest, dtype="int64")


# --- training, and types


@converts("fake_quant_per_channel", namespace=_NAMESPACE)
def _imitated_by_channel_of_pt2e(
    context: Context, x: Expr, scales: Expr, zero_points: Expr, axis: int, quant_min: int, quant_max: int
) -> Expr:
    factor, offset = (context.emit(_along(x, cast(one, "float32"), axis)) for one in (scales, zero_points))
    places = R.round(x * (const(1.0, "float32") / factor)) + offset
    return (R.clip(places, float(quant_min), float(quant_max)) - offset) * factor


converts("convert_element_type.no_fuse", namespace=_NAMESPACE)(copied)
converts_plainly({"_int_mm": partial(R.matmul, out_dtype="int32")})


@converts("fake_quantize_per_tensor_affine", "fake_quantize_per_tensor_affine.tensor_qparams")
def _imitated(
    context: Context, x: Expr, scale: Expr | float, zero_point: Expr | int, quant_min: int, quant_max: int
) -> Expr:
    factor, zeros = _number(scale, "float32"), _number(zero_point, "int32")
    op = Op.get("aten.fake_quantize_per_tensor_affine")
    return op(x, factor, zeros, quant_min=quant_min, quant_max=quant_max)


@converts("fake_quantize_per_channel_affine")
def _imitated_by_channel(
    context: Context, x: Expr, scale: Expr, zero_point: Expr, axis: int, quant_min: int, quant_max: int
) -> Expr:
    if not is_integer(dtype_of(zero_point)):
        context.unsupported("zero points that are no whole numbers; write them as integers")
    op = Op.get("aten.fake_quantize_per_channel_affine")
    return op(x, scale, zero_point, axis=axis_of(axis, rank(x)), quant_min=quant_min, quant_max=quant_max)


@converts("choose_qparams.tensor", namespace=_NAMESPACE)
def _choose(context: Context, x: Expr, qmin: int, qmax: int, eps: float, dtype: Any) -> tuple[Expr, Expr]:
    least, greatest = _range(context, x)
    scale = context.emit(R.maximum((greatest - least) / const(float(qmax - qmin), "float32"), const(eps, "float32")))
    places = const(float(qmin), "float32") - R.round(least / scale)
    return _one(scale, "float64"), _one(R.clip(places, float(qmin), float(qmax)), "int64")


@converts("choose_qparams_symmetric.tensor", namespace=_NAMESPACE)
def _choose_symmetric(context: Context, x: Expr, qmin: int, qmax: int, eps: float, dtype: Any) -> tuple[Expr, Expr]:
    least, greatest = _range(context, x)
    half = const((qmax - qmin) / 2, "float32")
    scale = R.maximum(R.maximum(R.negative(least), greatest) / half, const(eps, "float32"))
    middle = 128 if dtype_name(dtype) == "uint8" else 0
    return _one(scale, "float64"), const([middle], "int64")


def _range(context: Context, x: Expr) -> tuple[Expr, Expr]:
    """The smallest and the largest element, extended to include 0."""
    zero = const(0.0, "float32")
    least = R.minimum(cast(R.min(x), "float32"), zero)
    greatest = R.maximum(cast(R.max(x), "float32"), zero)
    return context.emit(least), context.emit(greatest)


def _one(x: Expr, dtype: str) -> Expr:
    return cast(R.reshape(x, [1]), dtype)
