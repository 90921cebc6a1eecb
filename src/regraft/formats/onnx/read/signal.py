"""Reading operators on signals."""

from __future__ import annotations

import numpy as np

from .... import op as ops
from ....analysis.tensors import shape_of
from ....ir.dims import Dim, dims_equal, floordiv
from ....ir.expr import Expr, PrimValue, const
from ..write.known_nodes import evaluated
from .importing import Imported, NodeImporter, in_dtype, reads


@reads("DFT")
def _dft(node: NodeImporter) -> Imported:
    axis = node.attr("axis", -2 if node.opset >= 20 else 1)
    if node.has(2):
        axis = node.number(2, "its axis")
    length = node.number(1, "its number of samples")
    inverse, onesided = (bool(node.attr(name, 0)) for name in ("inverse", "onesided"))
    return ops.signal.dft(node.operand(0), length, axis, inverse, onesided)


@reads("STFT")
def _stft(node: NodeImporter) -> Imported:
    """Frames of the signal, ``frame_step`` apart, each multiplied by the window and transformed."""
    step = node.number(1, "the step between its frames")
    window = node.optional(2)
    length: Dim | None = node.number(3, "the length of its frames")
    if length is None:
        if window is None:
            raise node.refuse("it has neither a window nor the length of its frames")
        length = node.shape(2)[0]
    if not isinstance(length, int):
        raise node.undecided("the length of its frames is known at run time only")
    size = node.shape()[1]
    frames = _framed(node, size, int(step), length)
    if window is not None:
        weights = node.emit(ops.reshape(in_dtype(window, node.dtype()), [length, 1]))
        frames = node.emit(ops.multiply(frames, weights))
    # A signal with an unknown number of parts is taken as real if half of its spectrum is asked for.
    may_be_real = dims_equal(node.shape()[2], 2) is not True
    return ops.signal.dft(frames, None, 2, onesided=bool(node.attr("onesided", 1)) and may_be_real)


def _framed(node: NodeImporter, size: Dim, step: int, length: int) -> Expr:
    """The signal (batch, samples, parts) as frames (batch, frames, length, parts)."""
    count = floordiv(size - length, step) + 1
    starts = ops.expand_dims(ops.arange(PrimValue(count), dtype="int64") * step, 1)
    places = ops.reshape(starts + const(np.arange(length).reshape(1, length)), [count * length])
    flat = node.emit(ops.take(node.operand(0), node.emit(places), axis=1))
    batch, _, parts = shape_of(flat)
    return node.emit(ops.reshape(flat, [batch, count, length, parts]))


@reads("MelWeightMatrix")
def _mel_weight_matrix(node: NodeImporter) -> Imported:
    names = ("number of bands", "number of samples", "sample rate", "lowest frequency", "highest frequency")
    numbers = [np.asarray(node.number(place, f"its {name}")) for place, name in enumerate(names)]
    return const(evaluated(node.node, numbers, node.opset))
