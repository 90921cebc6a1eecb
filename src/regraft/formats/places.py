"""The maximum of each window and its index, for pooling that returns indices. All windows are gathered."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .. import op as ops
from ..ir.expr import Expr, const
from ..ir.types import TensorType
from ..op.primitive.reduction import extreme_of_none


class Line(NamedTuple):
    """The windows along one axis: its size, and the index of each element (windows, elements).

    An element of padding has an index outside of the axis.
    """

    size: int
    places: np.ndarray

    @staticmethod
    def of(size: int, count: int, width: int, stride: int, before: int, dilation: int) -> Line:
        """The windows of a pooling with ``before`` elements of padding before the axis."""
        return Line(size, np.arange(count)[:, None] * stride - before + np.arange(width)[None, :] * dilation)


def greatest_in_windows(x: Expr, lines: Sequence[Line], emit: Callable[[Expr], Expr]) -> tuple[Expr, Expr]:
    """The maximum of each window over the last axes, and its index in these axes, flattened in row-major order.

    Both results have one axis for all windows, in row-major order. ``x`` has a known rank and dtype.
    """
    places, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    for size, along in lines:
        # Combine the windows (windows, elements) of the axes so far with the windows of this axis.
        within = (along >= 0) & (along < size)
        shape = (len(places) * len(along), -1)
        places = (places[:, None, :, None] * size + along[None, :, None, :]).reshape(shape)
        inside = (inside[:, None, :, None] & within[None, :, None, :]).reshape(shape)
    places = np.where(inside, places, 0)
    ty = x.ty
    assert isinstance(ty, TensorType)
    assert ty.shape is not None
    assert ty.dtype is not None
    lead = ty.shape[: -len(lines)]
    flat = emit(ops.reshape(x, [*lead, math.prod(size for size, _ in lines)]))
    taken = ops.take(flat, const(places, "int64"), axis=len(lead))
    if not inside.all():
        least = extreme_of_none(ty.dtype, greatest=True)
        taken = ops.where(const(inside, "bool"), emit(taken), const(least, ty.dtype))
    taken = emit(taken)
    chosen = ops.argmax(taken, axis=len(lead) + 1) + const(np.arange(len(places)) * places.shape[1], "int64")
    found = ops.take(const(places.ravel(), "int64"), emit(chosen), axis=0)
    return ops.max(taken, axis=len(lead) + 1), found
