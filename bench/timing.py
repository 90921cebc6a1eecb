"""How benchmarks take times: the process's own, so that a busy machine does not show; the median of several runs."""

from __future__ import annotations

import gc
from collections.abc import Callable
from statistics import median
from time import process_time
from typing import Any


def seconds(step: Callable[[], Any], runs: int, *, collect: bool = True) -> float:
    """The median time of a run of ``step``; see `seconds_on`."""
    return seconds_on(lambda _: step(), lambda: None, runs, collect=collect)


def seconds_on(step: Callable[[Any], Any], fresh: Callable[[], Any], runs: int, *, collect: bool = True) -> float:
    """The median time of a run of ``step`` on what ``fresh`` makes anew for each run, which is not timed.

    What is alive before a run is out of the cyclic collector's sight; ``collect`` says whether it runs at all.
    """
    times: list[float] = []
    for _ in range(runs):
        given = fresh()
        gc.collect()
        gc.freeze()
        if not collect:
            gc.disable()
        start = process_time()
        result = step(given)
        times.append(process_time() - start)
        gc.enable()
        del result, given
        gc.unfreeze()
    return median(times)
