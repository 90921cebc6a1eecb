"""Matching values in a row: the operands of a call, the fields of a tuple, and the runs of them that repeats take.

Longer runs come first, leftmost first. Of the ways to share a row out only those are tried in which each value may
stand where it comes, by the operators of the patterns, and, where three or more runs leave much open, by trying each
value with each repeat once: rows that cannot be shared out are found to be so in time linear in their length.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from ...analysis.values import definition, resolve
from ...ir.expr import Expr
from .. import reasons
from ..parts import Ops, is_decided_last, root_ops
from ..pattern import DFPattern, Extent, RepeatPattern, all_patterns
from ..words import Reason
from .machine import FAILED, Bindings, Goal, Goals, MatchState, Step

_MOST_TO_EXPLAIN: Final = 1000
"""The most ways, about, to share out a row that are tried only to say why they do not match."""

Element: TypeAlias = "tuple[Expr, Bindings]"
"""An element of a run: its leaf, and the values of its own patterns."""


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
        return (self._element, (goal[1], 0, None, len(search.awaiting)), *goal[2:])

    def _next(self, search: MatchState, goal: Goal) -> Goals:
        values, index, rows, awaiting = goal[1]
        if index:
            known = search.end_element(self.own, awaiting)
            if known is None:
                return FAILED
            rows = ((resolve(search.definitions, values[index - 1]), known), rows)
        if index == len(values):
            gather(search, self.repeat, self.own, unlinked(rows)[::-1])
            return goal[2]
        following = (self._element, (values, index + 1, rows, len(search.awaiting)), *goal[2:])
        return (self.inner, values[index], following, goal, index)


def unlinked(rows: Any) -> list[Any]:
    """The contents of nested pairs, outermost first."""
    found: list[Any] = []
    while rows is not None:
        row, rows = rows
        found.append(row)
    return found


def gather(search: MatchState, repeat: RepeatPattern, own: Sequence[DFPattern], rows: Sequence[Element]) -> None:
    """Bind a repeat to the leaves of its elements, and their ``own`` patterns to what they stand for in each."""
    for pattern in own:
        given = [known[pattern] for _, known in rows]
        if any(given) or not rows:
            values = [value or (None, None) for value in given]
            search.bind(pattern, [leaf for leaf, _ in values], [shown for _, shown in values])
    leaves = [leaf for leaf, _ in rows]
    search.bind(repeat, leaves, leaves)


class AnyOrder:
    """The parts of ``owner`` that stand in any order: each takes a value of those that are left."""

    def __init__(self, owner: DFPattern, steps: Sequence[Step]) -> None:
        self.least = self.most = len(steps)
        self._steps = steps
        self._pick = Step(owner, self._picked)

    def goals(self, values: Sequence[Expr], rest: Goals, place: Goal) -> Goals:
        """The goals of matching ``values``, in front of ``rest``; ``place`` is a goal of the owner."""
        return (self._pick, values, rest, place, 0)

    def _picked(self, search: MatchState, goal: Goal) -> Goals:
        left: tuple[Expr, ...] = goal[1]
        if not left:
            return goal[2]
        number = len(self._steps) - len(left)
        return search.choose(
            (self._steps[number], value, (self._pick, left[:at] + left[at + 1 :], *goal[2:]), goal[3], number)
            for at, value in enumerate(left)
        )


class Row:
    """The parts of ``owner`` that stand in a row, from its child ``first`` on, with their steps.

    It takes ``least`` to ``most`` values, as far as their number says; with ``allow_rest`` some may be left at the end.
    """

    def __init__(self, owner: DFPattern, steps: Sequence[Step], first: int = 0, *, allow_rest: bool = False) -> None:
        self.owner = owner
        self.parts = owner.children()[first:]
        self.repeats = [part for part in self.parts if isinstance(part, RepeatPattern)]
        self.is_open = bool(self.repeats)
        self.least = 0 if self.is_open else len(steps)
        self.most = float("inf") if self.is_open or allow_rest else len(steps)
        self._backwards = list(enumerate(steps))[::-1]
        self._first = first
        self._allow_rest = allow_rest
        self._split = Step(owner, self._share_out, self._why, apart=frozenset({owner}))
        if self.is_open:
            many = len(self.repeats) + allow_rest > 2
            pairs = zip(self.parts, steps, strict=True)
            self._accepts = [_acceptance(part, step, by_trial=many) for part, step in pairs]
            self._takings = [*map(_taking, self.parts)]

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
        for shares in self._splits(search, values):
            if shares[-1].extents is not search.extents:
                search.change("extents", shares[-1].extents)
            goals = goal[2]
            for number, step in self._backwards:
                begin, end, _ = shares[number]
                taken = values[begin:end] if isinstance(self.parts[number], RepeatPattern) else values[begin]
                goals = (step, taken, goals, goal, number + self._first)
            yield goals

    def _why(self, search: MatchState, goal: Goal) -> Reason:
        known = [search.extents.get(repeat.extent) for repeat in self.repeats if repeat.extent is not None]
        return reasons.wrong_run(self.owner, search.bound[self.owner][0], len(goal[1]), self.parts, known)

    # --- sharing out

    def _splits(self, search: MatchState, values: Sequence[Expr]) -> Iterator[Sequence[_Share]]:
        """The ways to share ``values`` out that may match."""
        count, unlimited = len(values), [None] * len(self.parts)
        free = len(self.repeats) + self._allow_rest - 1
        few = count**free <= _MOST_TO_EXPLAIN
        if free and (search.tracer is None or not few):
            limits = [accepts and [accepts(search, value) for value in values] for accepts in self._accepts]
            if search.tracer is None or next(self._shares(count, limits, search.extents), None) is not None:
                return self._shares(count, limits, search.extents)
        # What cannot match is tried, too, to say why; not for ever, though.
        return islice(self._shares(count, unlimited, search.extents), None if few else _MOST_TO_EXPLAIN)

    def _shares(self, count: int, limits: Sequence[_Limit], known: Mapping[Extent, int]) -> Iterator[Sequence[_Share]]:
        """The ways to share ``count`` values out; nothing is begun that cannot be completed, extents aside.

        Cost before the first: parts * count.
        """
        takings = self._takings
        for total in range(count, -1, -1) if self._allow_rest else (count,):
            begins: list[Collection[int]] = [(total,)]
            for number in range(len(takings) - 1, -1, -1):
                begins.append(_begins(takings[number], limits[number], begins[-1]))
            ends = begins[-2::-1]
            shares: list[_Share] = []
            ways = [_options(takings[0], limits[0], ends[0], 0, known)] if 0 in begins[-1] else []
            while ways:
                del shares[len(ways) - 1 :]
                share = next(ways[-1], None)
                if share is None:
                    ways.pop()
                    continue
                shares.append(share)
                number = len(shares)
                if number == len(takings):
                    yield shares
                else:
                    ways.append(_options(takings[number], limits[number], ends[number], *share[1:]))


class _Share(NamedTuple):
    """The values of a part: those from ``begin`` to ``end``; and the extents that are known then."""

    begin: int
    end: int
    extents: Mapping[Extent, int]


class _Taking(NamedTuple):
    """The number of values that a part takes."""

    least: int
    most: float
    extent: Extent | None


def _taking(part: DFPattern) -> _Taking:
    if isinstance(part, RepeatPattern):
        return _Taking(part.min, float("inf") if part.max is None else part.max, part.extent)
    return _Taking(1, 1, None)


_Limit: TypeAlias = "list[bool] | None"
"""For a part, and each value: whether it may match that part, or be in its run, by itself; None: nothing is known."""


def _begins(part: _Taking, limit: _Limit, ends: Collection[int]) -> Collection[int]:
    """The places of a row from which ``part`` can take the values up to one of ``ends``."""
    begins: set[int] = set()
    last, first = max(ends, default=-1), int(max(0, min(ends, default=0) - part.most))
    ahead, nearest = 0, float("inf")
    for begin in range(last, first - 1, -1):
        ahead = ahead + 1 if begin < last and (limit is None or limit[begin]) else 0
        if begin + part.least in ends:
            nearest = begin + part.least
        if nearest - begin <= min(ahead, part.most):
            begins.add(begin)
    return begins


def _options(
    part: _Taking, limit: _Limit, ends: Collection[int], begin: int, extents: Mapping[Extent, int]
) -> Iterator[_Share]:
    """The ways in which ``part`` takes the values from ``begin`` to one of ``ends``, longer runs first."""
    most = int(min(max(ends) - begin, part.most))
    if limit is not None:
        most = next((length for length in range(most) if not limit[begin + length]), most)
    wanted = None if part.extent is None else extents.get(part.extent)
    for length in range(most, part.least - 1, -1):
        if begin + length in ends and wanted in (None, length):
            yield _Share(begin, begin + length, extents if part.extent is None else {**extents, part.extent: length})


def _acceptance(part: DFPattern, step: Step, *, by_trial: bool) -> Callable[[MatchState, Expr], bool] | None:
    """The check whether a value may match ``part``, or be in its run, by itself; None if nothing is known.

    ``by_trial`` tries each value with a repeat, but for those whose elements a neighbour may decide on.
    """
    ops = root_ops(part)
    if step.pattern is not part:  # the body of a function, which is looked into
        return None
    if not part.children() and not part.size_variables():
        return lambda search, value: part.holds(resolve(search.definitions, value), search.definitions, {})
    fits_alone = by_trial and isinstance(part, RepeatPattern) and not any(map(is_decided_last, all_patterns(part)))
    if ops is None and not fits_alone:
        return None

    def may_match(search: MatchState, value: Expr) -> bool:
        if not may_call(search, resolve(search.definitions, value), ops):
            return False
        return not fits_alone or search.trial((step, [value], None, None, 0)) is not None

    return may_match


def may_call(search: MatchState, leaf: Expr, ops: Ops) -> bool:
    """True if a resolved leaf is a call of one of ``ops``; if None, any value may match."""
    return ops is None or getattr(definition(search.definitions, leaf), "op", None) in ops
