"""Recurrent layers as PyTorch's own functions, for the options that PyTorch has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from ...op.composite.recurrence import LayerKind
from ...op.composite.recurrent import GRU_KIND, LSTM_KIND, RNN_KIND

_ORDER: Final = {"rnn": (0,), "gru": (1, 0, 2), "lstm": (0, 2, 3, 1)}
"""The index of each of PyTorch's gates among ONNX's gates, in PyTorch's order."""
_WEIGHTS: Final = 3
"""The number of operands before the bias."""


def _ordered(x: Any, kind: LayerKind) -> Any:
    """The rows of ``x``, of one direction, gate by gate in PyTorch's order."""
    gates = x.chunk(kind.gates, dim=0)
    return torch.cat([gates[gate] for gate in _ORDER[kind.name]], dim=0)


def _has_no_lstm_in_halves(x: Any) -> bool:
    """True if autocast would choose an LSTM that PyTorch does not have on this processor, and raise."""
    kind = x.device.type
    if kind != "cpu" or not torch.is_autocast_enabled(kind):
        return False
    has = {
        torch.bfloat16: torch.ops.mkldnn._is_mkldnn_bf16_supported,  # pyright: ignore[reportPrivateUsage]
        torch.float16: torch.ops.mkldnn._is_mkldnn_fp16_supported,  # pyright: ignore[reportPrivateUsage]
    }.get(torch.get_autocast_dtype(kind))
    return has is not None and not has()


def _kernel(kind: LayerKind, function: Any) -> Callable[..., Any]:
    states = len(kind.states)

    def run(x: Any, weight: Any, recurrence: Any, *rest: Any, **attrs: Any) -> Any:
        given = [None if isinstance(operand, tuple) else operand for operand in rest]
        given += [None] * (kind.operands - _WEIGHTS - len(given))
        ways = weight.shape[0]
        later = given[kind.lengths - _WEIGHTS :]
        usual = {
            "activations": kind.activations * ways,
            "clip": None,
            "linear_before_reset": True,
            "input_forget": False,
        }
        unusual = any(attrs.get(name, value) != value for name, value in usual.items())
        if attrs["direction"] == "reverse" or unusual or any(value is not None for value in later) or 0 in x.shape:
            return NotImplemented
        hidden = recurrence.shape[2]
        bias = given[0] if given[0] is not None else weight.new_zeros(ways, 2 * weight.shape[1])
        flat: list[Any] = []
        for way in range(ways):
            inner, outer = bias[way].chunk(2)
            flat += [_ordered(part, kind) for part in (weight[way], recurrence[way], inner, outer)]
        first = [x.new_zeros(ways, x.shape[1], hidden) if state is None else state for state in given[1 : 1 + states]]
        # has_biases, num_layers, dropout, train, bidirectional, batch_first
        options = (True, 1, 0.0, False, ways == 2, False)
        if function is torch.lstm and _has_no_lstm_in_halves(x):
            with torch.autocast(x.device.type, enabled=False):
                whole = weight.dtype  # autocast may have computed inputs in the narrower dtype
                sequence, *lasts = function(x.to(whole), tuple(state.to(whole) for state in first), flat, *options)
        else:
            sequence, *lasts = function(x, tuple(first) if states > 1 else first[0], flat, *options)
        steps, batch = x.shape[:2]
        return sequence.reshape(steps, batch, ways, hidden).permute(0, 2, 1, 3), *lasts

    return run


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "relax.nn.rnn": _kernel(RNN_KIND, torch.rnn_tanh),
    "relax.nn.gru": _kernel(GRU_KIND, torch.gru),
    "relax.nn.lstm": _kernel(LSTM_KIND, torch.lstm),
}
