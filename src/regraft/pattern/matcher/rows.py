"""Matching values in a row: the operands of a call, the fields of a tuple, and the runs of them that repeats take.

Longer runs come first, leftmost first. Of the ways to share a row out only those are tried in which each value may
stand where it comes, by the operators of the patterns, and, where three or more runs leave much open, by trying each
value with each repeat once: rows that cannot be shared out are found to be so in time linear in their length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, islice, pairwise
from typing import Any, Final, TypeAlias

from ...analysis.values import definition, resolve
from ...ir.expr import Expr
from .. import reasons
from ..parts import is_decided_last, root_ops
from ..pattern import DFPattern, Extent, PrimArrPattern, RepeatPattern, all_patterns
from .conditions import leaf_check
from .machine import FAILED, Goal, Goals, MatchState, Step

_MOST_TO_EXPLAIN: Final = 1000
"""The most ways, about, to share out a row that are tried only to say why they do not match."""


class Run:
    """The step of a repeat, which takes a list of values: one goal for each of them.

    What the patterns ``own`` stand for is gathered in lists, None where an element took another alternative.
    """

    def __init__(self, repeat: RepeatPattern, inner: Step, own: Sequence[DFPattern]) -> None:
        self.repeat = repeat
        self.inner = inner
        self.own = own
        self.step = Step(repeat, self._begin)
        self._element = Step(repeat, self._next)

    def _begin(self, search: MatchState, goal: Goal) -> Goals:
        search.longest = max(search.longest, len(goal[1]))
        return (self._element, (goal[1], 0, None, search.awaiting), *goal[2:])

    def _next(self, search: MatchState, goal: Goal) -> Goals:
        values, index, rows, awaiting = goal[1]
        if index:
            row = search.forget(self.own)
            rows = (row, rows)
            if search.awaiting is not awaiting and not self.keep_awaiting(search, len(awaiting), row):
                return FAILED
        if index == len(values):
            found: list[Any] = []
            while rows is not None:
                row, rows = rows
                found.append(row)
            leaves = [resolve(search.definitions, value) for value in values]
            gather(search, self.repeat, self.own, leaves, found[::-1])
            return goal[2]
        following = (self._element, (values, index + 1, rows, search.awaiting), *goal[2:])
        return (self.inner, values[index], following, goal, index)

    def keep_awaiting(self, search: MatchState, old: int, row: Sequence[Any]) -> bool:
        """Decide what this element rejects, or keep for later what it binds; whether it may still match."""
        own = dict(zip(self.own, row, strict=True))
        fresh = search.awaiting[old:]
        search.change("awaiting", search.awaiting[:old])
        for late in fresh:
            if late.own is not None:
                late = late._replace(own={**late.own, **own})
            if late.awaited is None or any(p not in search.bound and p not in own for p in late.awaited):
                search.change("awaiting", (*search.awaiting, late))
            elif not search.holds(late):
                return False
        return True


def gather(
    search: MatchState, repeat: RepeatPattern, own: Sequence[DFPattern], leaves: list[Expr], rows: Sequence[Any]
) -> None:
    """Bind a repeat to ``leaves``, and its elements' own patterns to what they stand for in each."""
    columns = [
        [None if row[index] is None else row[index][side] for row in rows]
        for index in range(len(own))
        for side in (0, 1)
    ]
    bind_run(search, repeat, own, leaves, columns)


def bind_run(
    search: MatchState,
    repeat: RepeatPattern,
    own: Sequence[DFPattern],
    leaves: list[Expr],
    columns: Sequence[list[Any]],
) -> None:
    """`gather` from columns: two for each pattern, its leaves and what is shown, None in an element that has none."""
    for index, pattern in enumerate(own):
        found, shown = columns[2 * index : 2 * index + 2]
        if not found or found.count(None) < len(found):
            search.bind(pattern, found, shown)
    search.bind(repeat, leaves, leaves)


class ChildRow:
    """The parts of ``owner`` that stand in a row, from its child ``first`` on, with their steps.

    With ``allow_rest`` values may be left over at the end.
    """

    def __init__(
        self, owner: DFPattern, parts: Sequence[DFPattern], steps: Sequence[Step], first: int, *, allow_rest: bool
    ) -> None:
        self.owner = owner
        self.parts = parts
        self.repeats = [part for part in parts if isinstance(part, RepeatPattern)]
        self.is_open = bool(self.repeats)
        self._backwards = list(enumerate(steps))[::-1]
        self._first = first
        self._allow_rest = allow_rest
        self._split = Step(owner, self._share_out, self._why, apart=frozenset({owner}))
        if self.is_open:
            many = len(self.repeats) + allow_rest > 2
            self._stretches = _stretches(parts)
            self._accepts = [_acceptance(part, step, by_trial=many) for part, step in zip(parts, steps, strict=True)]

    def goals(self, values: Sequence[Expr], rest: Goals, place: Goal) -> Goals:
        """The goals of matching ``values``, in front of ``rest``; ``place`` is a goal of the owner."""
        if self.is_open:
            return (self._split, values, rest, place[3], place[4])
        for index, step in self._backwards:
            rest = (step, values[index], rest, place, index + self._first)
        return rest

    def _share_out(self, search: MatchState, goal: Goal) -> Goals:
        return search.choose(self._ways(search, goal))

    def _ways(self, search: MatchState, goal: Goal) -> Iterator[Goals]:
        values: Sequence[Expr] = goal[1]
        for lengths, extents in self._splits(search, values):
            if extents is not search.extents:
                search.change("extents", extents)
            goals, at, left = goal[2], sum(lengths) + len(self.parts) - len(lengths), list(lengths)
            for number, step in self._backwards:
                is_run = isinstance(self.parts[number], RepeatPattern)
                length = left.pop() if is_run else 1
                at -= length
                goals = (step, values[at : at + length] if is_run else values[at], goals, goal, number + self._first)
            yield goals

    def _why(self, search: MatchState, goal: Goal) -> reasons.Reason:
        known = [search.extents.get(repeat.extent) for repeat in self.repeats if repeat.extent is not None]
        return reasons.wrong_run(self.owner, search.bound[self.owner][0], len(goal[1]), self.parts, known)

    def _splits(self, search: MatchState, values: Sequence[Expr]) -> Iterator[_Split]:
        """The numbers of ``values`` that the repeats take, and the extents that follow."""
        count, unlimited = len(values), [None] * len(self.parts)
        if len(self.repeats) == 1 and not self._allow_rest:
            return self._shares(count, unlimited, search.extents)
        few = count ** (len(self.repeats) + self._allow_rest - 1) <= _MOST_TO_EXPLAIN
        if search.tracer is None or not few:
            limits = self._limits(search, values)
            if search.tracer is None or next(self._shares(count, limits, search.extents), None) is not None:
                return self._shares(count, limits, search.extents)
        # What cannot match is tried, too, to say why; not for ever, though.
        return islice(self._shares(count, unlimited, search.extents), None if few else _MOST_TO_EXPLAIN)

    def _limits(self, search: MatchState, values: Sequence[Expr]) -> Limits:
        mark = len(search.trail)
        search.change("tracer", None)
        limits = [
            None if accepts is None else [accepts(search, value) for value in values] for accepts in self._accepts
        ]
        search.undo(mark)
        return limits

    def _shares(self, count: int, limits: Limits, extents: Mapping[Extent, int]) -> Iterator[_Split]:
        for total in range(count, -1, -1) if self._allow_rest else (count,):
            yield from _shares(self.parts, self._stretches, total, limits, extents)


def _acceptance(part: DFPattern, step: Step, *, by_trial: bool) -> Callable[[MatchState, Expr], bool] | None:
    """The check whether a value may match ``part``, or be in its run, by itself; None if nothing is known.

    ``by_trial`` tries each value with a repeat, but for those whose elements a neighbour may decide on.
    """
    ops = root_ops(part)
    if not part.children() and not isinstance(part, PrimArrPattern):
        accepts = leaf_check(part)
        return lambda search, value: accepts(search.definitions, resolve(search.definitions, value))
    fits_alone = by_trial and isinstance(part, RepeatPattern) and not any(map(is_decided_last, all_patterns(part)))
    if ops is None and not fits_alone:
        return None

    def may_match(search: MatchState, value: Expr) -> bool:
        call = definition(search.definitions, resolve(search.definitions, value))
        if ops is not None and getattr(call, "op", None) not in ops:
            return False
        return not fits_alone or search.trial((step, [value], None, None, 0)) is not None

    return may_match


# --- sharing out

Limits: TypeAlias = Sequence["list[bool] | None"]
"""For each part, and each value: whether it may match that part, or be in its run, by itself."""

_Split: TypeAlias = tuple[Sequence[int], Mapping[Extent, int]]

_Stretches: TypeAlias = Sequence[tuple[int, int]]
"""The number of each repeat among the parts, and how many single parts follow it; -1 stands for the row's begin."""


def _stretches(parts: Sequence[DFPattern]) -> _Stretches:
    starts = [-1, *(number for number, part in enumerate(parts) if isinstance(part, RepeatPattern)), len(parts)]
    return [(number, following - number - 1) for number, following in pairwise(starts)]


def _reach(repeat: RepeatPattern, limit: Sequence[bool] | None, total: int) -> list[int]:
    """For each place of a row, and its end, how many values in a row ``repeat`` can take from there."""
    most = total if repeat.max is None else repeat.max
    ahead = [0] * (total + 1)
    for at in range(total - 1, -1, -1):
        ahead[at] = ahead[at + 1] + 1 if limit is None or limit[at] else 0
    return [min(length, most) for length in ahead]


def _shares(
    parts: Sequence[DFPattern], stretches: _Stretches, total: int, limits: Limits, known: Mapping[Extent, int]
) -> Iterator[_Split]:
    """The ways to share ``total`` values out; nothing is begun that cannot be completed, extents aside.

    Cost before the first: repeats * total, and the single parts of which something is known.
    """
    runs: list[tuple[RepeatPattern, list[int], list[bool], int]] = []
    begins = [place == total for place in range(total + 1)]
    ends: list[bool] = []
    for number, singles in reversed(stretches):
        of_singles = [
            (offset, limit) for offset in range(singles) if (limit := limits[number + 1 + offset]) is not None
        ]
        ends = [False] * (total + 1)
        for at in range(total + 1 - singles):
            ends[at] = begins[at + singles] and all(limit[at + offset] for offset, limit in of_singles)
        repeat = parts[number]
        if number >= 0 and isinstance(repeat, RepeatPattern):
            reach = _reach(repeat, limits[number], total)
            sums = list(accumulate(ends, initial=0))
            least = repeat.min
            begins = [most >= least and sums[at + most + 1] > sums[at + least] for at, most in enumerate(reach)]
            runs.append((repeat, reach, ends, singles))
    runs.reverse()

    def options(run: int, at: int, extents: Mapping[Extent, int]) -> Iterator[tuple[int, int, Mapping[Extent, int]]]:
        repeat, reach, ends, singles = runs[run]
        wanted = None if repeat.extent is None else extents.get(repeat.extent)
        for length in range(reach[at], repeat.min - 1, -1):
            if ends[at + length] and wanted in (None, length):
                after = extents if repeat.extent is None else {**extents, repeat.extent: length}
                yield length, at + length + singles, after

    lengths: list[int] = []
    ways = [options(0, stretches[0][1], known)] if ends[0] else []
    while ways:
        del lengths[len(ways) - 1 :]
        length, at, extents = next(ways[-1], (-1, 0, known))
        if length < 0:
            ways.pop()
            continue
        lengths.append(length)
        if len(lengths) == len(runs):
            yield lengths, extents
        else:
            ways.append(options(len(lengths), at, extents))
