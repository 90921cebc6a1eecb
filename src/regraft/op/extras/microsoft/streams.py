"""Gates and norms of the decoders of 2025 and 2026, for each of which ONNX Runtime has an operator."""

from __future__ import annotations

from typing import Any

from ....ir.op import Call
from ....ir.types import TensorType, TupleType, Type
from ...declare import meaning_of
from ...rules import require_float, same_float_type
from ...semantics import cast, dtype_name, pad_constant, widened
from .declaring import contributed, is_given, shaped, sizes_of


def _normal(xp: Any, x: Any, epsilon: float) -> Any:
    """``x`` divided by its root mean square along the last axis."""
    return x / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + epsilon)


def _branches(xp: Any, x: Any, count: int) -> Any:
    """``x`` (..., count * size) reshaped to (..., count, size); unchanged if ``count`` is 0."""
    return xp.reshape(x, (*x.shape[:-1], count, x.shape[-1] // count)) if count else x


@contributed("GatedRMSNorm", same_float_type)
def gated_rms_norm(xp: Any, x: Any, scale: Any, gate: Any, *, activation: str = "silu", epsilon: float = 1e-5) -> Any:
    """Root mean square norm of each group of ``scale``'s size on the last axis, times the activation of ``gate``."""
    size = scale.shape[0]
    rows = _normal(xp, xp.reshape(widened(xp, x), (*x.shape[:-1], -1, size)), epsilon) * widened(xp, scale)
    wide = widened(xp, gate)
    share = meaning_of("relax.sigmoid", xp, wide)
    share = share if activation == "sigmoid" else share * wide
    return cast(xp, xp.reshape(rows, x.shape) * share, dtype_name(x.dtype))


@contributed("BranchwiseRMSNorm", same_float_type)
def branchwise_rms_norm(xp: Any, x: Any, scale: Any = None, *, epsilon: float = 1e-5, num_branches: int = 0) -> Any:
    """Root mean square norm of each branch of (..., branches, size), or of (..., branches * size)."""
    rows = _normal(xp, _branches(xp, widened(xp, x), num_branches), epsilon)
    if scale is not None:
        wide = widened(xp, scale)
        flat = wide.ndim == 1 and wide.shape[0] != rows.shape[-1]
        rows = rows * (xp.reshape(wide, rows.shape[-2:]) if flat else wide)
    return cast(xp, xp.reshape(rows, x.shape), dtype_name(x.dtype))


@contributed("GatedAdd", same_float_type)
def gated_add(xp: Any, x: Any, y: Any, gate: Any) -> Any:
    """``x + y * gate``, for a gate with one element for each row."""
    del xp
    return x + y * gate


@contributed("ScaledSiLU", same_float_type)
def scaled_silu(xp: Any, x: Any, scale: Any = None, *, alpha: float = 1.0) -> Any:
    """``z * sigmoid(z)`` for ``z = scale * x``, or ``z = alpha * x`` without a scale."""
    name = dtype_name(x.dtype)
    wide = widened(xp, x) * (alpha if scale is None else widened(xp, xp.reshape(scale, ())))
    turned = cast(xp, wide, name)
    return turned * cast(xp, meaning_of("relax.sigmoid", xp, widened(xp, turned)), name)


def _weights(xp: Any, weights: Any, streams: Any) -> Any:
    """``weights`` (..., branches), (..., branches, 1 or size) or (..., branches * size), to multiply ``streams``."""
    wide = widened(xp, weights)
    if wide.ndim == streams.ndim:
        return wide
    by_branch = wide.shape[-1] == streams.shape[-2]
    return xp.expand_dims(wide, axis=-1) if by_branch else xp.reshape(wide, streams.shape)


def _pre_mix_type(call: Call) -> Type:
    data, count = require_float(call, 0), call.attrs.num_branches
    if data.ndim < 0:
        return TensorType(None, data.dtype)
    sizes = sizes_of(call, 0, data.ndim)
    if count:
        return shaped((*sizes[:-1], None if sizes[-1] is None else sizes[-1] // count), data.dtype)
    return shaped((*sizes[:-2], sizes[-1]), data.dtype)


@contributed("HyperConnectionPreMix", _pre_mix_type)
def hyper_connection_pre_mix(
    xp: Any, streams: Any, pre_mix: Any, *, num_branches: int = 0, reduction_scale: float = 1.0
) -> Any:
    """The weighted sum of the branches of (..., branches, size), or (..., branches * size)."""
    rows = _branches(xp, widened(xp, streams), num_branches)
    found = xp.sum(rows * _weights(xp, pre_mix, rows), axis=-2) * reduction_scale
    return cast(xp, found, dtype_name(streams.dtype))


@contributed("HyperConnectionPostMix", same_float_type)
def hyper_connection_post_mix(
    xp: Any, streams: Any, block_output: Any, post_mix: Any, stream_mix: Any = None, *, num_branches: int = 0
) -> Any:
    """The branches mixed by ``stream_mix`` (..., from, to), plus ``block_output`` times the weight of each branch."""
    rows = _branches(xp, widened(xp, streams), num_branches)
    added = xp.expand_dims(widened(xp, block_output), axis=-2) * _weights(xp, post_mix, rows)
    if stream_mix is not None:
        rows = xp.matmul(xp.matrix_transpose(widened(xp, stream_mix)), rows)
    return cast(xp, xp.reshape(rows + added, streams.shape), dtype_name(streams.dtype))


def _pair_type(call: Call) -> Type:
    data = require_float(call, 0)
    return TupleType((data, data))


@contributed("EngramGate", _pair_type)
def engram_gate(
    xp: Any,
    key: Any,
    query: Any,
    value: Any,
    key_norm_scale: Any,
    query_norm_scale: Any,
    conv_norm_scale: Any = None,
    *,
    epsilon: float = 1e-5,
) -> Any:
    """``value`` times a gate, computed from the similarity of normalized keys and queries.

    Keys and queries are (batch, sequence, copies, hidden), ``value`` is (batch, sequence, hidden), the scales (copies,
    hidden). The second result is the root mean square norm of the first; without ``conv_norm_scale`` it is the first.
    """
    parts = ((key, key_norm_scale), (query, query_norm_scale))
    left, right = (_normal(xp, widened(xp, x), epsilon) * widened(xp, scale) for x, scale in parts)
    alike = xp.sum(left * right, axis=-1, keepdims=True) / float(key.shape[-1]) ** 0.5
    root = xp.sqrt(xp.clip(xp.abs(alike), 1e-6, None))
    gate = meaning_of("relax.sigmoid", xp, xp.sign(alike) * root)
    found = gate * xp.expand_dims(widened(xp, value), axis=2)
    name = dtype_name(key.dtype)
    normed = found if conv_norm_scale is None else _normal(xp, found, epsilon) * widened(xp, conv_norm_scale)
    return cast(xp, found, name), cast(xp, normed, name)


@contributed("LinearAttentionGate", _pair_type)
def linear_attention_gate(xp: Any, a: Any, dt_bias: Any, decay_scale: Any, b: Any = None) -> Any:
    """``decay_scale * softplus(a + dt_bias)``, and ``sigmoid(b)``; without ``b`` the second result is zeros."""
    name = dtype_name(a.dtype)
    total = widened(xp, a) + dt_bias
    decay = xp.logaddexp(total, xp.zeros_like(total)) * decay_scale
    share = xp.zeros_like(a) if b is None else meaning_of("relax.sigmoid", xp, widened(xp, b))
    return cast(xp, decay, name), cast(xp, share, name)


def _state_type(call: Call) -> Type:
    data, attrs = require_float(call, 0), call.attrs
    if attrs.ndim != 1 or attrs.channels_last or attrs.state_window:
        past = call.args[3].ty if is_given(call, 3) else None
        return TupleType((data, past if isinstance(past, TensorType) else TensorType(None, data.dtype)))
    batch, channels, _ = sizes_of(call, 0, 3)
    taps = sizes_of(call, 1, 3)[2]
    return TupleType(
        (data, shaped((batch, channels, None if taps is None else (taps - 1) * attrs.dilation), data.dtype))
    )


@contributed("CausalConvWithState", _state_type)
def causal_conv_with_state(
    xp: Any,
    input: Any,
    weight: Any,
    bias: Any = None,
    past_state: Any = None,
    *,
    activation: str = "none",
    channels_last: int = 0,
    dilation: int = 1,
    ndim: int = 1,
    state_window: int = 0,
) -> Any:
    """The causal depthwise convolution of (batch, channels, length) with ``weight`` (channels, 1, taps).

    ``past_state`` (batch, channels, positions) holds the elements before the first position. The second result holds
    the elements before the next input.
    """
    if ndim != 1 or channels_last or state_window:
        raise ValueError(
            "CausalConvWithState over two axes or more, with channels last, or with a window of states has no "
            "reference semantics here"
        )
    data, taps = widened(xp, input), weight.shape[2]
    length, before = input.shape[2], (taps - 1) * dilation
    if past_state is None:
        data = pad_constant(xp, data, ((0, 0), (0, 0), (before, 0)), 0.0)
    else:
        data = xp.concat([widened(xp, past_state), data], axis=2)
    wide = widened(xp, weight)
    found: Any = None if bias is None else xp.reshape(widened(xp, bias), (-1, 1))
    for tap in range(taps):
        part = data[:, :, tap * dilation : tap * dilation + length] * wide[:, :, tap]
        found = part if found is None else found + part
    found = found if activation == "none" else found * meaning_of("relax.sigmoid", xp, found)
    name = dtype_name(input.dtype)
    return cast(xp, found, name), cast(xp, data[:, :, length:], name)
