"""Matches of a whole context: the bindings to try, their order, and the time to check each constraint.

One root is the *anchor*. It is tried at each binding of a suitable operator. Each further root is searched near the
values that are already matched: among the users of a value that it shares with them, or among the operands or users
that a constraint names. Only a root without such a connection is searched in the whole block. Roots that are alike
(such as n matmuls with the same left side) are matched together: their candidates are found once and combined in block
order. So n patterns cost as much as their candidates, and permutations of a match are not returned. Repeats come last.
Each takes all of the remaining bindings that match.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import combinations, compress, islice
from typing import Any, Final, NamedTuple

from ...analysis.values import BlockView, arguments_of, definition, held, resolve
from ...ir.builder import operands_of
from ...ir.expr import Expr, Var
from ...ir.op import Op
from ...ir.types import TensorType, shapes_equal
from .. import reasons
from ..constrained_patterns import UsersPattern
from ..context import PatternContext, SameShapeConstraint, UseConstraint, refuse_impossible
from ..derived import form_of
from ..parts import fixed_op, height_above, root_ops
from ..pattern import DFPattern, RepeatPattern, all_patterns
from ..words import Reason
from .goals import CompiledPatterns
from .machine import FAILED, Goal, Goals, Late, MatchState, Step, Tracer
from .rows import Element, gather

_WHOLE: Final = -1
"""The number, in the place of a part, of goals of the context as a whole."""


class CompiledContext:
    """A compiled context: it matches one root after the other, and checks each constraint as soon as possible.

    ``several`` are the patterns that stand in more than one root. ``tied`` are the patterns in constraints.

    Cost of a search: one trial for each candidate of the anchor, and one for each user of a shared value. Candidates of
    alike roots and of repeats are tried once. Further combinations are formed only if the caller declines the first.
    """

    def __init__(self, context: PatternContext) -> None:
        patterns = context.roots()
        self.context = context
        self.steps = CompiledPatterns(patterns)
        places = Counter(part for pattern in patterns for part in all_patterns(pattern))
        self.several = {part for part, count in places.items() if count > 1}
        self._checks = [((use.source, use.user), _use_check(use)) for use in context.uses]
        self._checks += [(constraint.args, _shape_check(constraint)) for constraint in context.same_shapes]
        self.tied = {part for parts, _ in self._checks for part in parts}
        refuse_impossible(context, self.steps.shared, self.steps.standing)
        self.next: Goal = (Step(patterns[0], self._go_on), None, None, None, _WHOLE)
        roots = [_RepeatedRoot(self, p) if isinstance(p, RepeatPattern) else _SingleRoot(self, p) for p in patterns]
        self._roots: Sequence[_Root] = sorted(roots, key=_reluctance)
        for root in self._roots:
            first = next(other for other in self._roots if other.form == root.form)
            root.alike = first.alike
            first.alike.append(root)
        self.anchor_ops = self._roots[0].ops

    def search(self, view: BlockView, tracer: Tracer | None = None) -> Iterator[dict[Any, Any]]:
        """Each match in the block, in the order of the anchors."""
        seen: set[Any] = set()
        for anchor in values_of(view, self.anchor_ops):
            yield from self.at(view, anchor, seen, tracer)

    def at(
        self, view: BlockView, anchor: Var, seen: set[Any], tracer: Tracer | None = None
    ) -> Iterator[dict[Any, Any]]:
        """Each match at the binding ``anchor``. ``seen`` holds the groups that were returned before."""
        search = MatchState(view.definitions, view, tracer, seen)
        checks = (((check, None, None, None, _WHOLE), parts) for parts, check in self._checks)
        search.awaiting = tuple(Late(goal, view.definitions, parts, None) for goal, parts in checks)
        place = (Near(None, 0, None), resolve(view.definitions, anchor))
        for _ in search.solutions((self._roots[0].seek, place, None, None, _WHOLE)):
            yield search.shown(as_leaves=True)

    def taken(self, search: MatchState) -> set[Expr]:
        """The values of the roots that are matched so far."""
        found: set[Expr] = set()
        for root in (root for root in self._roots if root.pattern in search.bound):
            leaf = search.bound[root.pattern][0]
            found.update(leaf if isinstance(leaf, list) else (leaf,))  # pyright: ignore[reportUnknownArgumentType]
        return found

    def _go_on(self, search: MatchState, _goal: Goal) -> Goals:
        """The constraints that can be checked now, then the next root: the first one near a matched value."""
        ready: Goals = None
        later: list[Late] = []
        for late in search.awaiting:
            # A constraint on an alternative that was not taken has no effect; this is known only at the end.
            if late.own is None and late.awaited and all(part in search.bound for part in late.awaited):
                ready = (*late.goal[:2], ready or self.next, *late.goal[3:])
            else:
                later.append(late)
        if ready:
            search.change("awaiting", tuple(later))
            return ready
        waiting = [root for root in self._roots if root.pattern not in search.bound]
        if not waiting:
            return None
        singles = [root for root in waiting if isinstance(root, _SingleRoot)]
        places = [(root, root.nearest(search)) for root in singles or waiting[:1]]
        root, near = next((one for one in places if one[1].part is not None), places[0])
        return (root.seek, (near, None), None, None, _WHOLE)


def compiled_context(context: PatternContext) -> CompiledContext:
    """The compiled form of ``context``. It is made on first use and kept with the context."""
    found: CompiledContext | None = context.compiled_form
    if found is None:
        found = context.compiled_form = CompiledContext(context)
    return found


def _reluctance(root: _Root) -> tuple[bool, bool, bool]:
    """The sort key for the order of roots: single roots, those with known operators first; then non-empty repeats."""
    if isinstance(root, _RepeatedRoot):
        return True, root.repeat.min == 0, False
    return False, False, root.ops is None


def values_of(view: BlockView, ops: Iterable[Op] | None) -> list[Var]:
    """The calls of ``ops`` in the block; if None, all values that the block binds or uses. In order."""
    if ops is not None:
        return view.candidates(ops)
    outside = [var for var in view.users if var not in view.position]
    found = (*outside, *sorted(view.position, key=view.rank))
    return [var for var in found if resolve(view.definitions, var) is var]


# --- roots


class Near(NamedTuple):
    """The region in which to search for a root: at most ``height`` uses above the value of ``part``.

    If ``height`` is -1: the operands of that value. Without a part: the whole block. ``ops`` are the operators of the
    root.
    """

    part: DFPattern | None
    height: int
    ops: tuple[Op, ...] | None

    def value(self, search: MatchState) -> Var | None:
        """The variable near which to search. None for the whole block, and if the part stands for a constant."""
        leaf = None if self.part is None else search.bound[self.part][0]
        return leaf if isinstance(leaf, Var) else None

    def cost(self, search: MatchState) -> float:
        """The approximate number of candidates."""
        value = self.value(search)
        return float("inf") if value is None else len(search.block.users.get(value, ()))

    def candidates(self, search: MatchState) -> list[Var]:
        """The values to try, without aliases, in block order."""
        view, value = search.block, self.value(search)
        if value is None:
            return values_of(view, self.ops)
        if self.height < 0:
            operands = operands_of(definition(view.definitions, value))
            return [leaf for leaf in held(view.definitions, operands) if isinstance(leaf, Var)]
        reached: dict[Var, None] = {value: None}
        frontier: list[Var] = [value]
        for _ in range(self.height):
            frontier = [
                user for user in dict.fromkeys(u for v in frontier for u in view.users_of(v)) if user not in reached
            ]
            reached.update(dict.fromkeys(frontier))
        if self.ops is None:
            found = [v for v in reached if resolve(view.definitions, v) is v]
        else:
            calls = [view.by_op.get(op, {}) for op in self.ops]
            found = [v for v in reached if any(v in table for table in calls)]
        return sorted(found, key=view.rank)


class _Root:
    """A root of a context. Each of its bindings matches ``element``: one binding, or a set of them for a repeat.

    ``own`` are the parts that each binding has for itself. ``shared`` are the parts whose value is the same in other
    roots, or in all elements. Roots that are ``alike`` have equal ``form``: they differ only in their own parts. A goal
    with the step ``seek`` matches the root; its operand is a `Near` and, for the anchor, the value.
    """

    seek: Step
    form: list[Any]
    own: Sequence[DFPattern]

    def __init__(
        self, context: CompiledContext, pattern: DFPattern, element: DFPattern, agreed: Container[DFPattern]
    ) -> None:
        steps, used = context.steps, context.context.uses
        self.context = context
        self.pattern = pattern
        self.element = steps.root(element)
        self.ops = root_ops(pattern)
        self.alike: list[_Root] = []
        self.binds_sizes = any(part.size_variables() for part in all_patterns(pattern))
        inside = [part for part in all_patterns(element) if fixed_op(part) is None]
        self.shared = [part for part in inside if part in agreed and part in steps.standing]
        places = [(part, height_above(element, part)) for part in self.shared]
        places += [(use.source, 1) for use in used if use.user is pattern]
        places += [(use.user, -1) for use in used if use.source is pattern]
        self._places = [Near(part, height, self.ops) for part, height in places if height is not None]

    def nearest(self, search: MatchState) -> Near:
        """The region with the fewest candidates, near values that are already matched."""
        places = [near for near in self._places if near.part in search.bound]
        return min(places, key=lambda near: near.cost(search), default=Near(None, 0, self.ops))

    def may_agree(self, search: MatchState) -> bool:
        """True if all values are known on which matching candidates have to agree."""
        return not self.binds_sizes and all(part in search.bound for part in self.shared)

    def matches(self, search: MatchState, candidates: Iterable[Var]) -> Iterator[Element]:
        """The ``candidates`` that match, each with the values of its `own` patterns."""
        for candidate in candidates:
            known = search.trial((self.element, candidate, None, None, 0), self.own, search.tracer)
            if known is not None:
                yield candidate, known


class _SingleRoot(_Root):
    """A root that stands for a single value."""

    def __init__(self, context: CompiledContext, pattern: DFPattern) -> None:
        super().__init__(context, pattern, pattern, context.several)
        parts = all_patterns(pattern)
        self.form = form_of(parts, context.several | context.tied)
        self._asks_for_users = any(isinstance(p, UsersPattern) and p.count is None for p in parts)
        self.own = [part for part in parts if part not in context.several and fixed_op(part) is None]
        self.seek = Step(pattern, self._seek, self._why)

    def _seek(self, search: MatchState, goal: Goal) -> Goals:
        near, anchor = goal[1]
        group = self._group(search, anchor)
        if group:
            return search.choose(self._together(search, near, group))
        candidates, taken = near.candidates(search) if anchor is None else (anchor,), self.context.taken(search)
        return search.choose((self.element, c, self.context.next, None, 0) for c in candidates if c not in taken)

    def _group(self, search: MatchState, anchor: Var | None) -> Sequence[_Root]:
        """The unmatched roots that are alike and can be matched together with this one; empty if there are none.

        A root with size variables is matched alone, because other patterns may share them. So is a root with a
        condition on all users, because it is decided when all roots are matched.
        """
        if anchor is not None or len(self.alike) == 1 or self._asks_for_users or not self.may_agree(search):
            return []
        return [root for root in self.alike if root.pattern not in search.bound]

    def _together(self, search: MatchState, near: Near, group: Sequence[_Root]) -> Iterator[Goals]:
        """Find the candidates once. Yield combinations in block order, after the candidates of earlier alike roots."""
        candidates, taken = near.candidates(search), self.context.taken(search)
        before = [search.bound[root.pattern][0] for root in self.alike if root.pattern in search.bound]
        last = max((candidates.index(value) for value in before if value in candidates), default=-1)
        rows = [*self.matches(search, (c for c in candidates[last + 1 :] if c not in taken))]
        for chosen in combinations(rows, len(group)):
            for root, (_, known) in zip(group, chosen, strict=True):
                search.bind_again(dict(zip(root.own, known.values(), strict=True)))
            yield self.context.next

    def _why(self, search: MatchState, goal: Goal) -> Reason:
        near, anchor = goal[1]
        group, taken = self._group(search, anchor), self.context.taken(search)
        others = [] if group else [leaf for leaf in near.candidates(search) if leaf in taken]
        return reasons.taken(self.pattern, others[0]) if others else _none(self.pattern, near, search, len(group) or 1)


class _RepeatedRoot(_Root):
    """A repeat as a root: the largest set of bindings that match and agree on the shared patterns.

    Each way to bind the shared patterns gives one set: all matching bindings that no other root has taken. Cost of a
    set: one trial for each candidate near the shared value with the fewest users.
    """

    def __init__(self, context: CompiledContext, repeat: RepeatPattern) -> None:
        super().__init__(context, repeat, repeat.pattern, context.steps.shared)
        self.repeat = repeat
        self.form = [repeat]
        self.own = context.steps.runs[repeat].own
        self.seek = Step(repeat, self._seek, lambda search, goal: _none(repeat, goal[1][0], search))
        self._agreed = Step(repeat, self._agree)
        # If only the length is wrong, `own` are bound. So this counts as more progress than a candidate that fails.
        apart = frozenset(all_patterns(repeat)) - context.several - {repeat, *self.own}
        self._settle = Step(repeat, self._settled, self._wrong_count, apart=apart)

    def _seek(self, search: MatchState, goal: Goal) -> Goals:
        near, anchor = goal[1]
        if anchor is None and self.may_agree(search):
            return self._gathered(search, near)
        return search.choose(self._agreements(search, near, anchor))

    def _free(self, search: MatchState, candidates: Iterable[Var]) -> list[Var]:
        """The candidates that the block binds and that no other root has taken."""
        taken, bound = self.context.taken(search), search.block.position
        return [candidate for candidate in candidates if candidate in bound and candidate not in taken]

    def _agreements(self, search: MatchState, near: Near, anchor: Var | None) -> Iterator[Goals]:
        """The sets that agree with the match so far; for an anchor, the sets that were not returned before."""
        seen = set[Any]() if anchor is None else search.seen
        agreed = (self._agreed, (seen, len(search.awaiting)), None, None, _WHOLE)
        for candidate in self._free(search, near.candidates(search) if anchor is None else (anchor,)):
            yield (self.element, candidate, agreed, None, 0)
        if anchor is None and not seen:
            yield (self._settle, (), None, None, _WHOLE)

    def _agree(self, search: MatchState, goal: Goal) -> Goals:
        seen, count = goal[1]
        earlier, fresh = search.awaiting[:count], search.awaiting[count:]
        # A condition on the users of a shared value can be decided only when all elements are known.
        waits = [late.own is None and late.goal[0].pattern in self.shared for late in fresh]
        if not all(later or search.holds(late) for late, later in zip(fresh, waits, strict=True)):
            return FAILED
        fixed = (_identity(search.bound[p][0]) if p in search.bound else None for p in self.shared)
        key = (id(self.repeat), *fixed, *search.sizes.items())
        if key in seen:
            if seen is search.seen and search.tracer is not None:
                search.tracer.seen_before()
            return FAILED
        seen.add(key)
        search.forget(self.own)
        search.change("awaiting", (*earlier, *compress(fresh, waits)))
        return self._gathered(search, self.nearest(search))

    def _gathered(self, search: MatchState, near: Near) -> Goals:
        found = self.matches(search, self._free(search, near.candidates(search)))
        return (self._settle, [*islice(found, self.repeat.max)], None, None, _WHOLE)

    def _settled(self, search: MatchState, goal: Goal) -> Goals:
        repeat, extent, count = self.repeat, self.repeat.extent, len(goal[1])
        if count < repeat.min:
            return FAILED
        gather(search, repeat, self.own, goal[1])
        if extent is not None:
            if search.extents.get(extent, count) != count:
                return FAILED
            search.change("extents", {**search.extents, extent: count})
        return self.context.next

    def _wrong_count(self, search: MatchState, goal: Goal) -> Reason:
        extent = self.repeat.extent
        return reasons.wrong_count(self.repeat, len(goal[1]), extent and search.extents.get(extent))


def _identity(leaf: Any) -> object:
    return leaf if isinstance(leaf, Expr) else id(leaf)


def _none(root: DFPattern, near: Near, search: MatchState, count: int = 1) -> Reason:
    """The reason if too few candidates match ``root``, or ``count`` roots like it."""
    linked = None if near.part is None else search.bound[near.part][0]
    users = () if linked is None else search.block.users_of(linked)
    return reasons.no_candidate(root, linked, users, search.block.definitions, count)


# --- constraints


def _uses(view: BlockView, user: Expr, source: Expr, index: int) -> bool:
    """True if ``source`` is argument ``index`` (any, if -1) of ``user``, by itself or in a tuple."""
    operands = arguments_of(view.definitions, user)
    operands = operands if index < 0 else operands[index : index + 1]
    return any(leaf is source for leaf in held(view.definitions, operands))


def _use_check(use: UseConstraint) -> Step:
    def run(search: MatchState, goal: Goal) -> Goals:
        if use.source not in search.bound or use.user not in search.bound:
            return goal[2]
        source, user = search.bound[use.source][0], search.bound[use.user][0]
        is_used = _uses(search.block, user, source, use.index)
        return goal[2] if is_used and not (use.only and any(search.block.consumers(source, user))) else FAILED

    def why(search: MatchState, _goal: Goal) -> Reason:
        source, user = search.bound[use.source][0], search.bound[use.user][0]
        if not _uses(search.block, user, source, use.index):
            return reasons.not_used(source, user, use.index, search.block.definitions)
        return reasons.extra_user(source, *search.block.consumers(source, user))

    return Step(use.source, run, why)


def _shape_check(constraint: SameShapeConstraint) -> Step:
    def leaves(search: MatchState) -> list[Expr]:
        return [search.bound[p][0] for p in constraint.args if p in search.bound]

    def run(search: MatchState, goal: Goal) -> Goals:
        types = [leaf.ty for leaf in leaves(search)]
        shapes = [ty.shape if isinstance(ty, TensorType) else None for ty in types]
        same = all(s is not None and shapes_equal(shapes[0] or (), s) is True for s in shapes)
        return goal[2] if same else FAILED

    return Step(constraint.args[0], run, lambda search, _goal: reasons.same_shape(leaves(search)))
