"""The machine of the matcher: goals, bindings and open choices.

A goal says that an operand must match a pattern. Running a goal returns the goals that remain: first those of the
pattern's parts, then those that were there before. If there are several ways to continue, the machine takes the first
and keeps the others as a choice, together with the length of the trail. The trail lists all changes. When a goal fails,
the machine undoes the changes since the youngest choice and resumes this choice. So it finds every way to match. The
order of alternatives decides only which way is found first. No Python recursion grows with the pattern or the program.
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
"""A step; its operand; the goals that follow; the goal of the pattern around it; and its number among that one's parts.

The goal of a root has None in the place of a goal around it. A goal of a context as a whole has the number -1.
"""

Goals: TypeAlias = "Goal | None"
"""The goals that remain: the next goal, linked to those after it. None: all are reached. `FAILED`: one has failed."""

FAILED: Final[Any] = ()

BoundValue: TypeAlias = tuple[Any, Any]
"""The value of a pattern: the resolved leaf, and the expression that a rewriter gets."""

Bindings: TypeAlias = Mapping[DFPattern, BoundValue | None]
"""The values of some patterns; None for a pattern that is not bound."""

Remembered: TypeAlias = "dict[Step, Any]"
"""Results that steps keep between searches: for each step a dictionary from values to results."""

MOST_RETRIES: Final = 100_000
"""The most choices that a search at one value resumes before it gives up."""

RETRIES_OF_AN_ELEMENT: Final = 16
"""The number of further choices for each element of the longest run."""


class SearchLimitError(PatternError):
    """The search at one value was given up, because the pattern has too many ways to match."""


@dataclass(slots=True, eq=False)
class Step:
    """The work for a goal: ``run`` returns the goals that remain, or `FAILED`.

    ``why`` returns the reason of a failure. It needs the search in the state of the failure. A step without ``why``
    fails only after another step, whose reason is more precise. The patterns ``apart`` do not count when failures are
    compared by the number of bound patterns.
    """

    pattern: DFPattern
    run: Callable[[MatchState, Goal], Goals]
    why: Callable[[MatchState, Goal], Reason] | None = None
    apart: frozenset[DFPattern] = frozenset()


class Late(NamedTuple):
    """A condition that is decided later. It holds if its ``goal`` is reached.

    It is decided when the patterns ``awaited`` are bound; if ``awaited`` is None, when the whole match is known. A
    condition inside of an element of a repeat keeps the values of the element's own patterns in ``own``. ``own`` is
    None for a condition on the match as a whole.
    """

    goal: Goal
    definitions: Definitions
    awaited: Sequence[DFPattern] | None
    own: Bindings | None


class Tracer(Protocol):
    """A listener for failed goals; `explain` uses one."""

    def failed(self, search: MatchState, goal: Goal) -> None:
        """``goal`` failed. Its step gives the reason for the current state of ``search``, or for a `snapshot` of it."""
        ...

    def seen_before(self) -> None:
        """The binding at this anchor was part of an earlier group, and is not tried again."""
        ...


class MatchState:
    """The state of one search: the values of patterns, sizes and extents, and the trail to undo changes.

    ``seen`` holds the groups of a context that were returned before; it is None in the search for a single pattern.
    ``longest`` is the length of the longest run so far, and ``found`` the number of matches so far.
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
        """The block in which the search runs."""
        assert self.view is not None
        return self.view

    def snapshot(self) -> MatchState:
        """A copy of the bindings, to ask for a reason later."""
        copy = MatchState(self.definitions, self.view)
        copy.bound, copy.sizes, copy.extents = dict(self.bound), self.sizes, self.extents
        return copy

    def bind(self, pattern: DFPattern, leaf: Any, shown: Any) -> None:
        """Bind ``pattern``, which is not yet bound, to ``leaf``."""
        self.bound[pattern] = (leaf, shown)
        self.trail.append(pattern)

    def change(self, name: str, value: Any) -> None:
        """Set the attribute ``name`` of the state to another value."""
        self.trail.append((name, getattr(self, name)))
        setattr(self, name, value)

    def forget(self, patterns: Iterable[DFPattern]) -> Bindings:
        """Unbind ``patterns``, and return their values."""
        known = {pattern: self.bound.pop(pattern, None) for pattern in patterns}
        self.trail += [pair for pair in known.items() if pair[1] is not None]
        return known

    def bind_again(self, known: Bindings) -> None:
        """Bind patterns to the values that `forget` returned."""
        for pattern, value in known.items():
            if value is not None:
                self.bind(pattern, *value)

    def undo(self, mark: int) -> None:
        """Undo all changes since the trail had the length ``mark``."""
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
        """The first of ``ways``. The others are kept as a choice, to be resumed after a failure."""
        mark = len(self.trail)
        first = next(ways, FAILED)
        if first is not FAILED:
            self.choices.append((mark, ways))
        return first

    def solutions(self, start: Goal) -> Iterator[None]:
        """Yield once for each way to reach ``start``, in order. Meanwhile, `bound` holds the match.

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
        """The match: a mapping from patterns and size variables to the expressions that a rewriter gets.

        With ``as_leaves``, a value that is bound to a variable is represented by the variable.
        """
        found: dict[Any, Any] = {pattern: pair[0 if as_leaves else 1] for pattern, pair in self.bound.items()}
        if self.sizes:
            found.update(self.sizes)
        return found

    def variables(self) -> dict[int, Var]:
        """The variables of the matched expressions: a mapping from the `id` of an expression to its variable."""
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

        The state is the same afterwards. Failures go to ``tracer``.
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
        """True if the condition ``late`` holds with the current bindings. The state is the same afterwards."""
        mark = len(self.trail)
        self.change("definitions", late.definitions)
        own = late.own or {}
        self.forget(own)
        self.bind_again(own)
        is_reached = late.goal[0].run(self, late.goal) is not FAILED
        self.undo(mark)
        return is_reached

    def may_hold(self, late: Late) -> bool:
        """False if the condition ``late`` does not hold. If it cannot be decided yet, it is kept for later."""
        awaited, own = late.awaited, late.own or {}
        if awaited is not None and all(pattern in self.bound or pattern in own for pattern in awaited):
            return self.holds(late)
        self.change("awaiting", (*self.awaiting, late))
        return True

    def end_element(self, own: Sequence[DFPattern], count: int) -> Bindings | None:
        """End an element of a run: unbind its ``own`` patterns, and return their values.

        Conditions that were added since there were ``count`` of them keep these values. Returns None if one of them
        does not hold.
        """
        known, fresh = self.forget(own), self.awaiting[count:]
        if fresh:
            self.change("awaiting", self.awaiting[:count])
            kept = (late if late.own is None else late._replace(own={**late.own, **known}) for late in fresh)
            if not all(map(self.may_hold, kept)):
                return None
        return known
