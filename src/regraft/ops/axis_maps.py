"""What gradient rules do to single axes: order them by layout, and send them through a matrix.

Resampling along an axis is a matrix of weights, and its gradient is the transposed one.
"""

from __future__ import annotations

import numpy as np

from ..ir.dims import Dim
from ..ir.expr import Expr, const
from ..ir.op import Call, Op
from .adjoints import GradientError, known_rank, tensor_type
from .linear_algebra import matmul
from .manipulate import permute_dims


def rearranged(value: Expr, layout: str, wanted: str) -> Expr:
    """``value``, whose axes are in the order of the letters ``layout``, with its axes in the order ``wanted``."""
    return value if layout == wanted else permute_dims(value, [layout.index(letter) for letter in wanted])


def static_size(call: Call, size: Dim, what: str) -> int:
    """``size`` as an int; raises `GradientError` when it is not known before the program runs."""
    if not isinstance(size, int):
        assert isinstance(call.op, Op)
        raise GradientError(
            f"{call.op.name}: the gradient needs {what} as a number, but it is {size}; "
            "give it one with transform.BindSymbolicVars, or R.match_cast"
        )
    return size


def map_axis(call: Call, value: Expr, axis: int, matrix: np.ndarray) -> Expr:
    """``value`` with ``matrix`` (old size, new size) applied along ``axis``. Cost: that of a matrix product."""
    ndim = known_rank(call, value, "the adjoint")
    dtype = tensor_type(value).dtype
    if axis == ndim - 2:
        return matmul(const(np.ascontiguousarray(matrix.T), dtype), value)
    if axis == ndim - 1:
        return matmul(value, const(matrix, dtype))
    order = [*range(axis), *range(axis + 1, ndim), axis]
    moved = matmul(permute_dims(value, order), const(matrix, dtype))
    return permute_dims(moved, [order.index(place) for place in range(ndim)])
