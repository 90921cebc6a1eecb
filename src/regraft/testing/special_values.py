"""Operands that hold NaN, infinities, zeros of both signs or subnormal numbers, and the comparison of their results.

Only one operand of a call holds special values; the others are ordinary. With two of them, the results of a correct
rule can differ because of the order of roundings (``a * b / c`` and ``a * (b / c)``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, cast

import ml_dtypes
import numpy as np

from ..ir.dtypes import as_dtype, is_float, is_integer
from ..ir.op import Call
from ..ir.program import Function
from ..ir.types import TensorType
from ..ir.visitor import iter_bindings
from ..reference.trials import ValueDifference, difference

_DTYPES: Final = ("float16", "bfloat16", "float32", "float64")
_PLACES: Final = 0.4
"""The fraction of an operand's elements that are special."""


class Allowed(NamedTuple):
    """The allowed difference of results, as in `difference`. With ``assumes_finite``, non-finite values may change."""

    rtol: float | None
    atol: float | None
    approximate: float | None
    assumes_finite: bool

    @property
    def tolerances(self) -> dict[str, Any]:
        """The arguments of `difference`."""
        return {"rtol": self.rtol, "atol": self.atol, "approximate": self.approximate}


class Special(Enum):
    """The kinds of special values that one operand may hold."""

    NAN = "NaN"
    INFINITE = "infinities"
    ZERO = "zeros"
    SUBNORMAL = "the smallest numbers"


ALL: Final = tuple(Special)
FINITE: Final = (Special.ZERO, Special.SUBNORMAL)


def special_arguments(
    function: Function, arguments: Sequence[Any], seed: int, kinds: Sequence[Special]
) -> Iterator[tuple[Special, str, list[Any]]]:
    """For each of ``kinds``: the kind, a parameter's name, and ``arguments`` with that kind of values in it.

    Yields nothing if no argument is a float array, or if an array is empty. A program that converts floats to integers,
    or takes the index of an extreme, gets only zeros: no standard defines the result for NaN, or which of several equal
    elements is chosen.
    """
    arrays: dict[int, np.ndarray[Any, Any]] = {
        at: one for at, one in enumerate(arguments) if isinstance(one, np.ndarray)
    }
    floats = [at for at, one in arrays.items() if as_dtype(one.dtype) in _DTYPES]
    if not floats or not all(one.size for one in arrays.values()):
        return  # NaN times a sum over no elements is not compared
    random = np.random.default_rng(seed)
    rounds = _makes_whole_numbers(function)
    for kind in kinds:
        at = int(random.choice(floats))
        if not rounds or kind is Special.ZERO:
            changed = list(arguments)
            changed[at] = _changed(arguments[at], kind, random)
            yield kind, function.params[at].name_hint, changed


def _changed(array: np.ndarray[Any, Any], kind: Special, random: Any) -> Any:
    limits = cast("Any", ml_dtypes.finfo(array.dtype))
    least = float(limits.smallest_subnormal)
    numbers = {
        Special.NAN: (np.nan, np.nan),
        Special.INFINITE: (np.inf, -np.inf),
        Special.ZERO: (0.0, -0.0),
        Special.SUBNORMAL: (least, -least),
    }[kind]
    found: Any = array.copy()
    places = random.random(found.shape) < _PLACES
    places.flat[int(random.integers(found.size))] = True
    found[places] = random.choice(numbers, found.shape)[places].astype(found.dtype)
    return found


def _makes_whole_numbers(function: Function) -> bool:
    """True if some call has a float operand and an integer result."""
    for binding in iter_bindings(function):
        value, ty = binding.value, binding.var.ty
        if isinstance(value, Call) and isinstance(ty, TensorType) and ty.dtype is not None and is_integer(ty.dtype):
            operands = [arg.ty for arg in value.args if isinstance(arg.ty, TensorType)]
            if any(one.dtype is not None and is_float(one.dtype) for one in operands):
                return True
    return False


def _fields(value: Any) -> tuple[Any, ...] | None:
    return cast("tuple[Any, ...]", value) if isinstance(value, tuple) else None


def _are_floats_alike(one: Any, other: Any) -> bool:
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return False
    first, second = cast("np.ndarray[Any, Any]", one), cast("np.ndarray[Any, Any]", other)
    return first.shape == second.shape and first.dtype == second.dtype and is_float(as_dtype(first.dtype))


def special_difference(
    kind: Special,
    expected: Any,
    actual: Any,
    allowed: Allowed,
    place: str = "",
) -> ValueDifference | str | None:
    """The first difference of the results that is an error; or a text, if a difference is only worth a note.

    A finite value must stay the same, and NaN or an infinity must not become finite. NaN and infinities may stand for
    each other. If an operand holds infinities, a NaN may appear or disappear, with a note: ``inf - inf`` and
    ``inf * 0`` depend on the order of computation. If an operand holds subnormal numbers, results only have to stay
    finite, because rounding makes them too inexact to compare. With ``assumes_finite``, elements whose expected value
    is not finite are not compared. None if there is no difference.
    """
    old, new = _fields(expected), _fields(actual)
    if old is not None and new is not None and len(old) == len(new):
        pairs = zip(old, new, strict=True)
        found = [special_difference(kind, x, y, allowed, f"{place}[{i}]") for i, (x, y) in enumerate(pairs)]
        counting = [one for one in found if one is not None]
        return min(counting, key=lambda one: isinstance(one, str), default=None)
    if not _are_floats_alike(expected, actual):
        return difference(expected, actual, **allowed.tolerances, place=place)
    want: np.ndarray[Any, Any] = expected
    got: np.ndarray[Any, Any] = actual
    with np.errstate(all="ignore"):
        before, after = want.astype(np.float64), got.astype(np.float64)
    ignored = ~np.isfinite(before)
    if kind is not Special.SUBNORMAL and not allowed.assumes_finite:
        ignored &= ~np.isfinite(after)
    note: str | None = None
    if kind is Special.INFINITE:
        turned = ~ignored & (np.isnan(before) != np.isnan(after))
        ignored |= turned
        if turned.any():
            first = tuple(int(axis) for axis in np.argwhere(turned)[0])
            note = f"output{place}{f' at {first}' if first else ''}: {after[first]:.6g} instead of {before[first]:.6g}"
    if kind is Special.SUBNORMAL:
        ignored |= np.isfinite(after)
    blank: Any = np.zeros((), want.dtype)
    compared = [np.where(ignored, blank, array) for array in (want, got)]
    found = difference(*compared, **allowed.tolerances, place=place)
    return note if found is None else found
