"""Single axes in gradient rules: order them by layout, and send them through a matrix.

Resampling along an axis is a matrix of weights, and its gradient is the transposed one. What the operator does to unit
vectors says which matrix that is, so no rule repeats its operator's arithmetic.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.dims import Dim
from ..ir.expr import Constant, Expr, const
from ..ir.op import Call
from .adjoints import known_rank, tensor_type
from .composite.matrix import eye
from .evaluate import Evaluator
from .primitive.linear_algebra import matmul
from .primitive.manipulate import permute_dims


def rearranged(value: Expr, layout: str, wanted: str) -> Expr:
    """``value``, whose axes are in the order of the letters ``layout``, with its axes in the order ``wanted``."""
    return value if layout == wanted else permute_dims(value, [layout.index(letter) for letter in wanted])


def settled(value: Expr) -> Expr:
    """``value``, which depends on no variable, as a constant where all its sizes are numbers; else as it is."""
    dims = tensor_type(value).shape
    if dims is None or not all(isinstance(dim, int) for dim in dims):
        return value
    found: Any = Evaluator({}, most_elements=sys.maxsize).value(value)
    return const(found, tensor_type(value).dtype)


def matmul_along(value: Expr, axis: int, matrix: Expr) -> Expr:
    """``value``, of a known rank, with the vectors along ``axis`` multiplied by ``matrix`` from the right."""
    ndim = tensor_type(value).ndim
    if axis == ndim - 1:
        return matmul(value, matrix)
    order = [*range(axis), *range(axis + 1, ndim), axis]
    product = matmul(permute_dims(value, order), matrix)
    return permute_dims(product, [order.index(place) for place in range(ndim)])


def map_axis(call: Call, value: Expr, axis: int, size: Dim, resample: Callable[[Expr], Expr]) -> Expr:
    """The gradient of ``resample`` along ``axis``, of ``size`` elements before, for the adjoint ``value`` after it.

    ``resample`` is linear, takes a matrix, and maps each of its rows. Where sizes are symbolic the weights are worked
    out when the program runs. Cost: that of a matrix product.
    """
    ndim = known_rank(call, value, "the adjoint")
    dtype = tensor_type(value).dtype or "float32"
    weights = settled(resample(eye(size, dtype="float64")))
    if isinstance(weights, Constant):
        numbers = weights.data.numpy()
        weights, turned = const(numbers, dtype), const(np.ascontiguousarray(numbers.T), dtype)
    else:
        weights = resample(eye(size, dtype=dtype))
        turned = permute_dims(weights)
    return matmul(weights, value) if axis == ndim - 2 else matmul_along(value, axis, turned)
