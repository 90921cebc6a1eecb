"""Matching a whole context: which bindings to try, in which order, and when each constraint can be checked.

One root is the *anchor*: it is tried at each binding that its operator allows. From there each further root is sought
where it must be: among the users of a value it shares with what is matched, or among the operands or users that a
constraint names; only a root with no such tie is sought in the whole block. Roots that are alike (the n matmuls of one
left side) are taken together: the candidates that match are found once, and then combined in block order, so that n
patterns cost what the candidates cost and no two permutations of one match are offered. Repeats come last, each with
all the bindings that are left for it.
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
"""The place of goals that belong to the context as a whole."""


class CompiledContext:
    """A context ready to run: its roots are placed one after the other, each constraint is checked as soon as can be.

    ``several`` are the patterns that stand in more than one root, and ``tied`` those that a constraint names.

    Cost of a search: one run per candidate anchor, plus the users of the values that are shared. Alike roots and
    repeats cost their candidates once; combinations are only gone through while the caller declines them.
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
        """Each match in the block, anchors in block order."""
        seen: set[Any] = set()
        for anchor in values_of(view, self.anchor_ops):
            yield from self.at(view, anchor, seen, tracer)

    def at(
        self, view: BlockView, anchor: Var, seen: set[Any], tracer: Tracer | None = None
    ) -> Iterator[dict[Any, Any]]:
        """Each match whose anchor is the binding ``anchor``; ``seen`` holds the groups that were offered already."""
        search = MatchState(view.definitions, view, tracer, seen)
        checks = (((check, None, None, None, _WHOLE), parts) for parts, check in self._checks)
        search.awaiting = tuple(Late(goal, view.definitions, parts, None) for goal, parts in checks)
        place = (Near(None, 0, None), resolve(view.definitions, anchor))
        for _ in search.solutions((self._roots[0].seek, place, None, None, _WHOLE)):
            yield search.shown(as_leaves=True)

    def taken(self, search: MatchState) -> set[Expr]:
        """The values that the placed roots stand for."""
        found: set[Expr] = set()
        for root in (root for root in self._roots if root.pattern in search.bound):
            leaf = search.bound[root.pattern][0]
            found.update(leaf if isinstance(leaf, list) else (leaf,))  # pyright: ignore[reportUnknownArgumentType]
        return found

    def _go_on(self, search: MatchState, _goal: Goal) -> Goals:
        """The constraints on what is placed, and then the next root: the first one that is near to what is known."""
        ready: Goals = None
        later: list[Late] = []
        for late in search.awaiting:
            # Where an alternative was not taken, a constraint on its patterns says nothing; that is known at the end.
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
    """``context`` ready to run; compiled on first use."""
    found: CompiledContext | None = context.compiled_form
    if found is None:
        found = context.compiled_form = CompiledContext(context)
    return found


def _reluctance(root: _Root) -> tuple[bool, bool, bool]:
    """The order in which roots are placed: single ones, best with a known operator, then repeats, best not empty."""
    if isinstance(root, _RepeatedRoot):
        return True, root.repeat.min == 0, False
    return False, False, root.ops is None


def values_of(view: BlockView, ops: Iterable[Op] | None) -> list[Var]:
    """The calls of one of ``ops``, or else all values that the block binds or uses, in order."""
    if ops is not None:
        return view.candidates(ops)
    outside = [var for var in view.users if var not in view.position]
    found = (*outside, *sorted(view.position, key=view.rank))
    return [var for var in found if resolve(view.definitions, var) is var]


# --- roots


class Near(NamedTuple):
    """The places of a root: at most ``height`` uses above the value of ``part``, or just below it if that is -1.

    Without a part: anywhere. ``ops`` are the operators that the root may call.
    """

    part: DFPattern | None
    height: int
    ops: tuple[Op, ...] | None

    def value(self, search: MatchState) -> Var | None:
        """The variable near which to look; None for the whole block, also where the part stands for a constant."""
        leaf = None if self.part is None else search.bound[self.part][0]
        return leaf if isinstance(leaf, Var) else None

    def cost(self, search: MatchState) -> float:
        """About how many candidates there are."""
        value = self.value(search)
        return float("inf") if value is None else len(search.block.users.get(value, ()))

    def candidates(self, search: MatchState) -> list[Var]:
        """The values to try, each under one name, in block order."""
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
    """A pattern that stands for a binding of its own, or, a repeat, for a set of them; each matches ``element``.

    ``own`` are the parts that each of these binds for itself, ``shared`` those whose value other roots, or all
    elements, agree on. Roots that are ``alike`` have one ``form``: they differ only in their own parts. The goal of
    ``seek`` is to place the root; its operand says near what, or else at which value.
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
        """The place with the fewest candidates, by what is known."""
        places = [near for near in self._places if near.part in search.bound]
        return min(places, key=lambda near: near.cost(search), default=Near(None, 0, self.ops))

    def may_agree(self, search: MatchState) -> bool:
        """True if it is known what all the candidates that match have to agree on."""
        return not self.binds_sizes and all(part in search.bound for part in self.shared)

    def matches(self, search: MatchState, candidates: Iterable[Var]) -> Iterator[Element]:
        """Those of the ``candidates`` that match by themselves, with the values of `own`."""
        for candidate in candidates:
            known = search.trial((self.element, candidate, None, None, 0), self.own, search.tracer)
            if known is not None:
                yield candidate, known


class _SingleRoot(_Root):
    """A root that stands for one value."""

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
        """The waiting roots that are alike and can be placed together with this one; empty if it is placed alone.

        Size variables may be shared without being bound by any one pattern, and who else uses a value can be told when
        all roots are placed, so roots that ask for these are placed alone.
        """
        if anchor is not None or len(self.alike) == 1 or self._asks_for_users or not self.may_agree(search):
            return []
        return [root for root in self.alike if root.pattern not in search.bound]

    def _together(self, search: MatchState, near: Near, group: Sequence[_Root]) -> Iterator[Goals]:
        """The candidates are found once, and handed out in combinations, in block order, after those of alike roots."""
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
    """A repeat as a root: the largest set of bindings that match and agree.

    Each way to fix the shared patterns gives one set: all bindings that match then, but for those that other roots
    stand for. Cost of a set: one trial per candidate near the shared value that has the fewest users.
    """

    def __init__(self, context: CompiledContext, repeat: RepeatPattern) -> None:
        super().__init__(context, repeat, repeat.pattern, context.steps.shared)
        self.repeat = repeat
        self.form = [repeat]
        self.own = context.steps.runs[repeat].own
        self.seek = Step(repeat, self._seek, lambda search, goal: _none(repeat, goal[1][0], search))
        self._agreed = Step(repeat, self._agree)
        # Where only the length is wrong, `own` are bound, so that this counts as further than a value without a match.
        apart = frozenset(all_patterns(repeat)) - context.several - {repeat, *self.own}
        self._settle = Step(repeat, self._settled, self._wrong_count, apart=apart)

    def _seek(self, search: MatchState, goal: Goal) -> Goals:
        near, anchor = goal[1]
        if anchor is None and self.may_agree(search):
            return self._gathered(search, near)
        return search.choose(self._agreements(search, near, anchor))

    def _free(self, search: MatchState, candidates: Iterable[Var]) -> list[Var]:
        """The candidates that the block binds and no other root stands for."""
        taken, bound = self.context.taken(search), search.block.position
        return [candidate for candidate in candidates if candidate in bound and candidate not in taken]

    def _agreements(self, search: MatchState, near: Near, anchor: Var | None) -> Iterator[Goals]:
        """The sets that agree with what is matched so far, or those of the anchor that were not offered before."""
        seen = set[Any]() if anchor is None else search.seen
        agreed = (self._agreed, (seen, len(search.awaiting)), None, None, _WHOLE)
        for candidate in self._free(search, near.candidates(search) if anchor is None else (anchor,)):
            yield (self.element, candidate, agreed, None, 0)
        if anchor is None and not seen:
            yield (self._settle, (), None, None, _WHOLE)

    def _agree(self, search: MatchState, goal: Goal) -> Goals:
        seen, count = goal[1]
        earlier, fresh = search.awaiting[:count], search.awaiting[count:]
        # Who else uses a value that all elements share can be told when all are known.
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
    """The reason when too few of the candidates can stand for ``root``, or for ``count`` roots like it."""
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
