"""The step of a chain: it matches one link after the other, from the top down, without nesting.

The hole of a link matches any value, and this value is the next operand. After each link, the link's own patterns are
unbound; at the end they are bound to lists, as for a repeat.

In a long run each value is the top of a chain of its own. `MatchState.remembered` keeps the chain that was found below
a value. A value above it adds only one link. So the search of a whole block is linear in its length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...analysis.values import resolve
from ...ir.expr import Expr, Var
from ..chain_pattern import ChainPattern
from ..parts import fixed_op, root_ops
from ..pattern import CallPattern, DFPattern, RepeatPattern, all_patterns
from .machine import FAILED, BoundValue, Goal, Goals, MatchState, Step
from .rows import Element, Run, gather, may_call

if TYPE_CHECKING:
    from .goals import CompiledPatterns


class _Way(NamedTuple):
    """A known chain below a value: its first ``link``, and the rest ``below``. Both are None at the end.

    ``ends`` are the values of the patterns at the end.
    """

    link: Element | None = None
    below: _Way | None = None
    ends: Sequence[tuple[DFPattern, BoundValue]] = ()


class _Known(NamedTuple):
    """The first chain below an operand, or None if there is none. ``is_only``: there is no other one."""

    way: _Way | None
    is_only: bool


class _KnownWays(dict[Expr, dict[int, _Known]]):
    """The known chains below operands, by the number of links above. ``ways`` counts all that were found."""

    ways = 0


class _ChainState(NamedTuple):
    """The state of a chain after some links. ``above`` holds these links as nested pairs, innermost first.

    ``operand`` is None if the last link has no hole. ``in_vain`` are operands from which no match was found before.
    ``again`` has one entry if the known chain of this operand was already returned, and must not be returned again.
    """

    operand: Expr | None
    length: int
    above: Any
    awaiting: int
    in_vain: set[Any] | None
    known: _KnownWays | None
    again: list[None] | None = None


class Chain:
    """The step of the chain ``pattern``; ``around`` are all patterns that are matched together.

    ``forgets``: the rest of a match does not depend on the links, only on the end. ``is_closed``: the chains below a
    value do not depend on the rest of the match.
    """

    def __init__(self, pattern: ChainPattern, run: Run, until: Step, around: CompiledPatterns) -> None:
        parts = [part for part in all_patterns(pattern.links) if part is not pattern.links]
        shared = around.shared_in[pattern.links]
        self.forgets = not around.is_decided_last and not any(
            (p in shared and fixed_op(p) is None) or p.size_variables() or isinstance(p, RepeatPattern) for p in parts
        )
        self.is_closed = pattern.links.max is None and not any(
            (p in around.met_again and fixed_op(p) is None)
            or p.size_variables()
            or (isinstance(p, RepeatPattern) and p.extent is not None)
            for p in all_patterns(pattern.until)
        )
        self.pattern = pattern
        self.run = run
        self.until = until
        self.ends = all_patterns(pattern.until)
        self.ops = root_ops(pattern.links.pattern)
        calls = [(call, call.op, fixed_op(call.op)) for call in run.own if isinstance(call, CallPattern)]
        self.callees = [(call, callee, op) for call, callee, op in calls if op is not None]
        self.step = Step(pattern, self._begin)
        self._each = Step(pattern.links, self._begin)
        self._next = Step(pattern, self._below_a_link)
        self._last = Step(pattern, lambda search, goal: self._ended(search, *goal[1]))

    def _begin(self, search: MatchState, goal: Goal) -> Goals:
        in_vain: set[Any] | None = set() if self.forgets and search.seen is None else None
        known = None
        if self.is_closed and in_vain is not None and search.remembered is not None:
            known = search.remembered.setdefault(self.step, _KnownWays())
        place = _ChainState(goal[1], 0, None, len(search.awaiting), in_vain, known)
        return search.choose(self._ways(search, goal, place, goal[1]))

    def _links_above(self, length: int) -> int:
        """The number of links above an operand, limited to the numbers that make a difference below it."""
        return length if self.pattern.links.max is not None else min(length, self.pattern.links.min)

    def _ways(self, search: MatchState, goal: Goal, place: _ChainState, operand: Expr) -> Iterator[Goals]:
        """The ways to continue: the known chain, if there is one, then one more link, then the end."""
        length, known, links = place.length, place.known, self.pattern.links
        above = self._links_above(length)
        key = (resolve(search.definitions, operand), above)
        if place.in_vain is not None and key in place.in_vain:
            return
        first = None if known is None else known.get(operand, {}).get(above)
        found = search.found
        if first is not None:
            ended = FAILED if first.way is None else self._ended(search, goal, place, first.way)
            if ended is not FAILED:
                yield ended
            if first.is_only:
                return
            place = place._replace(again=[None])
        ways = 0 if known is None else known.ways
        is_more = links.max is None or length < links.max
        if is_more and (search.tracer is not None or may_call(search, key[0], self.ops)):
            each = (self._each, None, None, goal, 0)
            yield (self.run.inner, operand, (self._next, (goal, place), *goal[2:]), each, length)
        if length >= links.min:
            yield (self.until, operand, (self._last, (goal, place), *goal[2:]), goal, 1)
        if place.in_vain is not None and search.found == found:
            place.in_vain.add(key)
        if known is not None and known.ways - ways < 2 and isinstance(operand, Var):
            of_operand = known.setdefault(operand, {})
            of_operand[above] = of_operand.get(above, _NO_WAY)._replace(is_only=True)

    def _below_a_link(self, search: MatchState, goal: Goal) -> Goals:
        outer, place = goal[1]
        known = search.end_element(self.run.own, place.awaiting)
        if known is None:
            return FAILED
        length, (_, below) = place.length + 1, known[self.pattern.hole] or (None, None)
        search.longest = max(search.longest, length)
        above = ((place.operand, (resolve(search.definitions, place.operand), known)), place.above)
        place = place._replace(operand=below, length=length, above=above, awaiting=len(search.awaiting))
        if below is not None:
            return search.choose(self._ways(search, outer, place, below))
        return self._ended(search, outer, place) if length >= self.pattern.links.min else FAILED

    def _ended(self, search: MatchState, goal: Goal, place: _ChainState, known_way: _Way | None = None) -> Goals:
        """Bind the chain, and the patterns of its links to lists. ``known_way`` continues from the operand."""
        pattern, bound, known = self.pattern, search.bound, place.known
        if known is not None:
            known.ways += 1
            if place.again:
                place.again.pop()
                search.found += 1  # It was found before, so no chain around this one came here in vain.
                return FAILED
        way = known_way or _Way(ends=[(part, bound[part]) for part in self.ends if part in bound])
        operand, above, length = place.operand, place.above, place.length
        while True:
            if known is not None and isinstance(operand, Var):
                known.setdefault(operand, {}).setdefault(self._links_above(length), _Known(way, is_only=False))
            if above is None:
                break
            (operand, link), above = above
            way, length = _Way(link, way), length - 1
        links: list[Element] = []
        while way.link is not None:
            assert way.below is not None
            links.append(way.link)
            way = way.below
        for part, pair in way.ends:
            if part not in bound:
                search.bind(part, *pair)
        gather(search, pattern.links, self.run.own, links)
        for call, callee, op in self.callees if known_way and links else ():
            if call in bound and callee not in bound:
                search.bind(callee, op, op)
        top = links[0][1][pattern.links.pattern] if links else bound[pattern.until]
        assert top is not None
        search.bind(pattern, resolve(search.definitions, goal[1]), top[1])
        return goal[2]


_NO_WAY: Final = _Known(None, is_only=True)
