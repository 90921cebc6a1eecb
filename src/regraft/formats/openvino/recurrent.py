"""Recurrent layers: OpenVINO orders the gates differently from ONNX, and has the batch before the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .graph import LayerCall, UnsupportedLayerError, Value
from .layers import row

_DIRECTIONS: Final = ("forward", "reverse", "bidirectional")
_LSTM_GATES: Final = (1, 3, 0, 2)
"""The indices of ONNX's gates i, o, f, c in OpenVINO's order f, i, c, o."""


def _gates(call: LayerCall, value: Value, order: Sequence[int]) -> str:
    """A weight (directions, gates * size, ...) with its gates in ``order``."""
    parts = call.graph.nodes_of("Split", [value], len(order), axis=1, num_outputs=len(order))
    return call.node("Concat", *(parts[place] for place in order), axis=1)


def _common(call: LayerCall, plain: tuple[str, ...]) -> dict[str, Any]:
    direction = call.text("direction").lower()
    clip = call.number("clip", 0.0)
    found = [one.strip().lower() for one in call.text("activations", ",".join(plain)).split(",")]
    if direction not in _DIRECTIONS:
        raise UnsupportedLayerError(f"it goes {direction}")
    if any(call.text(key, "") for key in ("activations_alpha", "activations_beta")):
        raise UnsupportedLayerError("its activations have parameters")
    names = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}
    if found == found[: len(plain)] * 2:
        found = found[: len(plain)]  # Once for each direction, as ONNX writes them.
    if any(one not in names for one in found):
        raise UnsupportedLayerError(f"its activations are {', '.join(found)}")
    kinds = [names[one] for one in found] * (2 if direction == "bidirectional" else 1)
    return {
        "direction": direction, "hidden_size": call.integer("hidden_size"), "activations": kinds, "clip": clip or None
    }  # fmt: skip


def _written(call: LayerCall, kind: str, weights: Sequence[str], states: int, attributes: dict[str, Any]) -> list[str]:
    """Add the node, with the batch as the second axis of its operands and results; returns the layer's outputs."""
    x = call.node("Transpose", call.inputs[0], perm=[1, 0, 2])
    first = [call.node("Transpose", call.inputs[1 + place], perm=[1, 0, 2]) for place in range(states)]
    lengths = call.cast(call.inputs[1 + states], "int32")
    found = call.graph.nodes_of(kind, [x, *weights, lengths, *first], 1 + states, **attributes)
    last = [call.node("Transpose", one, perm=[1, 0, 2]) for one in found[1:]]
    return [call.node("Transpose", found[0], perm=[2, 1, 0, 3]), *last]


@row("LSTMSequence")
def _lstm(call: LayerCall) -> list[str]:
    weights = [_gates(call, value, _LSTM_GATES) for value in call.inputs[4:7]]
    zeros = call.node("Sub", weights[2], weights[2])
    weights[2] = call.node("Concat", weights[2], zeros, axis=1)
    return _written(call, "LSTM", weights, 2, _common(call, ("sigmoid", "tanh", "tanh")))


@row("GRUSequence")
def _gru(call: LayerCall) -> list[str]:
    size, apart = call.integer("hidden_size"), call.flag("linear_before_reset")
    bias = call.inputs[5]
    if apart:
        sizes = call.graph.integers(2 * size, size, size)
        gates, own, other = call.graph.nodes_of("Split", [bias, sizes], 3, axis=1)
        beside = [gates, own, call.node("Sub", gates, gates), other]
    else:
        beside = [bias.name, call.node("Sub", bias, bias)]
    weights = [call.inputs[3].name, call.inputs[4].name, call.node("Concat", *beside, axis=1)]
    attributes = _common(call, ("sigmoid", "tanh"))
    return _written(call, "GRU", weights, 1, {**attributes, "linear_before_reset": int(apart)})


@row("RNNSequence")
def _rnn(call: LayerCall) -> list[str]:
    bias = call.node("Concat", call.inputs[5], call.node("Sub", call.inputs[5], call.inputs[5]), axis=1)
    weights = [call.inputs[3].name, call.inputs[4].name, bias]
    return _written(call, "RNN", weights, 1, _common(call, ("tanh",)))
