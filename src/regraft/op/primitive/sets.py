"""Operators whose result has as many elements as the data say: distinct values, places that are not zero.

The type of such a result has a rank, but no shape.
"""

from __future__ import annotations

from typing import Any

from ...ir.dtypes import is_float
from ...ir.expr import Expr
from ...ir.op import Call, Trait, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, TupleType, Type
from ..public_function import Number, declares
from ..rules import integer_operand, require_ordered, scalar_operand, tensor_operand
from ..semantics import cast, dtype_name, sort_keys

__all__ = ["nonzero", "unique"]


# --- unique


def _flag(call: Call, index: int) -> bool:
    value = scalar_operand(call, index).value
    if not isinstance(value, bool | int):
        raise wrong_operand(call, index, "True or False, known as the program is written")
    return bool(value)


def _unique_type(call: Call) -> Type:
    x = require_ordered(call, 0)
    _flag(call, 1)
    flags = [_flag(call, index) for index in (2, 3, 4)]
    ndim = 1
    if len(call.args) > 5:
        axis = integer_operand(call, 5)
        ndim = x.ndim
        if not isinstance(axis, int):
            raise wrong_operand(call, 5, "an integer, known as the program is written")
        if ndim != UNKNOWN_NDIM and not -ndim <= axis < ndim:
            raise wrong_operand(call, 5, f"an axis of x, a tensor of {ndim} dimensions")
    values = TensorType(None, x.dtype, ndim)
    extras = [TensorType(None, "int64", 1) for wanted in flags if wanted]
    return TupleType([values, *extras]) if extras else values


def _dense_ranks(xp: Any, columns: Any) -> Any:
    """For each element of a column, how many distinct values of the column are smaller; NaN is one value."""
    order = xp.argsort(columns, axis=0, stable=True)
    ascending = xp.take_along_axis(columns, order, axis=0)
    differs = xp.not_equal(ascending[1:, ...], ascending[:-1, ...])
    if is_float(dtype_name(columns.dtype)):
        both_nan = xp.logical_and(xp.isnan(ascending[1:, ...]), xp.isnan(ascending[:-1, ...]))
        differs = xp.logical_and(differs, xp.logical_not(both_nan))
    steps = xp.concat([xp.zeros_like(order[:1, ...]), cast(xp, differs, "int64")], axis=0)
    ranks = xp.cumulative_sum(steps, axis=0)
    return xp.take_along_axis(ranks, xp.argsort(order, axis=0, stable=True), axis=0)


def _row_ranks(xp: Any, rows: Any) -> Any:
    """`_dense_ranks` of whole rows in lexicographic order, halving the number of columns in each round."""
    count = rows.shape[0]
    ranks = _dense_ranks(xp, rows) if rows.shape[1] else xp.zeros((count, 1), dtype=xp.int64)
    while ranks.shape[1] > 1:
        if ranks.shape[1] % 2:
            ranks = xp.concat([ranks, xp.zeros_like(ranks[:, :1])], axis=1)
        ranks = _dense_ranks(xp, ranks[:, 0::2] * count + ranks[:, 1::2])
    return ranks[:, 0]


def _unique(
    xp: Any,
    x: Any,
    sorted: Any,
    return_index: Any,
    return_inverse: Any,
    return_counts: Any,
    axis: int | None,
) -> Any:
    items = xp.reshape(x, (-1,)) if axis is None else xp.moveaxis(x, axis, 0)
    width = 1
    for size in items.shape[1:]:
        width *= size
    count = items.shape[0]
    inverse = _row_ranks(xp, xp.reshape(sort_keys(xp, items), (count, width)))
    order = xp.argsort(inverse, stable=True)
    ascending = xp.take(inverse, order)
    is_first = xp.concat([xp.ones((min(count, 1),), dtype=xp.bool), xp.not_equal(ascending[1:], ascending[:-1])])
    starts = xp.nonzero(is_first)[0]
    ends = xp.concat([starts[1:], xp.full((min(count, 1),), count, dtype=starts.dtype)])
    firsts, counts = xp.take(order, starts), ends - starts
    if not sorted:
        appearance = xp.argsort(firsts, stable=True)
        firsts, counts = xp.take(firsts, appearance), xp.take(counts, appearance)
        inverse = xp.take(xp.argsort(appearance, stable=True), inverse)
    values = xp.take(items, firsts, axis=0)
    results = [values if axis is None else xp.moveaxis(values, 0, axis)]
    for wanted, result in ((return_index, firsts), (return_inverse, inverse), (return_counts, counts)):
        if wanted:
            results.append(cast(xp, result, "int64"))
    return tuple(results) if len(results) > 1 else results[0]


@declares("relax.unique", primitive=True, infer=_unique_type, reference=_unique)
def unique(
    x: Expr,
    sorted: Number = True,
    return_index: Number = False,
    return_inverse: Number = False,
    return_counts: Number = False,
    axis: Number | None = None,
) -> Call:
    """The distinct elements of ``x``, or its distinct slices along ``axis``; follows ONNX ``Unique``.

    Operands: ``x``, real numbers or bool (NaN is one value); ``sorted``, whether the result is in ascending
    (lexicographic) order, else in that of first appearance; ``axis``, None: single elements. The result is
    rank 1, or that of ``x``; with ``return_index``, ``return_inverse`` or ``return_counts`` it is the tuple
    of it and of where each value appears first, of the place in the result of each element, of how often each
    appears (int64, rank 1).
    Raises `OpTypeError` for other dtypes, and for operands that are not known as the program is written.
    Cost: n·log n for n elements, times log m for slices of m.
    """
    ...


# --- nonzero


def _nonzero_type(call: Call) -> Type:
    tensor_operand(call, 0)
    return TensorType(None, "int64", 2)


def _nonzero(xp: Any, x: Any) -> Any:
    items = xp.reshape(x, (1,)) if x.ndim == 0 else x
    return cast(xp, xp.stack(xp.nonzero(items)), "int64")


@declares("relax.nonzero", primitive=True, infer=_nonzero_type, reference=_nonzero, traits=(Trait.STOPS_GRADIENT,))
def nonzero(x: Expr) -> Call:
    """The places of the elements that are not zero, in row-major order; follows ONNX ``NonZero``.

    Operands: ``x``, any tensor (a scalar counts as rank 1). Result: int64, a row for each axis of ``x`` and a
    column for each place, of unknown number. Raises `OpTypeError` for no tensor.
    """
    ...
