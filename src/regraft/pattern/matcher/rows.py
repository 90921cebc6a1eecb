"""Matching values in a row: the operands of a call, the fields of a tuple, and the runs of them that repeats take.

Longer runs come first, leftmost first. Of the ways to share a row out only those are tried in which each value may
stand where it comes, by the operators of the patterns, and, where three or more runs leave much open, by trying each
value with each repeat once: rows that cannot be shared out are found to be so in time linear in their length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import Any, Final, TypeAlias

from ...analysis.values import definition, resolve
from ...ir.expr import Expr
from .. import reasons
from ..parts import is_decided_last, root_ops
from ..pattern import DFPattern, Extent, PrimArrPattern, RepeatPattern, all_patterns
from .conditions import leaf_check
from .machine import FAILED, Closing, Goal, Goals, MatchState, Rejection, Step

_MOST_TO_EXPLAIN: Final = 1000
"""The most ways, about, to share out a row that are tried only to say why they do not match."""

Limits: TypeAlias = Sequence["list[int] | list[bool] | None"]
"""For each part, and each value: how many in a row a repeat can take from there, or whether a single part may be it."""


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
        fresh = [
            one._replace(own={**one.own, **own}) if isinstance(one, Rejection) else one for one in search.awaiting[old:]
        ]
        search.change("awaiting", search.awaiting[:old])
        for one in fresh:
            if isinstance(one, Closing) or any(p not in search.bound and p not in own for p in one.awaited):
                search.change("awaiting", (*search.awaiting, one))
            elif search.refuses(one):
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
    """The parts of ``owner`` that stand in a row, from its child ``first`` on.

    ``runs`` are those of the repeats among them. With ``allow_rest`` values may be left over at the end.
    """

    def __init__(
        self,
        owner: DFPattern,
        parts: Sequence[DFPattern],
        steps: Sequence[Step],
        first: int,
        *,
        allow_rest: bool,
    ) -> None:
        self.owner = owner
        self.parts = parts
        self.repeats = [(number, part) for number, part in enumerate(parts) if isinstance(part, RepeatPattern)]
        self.is_open = bool(self.repeats)
        self._steps = steps
        self._backwards = list(enumerate(steps))[::-1]
        self._first = first
        self._allow_rest = allow_rest
        self._split = Step(owner, self._share_out, self._why, apart=frozenset({owner}))
        self._units = _units(parts)
        self._ops = [root_ops(part) if self.is_open else None for part in parts]
        many = len(self.repeats) + allow_rest > 2
        # Whether an element is refused may be decided by a neighbour, so it cannot be tried alone.
        self._tried = [many and not any(map(is_decided_last, all_patterns(part))) for part in parts]

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
            goals, at = goal[2], sum(lengths)
            for (first, singles), length in zip(self._units[::-1], lengths[::-1], strict=True):
                at -= length
                if not singles:
                    goals = (self._steps[first], values[at : at + length], goals, goal, first + self._first)
                for offset in range(singles - 1, -1, -1):
                    number = first + offset
                    goals = (self._steps[number], values[at + offset], goals, goal, number + self._first)
            yield goals

    def _why(self, search: MatchState, goal: Goal) -> reasons.Reason:
        known = [search.extents.get(repeat.extent) for _, repeat in self.repeats if repeat.extent is not None]
        return reasons.wrong_run(self.owner, search.bound[self.owner][0], len(goal[1]), self.parts, known)

    def _splits(self, search: MatchState, values: Sequence[Expr]) -> Iterator[tuple[list[int], Mapping[Extent, int]]]:
        """The number of ``values`` that each unit takes, and the extents that follow."""
        count, unlimited = len(values), [None] * len(self.parts)
        if len(self.repeats) == 1 and not self._allow_rest:
            return self._shared_out(count, unlimited, search.extents)
        few = count ** (len(self.repeats) + self._allow_rest - 1) <= _MOST_TO_EXPLAIN
        if search.tracer is None or not few:
            limited = self._limits(search, values)
            if search.tracer is None or next(self._shared_out(count, limited, search.extents), None) is not None:
                return self._shared_out(count, limited, search.extents)
        # What cannot match is tried, too, to say why; not for ever, though.
        return islice(self._shared_out(count, unlimited, search.extents), None if few else _MOST_TO_EXPLAIN)

    def _shared_out(
        self, count: int, limits: Limits, extents: Mapping[Extent, int]
    ) -> Iterator[tuple[list[int], Mapping[Extent, int]]]:
        for total in range(count, -1, -1) if self._allow_rest else (count,):
            yield from _shares(self.parts, self._units, total, limits, extents)

    def _limits(self, search: MatchState, values: Sequence[Expr]) -> Limits:
        leaves = [resolve(search.definitions, value) for value in values]
        callees = [getattr(definition(search.definitions, leaf), "op", None) for leaf in leaves]
        mark = len(search.trail)
        search.change("tracer", None)
        found: list[list[int] | list[bool] | None] = []
        for part, step, ops, is_tried in zip(self.parts, self._steps, self._ops, self._tried, strict=True):
            takes: list[bool] | None = None
            if not part.children() and not isinstance(part, PrimArrPattern):
                accepts = leaf_check(part)
                takes = [accepts(search.definitions, leaf) for leaf in leaves]
            elif ops is not None:
                takes = [callee in ops for callee in callees]
            if isinstance(part, RepeatPattern):
                if is_tried:
                    known = takes or [True] * len(values)
                    takes = [ok and _fits_alone(search, step, value) for ok, value in zip(known, values, strict=True)]
                found.append(takes and _run_lengths(takes))
            else:
                found.append(takes)
        search.undo(mark)
        return found


def _fits_alone(search: MatchState, run: Step, value: Expr) -> bool:
    return search.trial((run, [value], None, None, 0)) is not None


def _run_lengths(takes: Sequence[bool]) -> list[int]:
    """For each place, and the end, how many True values in a row begin there."""
    ahead = [0] * (len(takes) + 1)
    for at in range(len(takes) - 1, -1, -1):
        ahead[at] = ahead[at + 1] + 1 if takes[at] else 0
    return ahead


def _longest(repeat: RepeatPattern, reach: Sequence[int] | None, at: int, total: int) -> int:
    longest = total - at if reach is None else min(total - at, reach[at])
    return longest if repeat.max is None else min(longest, repeat.max)


Units: TypeAlias = Sequence[tuple[int, int]]
"""The parts of a row as units: the first part, and how many single parts in a row it begins; 0 for a repeat."""


def _units(parts: Sequence[DFPattern]) -> list[tuple[int, int]]:
    units: list[tuple[int, int]] = []
    for number, part in enumerate(parts):
        if isinstance(part, RepeatPattern):
            units.append((number, 0))
        elif units and units[-1][1]:
            units[-1] = (units[-1][0], units[-1][1] + 1)
        else:
            units.append((number, 1))
    return units


def _completable(parts: Sequence[DFPattern], units: Units, limits: Limits, total: int) -> list[list[bool]]:
    """For each unit, and the end, and each place: whether all units from there on can take what is left.

    Extents aside. Cost: units * total, and the single parts of which something is known.
    """
    fits = [[at == total for at in range(total + 1)]]
    for first, singles in reversed(units):
        after, own, part = fits[-1], [False] * (total + 1), parts[first]
        if isinstance(part, RepeatPattern):
            sums = list(accumulate(after, initial=0))
            for at in range(total + 1):
                least, most = at + part.min, at + _longest(part, limits[first], at, total)
                own[at] = least <= most and sums[most + 1] > sums[least]
        else:
            known = [(offset, limit) for offset in range(singles) if (limit := limits[first + offset]) is not None]
            for at in range(total + 1 - singles):
                own[at] = after[at + singles] and all(limit[at + offset] for offset, limit in known)
        fits.append(own)
    return fits[::-1]


def _shares(
    parts: Sequence[DFPattern], units: Units, total: int, limits: Limits, known: Mapping[Extent, int]
) -> Iterator[tuple[list[int], Mapping[Extent, int]]]:
    """The ways to share ``total`` values out between ``units``; nothing is begun that cannot be completed."""
    fits = _completable(parts, units, limits, total)

    def options(unit: int, at: int, extents: Mapping[Extent, int]) -> Iterator[tuple[int, int, Mapping[Extent, int]]]:
        first, singles = units[unit]
        part = parts[first]
        if not isinstance(part, RepeatPattern):
            yield singles, at + singles, extents
            return
        wanted = None if part.extent is None else extents.get(part.extent)
        for length in range(_longest(part, limits[first], at, total), part.min - 1, -1):
            if fits[unit + 1][at + length] and wanted in (None, length):
                yield length, at + length, extents if part.extent is None else {**extents, part.extent: length}

    lengths: list[int] = []
    ways = [options(0, 0, known)] if fits[0][0] else []
    while ways:
        del lengths[len(ways) - 1 :]
        length, at, extents = next(ways[-1], (-1, 0, known))
        if length < 0:
            ways.pop()
            continue
        lengths.append(length)
        if len(lengths) == len(units):
            yield lengths, extents
        else:
            ways.append(options(len(lengths), at, extents))
