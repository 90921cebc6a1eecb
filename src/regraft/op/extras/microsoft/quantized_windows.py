"""Convolution and pooling of quantized tensors, with channels first or last."""

from __future__ import annotations

from typing import Any, Final

from ....ir.expr import Expr
from ....ir.op import REQUIRED, Call, Op, wrong_operand
from ....ir.types import TensorType, Type
from ...declare import meaning_of
from ...nn import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from ...primitive.datatype import astype
from ...primitive.manipulate import permute_dims
from ...rules import tensor_operand
from ...semantics import apply, cast, dtype_name
from .declaring import contributed
from .elementwise_quantized import dequantized, quantized, quantized_operand
from .windows import CONVOLUTIONS, WINDOW, to_first, to_last, window_arguments

_AVERAGES = {1: ("relax.nn.avg_pool1d", avg_pool1d), 2: ("relax.nn.avg_pool2d", avg_pool2d)}
_AVERAGES[3] = ("relax.nn.avg_pool3d", avg_pool3d)
_GREATEST = {1: ("relax.nn.max_pool1d", max_pool1d), 2: ("relax.nn.max_pool2d", max_pool2d)}
_GREATEST[3] = ("relax.nn.max_pool3d", max_pool3d)

POOL: Final[dict[str, Any]] = {
    "kernel_shape": REQUIRED,
    "auto_pad": "NOTSET",
    "ceil_mode": 0,
    "pads": None,
    "strides": None,
}
"""The attributes that all pooling operators have in ONNX, with their defaults."""


def _window_type(call: Call, channels_last: Any, function: Any, *others: Expr, **arguments: Any) -> Type:
    """The type of ``function`` of operand 0 in float32; if ``channels_last``, permuted to channels first and back."""
    data = astype(call.args[0], "float32")
    rank = tensor_operand(call, 0).ndim
    found = function(permute_dims(data, to_first(rank)) if channels_last else data, *others, **arguments)
    return (permute_dims(found, to_last(rank)) if channels_last else found).ty


def _in(dtype: str | None, ty: Type) -> Type:
    assert isinstance(ty, TensorType)
    return TensorType(ty.shape, dtype, ty.ndim)


def _sizes(call: Call, index: int, channels_last: Any = 0) -> tuple[Any, ...] | None:
    """The sizes of an operand, with channels first; None if they are not known."""
    ty = quantized_operand(call, index)
    if ty.ndim >= 0 and ty.ndim - 2 not in CONVOLUTIONS:
        raise wrong_operand(call, index, "a tensor of 3 to 5 axes: batch, channels, spatial axes")
    if ty.shape is None:
        return None
    return tuple([ty.shape[axis] for axis in to_first(ty.ndim)]) if channels_last else ty.shape


def _conv_type(call: Call) -> Type:
    last = call.attrs.channels_last
    data, kernel = _sizes(call, 0, last), _sizes(call, 3)
    dtype = tensor_operand(call, 7).dtype
    if data is None or kernel is None:
        return TensorType(None, dtype, tensor_operand(call, 0).ndim)
    arguments = window_arguments(call.attrs, len(data), data, kernel)
    function = CONVOLUTIONS[len(data) - 2][1]
    return _in(dtype, _window_type(call, last, function, astype(call.args[3], "float32"), **arguments))


@contributed("QLinearConv", _conv_type, shared=WINDOW)
def qlinear_conv(
    xp: Any,
    x: Any,
    x_scale: Any,
    x_zero_point: Any,
    w: Any,
    w_scale: Any,
    w_zero_point: Any,
    y_scale: Any,
    y_zero_point: Any,
    b: Any = None,
    *,
    channels_last: int = 0,
    **window: Any,
) -> Any:
    """A convolution of quantized tensors; ``b`` is int32, with the scale ``x_scale * w_scale``.

    ``x`` is (batch, channels, *space), or (batch, *space, channels) if ``channels_last``; ``w`` is (channels, channels
    of a group, *window). Its scale and zero point are scalars, or have one element for each channel of the result.
    """
    rank = x.ndim
    data, kernel = dequantized(xp, x, x_scale, x_zero_point), dequantized(xp, w, w_scale, w_zero_point, 0)
    data = xp.permute_dims(data, to_first(rank)) if channels_last else data
    name, _ = CONVOLUTIONS[rank - 2]
    found = apply(xp, Op.get(name), data, kernel, **window_arguments(window, rank, data.shape, w.shape))
    if b is not None:
        bias = dequantized(xp, b, x_scale * w_scale, None)
        found = found + xp.reshape(bias, (-1, *(1,) * (rank - 2)))
    result = quantized(xp, found, y_scale, y_zero_point, dtype_name(y_zero_point.dtype), 1)
    return xp.permute_dims(result, to_last(rank)) if channels_last else result


def pool_arguments(attrs: Any, data: tuple[Any, ...]) -> dict[str, Any]:
    """The arguments of a pooling, as `window_arguments` returns those of a convolution."""
    size = tuple(attrs["kernel_shape"])
    given = window_arguments({**WINDOW, **attrs}, len(data), data, (0, 0, *size))
    del given["groups"]
    return {**given, "pool_size": size, "ceil_mode": bool(attrs["ceil_mode"])}


def _average_type(call: Call) -> Type:
    last = call.attrs.channels_last
    data, ty = _sizes(call, 0, last), tensor_operand(call, 0)
    if data is None:
        return TensorType(None, ty.dtype, ty.ndim)
    arguments = pool_arguments(call.attrs, data)
    return _in(ty.dtype, _window_type(call, last, _AVERAGES[ty.ndim - 2][1], **arguments))


@contributed("QLinearAveragePool", _average_type, shared=POOL)
def qlinear_average_pool(
    xp: Any,
    x: Any,
    x_scale: Any,
    x_zero_point: Any | None,
    y_scale: Any,
    y_zero_point: Any = None,
    *,
    channels_last: int = 0,
    count_include_pad: int = 0,
    **window: Any,
) -> Any:
    """The mean over windows of a quantized tensor, with the axes of `qlinear_conv`."""
    rank = x.ndim
    data = dequantized(xp, x, x_scale, x_zero_point)
    data = xp.permute_dims(data, to_first(rank)) if channels_last else data
    arguments = pool_arguments(window, data.shape)
    found = meaning_of(_AVERAGES[rank - 2][0], xp, data, **arguments, count_include_pad=bool(count_include_pad))
    result = quantized(xp, found, y_scale, y_zero_point, dtype_name(x.dtype))
    return xp.permute_dims(result, to_last(rank)) if channels_last else result


def _greatest_type(call: Call) -> Type:
    data, ty = _sizes(call, 0, 1), tensor_operand(call, 0)
    if data is None:
        return TensorType(None, ty.dtype, ty.ndim)
    return _in(ty.dtype, _window_type(call, 1, _GREATEST[ty.ndim - 2][1], **pool_arguments(call.attrs, data)))


@contributed("NhwcMaxPool", _greatest_type, shared=POOL)
def nhwc_max_pool(xp: Any, x: Any, *, dilations: tuple[int, ...] | None = None, **window: Any) -> Any:
    """The maximum over windows of a quantized tensor with the axes (batch, *space, channels)."""
    rank = x.ndim
    data = xp.permute_dims(cast(xp, x, "float32"), to_first(rank))
    arguments = pool_arguments({**window, "dilations": dilations}, data.shape)
    found = meaning_of(_GREATEST[rank - 2][0], xp, data, **arguments)
    return cast(xp, xp.permute_dims(found, to_last(rank)), dtype_name(x.dtype))
