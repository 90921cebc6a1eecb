"""The statistics of a program's values over samples: ranges for bytes, and channels that hold outliers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.module import IRModule
from ..passes.quantize import Magnitudes, SeenRange, left_sides, observed, with_magnitudes, with_ranges
from ..run import build
from .verification import flat_arrays


def magnitudes_of(module: IRModule, name: str, samples: Sequence[Sequence[Any]]) -> Magnitudes:
    """The greatest magnitude of each channel that products read, over all ``samples``, on the default engine."""
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


def calibrated(module: IRModule, name: str, samples: Sequence[Sequence[Any]]) -> dict[str, SeenRange]:
    """The ranges of the values that `Quantize` asks for, over all ``samples``.

    Runs the function on the default engine, where only the ends of each range come out. Raises what building and
    running raise.
    """
    function = module[name]
    seen = observed(function)
    entry = build(module.with_function(name, with_ranges(function, seen)))[name]
    found: dict[str, SeenRange] = {}
    for sample in samples:
        ends = [float(end) for end in flat_arrays(entry(*sample))]
        for index, value in enumerate(seen):
            own = SeenRange(ends[2 * index], ends[2 * index + 1])
            found[value.name_hint] = own.joined(found.get(value.name_hint, own))
    return found
