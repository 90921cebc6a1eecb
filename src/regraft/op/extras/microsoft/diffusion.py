"""Operators that ONNX Runtime's optimizer writes into the UNet of a diffusion model, with the channels last."""

from __future__ import annotations

from typing import Any

from ....ir.dims import exact_divide
from ....ir.op import Call, wrong_operand
from ....ir.types import TensorType, TupleType, Type
from ...declare import meaning_of
from ...primitive.manipulate import permute_dims
from ...rules import require_float, tensor_operand
from ...semantics import cast, dtype_name, widened
from .declaring import contributed, like_first, shaped, sizes_of
from .windows import CONVOLUTIONS, activated, window_arguments


def _pair_type(call: Call) -> Type:
    data = like_first(call)
    return TupleType((data, data))


def _normalized(
    xp: Any, x: Any, gamma: Any, beta: Any, groups: int, epsilon: float, activation: int, channels_last: int
) -> Any:
    """Group norm of ``x``, and then SiLU if ``activation`` is 1."""
    rank = x.ndim
    wide = widened(xp, x)
    wide = xp.permute_dims(wide, (0, rank - 1, *range(1, rank - 1))) if channels_last else wide
    rows = xp.reshape(wide, (wide.shape[0], groups, -1))
    centred = rows - xp.mean(rows, axis=-1, keepdims=True)
    scaled = centred / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + epsilon)
    form = (1, -1, *(1,) * (rank - 2))
    found = xp.reshape(scaled, wide.shape) * xp.reshape(widened(xp, gamma), form)
    found = found + xp.reshape(widened(xp, beta), form)
    found = found * meaning_of("relax.sigmoid", xp, found) if activation else found
    found = xp.permute_dims(found, (0, *range(2, rank), 1)) if channels_last else found
    return cast(xp, found, dtype_name(x.dtype))


@contributed("GroupNorm", like_first)
def group_norm(
    xp: Any,
    x: Any,
    gamma: Any,
    beta: Any,
    *,
    activation: int,
    groups: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
) -> Any:
    """Group norm of (batch, *space, channels), or with the channels second; then SiLU if ``activation`` is 1."""
    return _normalized(xp, x, gamma, beta, groups, epsilon, activation, channels_last)


@contributed("SkipGroupNorm", _pair_type)
def skip_group_norm(
    xp: Any,
    x: Any,
    gamma: Any,
    beta: Any,
    skip: Any,
    bias: Any = None,
    *,
    activation: int,
    groups: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
) -> Any:
    """`group_norm` of ``x + skip + bias``, and that sum; a ``skip`` of (batch, channels) is the same at all places."""
    if skip.ndim == 2:
        places = (1,) * (x.ndim - 2)
        form = (skip.shape[0], *places, skip.shape[1]) if channels_last else (*skip.shape, *places)
        skip = xp.reshape(skip, form)
    total = x + skip
    if bias is not None:
        total = total + (bias if channels_last else xp.reshape(bias, (-1, *(1,) * (x.ndim - 2))))
    return _normalized(xp, total, gamma, beta, groups, epsilon, activation, channels_last), total


def _half_type(call: Call) -> Type:
    data = require_float(call, 0)
    if data.ndim != 3:
        raise wrong_operand(call, 0, "a tensor of the axes (batch, sequence, 2 * size)")
    batch, sequence, width = sizes_of(call, 0, 3)
    return shaped((batch, sequence, None if width is None else exact_divide(width, 2)), data.dtype)


@contributed("BiasSplitGelu", _half_type)
def bias_split_gelu(xp: Any, x: Any, bias: Any) -> Any:
    """Of ``x + bias`` the first half of the last axis, times the `Gelu` of the second."""
    total = x + bias
    half = x.shape[-1] // 2
    return total[..., :half] * meaning_of("relax.nn.gelu", xp, total[..., half:])


@contributed("BiasAdd", like_first)
def bias_add(xp: Any, x: Any, bias: Any, skip: Any) -> Any:
    """``x + bias + skip``, for a bias with one element for each of the last axis."""
    return x + bias + skip


def _conv_type(call: Call) -> Type:
    data, weight = require_float(call, 0), tensor_operand(call, 1)
    rank = data.ndim
    if data.shape is None or weight.shape is None:
        return TensorType(None, data.dtype, rank)
    if rank - 2 not in CONVOLUTIONS:
        raise wrong_operand(call, 0, "a tensor of 3 to 5 axes: batch, those of space, and channels")
    first = (0, rank - 1, *range(1, rank - 1))
    moved = [permute_dims(call.args[index], first) for index in range(2)]
    sizes = [tuple([ty.shape[axis] for axis in first]) for ty in (data, weight) if ty.shape is not None]
    function: Any = CONVOLUTIONS[rank - 2][1]
    return permute_dims(function(*moved, **window_arguments(call.attrs, rank, *sizes)), (0, *range(2, rank), 1)).ty


@contributed("NhwcConv", _conv_type)
def nhwc_conv(
    xp: Any,
    x: Any,
    w: Any,
    b: Any = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Any:
    """A convolution of (batch, *space, channels) with weights (channels, *window, channels of a group), plus ``b``."""
    del kernel_shape
    rank = x.ndim
    given = {"auto_pad": auto_pad, "dilations": dilations, "group": group, "pads": pads, "strides": strides}
    data, kernel = (xp.permute_dims(part, (0, rank - 1, *range(1, rank - 1))) for part in (x, w))
    arguments = window_arguments(given, rank, data.shape, kernel.shape)
    found = meaning_of(CONVOLUTIONS[rank - 2][0], xp, data, kernel, **arguments)
    found = xp.permute_dims(found, (0, *range(2, rank), 1))
    return found if b is None else found + b


def _fused_conv_type(call: Call) -> Type:
    data, weight = require_float(call, 0), tensor_operand(call, 1)
    rank = data.ndim
    if data.shape is None or weight.shape is None:
        return TensorType(None, data.dtype, rank)
    if rank - 2 not in CONVOLUTIONS:
        raise wrong_operand(call, 0, "a tensor of 3 to 5 axes: batch, those of space, and channels")
    first = (0, rank - 1, *range(1, rank - 1))
    function: Any = CONVOLUTIONS[rank - 2][1]
    arguments = window_arguments(call.attrs, rank, tuple([data.shape[axis] for axis in first]), weight.shape)
    found = function(permute_dims(call.args[0], first), call.args[1], **arguments)
    return permute_dims(found, (0, *range(2, rank), 1)).ty


@contributed("NhwcFusedConv", _fused_conv_type)
def nhwc_fused_conv(
    xp: Any,
    x: Any,
    w: Any,
    b: Any = None,
    z: Any = None,
    *,
    activation: str | None = None,
    activation_params: tuple[float, ...] | None = None,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Any:
    """`nhwc_conv` with weights (channels, channels of a group, *window), plus ``z``, and then an activation."""
    del kernel_shape
    rank = x.ndim
    given = {"auto_pad": auto_pad, "dilations": dilations, "group": group, "pads": pads, "strides": strides}
    data = xp.permute_dims(x, (0, rank - 1, *range(1, rank - 1)))
    found = meaning_of(CONVOLUTIONS[rank - 2][0], xp, data, w, **window_arguments(given, rank, data.shape, w.shape))
    found = xp.permute_dims(found, (0, *range(2, rank), 1))
    found = found if b is None else found + b
    return activated(xp, found if z is None else found + z, activation, activation_params)
