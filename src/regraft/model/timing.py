"""The times of ways to run a model: each alone on an engine, or several in turns.

Runs that take turns share whatever else the machine does, so that the ratio of their least times says more than two
measurements one after the other. How far that ratio can be trusted is measured, too.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ..ir.module import IRModule
from ..run import build
from .errors import UsageError

Clock: TypeAlias = Literal["cpu", "wall"]

CLOCKS: Final[Mapping[str, Callable[[], float]]] = {"cpu": process_time, "wall": perf_counter}
"""``cpu``: the time that processors spent on this process, in all its threads; ``wall``: the time that passed."""

_GROUPS: Final = 3
_LEAST_ROUNDS: Final = 6
_MOST_ROUNDS: Final = 60
_SHORTEST: Final = 0.01
"""Seconds that a turn takes at least: a way that is faster runs several times in a row."""


def clock_for(threads: int | None, clock: Clock | None = None) -> Clock:
    """The clock to use: the one that was asked for, else processor time for one thread and the wall's for more.

    Processor time leaves out what other programs do; but of several threads it adds up all, waiting ones too.
    """
    if clock is not None and clock not in CLOCKS:
        raise UsageError(f"there is no clock {clock!r}; there are: {', '.join(CLOCKS)}")
    return clock or ("cpu" if threads == 1 else "wall")


class Prepared(NamedTuple):
    """A model made ready on an engine: the seconds that this and the first run took, and what runs it again."""

    build: float
    first: float
    run: Callable[[], Any]


def prepared(module: IRModule, name: str, inputs: Sequence[Any], target: str, **options: Any) -> Prepared:
    """Build ``module`` for ``target`` and run ``name`` on ``inputs`` once; ``options`` are the engine's.

    Raises what building and running raise.
    """
    started = perf_counter()
    entry = build(module, target=target, **options)[name]
    built = perf_counter()
    entry(*inputs)
    return Prepared(built - started, perf_counter() - built, lambda: entry(*inputs))


@dataclass(frozen=True, slots=True)
class Turns:
    """The seconds that one way took, turn after turn."""

    seconds: tuple[float, ...]

    @property
    def least(self) -> float:
        """The least of all turns: what is above it, something else on the machine took."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The median of all turns."""
        return median(self.seconds)


class Gain(NamedTuple):
    """The speed of one way as a multiple of another's, and the uncertainty as a part of it."""

    ratio: float
    noise: float

    @property
    def is_faster(self) -> bool:
        """True if it is faster by more than the noise."""
        return self.ratio > 1 + self.noise

    def __str__(self) -> str:
        return f"{self.ratio:.2f} ± {self.ratio * self.noise:.2f} times as fast"


def gain(before: Turns, after: Turns) -> Gain:
    """The speed of ``after`` as a multiple of that of ``before``; both from one call of `time_in_turns`.

    The ratio is that of the least times. Its noise is half of the range of the same ratio over every third turn: what
    three shorter measurements would have differed by; 1 % at least.
    """
    ratio = before.least / after.least
    groups = range(min(_GROUPS, len(before.seconds)))
    parts = [min(before.seconds[start::_GROUPS]) / min(after.seconds[start::_GROUPS]) for start in groups]
    return Gain(ratio, max(0.01, (max(parts) - min(parts)) / 2 / ratio))


def time_in_turns(
    ways: Sequence[Callable[[], Any]], *, clock: Clock = "wall", budget: float = 10.0, rounds: int | None = None
) -> list[Turns]:
    """Times of each of ``ways``, which take turns, every second round in the opposite order.

    After two runs that are not timed, rounds go on for ``budget`` seconds of wall time; at least 6 are made, at most
    60; or ``rounds``, if given. The garbage collector is out of the way. Raises what a way raises.
    """
    repeats: list[int] = []
    for way in ways:
        way()
        started = perf_counter()
        way()
        repeats.append(max(1, min(1000, int(_SHORTEST / max(perf_counter() - started, 1e-6)))))
    now, taken = CLOCKS[clock], [list[float]() for _ in ways]
    order = list(range(len(ways)))
    deadline = perf_counter() + budget
    with _collector_paused():
        for number in range(rounds or _MOST_ROUNDS):
            if rounds is None and number >= _LEAST_ROUNDS and perf_counter() > deadline:
                break
            for index in order if number % 2 == 0 else reversed(order):
                started = now()
                for _ in range(repeats[index]):
                    ways[index]()
                taken[index].append((now() - started) / repeats[index])
    return [Turns(tuple(one)) for one in taken]


@contextmanager
def _collector_paused() -> Generator[None]:
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
