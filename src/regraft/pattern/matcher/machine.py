"""The machine that matches: goals to reach, what is bound so far, and the choices that are open.

A goal says that an operand is to match a pattern. To run one gives the goals that are left: those of the pattern's
parts in front of those that were there before. Where there are several ways to go on, the others are kept as a choice,
with the length of the trail: what has been changed since. A goal that fails takes these changes back and resumes the
youngest choice, so every way to match is found, and the order in which alternatives are written decides only which is
found first. No Python recursion grows with the pattern or the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

from ...analysis.values import BlockView, Definitions
from ...ir.dims import SymVar
from ...ir.expr import Expr, Var
from ..pattern import DFPattern, Extent, PatternError
from ..words import Reason

Goal: TypeAlias = "tuple[Step, Any, Goal | None, Goal | None, int]"
"""A step and its operand; the goals that come after it; and its place: which part it is of the goal that it belongs to.

The outermost goals belong to none. Those that belong to a context as a whole are part -1.
"""

Goals: TypeAlias = "Goal | None"
"""The goals that are left: a goal, and those after it; None when all are reached, `FAILED` when one cannot be."""

FAILED: Final[Any] = ()

BoundValue: TypeAlias = tuple[Any, Any]
"""The value of a pattern: the resolved leaf, and what a rewriter is shown."""

Bindings: TypeAlias = Mapping[DFPattern, BoundValue | None]
"""The values of some patterns; None for one that stands for nothing."""

Remembered: TypeAlias = "dict[Step, Any]"
"""For each step that keeps something from one search to the next, a dictionary of what it found at each value."""

MOST_RETRIES: Final = 100_000
"""The most choices that a search resumes at one value before it gives up; a few more per element of a long run."""

RETRIES_OF_AN_ELEMENT: Final = 16


class SearchLimitError(PatternError):
    """A pattern has so many ways to be tried at one value that the search was given up."""


@dataclass(slots=True, eq=False)
class Step:
    """The way to reach a goal: ``run`` gives the goals that are left, or `FAILED`.

    ``why`` says why it fails, on the search as it was then; a step without it fails only after another one has, which
    says more. The patterns ``apart`` are no part of the progress of a failure.
    """

    pattern: DFPattern
    run: Callable[[MatchState, Goal], Goals]
    why: Callable[[MatchState, Goal], Reason] | None = None
    apart: frozenset[DFPattern] = frozenset()


class Late(NamedTuple):
    """A condition that is decided once all that it speaks of is known; it holds if its ``goal`` is reached.

    That is when the patterns ``awaited`` stand for something; if None, when the whole match is known. ``own`` is what
    its element of a repeat says of the element's own patterns (`MatchState.forget`); None for a condition on the match
    as a whole.
    """

    goal: Goal
    definitions: Definitions
    awaited: Sequence[DFPattern] | None
    own: Bindings | None


class Tracer(Protocol):
    """Listens to failures; `explain` is one."""

    def failed(self, search: MatchState, goal: Goal) -> None:
        """``goal`` failed; its step says why, on the search as it is now or on a `snapshot` of it."""
        ...

    def seen_before(self) -> None:
        """The binding at this anchor was tried as a part of an earlier group, and is not tried again."""
        ...


class MatchState:
    """The state of one search: what patterns, sizes and extents stand for, and how to take that back.

    ``seen`` are the groups of a context that were offered already; None where one pattern is searched for. ``longest``
    is the number of elements of the longest run, and ``found`` that of the matches so far.
    """

    def __init__(
        self,
        definitions: Definitions,
        view: BlockView | None = None,
        tracer: Tracer | None = None,
        seen: set[Any] | None = None,
        remembered: Remembered | None = None,
    ) -> None:
        self.definitions: Mapping[Any, Expr] = definitions
        self.view = view
        self.tracer = tracer
        self.seen = seen
        self.remembered = remembered
        self.bound: dict[DFPattern, BoundValue] = {}
        self.sizes: Mapping[SymVar, Any] = {}
        self.extents: Mapping[Extent, int] = {}
        self.awaiting: tuple[Late, ...] = ()
        self.trail: list[Any] = []
        self.choices: list[tuple[int, Iterator[Goals]]] = []
        self.longest = 0
        self.found = 0

    @property
    def block(self) -> BlockView:
        """The block that is searched."""
        assert self.view is not None
        return self.view

    def snapshot(self) -> MatchState:
        """A copy of what is known, for a reason that may be asked for later."""
        copy = MatchState(self.definitions, self.view)
        copy.bound, copy.sizes, copy.extents = dict(self.bound), self.sizes, self.extents
        return copy

    def bind(self, pattern: DFPattern, leaf: Any, shown: Any) -> None:
        """Let ``pattern``, which stands for nothing yet, stand for ``leaf``."""
        self.bound[pattern] = (leaf, shown)
        self.trail.append(pattern)

    def change(self, name: str, value: Any) -> None:
        """Give the field ``name`` another value."""
        self.trail.append((name, getattr(self, name)))
        setattr(self, name, value)

    def forget(self, patterns: Iterable[DFPattern]) -> Bindings:
        """Let ``patterns`` stand for nothing again; gives what they stood for."""
        known = {pattern: self.bound.pop(pattern, None) for pattern in patterns}
        self.trail += [pair for pair in known.items() if pair[1] is not None]
        return known

    def bind_again(self, known: Bindings) -> None:
        """Let patterns stand for what they stood for when `forget` was called."""
        for pattern, value in known.items():
            if value is not None:
                self.bind(pattern, *value)

    def undo(self, mark: int) -> None:
        """Take back all changes since the trail was ``mark`` long."""
        trail, bound = self.trail, self.bound
        while len(trail) > mark:
            change = trail.pop()
            if type(change) is not tuple:
                del bound[change]
            elif type(change[0]) is str:  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
                setattr(self, *change)  # pyright: ignore[reportUnknownArgumentType]
            else:
                bound[change[0]] = change[1]

    def choose(self, ways: Iterator[Goals]) -> Goals:
        """The first of ``ways``; the others are resumed when it fails, with all changes since taken back."""
        mark = len(self.trail)
        first = next(ways, FAILED)
        if first is not FAILED:
            self.choices.append((mark, ways))
        return first

    def solutions(self, start: Goal) -> Iterator[None]:
        """Each way to reach ``start``, in order; what is bound holds the match while the caller looks at it.

        Raises `SearchLimitError` after `MOST_RETRIES` choices.
        """
        choices = self.choices
        retries = 0
        goals: Goals = start
        while True:
            goal = start
            while goals:
                goal = goals
                goals = goal[0].run(self, goal)
            if goals is None:
                if self.awaiting:
                    goals = next((late.goal for late in self.awaiting if not self.holds(late)), None)
                if goals is None:
                    self.found += 1
                    yield
            else:
                goals = goal
            if goals is not None and self.tracer is not None and goals[0].why is not None:
                self.tracer.failed(self, goals)
            retries += 1
            if retries > MOST_RETRIES and retries > MOST_RETRIES + RETRIES_OF_AN_ELEMENT * self.longest:
                raise SearchLimitError(
                    f"{start[0].pattern!r} was given up after {MOST_RETRIES:,} alternatives at one value: commuted "
                    "operands and alternatives multiply; say more about the operands of its calls"
                )
            while choices:
                mark, ways = choices[-1]
                self.undo(mark)
                goals = next(ways, FAILED)
                if goals is not FAILED:
                    break
                choices.pop()
            else:
                return

    def shown(self, *, as_leaves: bool = False) -> dict[Any, Any]:
        """The match that was found: from each pattern, and size variable, to what a rewriter is shown for it.

        ``as_leaves`` shows what is bound to a variable as that.
        """
        found: dict[Any, Any] = {pattern: pair[0 if as_leaves else 1] for pattern, pair in self.bound.items()}
        if self.sizes:
            found.update(self.sizes)
        return found

    def variables(self) -> dict[int, Var]:
        """The variables of the values that the match shows as expressions, by the identity of each of these."""
        found: dict[int, Var] = {}
        pending: list[tuple[Any, Any]] = [pair for pair in self.bound.values() if pair[0] is not pair[1]]
        for leaf, shown in pending:
            if isinstance(shown, list):
                inside = cast("list[Any]", shown)
                pending += [pair for pair in zip(leaf, inside, strict=True) if pair[0] is not pair[1]]
            elif isinstance(leaf, Var):
                found[id(shown)] = leaf
        return found

    def trial(self, start: Goal, read: Sequence[DFPattern] = (), tracer: Tracer | None = None) -> Bindings | None:
        """The values of the patterns ``read`` in the first way to reach ``start``; None if there is none.

        Nothing is changed. The ``tracer`` hears of failures.
        """
        mark, choices = len(self.trail), self.choices
        self.choices = []
        self.change("awaiting", ())
        self.change("tracer", tracer)
        found = None
        for _ in self.solutions(start):
            found = self.forget(read)
            break
        self.choices = choices
        self.undo(mark)
        return found

    def holds(self, late: Late) -> bool:
        """True if ``late`` holds, with all that is known. Nothing is changed."""
        mark = len(self.trail)
        self.change("definitions", late.definitions)
        own = late.own or {}
        self.forget(own)
        self.bind_again(own)
        is_reached = late.goal[0].run(self, late.goal) is not FAILED
        self.undo(mark)
        return is_reached

    def may_hold(self, late: Late) -> bool:
        """True if ``late`` holds, or may hold: if it awaits what is not known yet it is kept for later."""
        awaited, own = late.awaited, late.own or {}
        if awaited is not None and all(pattern in self.bound or pattern in own for pattern in awaited):
            return self.holds(late)
        self.change("awaiting", (*self.awaiting, late))
        return True

    def end_element(self, own: Sequence[DFPattern], count: int) -> Bindings | None:
        """`forget` what an element of a run has bound for itself; it gives that, or None if a condition does not hold.

        The conditions that have come since there were ``count`` keep what they speak of.
        """
        known, fresh = self.forget(own), self.awaiting[count:]
        if fresh:
            self.change("awaiting", self.awaiting[:count])
            kept = (late if late.own is None else late._replace(own={**late.own, **known}) for late in fresh)
            if not all(map(self.may_hold, kept)):
                return None
        return known
