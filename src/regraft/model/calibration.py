"""The statistics of a program's values over samples: ranges for bytes, and channels that hold outliers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from ..ir.expr import Expr
from ..ir.module import IRModule
from ..ir.types import TensorType
from ..passes.quantize import Magnitudes, SeenRange, left_sides, observed, with_magnitudes, with_ranges
from ..run import build
from .timing import Deadline
from .verification import flat_arrays

_FEW: Final = 4.0
"""The natural logarithm of about fifty elements. A range of fewer elements is treated as a range of that many."""


def magnitudes_of(module: IRModule, name: str, samples: Sequence[Sequence[Any]]) -> Magnitudes:
    """The largest magnitude of each channel that products read, over all ``samples``. Runs on the default engine."""
    function = module[name]
    values = left_sides(function)
    if not values:
        return {}
    entry = build(module.with_function(name, with_magnitudes(function, values)))[name]
    found: dict[str, np.ndarray] = {}
    for sample in samples:
        for value, sizes in zip(values, flat_arrays(entry(*sample)), strict=True):
            found[value.name_hint] = np.maximum(found.get(value.name_hint, sizes), sizes)
    return found


class RangesOfSamples:
    """The ranges of a module's values, computed on first use and then kept. The deadline stands still meanwhile."""

    def __init__(self, name: str, samples: Sequence[Sequence[Any]], deadline: Deadline) -> None:
        self._name, self._samples, self._deadline = name, samples, deadline
        self._found = dict[int, tuple[IRModule, dict[str, SeenRange]]]()

    def __call__(self, module: IRModule) -> dict[str, SeenRange]:
        """The ranges in ``module``, as `calibrated` gives them."""
        if id(module) not in self._found:
            with self._deadline.standing_still():
                self._found[id(module)] = module, calibrated(module, self._name, self._samples)
        return self._found[id(module)][1]

    def read_also(self, samples: Sequence[Sequence[Any]]) -> None:
        """Widen the ranges found so far to the ranges to expect from these samples and the earlier ones together."""
        for key, (module, ranges) in self._found.items():
            more = calibrated(module, self._name, [*self._samples, *samples])
            self._found[key] = module, {name: one.joined(more[name]) for name, one in ranges.items()}


def calibrated(module: IRModule, name: str, samples: Sequence[Sequence[Any]]) -> dict[str, SeenRange]:
    """The ranges to expect of the values that `Quantize` needs, extrapolated from ``samples``.

    Values outside a range are cut off, which costs more accuracy than wider steps do: see `_farthest`.

    Runs the function on the default engine, which returns only the ends of each range. Raises the errors of building
    and running.
    """
    function = module[name]
    seen = observed(function)
    if not seen:
        return {}
    entry = build(module.with_function(name, with_ranges(function, seen)))[name]
    ends = np.array([[float(end) for end in flat_arrays(entry(*sample))] for sample in samples])
    counts = np.array([_elements(value) for value in seen], float)
    least, greatest = (_farthest(sign * ends[:, place::2], counts) * sign for place, sign in ((0, -1), (1, 1)))
    return {
        value.name_hint: SeenRange(float(low), float(high))
        for value, low, high in zip(seen, least, greatest, strict=True)
    }


def _elements(value: Expr) -> int:
    """The number of elements of ``value``. An unknown size counts as 1."""
    shape = value.ty.shape if isinstance(value.ty, TensorType) else None
    return prod(size for size in shape or () if isinstance(size, int))


def _farthest(ends: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The end to expect on other samples for each column of ``ends``, which has a row for each sample.

    ``counts`` holds the number of elements behind each end.

    The end is the mean plus four standard deviations. It exceeds the greatest end by at least this fraction of that
    end: twice the inverse of the logarithm of the count, divided by the square root of the number of samples. The
    reason is that the extremes of many normal numbers vary less than those of few. On six small models, a smaller
    margin cut off more of other samples, and a larger one lost more by its wider steps. The end is the greatest one if
    that is not positive, or if it is the same in all of several samples, as for a bounded value.
    """
    greatest: np.ndarray = ends.max(axis=0)
    is_bound = (greatest <= 0) | (len(ends) > 1) & (ends == greatest).all(axis=0)
    expected: np.ndarray = ends.mean(axis=0) + (4 * ends.std(axis=0, ddof=1) if len(ends) > 1 else 0)
    beyond = 2 / np.maximum(np.log(counts), _FEW) / len(ends) ** 0.5
    return np.where(is_bound, greatest, np.maximum(expected, greatest * (1 + beyond)))
