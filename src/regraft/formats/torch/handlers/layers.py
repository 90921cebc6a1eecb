"""Handlers of ATen's layers: convolutions, normalizations, pooling, padding and resizing. Each stays one operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from .... import op as R
from ....ir.dims import Dim
from ....ir.expr import Expr, const
from ..context import Context, cast, converts, dtype_of, each_axis, fields_of, rank, shape_of

# --- convolutions

_CONVOLUTIONS: Final[list[tuple[Callable[..., Expr], Callable[..., Expr]]]] = [
    (R.nn.conv1d, R.nn.conv1d_transpose),
    (R.nn.conv2d, R.nn.conv2d_transpose),
    (R.nn.conv3d, R.nn.conv3d_transpose),
]


def _same_padding(size: int, step: int) -> tuple[int, int]:
    total = step * (size - 1)
    return total // 2, total - total // 2


def convolved(
    x: Expr,
    weight: Expr,
    bias: Expr | None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    transposed: bool = False,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
) -> Expr:
    """A convolution, or a transposed one, with PyTorch's arguments."""
    count = rank(weight) - 2
    single = rank(x) == count + 1
    if single:
        x = R.expand_dims(x, axis=0)
    steps = each_axis(dilation, count)
    if isinstance(padding, str):
        pairs = [(0, 0)] * count
        if padding == "same":
            sizes = [size for size in shape_of(weight)[2:] if isinstance(size, int)]
            pairs = [_same_padding(size, step) for size, step in zip(sizes, steps, strict=True)]
    else:
        pairs = [(width, width) for width in each_axis(padding, count)]
    widths = [before for before, _ in pairs] + [after for _, after in pairs]
    attributes: dict[str, Any] = {
        "strides": each_axis(stride, count),
        "padding": widths,
        "dilation": steps,
        "groups": groups,
    }
    if transposed:
        attributes["output_padding"] = each_axis(output_padding, count)
    result = _CONVOLUTIONS[count - 1][transposed](x, weight, **attributes)
    if bias is not None:
        result = R.add(result, R.reshape(bias, [1, -1, *[1] * count]))
    return R.squeeze(result, axis=0) if single else result


@converts("conv1d", "conv2d", "conv3d", "conv1d.padding", "conv2d.padding", "conv3d.padding")
def _convolution_of_rank(
    context: Context,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Expr:
    return convolved(x, weight, bias, stride, padding, dilation, groups=groups)


@converts("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input")
def _conv_transpose(
    context: Context,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Expr:
    return convolved(x, weight, bias, stride, padding, dilation, True, output_padding, groups)


@converts("convolution")
def _convolution(
    context: Context,
    x: Expr,
    weight: Expr,
    bias: Expr | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Expr:
    return convolved(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


# --- normalizations


def _channel_vector(x: Expr, value: Expr | None, fill: float) -> Expr:
    if value is not None:
        return cast(value, dtype_of(x))
    channels = shape_of(x)[1]
    return R.full([channels], const(fill, dtype_of(x)), dtype_of(x))


def _optional(attributes: dict[str, Any], weight: Expr | None, bias: Expr | None) -> dict[str, Any]:
    """The attributes of a normalization; what is missing is switched off."""
    return {**attributes, "scale": weight is not None, "center": bias is not None}


def _over_last(
    context: Context, x: Expr, normalized_shape: Sequence[Dim], weight: Expr | None, bias: Expr | None, eps: float
) -> Expr:
    dtype = dtype_of(x)
    axes = list(range(rank(x) - len(normalized_shape), rank(x)))
    gamma = R.ones(normalized_shape, dtype) if weight is None else cast(weight, dtype)
    beta = R.zeros(normalized_shape, dtype) if bias is None else cast(bias, dtype)
    return R.nn.layer_norm(x, gamma, beta, **_optional({"axes": axes, "epsilon": eps}, weight, bias))


@converts("layer_norm")
def _layer_norm(
    context: Context,
    x: Expr,
    normalized_shape: Sequence[Dim],
    weight: Expr | None = None,
    bias: Expr | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Expr:
    return _over_last(context, x, normalized_shape, weight, bias, eps)


@converts("native_layer_norm")
def _native_layer_norm(
    context: Context, x: Expr, normalized_shape: Sequence[Dim], weight: Expr | None, bias: Expr | None, eps: float
) -> tuple[Expr, Expr, Expr]:
    axes = list(range(rank(x) - len(normalized_shape), rank(x)))
    mean, spread = _statistics(x, axes, eps)
    return _over_last(context, x, normalized_shape, weight, bias, eps), mean, spread


def _statistics(x: Expr, axes: Sequence[int], eps: float) -> tuple[Expr, Expr]:
    wide = cast(x, "float32") if dtype_of(x) in ("float16", "bfloat16") else x
    mean = R.mean(wide, axis=list(axes), keepdims=True)
    return mean, R.rsqrt(R.variance(wide, axis=list(axes), keepdims=True) + eps)


@converts("rms_norm")
def _rms_norm(
    context: Context, x: Expr, normalized_shape: Sequence[Dim], weight: Expr | None = None, eps: float | None = None
) -> Expr:
    import torch

    dtype = dtype_of(x)
    axes = list(range(rank(x) - len(normalized_shape), rank(x)))
    gamma = R.ones(normalized_shape, dtype) if weight is None else cast(weight, dtype)
    # PyTorch takes the machine epsilon of the dtype that it computes in.
    work = "float32" if dtype in ("float16", "bfloat16") else dtype
    return R.nn.rms_norm(x, gamma, axes=axes, epsilon=torch.finfo(getattr(torch, work)).eps if eps is None else eps)


@converts("group_norm")
def _group_norm(
    context: Context,
    x: Expr,
    num_groups: int,
    weight: Expr | None = None,
    bias: Expr | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Expr:
    attributes = {"num_groups": num_groups, "channel_axis": 1, "axes": list(range(2, rank(x))), "epsilon": eps}
    gamma, beta = _channel_vector(x, weight, 1.0), _channel_vector(x, bias, 0.0)
    return R.nn.group_norm(x, gamma, beta, **_optional(attributes, weight, bias))


@converts("native_group_norm")
def _native_group_norm(
    context: Context,
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    n: Dim,
    channels: Dim,
    extent: Dim,
    group: int,
    eps: float,
) -> tuple[Expr, Expr, Expr]:
    rows = R.reshape(x, [n, group, -1])
    mean, spread = _statistics(rows, [2], eps)
    normalized = _group_norm(context, x, group, weight, bias, eps)
    return normalized, R.squeeze(mean, axis=2), R.squeeze(spread, axis=2)


@converts("instance_norm")
def _instance_norm(
    context: Context,
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    running_mean: Expr | None,
    running_var: Expr | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Expr:
    if not use_input_stats:
        return _batch_normalized(context, x, weight, bias, running_mean, running_var, False, momentum, eps)[0]
    if running_mean is not None:
        context.unsupported("running statistics that are updated; export the model in eval mode: model.eval()")
    attributes = {"channel_axis": 1, "axes": list(range(2, rank(x))), "epsilon": eps}
    gamma, beta = _channel_vector(x, weight, 1.0), _channel_vector(x, bias, 0.0)
    return R.nn.instance_norm(x, gamma, beta, **_optional(attributes, weight, bias))


def _batch_normalized(
    context: Context,
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    running_mean: Expr | None,
    running_var: Expr | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Expr, Expr, Expr]:
    """Normalized data and, after training, the new moving statistics, whose variance is the unbiased one."""
    operands = [_channel_vector(x, value, fill) for value, fill in ((weight, 1.0), (bias, 0.0))]
    moving = [_channel_vector(x, value, fill) for value, fill in ((running_mean, 0.0), (running_var, 1.0))]
    attributes = {"axis": 1, "epsilon": eps, "momentum": float(momentum), "training": training}
    attributes = _optional(attributes, weight, bias)
    call = context.emit(R.nn.batch_norm(x, operands[0], operands[1], moving[0], moving[1], **attributes))
    normalized, new_mean, new_var = fields_of(call)
    if not training or running_var is None:
        return normalized, new_mean, new_var
    count: Dim = 1
    for axis, size in enumerate(shape_of(x)):
        count = count if axis == 1 else count * size
    size = context.scalar(count, dtype_of(x))
    fresh = new_var - moving[1] * (1.0 - momentum)
    return normalized, new_mean, moving[1] * (1.0 - momentum) + fresh * (size / (size - 1.0))


@converts("batch_norm")
def _batch_norm(
    context: Context,
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    running_mean: Expr | None,
    running_var: Expr | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Expr:
    if training and running_mean is not None:
        context.unsupported("running statistics that are updated; export the model in eval mode: model.eval()")
    return _batch_normalized(context, x, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@converts("_native_batch_norm_legit_no_training")
def _batch_norm_inference(
    context: Context,
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    running_mean: Expr,
    running_var: Expr,
    momentum: float,
    eps: float,
) -> tuple[Expr, Expr, Expr]:
    result = _batch_normalized(context, x, weight, bias, running_mean, running_var, False, momentum, eps)[0]
    empty = R.zeros([0], context.output_dtype(1))
    return result, empty, empty


@converts("_native_batch_norm_legit_functional", "_native_batch_norm_legit", "_native_batch_norm_legit.no_stats")
def _batch_norm_training(
    context: Context, x: Expr, weight: Expr | None, bias: Expr | None, *rest: Any, **_more: Any
) -> tuple[Expr, ...]:
    *moving, training, momentum, eps = rest
    running_mean, running_var = moving or (None, None)
    result, mean, var = _batch_normalized(context, x, weight, bias, running_mean, running_var, training, momentum, eps)
    axes = [axis for axis in range(rank(x)) if axis != 1]
    saved = [R.squeeze(value, axis=axes) for value in _statistics(x, axes, eps)]
    return (result, *saved, mean, var)[: len(context.results())]


# --- padding


def _padded(context: Context, x: Expr, pad: Sequence[Dim], mode: str, value: float | None = None) -> Expr:
    widths: list[int] = [0] * (2 * rank(x))
    for i in range(len(pad) // 2):
        before, after = pad[2 * i], pad[2 * i + 1]
        if not isinstance(before, int) or not isinstance(after, int):
            context.unsupported(f"the padding is symbolic, {tuple(pad)}")
        axis = rank(x) - 1 - i
        widths[2 * axis], widths[2 * axis + 1] = before, after
    if not any(widths):
        return x
    if mode == "circular" and min(widths) < 0:
        # What is cut off comes first, and only what is left goes around.
        axes = [axis for axis in range(rank(x)) if min(widths[2 * axis : 2 * axis + 2]) < 0]
        starts = [max(-widths[2 * axis], 0) for axis in axes]
        stops = [shape_of(x)[axis] - max(-widths[2 * axis + 1], 0) for axis in axes]
        x, widths = R.strided_slice(x, axes, starts, stops), [max(width, 0) for width in widths]
    return R.nn.pad(x, widths, mode, 0.0 if value is None else float(value))


@converts("pad")
def _pad(context: Context, x: Expr, pad: Sequence[Dim], mode: str = "constant", value: float | None = None) -> Expr:
    return _padded(context, x, pad, mode, value)


@converts("constant_pad_nd")
def _constant_pad(context: Context, x: Expr, pad: Sequence[Dim], value: float = 0) -> Expr:
    return _padded(context, x, pad, "constant", value)


@converts("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def _reflection_pad(context: Context, x: Expr, padding: Sequence[Dim]) -> Expr:
    return _padded(context, x, padding, "reflect")


@converts("replication_pad1d", "replication_pad2d", "replication_pad3d")
def _replication_pad(context: Context, x: Expr, padding: Sequence[Dim]) -> Expr:
    return _padded(context, x, padding, "replicate")


# --- windows as columns


@converts("im2col")
def _im2col(
    context: Context,
    x: Expr,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Expr:
    single = rank(x) == 3
    data = R.expand_dims(x, axis=0) if single else x
    columns = R.nn.im2col(data, list(kernel_size), list(stride), list(padding), list(dilation))
    return R.squeeze(columns, axis=0) if single else columns


@converts("col2im")
def _col2im(
    context: Context,
    x: Expr,
    output_size: Sequence[Dim],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Expr:
    single = rank(x) == 2
    data = R.expand_dims(x, axis=0) if single else x
    image = R.nn.col2im(data, list(output_size), list(kernel_size), list(stride), list(padding), list(dilation))
    return R.squeeze(image, axis=0) if single else image


# --- losses

_REDUCTIONS: Final = ("none", "mean", "sum")
"""By the numbers that ATen has for them."""


@converts("nll_loss", "nll_loss_nd", "nll_loss2d")
def _nll_loss(
    context: Context, x: Expr, target: Expr, weight: Expr | None = None, reduction: int = 1, ignore_index: int = -100
) -> Expr:
    weights = () if weight is None else (weight,)
    return R.nn.nll_loss(x, target, *weights, reduction=_REDUCTIONS[reduction], ignore_index=ignore_index)
