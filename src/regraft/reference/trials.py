"""Values to try programs on, and the comparison of two results.

Random values of a type, sizes that are all different so that no transpose is hidden, and a comparison with a tolerance
from the dtype. All checks by value in the library use this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count, cycle
from math import prod
from typing import Any, Final, NamedTuple, cast

import ml_dtypes
import numpy as np

from ..ir.dims import Dim, SymVar
from ..ir.dtypes import as_dtype, is_float, is_unsigned, numpy_dtype
from ..ir.errors import RegraftError
from ..ir.leaf_types import leaf_tensors
from ..ir.program import Function
from ..ir.types import PrimType, ShapeType, TensorType, TupleType, Type
from ..op.evaluate import Evaluator

_SIZES: Final = (5, 3, 7, 2, 6, 4, 11, 9, 13, 8, 10, 12)
_MANY_DIVISORS: Final = (12, 24, 36, 48, 60, 72)
_MOST_ELEMENTS: Final = 1 << 22
"""The most elements of all arguments with sizes that all differ: ten axes of such sizes have 50 million elements."""


WHOLE: Final = (-3, 3)
"""The smallest and the largest random integer by default."""

NOT_ZERO: Final = (1, 7)
"""The smallest and the largest random integer that may be a divisor."""


class NoValueError(RegraftError):
    """A type does not say enough to make a value of it."""


class DrawnSizes:
    """Sizes for size variables, all different from each other and from ``taken``; the same for the same ``seed``.

    ``divisible`` draws multiples of 12, for programs that split their axes.
    """

    def __init__(self, taken: Iterable[int] = (), seed: int = 0, *, divisible: bool = False) -> None:
        used = set(taken)
        pool = _MANY_DIVISORS if divisible else _SIZES
        turned = pool[seed % len(pool) :] + pool[: seed % len(pool)]
        self._sizes = chain([size for size in turned if size not in used], count(max((*used, *pool)) + 1))

    def draw(self, _variable: SymVar) -> int:
        """A size that was not drawn before."""
        return next(self._sizes)


def random_value(
    ty: Type,
    size: Callable[[Dim], int],
    random: np.random.Generator,
    whole: tuple[int, int] = WHOLE,
    most: float | None = None,
) -> Any:
    """A random value of ``ty``; ``size`` returns the value of each size.

    Floats are normally distributed, or with ``most`` uniformly from its negative to it. Integers are in the range
    ``whole`` (from 0 if unsigned), and bools are True or False with equal probability. Raises `NoValueError` for a
    tensor of unknown shape or dtype, and for functions and objects.
    """
    match ty:
        case TensorType(shape=tuple() as dims, dtype=str() as dtype):
            return random_array([size(dim) for dim in dims], dtype, random, whole, most)
        case TupleType():
            return tuple([random_value(field, size, random, whole, most) for field in ty.fields])
        case ShapeType(values=tuple() as values):
            return tuple([size(dim) for dim in values])
        case PrimType():
            if isinstance(ty.value, float | bool):
                return ty.value
            if ty.value is not None:
                return size(ty.value)
            return random_array((), ty.dtype, random, whole, most).item()
        case _:
            raise NoValueError(f"no random value can be made of {ty!r}")


def random_array(
    shape: Sequence[int],
    dtype: str,
    random: np.random.Generator,
    whole: tuple[int, int] = WHOLE,
    most: float | None = None,
) -> np.ndarray:
    """A random array; see `random_value`."""
    if dtype == "bool":
        return random.integers(0, 2, size=tuple(shape)).astype(np.bool_)
    if dtype.startswith("complex"):
        parts = random.standard_normal((2, *shape))
        return (parts[0] + 1j * parts[1]).astype(numpy_dtype(dtype))
    if is_float(dtype):
        floats = random.standard_normal(shape) if most is None else random.uniform(-most, most, shape)
        return np.asarray(floats).astype(numpy_dtype(dtype))
    low, high = max(whole[0], 0) if is_unsigned(dtype) else whole[0], whole[1]
    if dtype == "int2":
        low, high = max(low, -2), min(high, 1)
    return random.integers(low, high, size=tuple(shape), endpoint=True).astype(numpy_dtype(dtype))


# --- whether two results agree


def random_arguments(
    function: Function, seed: int = 0, *, whole: tuple[int, int] = WHOLE, divisible: bool = False
) -> list[Any]:
    """Arguments for ``function``: arrays, tuples of them, shapes, numbers; the same for the same ``seed``.

    Floats are normally distributed, integers are in the range ``whole``. Size variables get small sizes that differ
    from each other and from the fixed ones (multiples of 12 if ``divisible``). If this makes millions of elements, two
    small sizes are used in turn. Raises `NoValueError` for a parameter whose type does not say enough.
    """
    random = np.random.default_rng(seed)
    size = drawn_sizes(function, seed, divisible=divisible).size
    return [random_value(param.ty, size, random, whole) for param in function.params]


def drawn_sizes(function: Function, seed: int = 0, *, divisible: bool = False) -> Evaluator:
    """The evaluator of the sizes of `random_arguments`; it draws each size when it is first needed."""
    shapes = [leaf.shape or () for leaf in leaf_tensors(*[param.ty for param in function.params])]
    fixed = {size for shape in shapes for size in shape if isinstance(size, int)}
    sizes = Evaluator({}, draw_size=DrawnSizes(fixed, seed, divisible=divisible).draw)
    if sum(prod(map(sizes.size, shape)) for shape in shapes) <= _MOST_ELEMENTS:
        return sizes
    pool = _MANY_DIVISORS if divisible else sorted(_SIZES)
    in_turn = cycle([size for size in pool if size not in fixed][:2] or pool[:2])
    return Evaluator({}, draw_size=lambda _variable: next(in_turn))


class ValueDifference(NamedTuple):
    """The largest difference of two results: ``place`` is empty, or the field of a tuple such as ``[1]``.

    ``absolute`` and ``relative`` are the largest errors; None if the values cannot be compared. ``tolerance`` is the
    relative error that was allowed (0 for integers and bools).
    """

    place: str
    text: str
    absolute: float | None = None
    relative: float | None = None
    tolerance: float | None = None

    def __str__(self) -> str:
        return f"output{self.place}: {self.text}"


def tolerance(dtype: str) -> float:
    """The relative error that rounding may cause: the dtype's epsilon to the power of 0.7, and 0 for whole numbers.

    About 1e-11 for float64, 1e-5 for float32, 8e-3 for float16 and 3e-2 for bfloat16. This allows sums of some hundred
    terms in another order, and is far below the error of a wrong formula.
    """
    if not is_float(dtype) and not dtype.startswith("complex"):
        return 0.0
    limits = cast("Any", ml_dtypes.finfo(numpy_dtype(dtype)))
    return float(limits.eps) ** 0.7


def difference(
    expected: Any,
    actual: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    approximate: float | None = None,
    place: str = "",
) -> ValueDifference | None:
    """The largest difference of ``actual`` from ``expected``, if it exceeds the tolerance; else None.

    Arrays must agree in dtype and shape; NaN agrees with NaN, infinities and whole numbers only with themselves. By
    default, ``rtol`` is the `tolerance` of the dtype, or ``approximate`` if that is larger, and ``atol`` is ``rtol``
    times the largest finite value (at least 1).
    """
    if isinstance(expected, tuple) and isinstance(actual, tuple):
        fields: tuple[Any, ...] = expected  # pyright: ignore[reportUnknownVariableType]
        others: tuple[Any, ...] = actual  # pyright: ignore[reportUnknownVariableType]
        if len(fields) != len(others):
            return ValueDifference(place, f"{len(others)} fields instead of {len(fields)}")
        pairs = enumerate(zip(fields, others, strict=True))
        found = (
            difference(x, y, rtol=rtol, atol=atol, approximate=approximate, place=f"{place}[{i}]")
            for i, (x, y) in pairs
        )
        return next((one for one in found if one is not None), None)
    if isinstance(expected, tuple) or isinstance(actual, tuple):
        return ValueDifference(place, f"{_kind(actual)} instead of {_kind(expected)}")
    want, got = np.asarray(expected), np.asarray(actual)
    if want.dtype != got.dtype:
        return ValueDifference(place, f"dtype {got.dtype} instead of {want.dtype}")
    if want.shape != got.shape:
        return ValueDifference(place, f"shape {got.shape} instead of {want.shape}")
    if rtol is None and approximate is not None:
        rtol = max(approximate, tolerance(as_dtype(want.dtype)))
    return _array_difference(want, got, rtol, atol, place)


class _ElementErrors(NamedTuple):
    """The comparison of two arrays: equal elements, the error of each, the expected magnitudes, and a scale.

    The scale is the largest finite magnitude, at least 1. Equal elements, and NaN for an expected NaN, have no error.
    """

    same: np.ndarray
    errors: np.ndarray
    magnitudes: np.ndarray
    scale: float


def _element_errors(want: np.ndarray, got: np.ndarray) -> _ElementErrors:
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        x, y = want.astype(wide), got.astype(wide)
        # Whole numbers are compared before the cast to float, which would round large ones to the same value.
        same = np.asarray(want == got) | (np.isnan(x) & np.isnan(y))
        errors, magnitudes = np.where(same, 0.0, np.abs(y - x)), np.asarray(np.abs(x))
        finite = magnitudes[np.isfinite(magnitudes)]
    return _ElementErrors(same, errors, magnitudes, max(1.0, float(finite.max(initial=0.0))))


def largest_difference(want: np.ndarray, got: np.ndarray) -> tuple[float, float]:
    """The largest difference, and its share of the largest magnitude; equal elements and matching NaN count as 0."""
    if not want.size:
        return 0.0, 0.0
    found = _element_errors(want, got)
    largest = float(np.max(found.errors))
    return largest, largest / found.scale


def _array_difference(
    want: np.ndarray, got: np.ndarray, rtol: float | None, atol: float | None, place: str
) -> ValueDifference | None:
    dtype = as_dtype(want.dtype)
    relative = tolerance(dtype) if rtol is None else rtol
    inexact = is_float(dtype) or dtype.startswith("complex")
    same, errors, magnitude, scale = _element_errors(want, got)
    absolute = relative * scale if atol is None else atol
    with np.errstate(all="ignore"):
        is_near = np.isfinite(errors) & np.isfinite(magnitude) & (errors <= absolute + relative * magnitude)
    wrong = ~same & ~(inexact & is_near)
    if not wrong.any():
        return None
    comparable = wrong & np.isfinite(errors)
    worst = np.unravel_index(int(np.argmax(np.where(comparable, errors, -1.0))), errors.shape)
    if not comparable.any():
        worst = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    largest = float(errors[worst])
    share = largest / float(magnitude[worst]) if magnitude[worst] else float("inf")
    index = f" at {tuple(int(i) for i in worst)}" if want.ndim else ""
    instead = f"{_shown(got[worst])} instead of {_shown(want[worst])}"
    return ValueDifference(
        place,
        f"{int(wrong.sum())} of {want.size} elements differ; the most{index}: {instead}, "
        f"an error of {largest:.3g} ({share:.3g} relative), where {dtype} allows {relative:.3g}",
        largest,
        share,
        relative,
    )


def _shown(element: Any) -> str:
    number = element.item()
    return f"{number:.6g}" if isinstance(number, float | complex) else str(number)


def _kind(value: Any) -> str:
    return "a tuple" if isinstance(value, tuple) else "an array" if isinstance(value, np.ndarray) else repr(value)
