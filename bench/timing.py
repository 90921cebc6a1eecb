"""Times of benchmarks: the process's own, so that a busy machine does not show; median or least of several."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from time import process_time
from typing import Any, Final, TypeVar

Name = TypeVar("Name")

TRIALS: Final = 3
"""How often a pair is timed at most, where the second seems slower than it may be."""


def seconds(step: Callable[[], Any], runs: int, *, collect: bool = True) -> float:
    """The median time of a run of ``step``; see `seconds_on`."""
    return seconds_on(lambda _: step(), lambda: None, runs, collect=collect)


def seconds_on(step: Callable[[Any], Any], fresh: Callable[[], Any], runs: int, *, collect: bool = True) -> float:
    """The median time of a run of ``step`` on what ``fresh`` makes anew for each run, which is not timed.

    What is alive before a run is out of the cyclic collector's sight; ``collect`` says whether it runs at all.
    """
    return median(_once(step, fresh(), collect=collect) for _ in range(runs))


def seconds_in_turns(
    steps: Mapping[Name, tuple[Callable[[Any], Any], Callable[[], Any]]], runs: int
) -> dict[Name, float]:
    """The median time of a run of each of ``steps``; see `seconds_on`.

    They take turns, so that a machine whose speed changes is as slow for one as for the others.
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
    """The least time of a run of each of ``steps``, which take turns, so that what slows the machine down slows all.

    In each of ``rounds`` a step runs as often as fits into ``at_least`` seconds, once at least.
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
    """The least times of two steps in turns; where the second takes over ``most`` times the first, of `TRIALS` times
    the rounds, since one of two that are alike may meet a busier machine, or lie in a slower place in memory.

    ``made`` gives the steps, anew for each trial.
    """
    before, after = least_in_turns(made(), rounds)
    for _ in range(TRIALS - 1):
        if after <= before * most:
            break
        first, second = least_in_turns(made(), rounds)
        before, after = min(before, first), min(after, second)
    return before, after
