"""The times of benchmarks, median or least: processor times, which other work on the machine does not affect."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from time import process_time
from typing import Any, Final, TypeVar

Name = TypeVar("Name")

TRIALS: Final = 3
"""The largest number of trials for a pair whose second step seems too slow."""


def seconds(step: Callable[[], Any], runs: int, *, collect: bool = True) -> float:
    """The median time of a run of ``step``; see `seconds_on`."""
    return seconds_on(lambda _: step(), lambda: None, runs, collect=collect)


def seconds_on(step: Callable[[Any], Any], fresh: Callable[[], Any], runs: int, *, collect: bool = True) -> float:
    """The median time of a run of ``step`` on a new object from ``fresh``, whose creation is not timed.

    Objects that are alive before a run are hidden from the cyclic collector. With ``collect=False`` it does not run at
    all.
    """
    return median(_once(step, fresh(), collect=collect) for _ in range(runs))


def seconds_in_turns(
    steps: Mapping[Name, tuple[Callable[[Any], Any], Callable[[], Any]]], runs: int
) -> dict[Name, float]:
    """The median time of a run of each of ``steps``; see `seconds_on`.

    The steps take turns, so that changes in the machine's speed affect all of them alike.
    """
    times: dict[Name, list[float]] = {name: [] for name in steps}
    for _ in range(runs):
        for name, (step, fresh) in steps.items():
            times[name].append(_once(step, fresh()))
    return {name: median(found) for name, found in times.items()}


def _once(step: Callable[[Any], Any], given: Any, *, collect: bool = True) -> float:
    """The time of one run of ``step`` on ``given``."""
    gc.collect()
    gc.freeze()
    if not collect:
        gc.disable()
    start = process_time()
    result = step(given)
    taken = process_time() - start
    gc.enable()
    del result, given
    gc.unfreeze()
    return taken


def least_in_turns(steps: Sequence[Callable[[], Any]], rounds: int, *, at_least: float = 0.05) -> list[float]:
    """The least time of a run of each of ``steps``, which take turns, so that a slow phase of the machine slows all.

    In each of ``rounds``, a step runs as often as fits into ``at_least`` seconds, at least once.
    """
    repeats: list[int] = []
    for step in steps:
        step()
        once = seconds(step, 5)
        repeats.append(max(1, min(1000, int(at_least / max(once, 1e-6)))))
    least = [float("inf")] * len(repeats)
    for _ in range(rounds):
        for index, (step, count) in enumerate(zip(steps, repeats, strict=True)):
            start = process_time()
            for _ in range(count):
                step()
            least[index] = min(least[index], (process_time() - start) / count)
    return least


def least_pair(made: Callable[[], Sequence[Callable[[], Any]]], rounds: int, most: float) -> tuple[float, float]:
    """The least times of two steps in turns, over up to `TRIALS` trials.

    ``made`` makes the steps anew for each trial. Further trials follow as long as the second step takes over ``most``
    times as long as the first: one of two equal steps may meet a busier machine, or a slower place in memory.
    """
    before, after = least_in_turns(made(), rounds)
    for _ in range(TRIALS - 1):
        if after <= before * most:
            break
        first, second = least_in_turns(made(), rounds)
        before, after = min(before, first), min(after, second)
    return before, after
