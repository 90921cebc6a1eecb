"""Mixtures of experts: layers in which each token passes through a few experts, chosen by a router."""

from __future__ import annotations

from typing import Any, NamedTuple

from ....ir.dims import dims_equal
from ....ir.op import Call, wrong_attribute, wrong_operand
from ....ir.types import Type
from ...declare import meaning_of
from ...rules import require_float, require_rank
from ...semantics import cast, dtype_name, positions, widened
from .declaring import contributed, sizes_of
from .products import unpacked, widened_bytes


def _type(call: Call) -> Type:
    data = require_float(call, 0)
    require_rank(call, 0, "(tokens, hidden) or (batch, sequence, hidden)", 2, 3)
    experts = sizes_of(call, 1, 2)[1]
    stored = sizes_of(call, 2, 3)[0]
    if experts is not None and stored is not None and dims_equal(experts, stored) is False:
        raise wrong_operand(call, 2, f"weights of {experts} experts, as router_probs has")
    if call.attrs.k < 1:
        raise wrong_attribute(call, "k", "1 or more")
    return data


def _shares(xp: Any, router: Any, weights: Any, k: int, *, normalize: int) -> Any:
    """The share of each expert in each token, (experts, tokens, 1): 0 except for the top ``k`` experts of ``router``.

    Of two experts with equal values, the earlier one is chosen.
    """
    experts = router.shape[1]
    own, other = xp.expand_dims(router, axis=2), xp.expand_dims(router, axis=1)
    number = positions(xp, experts, router)
    earlier = xp.expand_dims(number, axis=0) < xp.expand_dims(number, axis=1)
    ahead = xp.logical_or(other > own, xp.logical_and(other == own, earlier))
    chosen = xp.sum(cast(xp, ahead, "int32"), axis=2) < k
    if weights is None:
        exponentials = xp.exp(router - xp.max(router, axis=1, keepdims=True))
        weights = exponentials / xp.sum(exponentials, axis=1, keepdims=True)
    shares = xp.where(chosen, weights, xp.zeros_like(weights))
    if normalize:
        shares = shares / xp.sum(shares, axis=1, keepdims=True)
    return xp.expand_dims(xp.permute_dims(shares, (1, 0)), axis=2)


def _gated(xp: Any, gate: Any, linear: Any, alpha: float, beta: float, limit: float | None) -> Any:
    if limit is not None:
        gate, linear = xp.minimum(gate, xp.full_like(gate, limit)), xp.clip(linear, -limit, limit)
    return gate * meaning_of("relax.sigmoid", xp, gate * alpha) * (linear + beta)


class _Activation(NamedTuple):
    """The activation of the experts: its kind, and the parameters of `swiglu`."""

    kind: str
    alpha: float
    beta: float
    fusion: int
    limit: float | None


def _hidden(xp: Any, first: Any, third: Any, activation: _Activation) -> Any:
    """The hidden layer of the experts, from the products with their first weights and, if given, their third."""
    match activation.kind:
        case "relu":
            found = xp.where(first < 0, xp.zeros_like(first), first)
        case "gelu":
            found = meaning_of("relax.nn.gelu_tanh", xp, first)
        case "silu":
            found = meaning_of("relax.nn.silu", xp, first)
        case "identity":
            found = first
        case "swiglu":
            half = first.shape[-1] // 2
            gate, linear = first, third
            if activation.fusion == 1:
                gate, linear = first[..., 0::2], first[..., 1::2]
            elif activation.fusion == 2:
                gate, linear = first[..., :half], first[..., half:]
            return _gated(xp, gate, linear, activation.alpha, activation.beta, activation.limit)
        case other:
            raise ValueError(f"experts with the activation {other!r} have no reference semantics here")
    return found if third is None else found * third


def _mixed(xp: Any, x: Any, shares: Any, layers: list[tuple[Any, Any]], activation: _Activation) -> Any:
    """The sum of the results of all experts for the tokens ``x`` (..., hidden), times their shares."""

    def product(rows: Any, layer: tuple[Any, Any]) -> Any:
        weights, bias = layer
        found = xp.matmul(rows, xp.matrix_transpose(widened(xp, weights)))
        return found if bias is None else found + xp.expand_dims(widened(xp, bias), axis=1)

    first, second, third = layers
    rows = xp.reshape(widened(xp, x), (1, -1, x.shape[-1]))
    hidden = _hidden(xp, product(rows, first), None if third[0] is None else product(rows, third), activation)
    found = xp.sum(product(hidden, second) * shares, axis=0)
    return cast(xp, xp.reshape(found, x.shape), dtype_name(x.dtype))


@contributed("MoE", _type)
def moe(
    xp: Any,
    input: Any,
    router_probs: Any,
    fc1_experts_weights: Any,
    fc1_experts_bias: Any | None,
    fc2_experts_weights: Any,
    fc2_experts_bias: Any = None,
    fc3_experts_weights: Any = None,
    fc3_experts_bias: Any = None,
    *,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    activation_type: str = "relu",
    k: int = 1,
    normalize_routing_weights: int = 0,
    swiglu_fusion: int = 0,
    swiglu_limit: float | None = None,
    use_sparse_mixer: int = 0,
) -> Any:
    """A mixture of experts: the results of the top ``k`` experts for each token, summed with the router's shares.

    ``input`` is (tokens, hidden) or (batch, sequence, hidden), ``router_probs`` (tokens, experts) before the softmax.
    The weights are (experts, inner, hidden), (experts, hidden, inner) and again (experts, inner, hidden). The
    reference computes all experts for all tokens: it costs ``experts / k`` times as much as a kernel.
    """
    if use_sparse_mixer:
        raise ValueError("MoE with use_sparse_mixer has no reference semantics here")
    activation = _Activation(activation_type, activation_alpha, activation_beta, swiglu_fusion, swiglu_limit)
    shares = _shares(xp, widened(xp, router_probs), None, k, normalize=normalize_routing_weights)
    layers = [
        (fc1_experts_weights, fc1_experts_bias),
        (fc2_experts_weights, fc2_experts_bias),
        (fc3_experts_weights, fc3_experts_bias),
    ]
    return _mixed(xp, input, shares, layers, activation)


def _weights(xp: Any, stored: Any, scales: Any, zeros: Any, bits: int) -> Any:
    """Weights (experts, rows, columns) from ``stored``, of ``bits`` each, with a scale for each row or block of one."""
    experts, rows, room = stored.shape
    columns = room * (8 // bits)
    blocks = scales.shape[2] if scales.ndim == 3 else 1
    numbers = widened_bytes(xp, unpacked(xp, stored, bits, columns), scales)
    numbers = xp.reshape(numbers, (experts, rows, blocks, columns // blocks))
    factors = widened(xp, xp.reshape(scales, (experts, rows, blocks, 1)))
    if zeros is None:
        shifted = numbers - float(1 << (bits - 1))
    else:
        count = blocks if scales.ndim == 3 else rows
        held = widened_bytes(xp, unpacked(xp, zeros, bits, count), scales)
        shifted = numbers - xp.reshape(held, (experts, rows, blocks, 1))
    return xp.reshape(shifted * factors, (experts, rows, columns))


@contributed(
    "QMoE",
    _type,
    operands=(
        "input",
        "router_probs",
        "fc1_experts_weights",
        "fc1_scales?",
        "fc1_experts_bias?",
        "fc2_experts_weights",
        "fc2_scales?",
        "fc2_experts_bias?",
        "fc3_experts_weights?",
        "fc3_scales?",
        "fc3_experts_bias?",
        "fc1_zero_points?",
        "fc2_zero_points?",
        "fc3_zero_points?",
        "router_weights?",
        "fc1_global_scale?",
        "fc2_global_scale?",
        "fc1_act_scale?",
        "fc2_act_scale?",
        "fc1_act_block_scale?",
        "fc2_act_block_scale?",
    ),
)
def qmoe(
    xp: Any,
    input: Any,
    router_probs: Any,
    *stored: Any,
    accuracy_level: int = 0,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    activation_type: str = "relu",
    block_size: int | None = None,
    expert_weight_bits: int = 4,
    fc1_expert_weight_bits: int | None = None,
    fc2_expert_weight_bits: int | None = None,
    fc3_expert_weight_bits: int | None = None,
    k: int = 1,
    normalize_routing_weights: int = 0,
    quant_type: str = "int",
    swiglu_fusion: int = 0,
    swiglu_limit: float | None = None,
    use_sparse_mixer: int = 0,
    weights_prepacked: int = -1,
) -> Any:
    """A `moe` with quantized weights: 2, 4 or 8 bits each, with a scale for each row, or block of a row.

    The default zero points are ``2 ** (bits - 1)``. With ``router_weights``, these are the shares, and ``router_probs``
    only selects the experts. Shares computed from ``router_probs`` are normalized to the sum 1. ``accuracy_level``
    allows a runtime to round the tokens to int8; the reference does not.
    """
    del accuracy_level, block_size
    parts = [*stored, *[None] * (19 - len(stored))]
    if quant_type != "int" or use_sparse_mixer or weights_prepacked == 1 or any(x is not None for x in parts[13:]):
        raise ValueError("QMoE of floating weights, or of prepacked ones, has no reference semantics here")
    activation = _Activation(activation_type, activation_alpha, activation_beta, swiglu_fusion, swiglu_limit)
    bits = [b or expert_weight_bits for b in (fc1_expert_weight_bits, fc2_expert_weight_bits, fc3_expert_weight_bits)]
    layers: list[tuple[Any, Any]] = []
    for number in range(3):
        weights, scales, bias = parts[3 * number : 3 * number + 3]
        held = None if weights is None else _weights(xp, weights, scales, parts[9 + number], bits[number])
        layers.append((held, bias))
    router, given = widened(xp, router_probs), parts[12]
    weights = None if given is None else widened(xp, given)
    is_whole = weights is None or normalize_routing_weights
    shares = _shares(xp, router, weights, k, normalize=int(is_whole))
    return _mixed(xp, input, shares, layers, activation)
