"""The LSTM layer that ONNX Runtime's quantizer writes: weights of 8 bits, states in float32."""

from __future__ import annotations

from typing import Any

from ....ir.op import Call, wrong_operand
from ....ir.types import TupleType, Type
from ...composite.recurrence import ACTIVATIONS, Gates, opened_cells
from ...rules import require_float
from ...semantics import cast, filled, positions
from .declaring import contributed, shaped, sizes_of
from .integers import dynamically_quantized, shifted

_BYTES = (None, "int8", "uint8")


def _type(call: Call) -> Type:
    data = require_float(call, 0)
    for index in (1, 2):
        if getattr(call.args[index].ty, "dtype", None) not in _BYTES:
            raise wrong_operand(call, index, "an int8 or uint8 tensor of the axes (directions, size, 4 * hidden)")
    steps, batch, _ = sizes_of(call, 0, 3)
    ways, hidden, _ = sizes_of(call, 2, 3)
    state = shaped((ways, batch, hidden), data.dtype)
    return TupleType((shaped((steps, ways, batch, hidden), data.dtype), state, state))


class _Weights:
    """The quantized weights of one direction."""

    def __init__(self, xp: Any, weight: Any, scale: Any, zero_point: Any, way: int) -> None:
        self.xp = xp
        point = xp.reshape(zero_point, (zero_point.shape[0], -1))[way, ...]
        self.numbers = shifted(xp, weight[way, ...], point)
        self.scale = xp.reshape(scale, (scale.shape[0], -1))[way, ...]

    def times(self, x: Any) -> Any:
        """``x``, quantized by its range, times the weights."""
        numbers, step = dynamically_quantized(self.xp, x)
        return cast(self.xp, self.xp.matmul(numbers, self.numbers), "float32") * (step * self.scale)


@contributed("DynamicQuantizeLSTM", _type)
def dynamic_quantize_lstm(
    xp: Any,
    x: Any,
    w: Any,
    r: Any,
    b: Any | None,
    sequence_lens: Any | None,
    initial_h: Any | None,
    initial_c: Any | None,
    p: Any | None,
    w_scale: Any,
    w_zero_point: Any,
    r_scale: Any,
    r_zero_point: Any,
    *,
    activation_alpha: tuple[float, ...] | None = None,
    activation_beta: tuple[float, ...] | None = None,
    activations: tuple[str, ...] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
) -> Any:
    """ONNX's LSTM with weights of 8 bits; the sequence and the hidden state of each step are quantized by their range.

    ``x`` is (steps, batch, size), ``w`` (ways, size, 4 * hidden), ``r`` (ways, hidden, 4 * hidden), with a way for each
    direction. Scales and zero points are given for each way, or for each way and column. Results: all hidden states
    (steps, ways, batch, hidden), and the last hidden and cell states (ways, batch, hidden).
    """
    del hidden_size
    if activation_alpha or activation_beta:
        raise ValueError("DynamicQuantizeLSTM with parameters of activations has no reference semantics here")
    steps, batch, _ = x.shape
    ways, hidden, _ = r.shape
    names = [name.lower() for name in activations or ("Sigmoid", "Tanh", "Tanh") * ways]
    for name in names:
        if name not in ACTIVATIONS:
            raise ValueError(f"DynamicQuantizeLSTM with the activation {name} has no reference semantics here")
    every: list[Any] = []
    for way in range(ways):
        from_input = _Weights(xp, w, w_scale, w_zero_point, way).times(x)
        recurrent = _Weights(xp, r, r_scale, r_zero_point, way)
        bias = None if b is None else b[way, : 4 * hidden] + b[way, 4 * hidden :]
        cell = Gates(xp, hidden, names[3 * way : 3 * way + 3], clip, None if p is None else p[way, ...])
        states = [filled(xp, (batch, hidden), 0.0, x) if s is None else s[way, ...] for s in (initial_h, initial_c)]
        turns = direction == "reverse" or way == 1
        entering = _turned(xp, from_input, sequence_lens) if turns else from_input
        rows: list[Any] = []
        last = states
        for step in range(steps):
            gates = entering[step, ...] + recurrent.times(states[0])
            states = opened_cells(cell, gates if bias is None else gates + bias, states[1], bool(input_forget))
            if sequence_lens is not None:
                runs = xp.expand_dims(sequence_lens > step, axis=1)
                last = [xp.where(runs, new, old) for new, old in zip(states, last, strict=True)]
                states = [xp.where(runs, new, xp.zeros_like(new)) for new in states]
            rows.append(states[0])
        sequence = xp.stack(rows, axis=0)
        sequence = _turned(xp, sequence, sequence_lens) if turns else sequence
        every.append([sequence, *(states if sequence_lens is None else last)])
    return tuple([xp.stack([found[part] for found in every], axis=1 if part == 0 else 0) for part in range(3)])


def _turned(xp: Any, x: Any, lengths: Any) -> Any:
    """Sequences along the first axis reversed, each within its length."""
    if lengths is None:
        return xp.flip(x, axis=0)
    steps = xp.expand_dims(positions(xp, x.shape[0], lengths), axis=1)
    ends = xp.expand_dims(cast(xp, lengths, "int64"), axis=0)
    places = xp.where(steps < ends, ends - 1 - steps, steps)
    return xp.take_along_axis(x, xp.broadcast_to(xp.expand_dims(places, axis=2), x.shape), axis=0)
