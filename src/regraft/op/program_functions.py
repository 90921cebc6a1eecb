"""Functions of the array API that have no operator of their own, written with other functions; for `program_xp`.

Each takes the namespace first and follows the standard of 2024.12. `FUNCTIONS` and `LINEAR_ALGEBRA` list them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, log
from string import ascii_letters
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from .. import op as ops
from ..ir.dtypes import as_dtype, is_bool, is_float, is_integer, is_unsigned, numpy_dtype
from .declare import meaning_of
from .program_array import DecomposeError, ProgramArray

# --- dtypes


def _dtype(x: Any) -> str:
    return x.dtype if isinstance(x, ProgramArray) else as_dtype(x)


def result_type(xp: Any, *arrays: Any) -> str:
    """The common dtype of arrays and dtypes, by NumPy's promotion; Python numbers are ignored."""
    known = [_dtype(x) for x in arrays if not isinstance(x, bool | int | float)]
    if not known:
        raise DecomposeError("xp.result_type needs an array or a dtype among its arguments")
    return as_dtype(np.result_type(*[numpy_dtype(dtype) for dtype in known]))


def can_cast(xp: Any, source: Any, target: Any) -> bool:
    """True if ``source`` can be cast to ``target`` safely, by NumPy's rules."""
    return bool(np.can_cast(numpy_dtype(_dtype(source)), numpy_dtype(as_dtype(target))))


_KINDS: Final[dict[str, Callable[[str], bool]]] = {
    "bool": is_bool,
    "signed integer": lambda dtype: is_integer(dtype) and not is_unsigned(dtype),
    "unsigned integer": is_unsigned,
    "integral": is_integer,
    "real floating": is_float,
    "complex floating": lambda dtype: False,
    "numeric": lambda dtype: not is_bool(dtype),
}


def isdtype(xp: Any, dtype: Any, kind: Any) -> bool:
    """True if ``dtype`` is the dtype ``kind``, or is of the kind (or one of the kinds) that the standard names."""
    if isinstance(kind, tuple):
        return any(isdtype(xp, dtype, one) for one in cast("tuple[Any, ...]", kind))
    holds = _KINDS.get(kind)
    return as_dtype(dtype) == as_dtype(kind) if holds is None else holds(as_dtype(dtype))


def iinfo(xp: Any, dtype: Any) -> Any:
    """The least and the greatest number of an integer dtype."""
    return np.iinfo(_dtype(dtype))


def finfo(xp: Any, dtype: Any) -> Any:
    """The limits of a floating dtype."""
    return cast("Any", ml_dtypes.finfo)(numpy_dtype(_dtype(dtype)))


# --- creation


def empty(xp: Any, shape: Any, dtype: Any = None, device: Any = None) -> Any:
    """An array of zeros, since its elements may be anything."""
    return xp.zeros(shape, dtype=dtype or "float64")


def empty_like(xp: Any, x: Any, dtype: Any = None, device: Any = None) -> Any:
    """An array of zeros of the shape of ``x``, since its elements may be anything."""
    return xp.zeros_like(x, dtype=dtype)


def eye(xp: Any, n_rows: Any, n_cols: Any = None, k: int = 0, dtype: Any = None, device: Any = None) -> Any:
    """A matrix with ones on diagonal ``k`` and zeros elsewhere."""
    return meaning_of("relax.eye", xp, n_rows, n_rows if n_cols is None else n_cols, k, dtype=dtype or "float64")


def linspace(
    xp: Any, start: float, stop: float, num: int, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Any:
    """``num`` evenly spaced numbers from ``start`` to ``stop``."""
    return xp.asarray(np.linspace(start, stop, num, endpoint=endpoint), dtype=dtype)


def meshgrid(xp: Any, *arrays: Any, indexing: str = "xy") -> list[Any]:
    """The coordinate arrays of a grid, from the coordinates along each axis."""
    order = list(range(len(arrays)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    shape = [arrays[index].shape[0] for index in order]
    along = [[-1 if index == place else 1 for index in order] for place in range(len(arrays))]
    return [xp.broadcast_to(xp.reshape(x, form), tuple(shape)) for x, form in zip(arrays, along, strict=True)]


def tril(xp: Any, x: Any, k: int = 0) -> Any:
    """``x`` on and below diagonal ``k``, zeros above it."""
    return meaning_of("relax.tril", xp, x, k)


def triu(xp: Any, x: Any, k: int = 0) -> Any:
    """``x`` on and above diagonal ``k``, zeros below it."""
    return meaning_of("relax.triu", xp, x, k)


# --- elementwise


def positive(xp: Any, x: Any) -> Any:
    """``x`` itself."""
    return x


def reciprocal(xp: Any, x: Any) -> Any:
    """``1 / x``."""
    return 1.0 / x


def log2(xp: Any, x: Any) -> Any:
    """The logarithm to base 2."""
    return xp.log(x) * (1.0 / log(2.0))


def log10(xp: Any, x: Any) -> Any:
    """The logarithm to base 10."""
    return xp.log(x) * (1.0 / log(10.0))


def hypot(xp: Any, x1: Any, x2: Any) -> Any:
    """The square root of the sum of two squares, computed without overflow of the squares."""
    x1, x2 = xp.abs(x1), xp.abs(x2)
    large, small = xp.maximum(x1, x2), xp.minimum(x1, x2)
    ratio = small / xp.where(large > 0, large, xp.ones_like(large))
    found = large * xp.sqrt(ratio * ratio + 1.0)
    return xp.where(xp.logical_or(xp.isinf(x1), xp.isinf(x2)), xp.full_like(found, inf), found)


def signbit(xp: Any, x: Any) -> Any:
    """True for elements with a negative sign, including -0.0."""
    return xp.copysign(xp.ones_like(x), x) < 0


def diff(xp: Any, x: Any, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """The differences of adjacent elements, taken ``n`` times."""
    parts = [part for part in (prepend, x, append) if part is not None]
    x = xp.concat(parts, axis=axis)
    before = (slice(None),) * (axis % x.ndim)
    for _ in range(n):
        x = x[(*before, slice(1, None))] - x[(*before, slice(None, -1))]
    return x


# --- arrangement


def _several(axis: Any) -> tuple[Any, ...]:
    """``axis``, one axis or several, as a tuple."""
    return tuple(cast("Sequence[Any]", axis)) if isinstance(axis, tuple | list) else (axis,)


def roll(xp: Any, x: Any, shift: Any, axis: Any = None) -> Any:
    """``x`` with its elements shifted along axes; elements beyond one end come back at the other."""
    if axis is None:
        return xp.reshape(roll(xp, xp.reshape(x, (-1,)), shift, 0), x.shape)
    axes = _several(axis)
    shifts = _several(shift) if isinstance(shift, tuple | list) else (shift,) * len(axes)
    for along, count in zip(axes, shifts, strict=True):
        size = x.shape[along]
        x = xp.take(x, (xp.arange(size) - count) % size, axis=along)
    return x


def unstack(xp: Any, x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis. The size of the axis must be known."""
    size = x.shape[axis]
    if not isinstance(size, int):
        raise DecomposeError("xp.unstack needs an axis of known size, because it returns one array for each index")
    before = (slice(None),) * (axis % x.ndim)
    return tuple([x[(*before, index)] for index in range(size)])


# --- searching and sorting


def sort(xp: Any, x: Any, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The elements, sorted along an axis."""
    return xp.take_along_axis(x, xp.argsort(x, axis=axis, descending=descending), axis=axis)


def searchsorted(xp: Any, x1: Any, x2: Any, side: str = "left", sorter: Any = None) -> Any:
    """The positions of ``x2`` in the sorted ``x1``."""
    ordered = x1 if sorter is None else xp.take(x1, sorter, axis=0)
    return xp.emit(ops.bucketize(x2.expr, ordered.expr, right=side == "right"))


def count_nonzero(xp: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The number of elements that are not 0."""
    return xp.sum(xp.astype(xp.astype(x, "bool"), "int64"), axis=axis, keepdims=keepdims)


def nonzero(xp: Any, x: Any) -> tuple[Any, ...]:
    """The indices of the elements that are not 0; their number is only known at run time."""
    places = xp.emit(ops.nonzero(x.expr))
    return tuple([xp.astype(places[axis, ...], "int64") for axis in range(x.ndim)])


# --- reductions


def var(xp: Any, x: Any, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The variance: the sum of the squared distances to the mean, divided by the element count minus ``correction``."""
    distance = x - xp.mean(x, axis=axis, keepdims=True)
    squares = distance * distance
    if not correction:
        return xp.mean(squares, axis=axis, keepdims=keepdims)
    total = xp.sum(squares, axis=axis, keepdims=keepdims)
    count: Any = 1
    for one in range(x.ndim) if axis is None else _several(axis):
        count = count * x.shape[one]
    if not isinstance(count, int):
        count = xp.asarray(count, dtype=x.dtype)
    return total / (count - correction)


def std(xp: Any, x: Any, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The standard deviation: the square root of `var`."""
    return xp.sqrt(var(xp, x, axis, correction, keepdims))


# --- linear algebra


def vecdot(xp: Any, x1: Any, x2: Any, axis: int = -1) -> Any:
    """The sums of products along an axis."""
    return xp.sum(x1 * x2, axis=axis)


def tensordot(xp: Any, x1: Any, x2: Any, axes: Any = 2) -> Any:
    """The sums of products over axes of both: the last ``axes`` of ``x1`` and the first of ``x2``, or two lists."""
    if isinstance(axes, int):
        axes = (tuple(range(x1.ndim - axes, x1.ndim)), tuple(range(axes)))
    left, right = list(ascii_letters[: x1.ndim]), list(ascii_letters[x1.ndim : x1.ndim + x2.ndim])
    ours, theirs = ([axis % x.ndim for axis in along] for x, along in zip((x1, x2), axes, strict=True))
    for one, other in zip(ours, theirs, strict=True):
        right[other] = left[one]
    kept = [label for label in left if label not in right] + [label for label in right if label not in left]
    return xp.einsum(f"{''.join(left)},{''.join(right)}->{''.join(kept)}", x1, x2)


def outer(xp: Any, x1: Any, x2: Any) -> Any:
    """The outer product of two vectors."""
    return xp.expand_dims(x1, axis=1) * xp.expand_dims(x2, axis=0)


def vector_norm(xp: Any, x: Any, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Any:
    """The norm of order ``ord`` of the vectors along axes."""
    size = xp.abs(x)
    if ord == 2:
        return xp.sqrt(xp.sum(size * size, axis=axis, keepdims=keepdims))
    if ord in (float("inf"), float("-inf")):
        return (xp.max if ord > 0 else xp.min)(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return xp.sum(xp.astype(size != 0, x.dtype), axis=axis, keepdims=keepdims)
    return xp.sum(size**ord, axis=axis, keepdims=keepdims) ** (1.0 / ord)


def diagonal(xp: Any, x: Any, offset: int = 0) -> Any:
    """The elements on a diagonal of matrices. Their sizes must be known."""
    rows, columns = x.shape[-2:]
    if not (isinstance(rows, int) and isinstance(columns, int)):
        raise DecomposeError(
            "xp.linalg.diagonal needs matrices of known sizes, which determine the length of its result"
        )
    first, left = max(-offset, 0), max(offset, 0)
    places = [(first + i) * columns + left + i for i in range(max(min(rows - first, columns - left), 0))]
    flat = xp.reshape(x, (*x.shape[:-2], rows * columns))
    return xp.take(flat, xp.asarray(np.asarray(places, "int64")), axis=-1)


def trace(xp: Any, x: Any, offset: int = 0, dtype: Any = None) -> Any:
    """The sum of the elements on a diagonal of matrices."""
    return xp.sum(diagonal(xp, x, offset), axis=-1, dtype=dtype)


def matmul(xp: Any, x1: Any, x2: Any) -> Any:
    """The matrix product."""
    return xp.matmul(x1, x2)


def matrix_transpose(xp: Any, x: Any) -> Any:
    """Matrices with their last two axes swapped."""
    return xp.matrix_transpose(x)


_ALL: Final[tuple[Callable[..., Any], ...]] = (
    can_cast,
    count_nonzero,
    diff,
    empty,
    empty_like,
    eye,
    finfo,
    hypot,
    iinfo,
    isdtype,
    linspace,
    log10,
    log2,
    meshgrid,
    nonzero,
    positive,
    reciprocal,
    result_type,
    roll,
    searchsorted,
    signbit,
    sort,
    std,
    tensordot,
    tril,
    triu,
    unstack,
    var,
    vecdot,
)
FUNCTIONS: Final = {function.__name__: function for function in _ALL}
"""The functions of the namespace itself, by name."""

_MATRICES = (diagonal, matmul, matrix_transpose, outer, tensordot, trace, vecdot, vector_norm)
LINEAR_ALGEBRA: Final = {function.__name__: function for function in _MATRICES}
"""The functions of ``xp.linalg``, by name."""
