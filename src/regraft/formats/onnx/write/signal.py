"""Operators on signals as ONNX."""

from __future__ import annotations

from typing import Final

import numpy as np

from .... import op as ops
from ....ir.dims import Dim
from ....ir.expr import Expr, Tuple, const
from ....ir.op import Call, Op
from ....ir.types import TensorType
from ...errors import ConvertError
from .elementwise import operand_dtype
from .lowering import Lowered, Lowering, lowers, size_at, tensor_type

_LARGEST_MATRIX: Final = 512
"""The most samples of a transform that is written as a product. Longer ones have errors of single precision."""


@lowers("signal.dft")
def _dft(lowering: Lowering, call: Call) -> Lowered:
    """The transform in double precision: ONNX Runtime 1.31 in single has several times the error of other libraries."""
    x, dtype = call.args[0], operand_dtype(call)
    if dtype != "float64":
        wide = lowering.emit(ops.astype(x, "float64"))
        return lowering.call(ops.astype(lowering.emit(call.with_args([wide])), dtype))
    attrs, graph = call.attrs, lowering.graph
    if tensor_type(x).ndim > 0 and _is_rough(size_at(x, attrs["axis"]), attrs["length"]):
        return _as_product(lowering, call)
    if attrs["inverse"] and attrs["onesided"]:
        return _to_real(lowering, call)
    return graph.op(
        "DFT",
        lowering.tensor(x),
        None if attrs["length"] is None else graph.constant(attrs["length"], "int64"),
        graph.constant(attrs["axis"], "int64"),
        inverse=int(attrs["inverse"]),
        onesided=int(attrs["onesided"]),
    )


def _is_rough(size: Dim | None, length: int | None) -> bool:
    """True if ONNX Runtime 1.31 would use single precision: for lengths that are no power of 2. False for long ones."""
    if not isinstance(size, int):
        return False
    samples = size if length is None else length
    return max(samples, size) <= _LARGEST_MATRIX and samples & (samples - 1) != 0


def _as_product(lowering: Lowering, call: Call) -> Lowered:
    """The transform as a product with its matrix, which is the result of the reference semantics for unit vectors."""
    x, attrs = call.args[0], call.attrs
    ndim = tensor_type(x).ndim
    axis = attrs["axis"] % ndim
    size, parts = size_at(x, axis), size_at(x, -1)
    if not isinstance(size, int) or not isinstance(parts, int) or not isinstance(call.op, Op):
        raise ConvertError(f"{x!r}: the sizes of its last axis and of the one that is transformed are not known")
    assert call.op.reference is not None
    units = np.eye(size * parts).reshape(size * parts, size, parts)
    rows = np.asarray(call.op.reference(np, units, **{**attrs, "axis": 1}))
    matrix = rows.reshape(size * parts, -1)
    order = [place for place in range(ndim) if place not in (axis, ndim - 1)] + [axis, ndim - 1]
    moved = lowering.emit(ops.permute_dims(x, order))
    lead = _dims(moved)[:-2]
    flat = lowering.emit(ops.reshape(moved, [*lead, size * parts]))
    product = lowering.emit(ops.matmul(flat, const(matrix, "float64")))
    apart = lowering.emit(ops.reshape(product, [*lead, *rows.shape[1:]]))
    return lowering.call(ops.permute_dims(apart, [order.index(place) for place in range(ndim)]))


def _dims(x: Expr) -> tuple[Dim, ...]:
    ty = x.ty
    assert isinstance(ty, TensorType)
    if ty.shape is None:
        raise ConvertError(f"the shape of {x!r} is not known; state it with a match_cast")
    return ty.shape


def _to_real(lowering: Lowering, call: Call) -> Lowered:
    """The signal of half a spectrum, by way of the whole one: ONNX Runtime 1.31 errs on halves of most sizes."""
    x, attrs = call.args[0], call.attrs
    axis: int = attrs["axis"] % len(_dims(x))
    size = _dims(x)[axis]
    samples: Dim = attrs["length"] if attrs["length"] is not None else (size - 1) * 2
    if not isinstance(size, int) or not isinstance(samples, int):
        raise ConvertError(f"{x!r}: the transform to a real signal needs the size of its axis {axis}; it is {size}")
    last, half = len(_dims(x)) - 1, samples // 2 + 1
    if half < size:
        x = lowering.emit(ops.strided_slice(x, [axis], [0], [half]))
    elif half > size:
        widths = [0] * (2 * last + 2)
        widths[2 * axis + 1] = half - size
        x = lowering.emit(ops.nn.pad(x, widths))
    rest = samples - half
    if rest:
        inner = lowering.emit(ops.flip(lowering.emit(ops.strided_slice(x, [axis], [1], [1 + rest])), axis))
        signs = const(np.array([1.0, -1.0]), "float64")
        x = lowering.emit(ops.concat(Tuple([x, lowering.emit(ops.multiply(inner, signs))]), axis=axis))
    signal = lowering.emit(ops.signal.dft(x, None, axis, inverse=True))
    return lowering.call(ops.strided_slice(signal, [last], [0], [1]))
