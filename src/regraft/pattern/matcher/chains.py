"""Matching chains: one link after the other, from the value down, with nothing nested as deep as the chain is long.

A link is matched first, with its hole standing for any value; what stands there is the next operand. The patterns of a
link are forgotten before the next one, and gathered in lists at the end, like those of a repeat.

The values of one long run are each the top of a chain. `MatchState.remembered` keeps what the chain below a value came
to, so that the value above adds one link to it, and a block is searched in steps linear in its length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from ...analysis.values import resolve
from ...ir.expr import Expr, Var
from ...ir.op import Call
from ..chain_pattern import ChainPattern
from ..parts import fixed_op, root_ops
from ..pattern import CallPattern, DFPattern, all_patterns
from .machine import FAILED, BoundValue, Goal, Goals, MatchState, Step
from .rows import Run, gather


class _Way(NamedTuple):
    """One way down, of so many ``links``: a row for each of them as `gather` takes them, from the end up.

    Longer ways share the list, so only the first ``links`` are this way's. ``ends`` are the patterns below the links.
    """

    rows: list[Sequence[Any]]
    links: int
    ends: Sequence[tuple[DFPattern, BoundValue]]

    def under(self, rows: Sequence[Sequence[Any]]) -> _Way:
        """This way with more links above it, given from the end up."""
        below = self.rows if len(self.rows) == self.links else self.rows[: self.links]
        below.extend(rows)
        return _Way(below, len(below), self.ends)


class _Known(NamedTuple):
    """The first way down from an operand, less its last ``skipped`` links; whether it ``is_only``.

    Without a ``way`` there is none.
    """

    way: _Way | None
    skipped: int
    is_only: bool


class _KnownWays(dict[Expr, dict[int, _Known]]):
    """The known ways down from operands, by the number of links above them, as far as it matters.

    ``ways`` counts all that were found so far, and ``passed_over`` those of them that were not given again.
    """

    ways = 0
    passed_over = 0


class _ChainState(NamedTuple):
    """The state of a chain below some links: ``rows`` has theirs, innermost first, as nested pairs.

    From an operand in ``in_vain`` no match was found, whatever the way to it. ``passed`` are the operands on the way,
    the last first, each with its number of links. A way that the search was given before it is one of ``again``.
    """

    operand: Expr
    length: int
    rows: Any
    awaiting: int
    in_vain: set[Any] | None
    known: _KnownWays | None
    passed: Any = None
    again: list[None] | None = None


class Chain:
    """The step of ``pattern``; ``forgets`` says that the rest of a match does not depend on the way of a chain.

    If it ``is_closed``, the ways down from a value depend on nothing else in the match.
    """

    def __init__(self, pattern: ChainPattern, run: Run, until: Step, forgets: bool, is_closed: bool) -> None:
        self.pattern = pattern
        self.run = run
        self.until = until
        self.forgets = forgets
        self.is_closed = is_closed and pattern.links.max is None
        self.hole = run.own.index(pattern.hole)
        self.link = run.own.index(pattern.links.pattern)
        self.ends = all_patterns(pattern.until)
        self.ops = root_ops(pattern.links.pattern)
        self.callees = [
            (index, call.op, op)
            for index, call in enumerate(run.own)
            if isinstance(call, CallPattern) and (op := fixed_op(call.op)) is not None
        ]
        self.step = Step(pattern, self._begin)
        self._each = Step(pattern.links, self._begin)
        self._next = Step(pattern, self._below_a_link)
        self._last = Step(pattern, self._at_the_end)

    def _begin(self, search: MatchState, goal: Goal) -> Goals:
        in_vain: set[Any] | None = set() if self.forgets and search.seen is None else None
        known = None
        if self.is_closed and in_vain is not None and search.remembered is not None:
            known = search.remembered.setdefault(self.step, _KnownWays())
        return self._onward(search, goal, _ChainState(goal[1], 0, None, len(search.awaiting), in_vain, known))

    def _onward(self, search: MatchState, goal: Goal, place: _ChainState) -> Goals:
        return search.choose(self._ways(search, goal, place))

    def _ways(self, search: MatchState, goal: Goal, place: _ChainState) -> Iterator[Goals]:
        """One more link, or else the end; before these the way that is known to come first."""
        least, most = self.pattern.links.min, self.pattern.links.max
        operand, length, known = place.operand, place.length, place.known
        above = min(length, least) if most is None else length
        key = (resolve(search.definitions, operand), above)
        if place.in_vain is not None and key in place.in_vain:
            return
        found = search.found
        first = None if known is None else known.get(operand, {}).get(above)
        if first is not None:
            ended = FAILED if first.way is None else self._ended(search, goal, place, first.way, first.skipped)
            if ended is not FAILED:
                yield ended
            if first.is_only:
                return
            place = place._replace(again=[None])
        elif known is not None:
            place = place._replace(passed=((operand, above, length), place.passed))
        ways, passed_over = (0, 0) if known is None else (known.ways, known.passed_over)
        if (most is None or length < most) and (search.tracer is not None or self._may_be_link(search, key[0])):
            each = (self._each, None, None, goal, 0)
            yield (self.run.inner, operand, (self._next, (goal, place), *goal[2:]), each, length)
        if length >= least:
            yield (self.until, operand, (self._last, (goal, place), *goal[2:]), goal, 1)
        is_in_vain = search.found == found and (known is None or known.passed_over == passed_over)
        if place.in_vain is not None and is_in_vain:
            place.in_vain.add(key)
        if known is not None and known.ways - ways < 2 and isinstance(operand, Var):
            latest = known.get(operand, {}).get(above, _NO_WAY)
            known.setdefault(operand, {})[above] = latest._replace(is_only=True)

    def _may_be_link(self, search: MatchState, leaf: Expr) -> bool:
        """False for a value that no link computes, by its operator: most chains end in one."""
        if self.ops is None:
            return True
        value = search.definitions.get(leaf) if isinstance(leaf, Var) else leaf
        return isinstance(value, Call) and value.op in self.ops

    def _below_a_link(self, search: MatchState, goal: Goal) -> Goals:
        outer, place = goal[1]
        row = search.forget(self.run.own)
        if not search.may_hold_in_element(place.awaiting, self.run.own, row):
            return FAILED
        length = place.length + 1
        search.longest = max(search.longest, length)
        rows = ([resolve(search.definitions, place.operand), *row], place.rows)
        below = row[2 * self.hole + 1]
        place = place._replace(length=length, rows=rows, awaiting=len(search.awaiting))
        if below is not None:
            return self._onward(search, outer, place._replace(operand=below))
        return self._ended(search, outer, place) if length >= self.pattern.links.min else FAILED

    def _at_the_end(self, search: MatchState, goal: Goal) -> Goals:
        return self._ended(search, *goal[1])

    def _ended(
        self, search: MatchState, goal: Goal, place: _ChainState, below: _Way | None = None, skipped: int = 0
    ) -> Goals:
        """Bind the chain, and its links to lists; those after the first may be known: ``below``, less its last few."""
        pattern, own, bound, rows = self.pattern, self.run.own, search.bound, place.rows
        if place.known is not None:
            place.known.ways += 1
            if place.again:
                place.again.pop()
                place.known.passed_over += 1
                return FAILED
        above: list[Sequence[Any]] = []
        while rows is not None:
            row, rows = rows
            above.append(row)
        is_known = below is not None
        if below is None:
            ends = [(part, bound[part]) for part in self.ends if part in bound] if place.known is not None else ()
            below = _Way([], 0, ends)
        for part, pair in below.ends:
            if part not in bound:
                search.bind(part, *pair)
        way = below._replace(links=below.links - skipped).under(above)
        gather(search, pattern.links, own, way.rows[way.links - 1 :: -1] if way.links else [])
        for index, callee, op in self.callees if is_known and way.links else ():
            if own[index] in bound and callee not in bound:
                search.bind(callee, op, op)
        shown = way.rows[way.links - 1][2 * self.link + 2] if way.links else bound[pattern.until][1]
        search.bind(pattern, resolve(search.definitions, goal[1]), shown)
        passed = place.passed
        while passed is not None:
            (operand, links, length), passed = passed
            assert place.known is not None
            place.known.setdefault(operand, {}).setdefault(links, _Known(way, length, is_only=False))
        return goal[2]


_NO_WAY: Final = _Known(None, 0, is_only=True)
