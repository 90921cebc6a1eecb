"""Quantization: converting floats to integers (or 8-bit floats) with a scale and a zero point, and back."""

from __future__ import annotations

from math import prod
from typing import Any

import ml_dtypes

from ...ir.dims import Dim, dims_equal
from ...ir.dtypes import is_float, is_integer, itemsize, numpy_dtype
from ...ir.expr import Expr
from ...ir.op import Call, Trait, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, TupleType, Type
from ..costs import operations_per_element
from ..public_function import Dtype, declares
from ..rules import normalize_axis, require_float, require_numbers, require_rank, tensor_operand
from ..semantics import along, cast, dtype_name, integer_range, widened

__all__ = ["dequantize", "dynamic_quantize", "quantize"]


def _check_parameters(call: Call) -> TensorType:
    """The type of data; checks that scale and zero point are scalars or have one element for each index of ``axis``."""
    data, scale, zero_point = tensor_operand(call, 0), require_float(call, 1), require_numbers(call, 2)
    size = None if data.ndim else 1
    if data.ndim != UNKNOWN_NDIM and (data.ndim or scale.ndim == 1):
        axis = normalize_axis(call, "axis", call.attrs.axis, data.ndim)
        size = None if data.shape is None else data.shape[axis]
    for index, ty in ((1, scale), (2, zero_point)):
        require_rank(call, index, "a scalar, or a tensor of 1 dimension", 0, 1)
        if size is None or not ty.shape:
            continue
        if dims_equal(ty.shape[0], size) is False and dims_equal(ty.shape[0], 1) is False:
            raise wrong_operand(call, index, f"1 element, or {size}: one for each element of axis {call.attrs.axis}")
    return data


def _along(xp: Any, parameter: Any, ndim: int, axis: int) -> Any:
    """``parameter``, a scalar or a tensor of one dimension along ``axis``, reshaped to broadcast with ``ndim`` axes."""
    return xp.reshape(parameter, ()) if ndim == 0 else along(xp, parameter, axis % ndim, ndim)


# --- quantize


def _quantize_type(call: Call) -> Type:
    require_float(call, 0)
    dtype: str = call.attrs.out_dtype
    if not (is_integer(dtype) and itemsize(dtype) <= 4) and not (is_float(dtype) and itemsize(dtype) == 1):
        raise wrong_attribute(call, "out_dtype", "an integer dtype of at most 32 bits, or an 8-bit float")
    return _check_parameters(call).with_dtype(dtype)


def _quantize(xp: Any, data: Any, scale: Any, zero_point: Any, axis: int, out_dtype: str) -> Any:
    offset = cast(xp, _along(xp, zero_point, data.ndim, axis), "float64")
    ratio = widened(xp, data) / widened(xp, _along(xp, scale, data.ndim, axis))
    if is_float(out_dtype):
        greatest = float(ml_dtypes.finfo(numpy_dtype(out_dtype)).max)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        return cast(xp, xp.clip(cast(xp, ratio, "float64") + offset, -greatest, greatest), out_dtype)
    least, greatest = integer_range(out_dtype)
    # float64 holds every sum of a zero point and a rounded ratio in range exactly
    shifted = cast(xp, xp.round(ratio), "float64") + offset
    shifted = xp.where(xp.isnan(shifted), offset, shifted)
    return cast(xp, xp.clip(shifted, float(least), float(greatest)), out_dtype)


@declares(
    "relax.quantize",
    order=("out_dtype", "axis"),
    infer=_quantize_type,
    reference=_quantize,
    traits=(Trait.STOPS_GRADIENT,),
    cost=operations_per_element(6),  # a quotient, rounding, a sum, two limits and the conversion
)
def quantize(data: Expr, scale: Expr, zero_point: Expr, axis: int = -1, out_dtype: Dtype = "int8") -> Call:
    """``round(data / scale) + zero_point``, limited to ``out_dtype``; follows ``QuantizeLinear`` of ONNX.

    Operands: ``data``, floating; ``scale``, floating, and ``zero_point``, numbers: scalars, or one element
    for each index of ``axis``. Attributes: ``axis``; ``out_dtype``, an integer dtype of at most 32 bits, or an
    8-bit float (which is not rounded to whole numbers first). Result: ``data``'s shape. Halves are rounded to
    even; NaN becomes the zero point in integers. No gradient passes, since the function is constant between
    jumps. Raises `OpTypeError` for dtypes or shapes that do not agree.
    """
    ...


# --- dequantize


def _check_blocks(call: Call) -> TensorType:
    """The type of data; checks that scale has its axes, with one element for each block along ``axis``."""
    data, scale, zero_point = tensor_operand(call, 0), require_float(call, 1), require_numbers(call, 2)
    axis = normalize_axis(call, "axis", call.attrs.axis, data.ndim)
    if zero_point.ndim not in (UNKNOWN_NDIM, 0, scale.ndim):
        raise wrong_operand(call, 2, "a scalar, or a tensor of the shape of scale")
    if data.shape is None or scale.shape is None:
        return data
    for place, (whole, parts) in enumerate(zip(data.shape, scale.shape, strict=True)):
        fits = _is_multiple(whole, parts) if place == axis else dims_equal(whole, parts) is not False
        if not fits:
            expected = (
                f"the sizes of data {data.shape}, except on axis {axis}: a number of blocks that divides its size"
            )
            raise wrong_operand(call, 1, expected)
    if zero_point.shape and any(dims_equal(*pair) is False for pair in zip(zero_point.shape, scale.shape, strict=True)):
        raise wrong_operand(call, 2, f"a scalar, or a tensor of the shape of scale, {scale.shape}")
    return data


def _is_multiple(whole: Dim, parts: Dim) -> bool:
    if not isinstance(whole, int) or not isinstance(parts, int):
        return True
    return parts > 0 and whole % parts == 0


def _has_blocks(call: Call) -> bool:
    scale = tensor_operand(call, 1).ndim
    return scale > 1 and scale == tensor_operand(call, 0).ndim


def _dequantize_type(call: Call) -> Type:
    dtype: str = call.attrs.out_dtype
    if not is_float(dtype):
        raise wrong_attribute(call, "out_dtype", "a floating dtype")
    require_numbers(call, 0)
    return (_check_blocks(call) if _has_blocks(call) else _check_parameters(call)).with_dtype(dtype)


def _dequantize(xp: Any, data: Any, scale: Any, zero_point: Any, axis: int, out_dtype: str) -> Any:
    if scale.ndim > 1:
        # Split into an axis of blocks and an axis of the elements of a block, which share one scale.
        axis, sizes, blocks = axis % data.ndim, data.shape, scale.shape
        apart = (*sizes[:axis], blocks[axis], sizes[axis] // blocks[axis], *sizes[axis + 1 :])
        each = (*blocks[: axis + 1], 1, *blocks[axis + 1 :])
        offset = xp.reshape(zero_point, each) if zero_point.ndim else zero_point
        return xp.reshape(_scaled(xp, xp.reshape(data, apart), xp.reshape(scale, each), offset, out_dtype), sizes)
    factor, offset = (_along(xp, part, data.ndim, axis) for part in (scale, zero_point))
    return _scaled(xp, data, factor, offset, out_dtype)


def _scaled(xp: Any, data: Any, scale: Any, offset: Any, out_dtype: str) -> Any:
    """``(data - offset) * scale``, for operands that already broadcast."""
    factor = widened(xp, scale)
    name = dtype_name(data.dtype)
    wide = "int64" if is_integer(name) and is_integer(dtype_name(offset.dtype)) else dtype_name(factor.dtype)
    distance = cast(xp, cast(xp, data, wide) - cast(xp, offset, wide), dtype_name(factor.dtype))
    return cast(xp, distance * factor, out_dtype)


@declares(
    "relax.dequantize",
    order=("out_dtype", "axis"),
    infer=_dequantize_type,
    reference=_dequantize,
    traits=(Trait.STORED,),
    cost=operations_per_element(3),  # the conversion, a difference and a product
)
def dequantize(data: Expr, scale: Expr, zero_point: Expr, axis: int = -1, out_dtype: Dtype = "float32") -> Call:
    """``(data - zero_point) * scale``; follows ``DequantizeLinear`` of ONNX.

    Operands: ``data``, numbers; ``scale``, floating, and ``zero_point``, numbers: scalars, or one element for
    each index of ``axis``. Blocks are allowed too: ``scale`` then has the rank of ``data``, 2 or more, with one element
    for each of the equal blocks along ``axis``, and ``zero_point`` is a scalar or has the shape of ``scale``.
    Attributes: ``axis``; ``out_dtype``, floating.
    Result: ``data``'s shape; computed in float32, or in ``scale``'s dtype if that is wider, and rounded once.
    Raises `OpTypeError` for dtypes or shapes that do not agree.
    """
    ...


# --- dynamic quantization: the scale is computed from the values


def _dynamic_type(call: Call) -> Type:
    data = require_float(call, 0)
    scalar = TensorType((), "float32")
    return TupleType([data.with_dtype("uint8"), scalar, scalar.with_dtype("uint8")])


def _dynamic_quantize(xp: Any, data: Any) -> tuple[Any, Any, Any]:
    values = cast(xp, data, "float32")
    zero = xp.zeros((), dtype=values.dtype)
    # As in ONNX Runtime, the range of no elements is 0 to 0.
    least = xp.minimum(xp.min(values), zero) if prod(values.shape) else zero
    greatest = xp.maximum(xp.max(values), zero) if prod(values.shape) else zero
    scale = (greatest - least) / 255
    scale = xp.where(scale == 0, xp.ones_like(scale), scale)
    zero_point = cast(xp, xp.clip(xp.round(-least / scale), 0.0, 255.0), "uint8")
    return _quantize(xp, values, scale, zero_point, 0, "uint8"), scale, zero_point


@declares("relax.dynamic_quantize", infer=_dynamic_type, reference=_dynamic_quantize, traits=(Trait.STOPS_GRADIENT,))
def dynamic_quantize(data: Expr) -> Call:
    """``data`` quantized to uint8, by the range of its own values; follows ``DynamicQuantizeLinear`` of ONNX.

    Operand: ``data``, floating. Result: a tuple of the bytes, in ``data``'s shape; their scale, a float32
    scalar, which is the range of the values and 0, divided by 255; and their zero point, a uint8 scalar.
    ``data ≈ (bytes - zero_point) * scale``, with an error of at most half a scale. No gradient passes.
    Raises `OpTypeError` for other dtypes. Cost: three passes over ``data``.
    """
    ...
