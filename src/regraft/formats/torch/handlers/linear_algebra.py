"""Handlers of ATen's matrix products. `linear` has Relax's form: permute_dims, matmul, add."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import op as R
from ....ir.dims import dims_equal
from ....ir.dtypes import is_integer
from ....ir.expr import Expr, const
from ....op.rules import broadcast_dims
from ..context import (
    Context,
    arguments_of,
    axis_of,
    cast,
    converts,
    converts_by_name,
    converts_plainly,
    dtype_of,
    rank,
    shape_of,
)
from .unary import in_wide_floats


@converts("linear")
def _linear(context: Context, input: Expr, weight: Expr, bias: Expr | None = None) -> Expr:
    right = R.permute_dims(weight, [1, 0]) if rank(weight) == 2 else weight
    product = R.matmul(input, right)
    return product if bias is None else R.add(product, bias)


converts_plainly(dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot", "vdot"), R.matmul))


@converts("outer", "ger")
def _outer(context: Context, x: Expr, vec2: Expr) -> Expr:
    return R.outer(*context.promoted(x, vec2))


@converts_by_name("addmm", "addmv", "baddbmm", "addbmm")
def _addmm(context: Context, given: Any) -> Expr:
    start, left, right = [value for value in arguments_of(given).values() if isinstance(value, Expr)]
    product = R.matmul(left, right)
    product = _scaled(R.sum(product, axis=0) if context.operator() == "addbmm" else product, given.alpha)
    # With beta = 0 the first operand is ignored, even if it is NaN.
    return product if given.beta == 0 else R.add(product, _scaled(start, given.beta))


def _scaled(x: Expr, factor: float) -> Expr:
    if factor == 1:
        return x
    return x * (int(factor) if is_integer(dtype_of(x)) else float(factor))


@converts("einsum")
def _einsum(context: Context, equation: str, tensors: Sequence[Expr], path: object = None) -> Expr:
    dtype = context.output_dtype()
    return R.einsum([cast(x, dtype) for x in tensors], equation.replace(" ", ""))


@converts("_cdist_forward", "cdist")
def _cdist(context: Context, x1: Expr, x2: Expr, p: float = 2.0, compute_mode: int | None = None) -> Expr:
    return _distance(R.expand_dims(x1, axis=-2), R.expand_dims(x2, axis=-3), p)


def _distance(rows: Expr, columns: Expr, p: float) -> Expr:
    """The p-norm of the differences along the last axis."""
    distance = R.abs(R.subtract(rows, columns))
    if p == 1:
        return R.sum(distance, axis=-1)
    if p == 2:
        return R.sqrt(R.sum(R.square(distance), axis=-1))
    if p == float("inf"):
        return R.max(distance, axis=-1)
    if p == 0:
        return R.sum(cast(R.not_equal(rows, columns), dtype_of(rows)), axis=-1)
    return R.power(R.sum(R.power(distance, float(p)), axis=-1), 1.0 / p)


@converts("_pdist_forward")
def _pdist(context: Context, x: Expr, p: float = 2.0) -> Expr:
    count = shape_of(x)[0]
    if not isinstance(count, int):
        context.unsupported(f"the pairs of a symbolic number of rows, {count}")
    first, second = [R.take(x, const(places, "int64"), axis=0) for places in np.triu_indices(count, 1)]
    return _distance(first, second, p)


@converts("cosine_similarity")
def _cosine_similarity(context: Context, x1: Expr, x2: Expr, dim: int = 1, eps: float = 1e-8) -> Expr:
    x1, x2 = context.promoted(x1, x2)
    if rank(x1) == rank(x2) == 0:
        x1, x2 = R.reshape(x1, [1]), R.reshape(x2, [1])
    axis = axis_of(dim, max(rank(x1), rank(x2))) - max(rank(x1), rank(x2))
    sides = [x1, x2]
    if rank(x1) != rank(x2) or dims_equal(shape_of(x1)[axis], shape_of(x2)[axis]) is not True:
        common = broadcast_dims(shape_of(x1), shape_of(x2))
        if not isinstance(common, tuple):
            context.unsupported(f"operands of shapes {shape_of(x1)} and {shape_of(x2)}")
        sides = [R.broadcast_to(x, common) for x in sides]

    def length(x: Expr) -> Expr:
        return R.sqrt(R.sum(R.square(x), axis, keepdims=True))

    least = const(eps, dtype_of(x1))
    units = [R.divide(x, R.maximum(in_wide_floats(length, x), least)) for x in map(context.emit, sides)]
    return R.sum(R.multiply(*units), axis)


@converts("bilinear")
def _bilinear(context: Context, input1: Expr, input2: Expr, weight: Expr, bias: Expr | None = None) -> Expr:
    product = R.einsum([input1, weight, input2], "...i,oij,...j->...o")
    return product if bias is None else R.add(product, bias)


# --- one matrix for each group of rows


@converts("_grouped_mm")
@converts("grouped_mm_fallback", namespace="transformers")
def _grouped_matmul(
    context: Context,
    x: Expr,
    mat2: Expr,
    offs: Expr | None = None,
    bias: Expr | None = None,
    out_dtype: Any = None,
) -> Expr:
    """Groups of rows that end at ``offs``, each times its matrix; without ``offs``, a batch of products."""
    if offs is None and rank(x) == 3:
        return cast(R.matmul(x, mat2), context.output_dtype())
    if offs is None or rank(x) != 2 or rank(mat2) != 3 or bias is not None:
        context.unsupported("groups other than groups of rows with a matrix for each; write them as matmuls")
    return cast(R.grouped_matmul(x, mat2, offs), context.output_dtype())
