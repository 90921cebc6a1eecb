"""The differences between two results of a model, output by output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from ..ir.dtypes import as_dtype, is_float, itemsize
from ..reference.trials import difference, largest_difference, tolerance


@dataclass(frozen=True, slots=True)
class OutputDifference:
    """The difference between one output and its value before.

    ``absolute`` is the largest difference of two elements. ``relative`` is ``absolute`` divided by the output's largest
    magnitude, or by 1 if that is less. ``tolerance`` is the limit for ``relative``. ``problem`` says what is wrong,
    None if nothing is. ``shapes`` holds all shapes of the output on several samples, including ``shape``.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    absolute: float
    relative: float
    tolerance: float
    problem: str | None
    shapes: tuple[tuple[int, ...], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "output": self.name,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "absolute": plain_number(self.absolute),
            "relative": plain_number(self.relative),
            "tolerance": self.tolerance,
            "problem": self.problem,
        }


def plain_number(number: float | None) -> float | None:
    """A number for JSON; None for NaN and infinity, which JSON does not have."""
    return number if number is not None and isfinite(number) else None


def compare_outputs(
    names: Sequence[str],
    before: Sequence[np.ndarray],
    after: Sequence[np.ndarray],
    allowed: float | Sequence[float] | None = None,
    made_in: str | None = None,
) -> tuple[OutputDifference, ...]:
    """The difference between each output of ``before`` and the same output of ``after``.

    ``allowed`` replaces the dtype's tolerance, with one number for all outputs or one for each. For ``made_in`` see
    `held_to`.
    """
    assert len(before) == len(after), "the same model, before and after"
    each = allowed if isinstance(allowed, Sequence) else [allowed] * len(before)
    return tuple(_compared(*row, made_in) for row in zip(names, before, after, each, strict=True))


def held_to(dtype: str, made_in: str | None) -> str:
    """The dtype whose tolerance applies to ``dtype``. For floats it is the narrower of ``dtype`` and ``made_in``, the
    dtype of the numbers that they are computed from, if that is given.
    """
    if made_in is None or not is_float(dtype):
        return dtype
    return min(dtype, made_in, key=itemsize)


def _compared(
    name: str, before: np.ndarray, after: np.ndarray, allowed: float | None, made_in: str | None
) -> OutputDifference:
    dtype = as_dtype(before.dtype)
    own = tolerance(held_to(dtype, made_in))
    limit = own if allowed is None else allowed if own else 0.0
    found = difference(before, after, rtol=limit)
    absolute = relative = float("inf")
    if before.shape == after.shape and before.dtype == after.dtype:
        absolute, relative = largest_difference(before, after)
    return OutputDifference(name, dtype, before.shape, absolute, relative, limit, None if found is None else found.text)


def problems_of(differences: Iterable[OutputDifference]) -> str:
    """The problem of each output that differs by too much, one after another."""
    return "; ".join(f"output {one.name}: {one.problem}" for one in differences if one.problem is not None)
