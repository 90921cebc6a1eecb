"""Quantized layers: values that are rounded to the levels of a range."""

from __future__ import annotations

import numpy as np

from .graph import LayerCall, UnsupportedLayerError
from .layers import row

_MOST_OFF = 1e-3
"""The tolerance for a zero point to count as an integer: files write it as the ends of a range."""


@row("FakeQuantize")
def _fake_quantize(call: LayerCall) -> str:
    """Quantize and dequantize if the levels are those of int8 or uint8; else the arithmetic that defines the layer."""
    low, high, out_low, out_high = (call.known(index).astype(np.float64) for index in (1, 2, 3, 4))
    levels = call.integer("levels")
    is_kept = np.array_equal(low, out_low) and np.array_equal(high, out_high)
    if low.size == 1 == high.size and is_kept and levels == 256 and float(high.reshape(())) > float(low.reshape(())):
        step = float(high.reshape(()) - low.reshape(())) / 255
        zero = -float(low.reshape(())) / step
        for dtype, least in (("uint8", 0), ("int8", -128)):
            point = zero + least
            if abs(point - round(point)) < _MOST_OFF and least <= round(point) <= least + 255:
                scale, shift = call.like(0, step), call.graph.constant(round(point), dtype)
                quantized = call.node("QuantizeLinear", call.inputs[0], scale, shift)
                return call.node("DequantizeLinear", quantized, scale, shift)
    if levels < 2:
        raise UnsupportedLayerError(f"it has {levels} levels")
    x, *ends = call.inputs
    first, last, out_first, out_last = (one.name for one in ends)
    steps = call.like(0, levels - 1)
    inside = call.node("Min", call.node("Max", x, call.node("Min", first, last)), call.node("Max", first, last))
    part = call.node("Div", call.node("Sub", inside, first), call.node("Sub", last, first))
    rounded = call.node("Div", call.node("Round", call.node("Mul", part, steps)), steps)
    return call.node("Add", call.node("Mul", rounded, call.node("Sub", out_last, out_first)), out_first)
