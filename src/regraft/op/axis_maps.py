"""Operations on single axes in gradient rules: reordering by layout, and multiplication by a matrix.

Resampling along an axis is the product with a matrix of weights, and its gradient is the product with the transposed
matrix. The matrix is found by applying the operator to unit vectors, so no rule repeats its operator's arithmetic.
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
    """``value``, whose axes are in the order of the letters ``layout``, permuted to the order ``wanted``."""
    return value if layout == wanted else permute_dims(value, [layout.index(letter) for letter in wanted])


def settled(value: Expr) -> Expr:
    """``value``, which depends on no variable, as a constant if all its sizes are numbers; otherwise itself."""
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
    """The adjoint before ``resample`` along ``axis``, which has ``size`` elements before it, from the adjoint after it.

    ``value`` is the adjoint after ``resample``. ``resample`` is linear, takes a matrix, and maps each of its rows. If
    sizes are symbolic, the weights are computed at run time. Cost: that of a matrix product.
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
