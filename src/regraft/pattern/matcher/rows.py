"""Steps for a row of values: the operands of a call or the fields of a tuple, and the runs that repeats take.

The parts of a pattern divide the values between them, from left to right; longer runs are tried first. Before that, a
plan marks the values that each part may take: by the operators of the part and, if three or more runs leave many ways,
by trying each value with each repeat once. Only ways that agree with the plan are tried. So a row that cannot be
divided is refused in time linear in its length.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple, TypeAlias

from ...analysis.values import definition, resolve
from ...ir.expr import Expr
from .. import reasons
from ..parts import Ops, is_decided_last, root_ops
from ..pattern import DFPattern, Extent, RepeatPattern, all_patterns
from ..words import Reason
from .machine import FAILED, Bindings, Goal, Goals, MatchState, Step

_MOST_TO_EXPLAIN: Final = 1000
"""The approximate number of ways that are tried only to explain a failure."""

Element: TypeAlias = "tuple[Expr, Bindings]"
"""An element of a run: its leaf, and the values of its own patterns."""


class Run:
    """The step of a repeat. Its operand is a list of values, and each value is a goal.

    At the end, the ``own`` patterns are bound to lists, with None for elements that took another alternative.
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
    """Bind a repeat to the leaves of its elements, and its ``own`` patterns to the lists of their values."""
    for pattern in own:
        given = [known[pattern] for _, known in rows]
        if any(given) or not rows:
            values = [value or (None, None) for value in given]
            search.bind(pattern, [leaf for leaf, _ in values], [shown for _, shown in values])
    leaves = [leaf for leaf, _ in rows]
    search.bind(repeat, leaves, leaves)


class AnyOrder:
    """The parts of ``owner`` in any order: each part takes one of the values that are left."""

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
    """The parts of ``owner`` in order, beginning with its child ``first``, and their steps.

    A row takes ``least`` to ``most`` values. With ``allow_rest`` values at the end may be left over.
    """

    def __init__(self, owner: DFPattern, steps: Sequence[Step], first: int = 0, *, allow_rest: bool = False) -> None:
        parts = owner.children()[first:]
        self.owner = owner
        self.repeats = [part for part in parts if isinstance(part, RepeatPattern)]
        self.is_open = bool(self.repeats)
        self.least = 0 if self.is_open else len(steps)
        self.most = float("inf") if self.is_open or allow_rest else len(steps)
        self._backwards = list(enumerate(steps))[::-1]
        self._first = first
        self._allow_rest = allow_rest
        if self.is_open:
            many = len(self.repeats) + allow_rest > 2
            self._parts = [_Part(part, step, by_trial=many) for part, step in zip(parts, steps, strict=True)]
            self._earliest = [0, *accumulate(part.least for part in self._parts)]
            self._latest = [0, *accumulate(part.most for part in self._parts)]
            self._take = Step(owner, self._next_part, self._why, apart=frozenset({owner}))

    def goals(self, values: Sequence[Expr], rest: Goals, place: Goal) -> Goals:
        """The goals of matching ``values``, in front of ``rest``; ``place`` is a goal of the owner."""
        if self.is_open:
            return (self._take, _RowState(values, 0, 0, None), rest, place[3], place[4])
        for index, step in self._backwards:
            rest = (step, values[index], rest, place, index + self._first)
        return rest

    def _next_part(self, search: MatchState, goal: Goal) -> Goals:
        """Let the next part take its values, in each way that the plan allows."""
        state: _RowState = goal[1]
        values, number, begin, plan = state
        if plan is None:
            plan = self._plan(search, values)
            return FAILED if plan is None else (self._take, _RowState(values, 0, 0, plan), goal[2], goal, self._first)
        if number == len(self._parts):
            return goal[2]
        part, share, place = self._parts[number], plan[number], goal[4]

        def ways() -> Iterator[Goals]:
            for end in part.ends(begin, share, part.extent and search.extents.get(part.extent)):
                if part.extent is not None:
                    search.change("extents", {**search.extents, part.extent: end - begin})
                taken = values[begin:end] if part.is_run else values[begin]
                following = (self._take, _RowState(values, number + 1, end, plan), *goal[2:4], place + 1)
                yield (part.step, taken, following, goal[3], place)

        return search.choose(ways())

    def _why(self, search: MatchState, goal: Goal) -> Reason:
        known = [search.extents.get(repeat.extent) for repeat in self.repeats if repeat.extent is not None]
        parts = self.owner.children()[self._first :]
        return reasons.wrong_run(self.owner, search.bound[self.owner][0], len(goal[1].values), parts, known)

    def _plan(self, search: MatchState, values: Sequence[Expr]) -> _Plan | None:
        """The plan for ``values``: the values that each part may take. None if they cannot be divided.

        With a tracer, ways that cannot match are tried as well, to explain the failure. If there are many, only the
        longest runs are tried.
        """
        free = len(self.repeats) + self._allow_rest - 1
        few = len(values) ** free <= _MOST_TO_EXPLAIN
        if free and (search.tracer is None or not few):
            plan = self._shares([part.accepted(search, values) for part in self._parts], len(values))
            if plan is not None or search.tracer is None:
                return plan
        plan = self._shares([None] * len(self._parts), len(values))
        if plan is None or few:
            return plan
        begin = 0
        for number, (part, share) in enumerate(zip(self._parts, plan, strict=True)):
            begin = next(part.ends(begin, share, None))
            plan[number] = share._replace(ends={begin})
        return plan

    def _shares(self, accepted: Sequence[list[bool] | None], count: int) -> _Plan | None:
        """The plan in which each part can be followed by the next, extents aside. Cost: parts * count."""
        ends: Collection[int] = range(count + 1) if self._allow_rest else {count}
        plan: _Plan = []
        for number in range(len(self._parts) - 1, -1, -1):
            share = _Share(accepted[number], ends)
            plan.append(share)
            begins = self._parts[number].begins(share, self._earliest[number])
            ends = {begin for begin in begins if begin <= self._latest[number]}
        return plan[::-1] if 0 in ends else None


class _Share(NamedTuple):
    """The values that a part may take: those ``accepted`` (None: not known). It may stop at one of the ``ends``."""

    accepted: list[bool] | None
    ends: Collection[int]


_Plan: TypeAlias = "list[_Share]"


class _RowState(NamedTuple):
    """The state of a row: the parts before ``number`` have taken the values before ``begin``."""

    values: Sequence[Expr]
    number: int
    begin: int
    plan: _Plan | None


class _Part:
    """A part of a row that has repeats. It takes ``least`` to ``most`` values.

    With ``by_trial``, `accepted` tries each value with the repeat, unless its elements depend on the whole match.
    """

    def __init__(self, pattern: DFPattern, step: Step, *, by_trial: bool) -> None:
        self.pattern = pattern
        self.step = step
        self.is_run = isinstance(pattern, RepeatPattern)
        self.least, self.most = 1, 1.0
        self.extent: Extent | None = None
        if isinstance(pattern, RepeatPattern):
            self.least, self.extent = pattern.min, pattern.extent
            self.most = float("inf") if pattern.max is None else pattern.max
        self._ops = root_ops(pattern)
        self._by_trial = by_trial and self.is_run and not any(map(is_decided_last, all_patterns(pattern)))

    def accepted(self, search: MatchState, values: Sequence[Expr]) -> list[bool] | None:
        """For each of ``values``: True if the part may take it. None if nothing is known without a match."""
        pattern, definitions = self.pattern, search.definitions
        if self.step.pattern is not pattern:  # the body of a function
            return None
        leaves = [resolve(definitions, value) for value in values]
        if not pattern.children() and not pattern.size_variables():
            return [pattern.holds(leaf, definitions, {}) for leaf in leaves]
        if self._ops is None and not self._by_trial:
            return None
        may_match = [may_call(search, leaf, self._ops) for leaf in leaves]
        if not self._by_trial:
            return may_match
        tried = zip(may_match, values, strict=True)
        return [may and search.trial((self.step, [value], None, None, 0)) is not None for may, value in tried]

    def begins(self, share: _Share, first: int) -> set[int]:
        """The places, from ``first`` on, at which the part can begin so that it stops at one of its ends."""
        accepted, ends = share
        if not self.is_run:
            return {end - 1 for end in ends if end > first and (accepted is None or accepted[end - 1])}
        begins: set[int] = set()
        last = max(ends, default=-1)
        ahead, nearest = 0, float("inf")
        for begin in range(last, first - 1, -1):
            ahead = ahead + 1 if begin < last and (accepted is None or accepted[begin]) else 0
            if begin + self.least in ends:
                nearest = begin + self.least
            if nearest - begin <= min(ahead, self.most):
                begins.add(begin)
        return begins

    def ends(self, begin: int, share: _Share, length: int | None) -> Iterator[int]:
        """The places at which the part can stop if it begins at ``begin``, furthest first. ``length`` may be known."""
        accepted, ends = share
        most = int(min(max(ends) - begin, self.most))
        if accepted is not None and self.is_run:
            most = next((taken for taken in range(most) if not accepted[begin + taken]), most)
        for end in range(begin + most, begin + self.least - 1, -1):
            if end in ends and length in (None, end - begin):
                yield end


def may_call(search: MatchState, leaf: Expr, ops: Ops) -> bool:
    """True if a resolved leaf is a call of one of ``ops``; if None, any value may match."""
    return ops is None or getattr(definition(search.definitions, leaf), "op", None) in ops
