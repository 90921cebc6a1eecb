"""Handlers of ATen operators whose result sizes depend on data: repeats, distinct values, counts."""

from __future__ import annotations

import numpy as np

from .... import op as R
from ....ir.dims import Dim
from ....ir.dtypes import is_float
from ....ir.expr import Expr, const
from ..context import Context, cast, converts, dtype_of, fields_of, rank, shape_of

# --- repeats


@converts("repeat_interleave.Tensor")
def _repeat_places(context: Context, repeats: Expr, *, output_size: Dim | None = None) -> Expr:
    return cast(_places(context, repeats, context.output_shape()[0], output_size), context.output_dtype())


def _places(context: Context, repeats: Expr, size: Dim, known_size: Dim | None) -> Expr:
    """The index of each row of ``repeats``, repeated so many times; ``size`` indices in all.

    Each row adds 1 where its repeats begin, so the sum up to an index is the number of rows that began before it.
    """
    counts = context.emit(cast(repeats, "int64"))
    ends = context.emit(R.cumsum(counts, axis=0))
    if known_size is None:
        context.read_size(R.sum(counts), size)
    begins = R.index_put(
        R.zeros([size + 1], "int64"),
        [R.subtract(ends, counts)],
        R.ones([shape_of(counts)[0]], "int64"),
        accumulate=True,
    )
    passed = R.cumsum(begins, axis=0)
    return R.subtract(R.strided_slice(passed, [0], [0], [size]), const(1, "int64"))


# --- distinct values


@converts("_unique2")
def _unique(
    context: Context, x: Expr, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Expr, Expr, Expr]:
    shape = shape_of(x)
    if is_float(dtype_of(x)):
        # Neighbours are compared, not a set of values: each NaN is a distinct value, as in PyTorch.
        flat = context.emit(R.flatten(x) if rank(x) else R.reshape(x, [1]))
        order = context.emit(R.argsort(flat, axis=0, dtype="int64"))
        values, groups, counts = _runs(context, context.emit(R.take(flat, order, axis=0)))
        places = R.scatter_elements(R.zeros_like(groups), order, groups, axis=0) if return_inverse else groups
    else:
        values, places, counts = fields_of(context.emit(R.unique(x, True, False, True, True, None)))
    return _chosen(values, places, counts, shape, return_inverse, return_counts)


@converts("unique_consecutive")
def _unique_consecutive(
    context: Context, x: Expr, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Expr, Expr, Expr]:
    if dim is not None and rank(x) != 1:
        context.unsupported("the distinct rows of a tensor along an axis")
    flat = R.flatten(x) if rank(x) else R.reshape(x, [1])
    return _chosen(*_runs(context, context.emit(flat)), shape_of(x), return_inverse, return_counts)


def _chosen(
    values: Expr, places: Expr, counts: Expr, shape: tuple[Dim, ...], return_inverse: bool, return_counts: bool
) -> tuple[Expr, Expr, Expr]:
    nothing = R.zeros([0], "int64")
    return values, R.reshape(places, shape) if return_inverse else nothing, counts if return_counts else nothing


def _runs(context: Context, line: Expr) -> tuple[Expr, Expr, Expr]:
    """The first value of each run of equal neighbours, the run number of each element, and the lengths of the runs."""
    size = shape_of(line)[0]
    if size == 0:
        return line, R.zeros([0], "int64"), R.zeros([0], "int64")
    before, after = R.strided_slice(line, [0], [0], [size - 1]), R.strided_slice(line, [0], [1], [size])
    begins = context.emit(R.concat([const(np.ones(1, bool)), R.not_equal(before, after)], axis=0))
    places = context.emit(R.squeeze(R.nonzero(begins), axis=0))
    groups = context.emit(R.subtract(R.cumsum(cast(begins, "int64"), axis=0), const(1, "int64")))
    ends = R.concat([places, R.reshape(context.scalar(size, "int64"), [1])], axis=0)
    lengths = R.subtract(R.strided_slice(context.emit(ends), [0], [1], [2**63 - 1]), places)
    return R.take(line, places, axis=0), groups, lengths


# --- counts


@converts("bincount")
def _bincount(context: Context, x: Expr, weights: Expr | None = None, minlength: Dim = 0) -> Expr:
    size, dtype = context.output_shape()[0], context.output_dtype()
    numbers = context.emit(cast(x, "int64"))
    ends = R.concat([R.add(numbers, const(1, "int64")), R.reshape(context.scalar(minlength, "int64"), [1])], axis=0)
    context.read_size(R.max(ends), size)
    added = R.ones(shape_of(x), dtype) if weights is None else cast(weights, dtype)
    return R.index_put(R.zeros([size], dtype), [numbers], added, accumulate=True)
