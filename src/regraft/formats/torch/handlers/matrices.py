"""Handlers of ATen's factorizations of small matrices: determinants, inverses, solutions and Cholesky factors.

Engines have no operators for these. A matrix of a few rows is eliminated row by row, with the largest element of a
column as its pivot, as in LAPACK. A larger matrix keeps PyTorch's own operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from .... import op as R
from ....ir.expr import Expr, const
from ....op.primitive.manipulate import transposed
from ..context import Context, converts, converts_by_name, dtype_of, like, rank, shape_of

_MOST_ROWS: Final = 8
"""The most rows of a matrix that is written out, with a dozen operators for each row."""


def _rows(context: Context, matrix: Expr) -> int:
    count = shape_of(matrix)[-1]
    if not isinstance(count, int) or not 0 < count <= _MOST_ROWS:
        context.unsupported(f"the elimination of a matrix of {count} rows; at most {_MOST_ROWS} are written out")
    if dtype_of(matrix) not in ("float32", "float64"):
        context.unsupported(f"the elimination of a matrix of {dtype_of(matrix)}")
    return count


def _part(x: Expr, axis: int, first: int, last: int) -> Expr:
    axis += rank(x)
    return R.strided_slice(x, [axis], [first], [last])


class _Pivot(NamedTuple):
    """The pivot of one step of an elimination: its value, its place, its row, and a mask of its row."""

    value: Expr
    place: Expr
    row: Expr
    is_own: Expr


def _pivot(context: Context, left: Expr, first: int) -> _Pivot:
    """The pivot of column ``first`` of ``left``, among the rows from ``first`` on, which have no pivot yet."""
    count = shape_of(left)[-2]
    assert isinstance(count, int)
    column = _part(_part(left, -1, first, first + 1), -2, first, count)
    place = context.emit(R.argmax(R.abs(column), axis=-2, keepdims=True) + const(first, "int64"))
    is_own = context.emit(R.equal(const(np.arange(count)[:, None], "int64"), place))
    row = context.emit(R.sum(R.where(is_own, left, like(left, 0.0)), axis=-2, keepdims=True))
    return _Pivot(context.emit(_part(row, -1, first, first + 1)), place, row, is_own)


def _pivots(context: Context, matrix: Expr) -> tuple[list[Expr], list[Expr]]:
    """The pivots of a matrix in order, and a sign for each: -1 if its row is swapped with another, else 1."""
    pivots: list[Expr] = []
    signs: list[Expr] = []
    left = context.emit(matrix)
    for size in range(_rows(context, matrix), 0, -1):
        found = _pivot(context, left, 0)
        one = like(matrix, 1.0)
        pivots.append(context.emit(R.squeeze(found.value, axis=[-2, -1])))
        moves = R.squeeze(R.equal(found.place, const(0, "int64")), axis=[-2, -1])
        signs.append(context.emit(R.where(moves, one, like(matrix, -1.0))))
        if size == 1:
            break
        # The first row moves to the place of the pivot's row.
        moved = context.emit(_part(R.where(found.is_own, _part(left, -2, 0, 1), left), -2, 1, size))
        divisor = R.where(R.equal(found.value, like(matrix, 0.0)), one, found.value)
        taken = R.multiply(R.divide(_part(moved, -1, 0, 1), divisor), found.row)
        left = context.emit(_part(R.subtract(moved, taken), -1, 1, size))
    return pivots, signs


def _product(values: Sequence[Expr]) -> Expr:
    found = values[0]
    for value in values[1:]:
        found = R.multiply(found, value)
    return found


@converts("det", "linalg_det")
def _determinant(context: Context, matrix: Expr) -> Expr:
    pivots, signs = _pivots(context, matrix)
    return _product([*pivots, *signs])


@converts("slogdet", "linalg_slogdet")
def _signed_log_determinant(context: Context, matrix: Expr) -> tuple[Expr, Expr]:
    pivots, signs = _pivots(context, matrix)
    logarithm = R.log(R.abs(pivots[0]))
    for pivot in pivots[1:]:
        logarithm = R.add(logarithm, R.log(R.abs(pivot)))
    return _product([*signs, *[R.sign(pivot) for pivot in pivots]]), logarithm


@converts("logdet")
def _log_determinant(context: Context, matrix: Expr) -> Expr:
    sign, logarithm = _signed_log_determinant(context, matrix)
    negative = R.less(sign, like(matrix, 0.0))
    return R.where(negative, like(matrix, float("nan")), logarithm)


def _solved(context: Context, matrix: Expr, right: Expr) -> tuple[Expr, list[Expr]]:
    """``X`` of ``matrix @ X = right``, and the pivots, by Gauss-Jordan elimination of both matrices side by side."""
    count = _rows(context, matrix)
    if shape_of(matrix)[:-2] != shape_of(right)[:-2]:
        context.unsupported("the solution for a batch of another shape than the matrices have")
    left = context.emit(R.concat([matrix, right], axis=-1))
    numbers = const(np.arange(count)[:, None], "int64")
    pivots: list[Expr] = []
    for step in range(count):
        found = _pivot(context, left, step)
        pivots.append(found.value)
        moved = R.where(found.is_own, _part(left, -2, step, step + 1), left)
        own = context.emit(R.divide(found.row, found.value))
        others = R.subtract(moved, R.multiply(_part(context.emit(moved), -1, step, step + 1), own))
        left = context.emit(R.where(R.equal(numbers, const(step, "int64")), own, others))
    last = shape_of(right)[-1]
    return R.strided_slice(left, [rank(left) - 1], [count], [count + last]), pivots


def _identity(matrix: Expr) -> Expr:
    count = shape_of(matrix)[-1]
    return R.broadcast_to(R.eye(count, count, 0, dtype_of(matrix)), shape_of(matrix))


@converts("inverse", "linalg_inv")
def _inverse(context: Context, matrix: Expr) -> Expr:
    _rows(context, matrix)
    return _solved(context, matrix, _identity(matrix))[0]


@converts("linalg_inv_ex")
def _inverse_and_check(context: Context, matrix: Expr, *, check_errors: bool = False) -> tuple[Expr, Expr]:
    _rows(context, matrix)
    found, pivots = _solved(context, matrix, _identity(matrix))
    info = R.zeros(context.output_shape(1), "int32")
    for step, pivot in reversed(list(enumerate(pivots, 1))):
        is_zero = R.equal(R.squeeze(pivot, axis=[-2, -1]), like(matrix, 0.0))
        info = R.where(is_zero, const(step, "int32"), info)
    return found, info


@converts_by_name("linalg_solve")
def _solve(context: Context, given: Any) -> Expr:
    matrix, right = given.A, given.B
    is_vector = rank(right) == 1 or (rank(right) == rank(matrix) - 1 and shape_of(right) == shape_of(matrix)[:-1])
    if not given.left:
        context.unsupported("a solution with the matrix at the right")
    if not is_vector:
        return _solved(context, matrix, right)[0]
    return R.squeeze(_solved(context, matrix, R.expand_dims(right, axis=-1))[0], axis=-1)


# --- triangles


@converts("linalg_cholesky", "cholesky")
def _cholesky(context: Context, matrix: Expr, upper: bool = False) -> Expr:
    count = _rows(context, matrix)
    columns: list[Expr] = []
    left = context.emit(_with_gradient_of_both(transposed(matrix) if upper else matrix))
    for size in range(count, 0, -1):
        root = R.sqrt(_part(_part(left, -1, 0, 1), -2, 0, 1))
        column = context.emit(R.divide(_part(left, -1, 0, 1), root))
        above = R.zeros([*shape_of(column)[:-2], count - size, 1], dtype_of(matrix))
        columns.append(R.concat([above, column], axis=-2) if size < count else column)
        if size > 1:
            below = context.emit(_part(column, -2, 1, size))
            taken = R.multiply(below, transposed(below))
            left = context.emit(R.subtract(_part(_part(left, -1, 1, size), -2, 1, size), taken))
    lower = R.concat(columns, axis=-1) if count > 1 else columns[0]
    return transposed(lower) if upper else lower


def _with_gradient_of_both(matrix: Expr) -> Expr:
    """``matrix`` for an operator that reads one triangle, such that its adjoint is symmetric, as in PyTorch."""
    turned = transposed(matrix)
    nothing = R.subtract(R.subtract(turned, R.grad.no_grad(turned)), R.subtract(matrix, R.grad.no_grad(matrix)))
    return R.add(matrix, R.multiply(nothing, like(matrix, 0.5)))


@converts_by_name("linalg_solve_triangular")
def _solve_triangular(context: Context, given: Any) -> Expr:
    matrix, right = given.self, given.B
    if not given.left:
        context.unsupported("a solution with the matrix at the right")
    return _substituted(context, matrix, right, upper=given.upper, of_ones=given.unitriangular)


@converts("cholesky_solve")
def _cholesky_solve(context: Context, right: Expr, factor: Expr, upper: bool = False) -> Expr:
    lower = transposed(factor) if upper else factor
    half = _substituted(context, lower, right, upper=False)
    return _substituted(context, transposed(lower), half, upper=True)


def _substituted(context: Context, matrix: Expr, right: Expr, *, upper: bool, of_ones: bool = False) -> Expr:
    """``X`` of ``matrix @ X = right``, row by row; the other triangle of ``matrix`` is ignored."""
    count = _rows(context, matrix)
    found: dict[int, Expr] = {}
    for step in reversed(range(count)) if upper else range(count):
        row = _part(matrix, -2, step, step + 1)
        left = _part(right, -2, step, step + 1)
        for known, value in found.items():
            left = R.subtract(left, R.multiply(_part(row, -1, known, known + 1), value))
        found[step] = context.emit(left if of_ones else R.divide(left, _part(row, -1, step, step + 1)))
    return R.concat([found[step] for step in range(count)], axis=-2) if count > 1 else found[0]
