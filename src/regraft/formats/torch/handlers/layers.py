"""Handlers of ATen's layers: convolutions, normalizations, pooling, padding and resizing. Each stays one operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import torch

from .... import op as R
from ....ir.dims import Dim, dim_at_least, dim_product
from ....ir.dtypes import HALF
from ....ir.expr import Expr, const
from ...padding import at_places, between
from ..context import Context, batched, cast, converts, converts_by_name, dtype_of, each_axis, fields_of, rank, shape_of
from ..tensors import torch_dtype

# --- convolutions

_CONVOLUTIONS: Final[list[tuple[Callable[..., Expr], Callable[..., Expr]]]] = [
    (R.nn.conv1d, R.nn.conv1d_transpose),
    (R.nn.conv2d, R.nn.conv2d_transpose),
    (R.nn.conv3d, R.nn.conv3d_transpose),
]


def _same_padding(size: int, step: int) -> tuple[int, int]:
    total = step * (size - 1)
    return total // 2, total - total // 2


def convolved(given: Any, bias: Expr | None, transposed: bool, output_padding: int | Sequence[int] = 0) -> Expr:
    """A convolution, or a transposed one, with PyTorch's arguments in ``given``."""
    weight, padding, count = given.weight, given.padding, rank(given.weight) - 2
    steps = each_axis(given.dilation, count)
    if isinstance(padding, str):
        pairs = [(0, 0)] * count
        if padding == "same":
            sizes = [size for size in shape_of(weight)[2:] if isinstance(size, int)]
            pairs = [_same_padding(size, step) for size, step in zip(sizes, steps, strict=True)]
    else:
        pairs = [(width, width) for width in each_axis(padding, count)]
    extra = {"output_padding": each_axis(output_padding, count)} if transposed else {}
    convolution = partial(
        _CONVOLUTIONS[count - 1][transposed],
        strides=each_axis(given.stride, count),
        padding=[before for before, _ in pairs] + [after for _, after in pairs],
        dilation=steps,
        groups=given.groups,
        **extra,
    )

    def whole(x: Expr) -> Expr:
        result = convolution(x, weight)
        return result if bias is None else R.add(result, R.reshape(bias, [1, -1, *[1] * count]))

    return batched(count + 2, whole, given.input)


@converts_by_name("conv1d", "conv2d", "conv3d", "conv1d.padding", "conv2d.padding", "conv3d.padding")
@converts_by_name("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input", "convolution")
def _convolution(context: Context, given: Any) -> Expr:
    transposed = getattr(given, "transposed", context.operator().startswith("conv_transpose"))
    return convolved(given, given.bias, transposed, getattr(given, "output_padding", 0))


# --- normalizations


def _or_filled(value: Expr | None, x: Expr, shape: Sequence[Dim], fill: int) -> Expr:
    """A weight of a normalization in the dtype of ``x``; ones or zeros if it is missing."""
    dtype = dtype_of(x)
    return (R.ones if fill else R.zeros)(shape, dtype) if value is None else cast(value, dtype)


def _last_axes(x: Expr, shape: Sequence[Dim]) -> list[int]:
    """The axes of a normalization over ``shape``."""
    return list(range(rank(x) - len(shape), rank(x)))


def _attributes(given: Any, **attributes: Any) -> dict[str, Any]:
    """The attributes of a normalization; a missing weight or bias is switched off."""
    scale, center = given.weight is not None, given.bias is not None
    return {**attributes, "epsilon": given.eps, "scale": scale, "center": center}


@converts_by_name("layer_norm")
def _layer_norm(context: Context, given: Any) -> Expr:
    x, shape = given.input, given.normalized_shape
    return R.nn.layer_norm(x, *_scale_and_shift(given, shape), **_attributes(given, axes=_last_axes(x, shape)))


@converts_by_name("native_layer_norm")
def _native_layer_norm(context: Context, given: Any) -> tuple[Expr, Expr, Expr]:
    axes = _last_axes(given.input, given.normalized_shape)
    mean, spread = _statistics(context, given.input, axes, given.eps)
    return _layer_norm(context, given), mean, spread


def _statistics(context: Context, x: Expr, axes: Sequence[int], eps: float) -> list[Expr]:
    """The mean over ``axes`` and the reciprocal of the deviation, which are the second and the third result."""
    wide = cast(x, "float32") if dtype_of(x) in HALF else x
    mean = R.mean(wide, axis=list(axes), keepdims=True)
    spread = R.rsqrt(R.variance(wide, axis=list(axes), keepdims=True) + eps)
    return [cast(value, context.output_dtype(index)) for index, value in enumerate((mean, spread), 1)]


@converts("rms_norm")
def _rms_norm(
    context: Context, x: Expr, normalized_shape: Sequence[Dim], weight: Expr | None = None, eps: float | None = None
) -> Expr:
    gamma = _or_filled(weight, x, normalized_shape, 1)
    if eps is None:  # PyTorch uses the machine epsilon of the dtype in which it computes.
        eps = torch.finfo(torch.float32 if dtype_of(x) in HALF else torch_dtype(dtype_of(x))).eps
    return R.nn.rms_norm(x, gamma, axes=_last_axes(x, normalized_shape), epsilon=eps)


def _scale_and_shift(given: Any, shape: Sequence[Dim]) -> tuple[Expr, Expr]:
    x = given.input
    return _or_filled(given.weight, x, shape, 1), _or_filled(given.bias, x, shape, 0)


def _over_channels(function: Callable[..., Expr], given: Any, **attributes: Any) -> Expr:
    """A normalization over the axes after the channels."""
    x, axes = given.input, list(range(2, rank(given.input)))
    weights = _scale_and_shift(given, shape_of(x)[1:2])
    return function(x, *weights, **_attributes(given, channel_axis=1, axes=axes, **attributes))


@converts_by_name("group_norm")
def _group_norm(context: Context, given: Any) -> Expr:
    return _over_channels(R.nn.group_norm, given, num_groups=given.num_groups)


@converts_by_name("native_group_norm")
def _native_group_norm(context: Context, given: Any) -> tuple[Expr, Expr, Expr]:
    mean, spread = _statistics(context, R.reshape(given.input, [given.N, given.group, -1]), [2], given.eps)
    normalized = _over_channels(R.nn.group_norm, given, num_groups=given.group)
    return normalized, R.squeeze(mean, axis=2), R.squeeze(spread, axis=2)


@converts_by_name("instance_norm")
def _instance_norm(context: Context, given: Any) -> Expr:
    if not given.use_input_stats:
        return _batch_normalized(context, given, training=False)[0]
    _refuse_running(context, given)
    return _over_channels(R.nn.instance_norm, given)


def _refuse_running(context: Context, given: Any) -> None:
    if given.running_mean is not None:
        context.unsupported("running statistics that are updated; export the model in eval mode: model.eval()")


def _batch_normalized(context: Context, given: Any, *, training: bool) -> tuple[Expr, Expr, Expr]:
    """The normalized data and, for training, the new moving statistics, with the unbiased variance."""
    x, running_var = given.input, getattr(given, "running_var", None)
    channels = shape_of(x)[1:2]
    mean = _or_filled(getattr(given, "running_mean", None), x, channels, 0)
    variance = _or_filled(running_var, x, channels, 1)
    attributes = _attributes(given, axis=1, momentum=float(given.momentum), training=training)
    call = context.emit(R.nn.batch_norm(x, *_scale_and_shift(given, channels), mean, variance, **attributes))
    normalized, new_mean, new_var = fields_of(call)
    if not training or running_var is None:
        return normalized, new_mean, new_var
    count = dim_product([size for axis, size in enumerate(shape_of(x)) if axis != 1])
    size = context.scalar(count, dtype_of(x))
    kept = context.emit(variance * (1.0 - given.momentum))
    return normalized, new_mean, kept + (new_var - kept) * (size / (size - 1.0))


@converts_by_name("batch_norm")
def _batch_norm(context: Context, given: Any) -> Expr:
    if given.training:
        _refuse_running(context, given)
    return _batch_normalized(context, given, training=given.training)[0]


@converts_by_name("_native_batch_norm_legit_no_training")
def _batch_norm_inference(context: Context, given: Any) -> tuple[Expr, Expr, Expr]:
    empty = R.zeros([0], context.output_dtype(1))
    return _batch_normalized(context, given, training=False)[0], empty, empty


@converts_by_name(
    "_native_batch_norm_legit_functional", "_native_batch_norm_legit", "_native_batch_norm_legit.no_stats"
)
def _batch_norm_training(context: Context, given: Any) -> tuple[Expr, ...]:
    result, mean, var = _batch_normalized(context, given, training=given.training)
    axes = [axis for axis in range(rank(given.input)) if axis != 1]
    saved = [R.squeeze(value, axis=axes) for value in _statistics(context, given.input, axes, given.eps)]
    count = len(context.results())
    return tuple([cast(value, context.output_dtype(i)) for i, value in enumerate((result, *saved, mean, var)[:count])])


# --- padding


@converts_by_name("pad", "constant_pad_nd")
@converts_by_name("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
@converts_by_name("replication_pad1d", "replication_pad2d", "replication_pad3d")
def _pad(context: Context, given: Any) -> Expr:
    x, pad = given.self, given.pad if hasattr(given, "pad") else given.padding
    kind, value = context.operator().partition("_")[0], getattr(given, "value", None)
    mode = {"reflection": "reflect", "replication": "replicate"}.get(kind, getattr(given, "mode", "constant"))
    widths: list[Dim] = [0] * (2 * rank(x))
    for i in range(len(pad) // 2):
        axis = rank(x) - 1 - i
        widths[2 * axis : 2 * axis + 2] = pad[2 * i : 2 * i + 2]
    known = [width for width in widths if isinstance(width, int)]
    if len(known) < len(widths):
        return _padded_by_sizes(context, x, widths, mode, 0.0 if value is None else float(value))
    if not any(known):
        return x
    if mode == "circular" and min(known) < 0:
        # The ends are cut off first, and only what is left is wrapped around.
        axes = [axis for axis in range(rank(x)) if min(known[2 * axis : 2 * axis + 2]) < 0]
        starts = [max(-known[2 * axis], 0) for axis in axes]
        stops = [shape_of(x)[axis] - max(-known[2 * axis + 1], 0) for axis in axes]
        x, known = R.strided_slice(x, axes, starts, stops), [max(width, 0) for width in known]
    return R.nn.pad(x, known, mode, 0.0 if value is None else float(value))


def _padded_by_sizes(context: Context, x: Expr, widths: Sequence[Dim], mode: str, value: float) -> Expr:
    """``x`` with padding, some of whose widths are symbolic."""
    number = const(value, dtype_of(x))
    for axis in range(rank(x)):
        before, after = widths[2 * axis : 2 * axis + 2]
        can_be_negative = dim_at_least(before, 0) is not True or dim_at_least(after, 0) is not True
        if mode == "circular" and can_be_negative:
            context.unsupported(f"circular padding of symbolic widths ({before}, {after}), which may be negative")
        if mode == "constant" and not can_be_negative:
            x = between(x, axis, (before, after), number, context.emit)
        elif (before, after) != (0, 0):
            places = context.emit(R.arange(0 - before, shape_of(x)[axis] + after, dtype="int64"))
            x = at_places(x, axis, places, mode, number, context.builder)
    return x


# --- windows as columns


@converts_by_name("im2col")
def _im2col(context: Context, given: Any) -> Expr:
    return batched(4, partial(R.nn.im2col, **_columns(given)), given.self)


@converts_by_name("col2im")
def _col2im(context: Context, given: Any) -> Expr:
    return batched(3, partial(R.nn.col2im, size=list(given.output_size), **_columns(given)), given.self)


def _columns(given: Any) -> dict[str, Any]:
    window = {"kernel_size": given.kernel_size, "strides": given.stride}
    return {**window, "padding": given.padding, "dilation": given.dilation}


# --- losses

_REDUCTIONS: Final = ("none", "mean", "sum")
"""The reductions by ATen's numbers for them."""


@converts("nll_loss", "nll_loss_nd", "nll_loss2d")
def _nll_loss(
    context: Context, x: Expr, target: Expr, weight: Expr | None = None, reduction: int = 1, ignore_index: int = -100
) -> Expr:
    weights = () if weight is None else (weight,)
    return R.nn.nll_loss(x, target, *weights, reduction=_REDUCTIONS[reduction], ignore_index=ignore_index)
