"""Normalizations: subtract a mean, divide by a standard deviation, scale and shift.

They average over different axes: layer norm over some axes, group norm over some axes and the channels of a group,
instance norm over some axes for each channel, batch norm over all axes except the channels, and RMS norm over some axes
without a mean. Variances are biased (divided by the count). float16 and bfloat16 are computed in float32 and rounded
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

from ...ir.dims import Dim, dims_equal, exact_divide
from ...ir.expr import Expr
from ...ir.op import Call, is_call_of, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, TupleType, Type
from ..adjoints import (
    broadcast_like,
    converted_like,
    count_of,
    fields_of,
    known_rank,
    known_shape,
    reshape_like,
    tensor_type,
)
from ..adjoints import widened as widened_expr
from ..primitive.binary import add
from ..primitive.elementary import rsqrt
from ..primitive.manipulate import permute_dims
from ..primitive.reduction import mean, sum, variance
from ..primitive.reshaping import expand_dims, reshape
from ..public_function import declares, operator_of
from ..rules import (
    common_dtype,
    format_dims,
    normalize_axes,
    require_float,
    require_rank,
    tensor_operand,
)
from ..semantics import apply, cast, dtype_name, rounded_once, widened, with_attrs

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]

# --- type rules


def _require_floats(call: Call) -> TensorType:
    """The type of data; checks that all operands are floating and of one dtype."""
    for index in range(len(call.args)):
        require_float(call, index)
    common_dtype(call)
    return tensor_operand(call, 0)


def _check_parameter(call: Call, index: int, expected: Sequence[Dim] | None, ndim: int, meaning: str) -> None:
    """Raise `OpTypeError` if operand ``index`` cannot have ``ndim`` dimensions of the sizes ``expected``."""
    ty = require_rank(call, index, f"a tensor of {ndim} dimensions: {meaning}", ndim)
    if expected is None or ty.shape is None:
        return
    if any(dims_equal(have, want) is False for have, want in zip(ty.shape, expected, strict=True)):
        raise wrong_operand(call, index, f"shape {format_dims(expected)}: {meaning}")


def _check_parameters(call: Call, name: str, axes: Sequence[int], meaning: str) -> TensorType:
    """The type of data; checks that the other operands have the sizes of its ``axes``, the attribute ``name``."""
    ty = _require_floats(call)
    expected: list[Dim] | None = None
    if ty.ndim != UNKNOWN_NDIM:
        order = normalize_axes(call, name, axes, ty.ndim)
        expected = None if ty.shape is None else [ty.shape[axis] for axis in order]
    for index in range(1, len(call.args)):
        _check_parameter(call, index, expected, len(axes), meaning)
    return ty


def _axes_norm_type(call: Call) -> Type:
    axes: tuple[int, ...] = call.attrs.axes
    return _check_parameters(call, "axes", axes, f"the sizes of data's axes {axes}")


def _check_channels(call: Call, name: str) -> TensorType:
    """The type of data; checks that the other operands have one element per channel."""
    axis: int = call.attrs[name]
    return _check_parameters(call, name, (axis,), f"one element for each channel of data (axis {axis})")


def _channel_norm_type(call: Call) -> Type:
    ty = _check_channels(call, "channel_axis")
    if ty.ndim == UNKNOWN_NDIM:
        return ty
    axis: int = call.attrs.channel_axis % ty.ndim
    channels = None if ty.shape is None else ty.shape[axis]
    if axis in normalize_axes(call, "axes", call.attrs.axes, ty.ndim):
        raise wrong_attribute(call, "axes", f"axes other than channel_axis={call.attrs.channel_axis}")
    groups = call.attrs.get("num_groups", 1)
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        raise wrong_attribute(call, "num_groups", f"a positive divisor of the {channels} channels of data")
    return ty


def _batch_norm_type(call: Call) -> Type:
    ty = _check_channels(call, "axis")
    return TupleType([ty, tensor_operand(call, 3), tensor_operand(call, 4)])


# --- references


def _standardized(xp: Any, x: Any, axes: tuple[int, ...], epsilon: float) -> tuple[Any, Any, Any]:
    """``x`` with mean 0 and variance 1 over ``axes``, and the mean and variance that it had, which keep the axes."""
    mean = xp.mean(x, axis=axes, keepdims=True)
    centred = x - mean
    variance = xp.mean(centred * centred, axis=axes, keepdims=True)
    return centred / xp.sqrt(variance + epsilon), mean, variance


def _scaled(x: Any, gamma: Any, beta: Any, attrs: Any) -> Any:
    x = x * gamma if attrs.scale else x
    return x + beta if attrs.center else x


def _on_axes(xp: Any, parameter: Any, axes: Sequence[int], ndim: int) -> Any:
    """``parameter``, whose axes are ``axes`` of data in that order, permuted and expanded to broadcast with data."""
    places = [axis % ndim for axis in axes]
    order = tuple(sorted(range(len(places)), key=places.__getitem__))
    ordered = parameter if order == tuple(range(len(order))) else xp.permute_dims(parameter, order)
    others = tuple(axis for axis in range(ndim) if axis not in places)
    return apply(xp, operator_of(expand_dims), ordered, axis=others) if others else ordered


def _axes_of_parameters(attrs: Any) -> tuple[int, ...]:
    return (attrs.channel_axis,) if "channel_axis" in attrs else attrs.axes


def _layer_norm(xp: Any, attrs: Any, x: Any, gamma: Any, beta: Any) -> Any:
    normal, _, _ = _standardized(xp, x, attrs.axes, attrs.epsilon)
    gamma, beta = [_on_axes(xp, parameter, _axes_of_parameters(attrs), x.ndim) for parameter in (gamma, beta)]
    return _scaled(normal, gamma, beta, attrs)


def _group_norm(xp: Any, attrs: Any, x: Any, gamma: Any, beta: Any) -> Any:
    channel = attrs.channel_axis % x.ndim
    split = (*x.shape[:channel], attrs.num_groups, x.shape[channel] // attrs.num_groups, *x.shape[channel + 1 :])
    shifted = [axis + (axis > channel) for axis in [axis % x.ndim for axis in attrs.axes]]
    normal, _, _ = _standardized(xp, xp.reshape(x, split), (channel + 1, *shifted), attrs.epsilon)
    normal = xp.reshape(normal, x.shape)
    gamma, beta = [_on_axes(xp, parameter, (channel,), x.ndim) for parameter in (gamma, beta)]
    return _scaled(normal, gamma, beta, attrs)


def _rms_norm(xp: Any, x: Any, weight: Any, axes: tuple[int, ...], epsilon: float) -> Any:
    square = xp.mean(x * x, axis=axes, keepdims=True)
    return x / xp.sqrt(square + epsilon) * _on_axes(xp, weight, axes, x.ndim)


def _batch_norm(
    xp: Any, attrs: Any, data: Any, gamma: Any, beta: Any, moving_mean: Any, moving_var: Any
) -> tuple[Any, Any, Any]:
    name, ndim = dtype_name(data.dtype), data.ndim
    x, *parameters = [widened(xp, operand) for operand in (data, gamma, beta, moving_mean, moving_var)]
    factor, offset, mean, variance = [_on_axes(xp, parameter, (attrs.axis,), ndim) for parameter in parameters]
    if attrs.training:
        others = tuple(other for other in range(ndim) if other != attrs.axis % ndim)
        normal, batch_mean, batch_variance = _standardized(xp, x, others, attrs.epsilon)
        keep = 1.0 - attrs.momentum
        moving_mean = cast(xp, parameters[2] * keep + xp.reshape(batch_mean, (-1,)) * attrs.momentum, name)
        moving_var = cast(xp, parameters[3] * keep + xp.reshape(batch_variance, (-1,)) * attrs.momentum, name)
    else:
        normal = (x - mean) / xp.sqrt(variance + attrs.epsilon)
    return cast(xp, _scaled(normal, factor, offset, attrs), name), moving_mean, moving_var


# --- the operators


@declares("relax.nn.layer_norm", infer=_axes_norm_type, reference=rounded_once(with_attrs(_layer_norm)), finite=True)
def layer_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    axes: int | Sequence[int],
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Call:
    """``(data - mean) / sqrt(variance + epsilon) * gamma + beta``; as ``torch.nn.functional.layer_norm``.

    Operands: ``data``, floating; ``gamma`` and ``beta``, of the same dtype, with the sizes of ``axes`` in
    their order.
    Attributes: ``axes`` to average over; ``scale`` and ``center``: if False, ``gamma`` or ``beta`` is not used.
    Result: ``data``'s shape and dtype. Raises `OpTypeError` for dtypes or shapes that do not agree.
    (Relax documents ``center`` and ``scale`` in this way, but TVM's compiled form always uses gamma and
    beta.)
    """
    ...


@declares("relax.nn.group_norm", infer=_channel_norm_type, reference=rounded_once(with_attrs(_group_norm)))
def group_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    num_groups: int,
    channel_axis: int,
    axes: int | Sequence[int],
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Call:
    """A `layer_norm` over ``axes`` and the channels of a group; follows ``torch.nn.functional.group_norm``.

    Operands: ``data``, floating; ``gamma`` and ``beta``, of the same dtype, one element for each channel.
    Attributes: ``num_groups``, the number of groups into which the channels of ``channel_axis`` are split, in order;
    ``axes``, the other axes to average over; the rest as for `layer_norm`. Result: ``data``'s shape and dtype.
    Raises `OpTypeError` if ``num_groups`` does not divide the channels, or ``axes`` contains ``channel_axis``.
    """
    ...


@declares("relax.nn.instance_norm", infer=_channel_norm_type, reference=rounded_once(with_attrs(_layer_norm)))
def instance_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    channel_axis: int,
    axes: int | Sequence[int],
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Call:
    """A `layer_norm` over ``axes``, for each channel separately; follows ``torch.nn.functional.instance_norm``.

    Operands: ``data``, floating; ``gamma`` and ``beta``, of the same dtype, one element for each channel.
    Attributes: ``channel_axis``; ``axes`` to average over, without ``channel_axis``; the rest as for
    `layer_norm`.
    Result: ``data``'s shape and dtype. Raises `OpTypeError` for dtypes or shapes that do not agree.
    """
    ...


@declares("relax.nn.rms_norm", infer=_axes_norm_type, reference=rounded_once(_rms_norm), finite=True)
def rms_norm(data: Expr, weight: Expr, axes: int | Sequence[int] = -1, epsilon: float = 1e-5) -> Call:
    """``data / sqrt(mean(data ** 2) + epsilon) * weight``; follows ``torch.nn.functional.rms_norm``.

    Operands: ``data``, floating; ``weight``, of the same dtype, with the sizes of ``axes`` in their order.
    Attributes: ``axes`` to average over. Result: ``data``'s shape and dtype.
    Raises `OpTypeError` for dtypes or shapes that do not agree.
    """
    ...


@declares("relax.nn.batch_norm", infer=_batch_norm_type, reference=with_attrs(_batch_norm))
def batch_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    moving_mean: Expr,
    moving_var: Expr,
    axis: int,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    momentum: float = 0.1,
    training: bool = True,
) -> Call:
    """``(data - mean) / sqrt(variance + epsilon) * gamma + beta``, with statistics for each channel.

    Operands: ``data``, floating; the others of the same dtype, one element for each channel of ``axis``.
    Attributes: with ``training``, mean and (biased) variance are those of ``data``, and the moving ones
    become ``(1 - momentum) * moving + momentum * batch``; without it, the moving ones are used and do not change.
    ``scale`` and ``center``: if False, ``gamma`` or ``beta`` is not used. Result: a tuple (normalized data, new
    moving mean, new moving variance).
    Follows Relax; PyTorch updates its moving variance with the unbiased variance instead.
    Raises `OpTypeError` for dtypes or shapes that do not agree.
    """
    ...


# --- gradients


class _Standardized(NamedTuple):
    """Data with mean 0 and variance 1 over some axes, and the parts of this computation that its gradient needs."""

    normal: Expr
    inverse_deviation: Expr
    axes: tuple[int, ...]

    @staticmethod
    def of(x: Expr, axes: Sequence[int], epsilon: float) -> _Standardized:
        inverse = rsqrt(variance(x, axes, keepdims=True) + epsilon)
        return _Standardized((x - mean(x, axes, keepdims=True)) * inverse, inverse, tuple(axes))

    def share(self, adjoint: Expr) -> Expr:
        """The adjoint of the data, from the adjoint of the standardized data."""
        along = self.normal * mean(adjoint * self.normal, self.axes, keepdims=True)
        return self.inverse_deviation * (adjoint - mean(adjoint, self.axes, keepdims=True) - along)


def _parameter_on_axes(parameter: Expr, axes: Sequence[int], ndim: int) -> Expr:
    """The same as `_on_axes`, for expressions."""
    from ..program_xp import over_expressions  # it is written with the operators of this module and others

    return over_expressions(partial(_on_axes, axes=axes, ndim=ndim), parameter)


def _summed_to(share: Expr, axes: Sequence[int], ndim: int) -> Expr:
    """``share``, which has the shape of data, summed to the shape of a parameter whose axes are ``axes`` of data."""
    places = [axis % ndim for axis in axes]
    others = [axis for axis in range(ndim) if axis not in places]
    total = sum(share, others) if others else share
    order = [sorted(places).index(place) for place in places]
    return total if order == list(range(len(order))) else permute_dims(total, order)


def _scale_and_shift_shares(
    call: Call, adjoint: Expr, normal: Expr, axes: Sequence[int], ndim: int
) -> tuple[Expr, Expr | None, Expr | None]:
    """The shares of the standardized data, of gamma and of beta, operands 1 and 2, in ``normal * gamma + beta``."""
    gamma, beta = call.args[1:3]
    gamma_share = beta_share = None
    if call.attrs.center:
        beta_share = converted_like(_summed_to(adjoint, axes, ndim), beta)
    if call.attrs.scale:
        gamma_share = converted_like(_summed_to(adjoint * normal, axes, ndim), gamma)
        adjoint = adjoint * _parameter_on_axes(widened_expr(gamma), axes, ndim)
    return adjoint, gamma_share, beta_share


@operator_of(layer_norm).define_gradient
@operator_of(instance_norm).define_gradient
def _layer_norm_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    data, attrs = call.args[0], call.attrs
    ndim = known_rank(call, data, "data")
    whole = _Standardized.of(widened_expr(data), attrs.axes, attrs.epsilon)
    axes = _axes_of_parameters(attrs)
    share, gamma, beta = _scale_and_shift_shares(call, widened_expr(adjoint), whole.normal, axes, ndim)
    return [converted_like(whole.share(share), data), gamma, beta]


@operator_of(group_norm).define_gradient
def _group_norm_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    data, groups = call.args[0], call.attrs.num_groups
    dims = known_shape(call, data, "data")
    ndim = len(dims)
    channel: int = call.attrs.channel_axis % ndim
    split = (*dims[:channel], groups, exact_divide(dims[channel], groups) or -1, *dims[channel + 1 :])
    axes = [axis + (axis > channel) for axis in [axis % ndim for axis in call.attrs.axes]]
    whole = _Standardized.of(reshape(widened_expr(data), split), (channel + 1, *axes), call.attrs.epsilon)
    normal = reshape_like(whole.normal, data)
    share, gamma, beta = _scale_and_shift_shares(call, widened_expr(adjoint), normal, (channel,), ndim)
    return [converted_like(reshape_like(whole.share(reshape(share, split)), data), data), gamma, beta]


@operator_of(rms_norm).define_gradient
def _rms_norm_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    (data, weight), axes = call.args, call.attrs.axes
    ndim = known_rank(call, data, "data")
    x, adjoint = widened_expr(data), widened_expr(adjoint)
    inverse = rsqrt(mean(x * x, axes, keepdims=True) + call.attrs.epsilon)
    normal = x * inverse
    share = adjoint * _parameter_on_axes(widened_expr(weight), axes, ndim)
    along = normal * mean(share * normal, axes, keepdims=True)
    weight_share = converted_like(_summed_to(adjoint * normal, axes, ndim), weight)
    return [converted_like(inverse * (share - along), data), weight_share]


@operator_of(batch_norm).define_gradient
def _batch_norm_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    adjoints = [None if _is_zero(field) else widened_expr(field) for field in fields_of(adjoint)]
    return _training_shares(call, *adjoints) if call.attrs.training else _inference_shares(call, *adjoints)


def _is_zero(adjoint: Expr) -> bool:
    """True if the adjoint of a result is zero: the moving statistics are rarely part of a loss."""
    return is_call_of(adjoint, "relax.zeros") or is_call_of(adjoint, "relax.zeros_like")


def _training_shares(
    call: Call, normalized: Expr | None, moving_mean: Expr | None, moving_variance: Expr | None
) -> list[Expr | None]:
    data, attrs = call.args[0], call.attrs
    ndim = known_rank(call, data, "data")
    channel = (attrs.axis % ndim,)
    others = [axis for axis in range(ndim) if axis not in channel]
    x = widened_expr(data)
    shares: list[Expr | None] = [None] * 5
    parts: list[Expr] = []
    if normalized is not None:
        whole = _Standardized.of(x, others, attrs.epsilon)
        share, shares[1], shares[2] = _scale_and_shift_shares(call, normalized, whole.normal, channel, ndim)
        parts.append(whole.share(share))
    if moving_mean is not None or moving_variance is not None:
        dims = known_shape(call, data, "data")
        rate = attrs.momentum / count_of([dims[axis] for axis in others], tensor_type(x).dtype)
        if moving_mean is not None:
            shares[3] = converted_like(moving_mean * (1.0 - attrs.momentum), call.args[3])
            parts.append(broadcast_like(_parameter_on_axes(moving_mean * rate, channel, ndim), data))
        if moving_variance is not None:
            shares[4] = converted_like(moving_variance * (1.0 - attrs.momentum), call.args[4])
            slope = _parameter_on_axes(moving_variance * rate * 2.0, channel, ndim)
            parts.append(slope * (x - mean(x, others, keepdims=True)))
    if parts:
        shares[0] = converted_like(reduce(add, parts), data)
    return shares


def _inference_shares(
    call: Call, normalized: Expr | None, moving_mean: Expr | None, moving_variance: Expr | None
) -> list[Expr | None]:
    data, gamma, _, mean_operand, variance_operand = call.args
    shares: list[Expr | None] = [None, None, None, moving_mean, moving_variance]
    if normalized is not None:
        ndim = known_rank(call, data, "data")
        channel = (call.attrs.axis % ndim,)
        centered = widened_expr(data) - _parameter_on_axes(widened_expr(mean_operand), channel, ndim)
        # Factors that are constant in a channel are multiplied after the sums, which leave one number per channel.
        total = _summed_to(normalized, channel, ndim)
        moment = _summed_to(normalized * centered, channel, ndim)
        inverse = rsqrt(widened_expr(variance_operand) + call.attrs.epsilon)
        slope = inverse * widened_expr(gamma) if call.attrs.scale else inverse
        shares[0] = normalized * _parameter_on_axes(slope, channel, ndim)
        shares[1] = moment * inverse if call.attrs.scale else None
        shares[2] = total if call.attrs.center else None
        shares[3] = _plus(moving_mean, -total * slope)
        shares[4] = _plus(moving_variance, moment * slope * inverse * inverse * -0.5)
    return [None if s is None else converted_like(s, operand) for s, operand in zip(shares, call.args, strict=True)]


def _plus(first: Expr | None, second: Expr) -> Expr:
    return second if first is None else add(converted_like(first, second), second)
