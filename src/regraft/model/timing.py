"""The times of ways to run a model: each alone on an engine, or several in turns.

Runs that take turns share the machine's other load, so the ratio of their least times says more than two measurements
one after the other. The reliability of that ratio is measured, too.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import monotonic, perf_counter, process_time
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ..ir.collection import collection_paused
from ..run.originals import RunOriginal
from .errors import UsageError

Clock: TypeAlias = Literal["cpu", "wall"]

CLOCKS: Final[Mapping[str, Callable[[], float]]] = {"cpu": process_time, "wall": perf_counter}
"""``cpu`` is the time that processors spent on all threads of this process; ``wall`` is the time that passed."""

_GROUPS: Final = 3
_MOST_ROUNDS: Final = 60
_SHORTEST: Final = 0.01
"""The least seconds of a turn: a faster way runs several times in a row."""
_LONG: Final = 2.0
"""The seconds of a run from which it is not repeated beyond the budget."""
_UNKNOWN_NOISE: Final = 0.1
"""The least noise if there was no time for three turns, so that the noise could not be measured."""
_ENOUGH: Final = 5
"""The number of turns that show that a way is faster, even if other programs ran beside some of them."""
_TO_CONFIRM: Final = 5.0
"""The largest number of seconds for such turns beyond the budget."""


class Deadline:
    """The end of a budget of seconds of wall time that begins now. Load on the machine does not move it."""

    __slots__ = ("_end", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds: Final = seconds
        self._end = monotonic() + seconds

    @property
    def left(self) -> float:
        """The seconds that are left; 0 once it is over."""
        return max(0.0, self._end - monotonic())

    @property
    def is_over(self) -> bool:
        """True if nothing is left."""
        return self.left == 0.0

    @property
    def left_of_first_half(self) -> float:
        """The seconds until half of the budget is over; negative after that."""
        return self.left - self._seconds / 2

    @contextmanager
    def standing_still(self) -> Generator[None]:
        """Stop the clock: time inside the ``with`` block does not count."""
        started = monotonic()
        try:
            yield
        finally:
            self._end += monotonic() - started


def clock_for(threads: int | None, clock: Clock | None = None) -> Clock:
    """The clock to use: the requested one, else processor time for one thread and wall time for more.

    Processor time leaves out the work of other programs, but adds up the time of all threads, including waiting ones.
    """
    if clock is not None and clock not in CLOCKS:
        raise UsageError(f"there is no clock {clock!r}; there are: {', '.join(CLOCKS)}")
    return clock or ("cpu" if threads == 1 else "wall")


class Prepared(NamedTuple):
    """A model made ready on an engine: the seconds for that and for the first run, and a function to run it again."""

    build: float
    first: float
    run: Callable[[], Any]


def prepared(make: Callable[[], RunOriginal], inputs: Sequence[Any]) -> Prepared:
    """A model made ready by ``make`` and run on ``inputs`` once. Raises the errors of building and running."""
    started = perf_counter()
    run = make()
    built = perf_counter()
    run(inputs)
    return Prepared(built - started, perf_counter() - built, lambda: run(inputs))


@dataclass(frozen=True, slots=True)
class Turns:
    """The seconds of one way, turn after turn."""

    seconds: tuple[float, ...]

    @property
    def least(self) -> float:
        """The least time of all turns; anything above it is time that something else on the machine took."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The median of all turns."""
        return median(self.seconds)


class Gain(NamedTuple):
    """The speed of one way as a multiple of another's, and the uncertainty as a fraction of it."""

    ratio: float
    noise: float

    @property
    def is_faster(self) -> bool:
        """True if it is faster by more than the noise."""
        return self.ratio * (1 - self.noise) > 1

    def __str__(self) -> str:
        return f"{self.ratio:.2f} ± {self.ratio * self.noise:.2f} times as fast"


def gain(before: Turns, after: Turns) -> Gain:
    """The speed of ``after`` as a multiple of that of ``before``; both from one call of `time_in_turns`.

    The ratio is that of the least times. Its noise is the larger of two: half of the range of the same ratio over every
    third turn, by which three shorter measurements would have differed; and the distance from the ratio to the ends of
    the middle half of the single turns' ratios. It is at least 1 %, and at least 10 % with fewer than three turns.
    """
    ratio = before.least / after.least
    least = 0.01 if len(before.seconds) >= _GROUPS else _UNKNOWN_NOISE
    groups = range(min(_GROUPS, len(before.seconds)))
    parts = [min(before.seconds[start::_GROUPS]) / min(after.seconds[start::_GROUPS]) for start in groups]
    each = sorted(then / now for then, now in zip(before.seconds, after.seconds, strict=True))
    low, high = each[len(each) // 4], each[-1 - len(each) // 4]
    reach = max((max(parts) - min(parts)) / 2, high - ratio, ratio - low)
    return Gain(ratio, max(least, reach / ratio))


def time_in_turns(
    ways: Sequence[Callable[[], Any]],
    *,
    clock: Clock = "wall",
    budget: float = 10.0,
    rounds: int | None = None,
    to_beat: float | None = None,
) -> list[Turns]:
    """Times of each of ``ways``, which take turns, every second round in the opposite order.

    Rounds go on for ``budget`` seconds of wall time, and no round begins that would end later; there are at most 60, or
    ``rounds`` if given. Before them each way runs once or twice; a run takes longer if its memory was not used for a
    while. There is at least one round, and at least three of short ways, which take some hundredths of a second. Only
    if one run takes more than two seconds, and there is no time for a round, the first runs are the result. All of it
    takes at most ``budget`` and two runs of each way.

    A single turn may have met other work on the machine. So if the second way comes out more than ``to_beat`` times as
    fast as the first in fewer than five turns, further turns follow up to five, for five more seconds at most.

    The garbage collector is paused. Raises the errors of the ways.
    """
    deadline, now = Deadline(budget), CLOCKS[clock]
    confirmed = Deadline(budget + _TO_CONFIRM)
    first = [_first_run(way, now) for way in ways]
    repeats = [one.repeats for one in first]
    taken = [list[float]() for _ in ways]
    order = list(range(len(ways)))
    of_a_round = sum(one.repeats * one.wall for one in first)
    longest = max(one.wall for one in first)
    least = _GROUPS if longest <= _SHORTEST else int(longest <= _LONG)

    def is_to_be_confirmed() -> bool:
        if to_beat is None or len(taken[0]) >= _ENOUGH or confirmed.left < of_a_round:
            return False
        before, after = _turns(taken, first)
        return before.least / after.least > to_beat

    gc.collect()
    with collection_paused():
        for number in range(rounds or _MOST_ROUNDS):
            if rounds is None and number >= least and deadline.left < of_a_round and not is_to_be_confirmed():
                break
            for index in order if number % 2 == 0 else reversed(order):
                started = now()
                for _ in range(repeats[index]):
                    ways[index]()
                taken[index].append((now() - started) / repeats[index])
    return _turns(taken, first)


class _First(NamedTuple):
    """A run before all rounds: its seconds by the clock and by the wall clock, and the number of repeats in a round."""

    seconds: float
    wall: float
    repeats: int


def _turns(taken: Sequence[Sequence[float]], first: Sequence[_First]) -> list[Turns]:
    return [Turns(tuple(one) or (run.seconds,)) for one, run in zip(taken, first, strict=True)]


def _first_run(way: Callable[[], Any], now: Callable[[], float]) -> _First:
    """The first run; for a short way the second, since the first one loads memory pages."""
    found = _First(0.0, 0.0, 1)
    for _ in range(2):
        started, wall = now(), perf_counter()
        way()
        taken = max(perf_counter() - wall, 1e-6)
        found = _First(max(now() - started, 1e-9), taken, max(1, min(1000, int(_SHORTEST / taken))))
        if taken > _SHORTEST:
            break
    return found
