"""Matching chains: one link after the other, from the value down, with nothing nested as deep as the chain is long.

A link is matched first, with its hole standing for any value; what stands there is the next operand. The patterns of a
link are forgotten before the next one, and gathered in lists at the end, like those of a repeat.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...analysis.values import resolve
from ...ir.expr import Expr
from ..chain_pattern import ChainPattern
from .machine import FAILED, Goal, Goals, MatchState, Step
from .rows import Run, gather


class _Place(NamedTuple):
    """The state of a chain below some links: ``rows`` has their leaves and parts, innermost first, as pairs.

    From an operand in ``in_vain`` no match was found, whatever the way to it.
    """

    operand: Expr
    length: int
    rows: Any
    awaiting: int
    in_vain: set[Any] | None


class Chain:
    """The step of ``pattern``; ``forgets`` says that the rest of a match does not depend on the way of a chain."""

    def __init__(self, pattern: ChainPattern, run: Run, until: Step, forgets: bool) -> None:
        self.pattern = pattern
        self.run = run
        self.until = until
        self.forgets = forgets
        self.hole = run.own.index(pattern.hole)
        self.step = Step(pattern, self._begin)
        self._each = Step(pattern.links, self._begin)
        self._next = Step(pattern, self._below_a_link)
        self._last = Step(pattern, self._at_the_end)

    def _begin(self, search: MatchState, goal: Goal) -> Goals:
        in_vain: set[Any] | None = set() if self.forgets and search.seen is None else None
        return self._onward(search, goal, _Place(goal[1], 0, None, len(search.awaiting), in_vain))

    def _onward(self, search: MatchState, goal: Goal, place: _Place) -> Goals:
        return search.choose(self._ways(search, goal, place))

    def _ways(self, search: MatchState, goal: Goal, place: _Place) -> Iterator[Goals]:
        """One more link, or else the end."""
        least, most = self.pattern.links.min, self.pattern.links.max
        operand, length = place.operand, place.length
        key = (resolve(search.definitions, operand), min(length, least) if most is None else length)
        if place.in_vain is not None and key in place.in_vain:
            return
        found = search.found
        if most is None or length < most:
            each = (self._each, None, None, goal, 0)
            yield (self.run.inner, operand, (self._next, (goal, place), *goal[2:]), each, length)
        if length >= least:
            yield (self.until, operand, (self._last, (goal, place), *goal[2:]), goal, 1)
        if place.in_vain is not None and search.found == found:
            place.in_vain.add(key)

    def _below_a_link(self, search: MatchState, goal: Goal) -> Goals:
        outer, place = goal[1]
        row, run = search.forget(self.run.own), self.run
        if len(search.awaiting) > place.awaiting and not run.keep_awaiting(search, place.awaiting, row):
            return FAILED
        length = place.length + 1
        search.longest = max(search.longest, length)
        rows = ((resolve(search.definitions, place.operand), row), place.rows)
        below = row[self.hole]
        place = _Place(place.operand, length, rows, len(search.awaiting), place.in_vain)
        if below is not None:
            return self._onward(search, outer, place._replace(operand=below[1]))
        return self._ended(search, outer, place) if length >= self.pattern.links.min else FAILED

    def _at_the_end(self, search: MatchState, goal: Goal) -> Goals:
        return self._ended(search, *goal[1])

    def _ended(self, search: MatchState, goal: Goal, place: _Place) -> Goals:
        """Bind the chain, and its links to lists."""
        pattern, run, rows = self.pattern, self.run, place.rows
        leaves: list[Expr] = []
        parts: list[Any] = []
        while rows is not None:
            (leaf, row), rows = rows
            leaves.append(leaf)
            parts.append(row)
        gather(search, pattern.links, run.own, leaves[::-1], parts[::-1])
        shown = parts[-1][run.own.index(pattern.links.pattern)] if parts else search.bound[pattern.until]
        search.bind(pattern, resolve(search.definitions, goal[1]), shown[1])
        return goal[2]
