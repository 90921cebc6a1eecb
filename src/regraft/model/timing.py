"""How long a model takes on an engine."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from ..ir.module import IRModule
from ..run import build


class EngineTime(NamedTuple):
    """Times of one engine, in seconds: to make the module ready, for the first run, and for a run after that."""

    target: str
    build: float
    first: float
    median: float
    fastest: float
    runs: int


def time_engine(
    module: IRModule, name: str, inputs: Sequence[Any], target: str, *, repeat: int = 10, **options: Any
) -> EngineTime:
    """Build ``module`` for ``target`` and time ``repeat`` runs of ``name`` on ``inputs``, one after another.

    ``options`` are the engine's. Raises what building and running raise.
    """
    started = perf_counter()
    entry = build(module, target=target, **options)[name]
    built = perf_counter()
    entry(*inputs)
    first = perf_counter() - built
    times = time_runs(lambda: entry(*inputs), repeat)
    return EngineTime(target, built - started, first, median(times), min(times), len(times))


def time_runs(run: Callable[[], Any], repeat: int) -> list[float]:
    """The times of ``repeat`` runs in seconds, with the garbage collector out of the way."""
    times: list[float] = []
    enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(repeat):
            started = perf_counter()
            run()
            times.append(perf_counter() - started)
    finally:
        if enabled:
            gc.enable()
    return times
