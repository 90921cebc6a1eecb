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
from typing import Any, Final, NamedTuple, TypeAlias, cast

from ...analysis.values import BlockView, resolve
from ...ir.expr import Expr, Var
from ...ir.types import TensorType, shapes_equal
from .. import reasons
from ..context import PatternContext, SameShapeConstraint, UseConstraint
from ..parts import fixed_op, own_parts, root_ops
from ..pattern import DFPattern, PatternError, RepeatPattern, UsersPattern, all_patterns
from .candidates import Near, height_above, values_of
from .conditions import size_variables
from .goals import CompiledPatterns
from .machine import FAILED, BoundValue, Goal, Goals, MatchState, Step, Tracer
from .rows import gather
from .uses import other_users, uses

_WHOLE: Final = -1
"""The place of goals that belong to the context as a whole."""

_Constraint: TypeAlias = tuple[Sequence[DFPattern], Step]
"""The patterns that are tied to each other, and the check of it."""


class _Open(NamedTuple):
    """The rest of a context: the roots that are placed, those that wait, and the constraints to be checked."""

    placed: tuple[_Root, ...]
    waiting: tuple[_Root, ...]
    pending: tuple[_Constraint, ...]

    def place(self, roots: Sequence[_Root]) -> _Open:
        """This, with ``roots`` placed as well."""
        waiting = tuple(root for root in self.waiting if root not in roots)
        return self._replace(placed=(*self.placed, *roots), waiting=waiting)

    def taken(self, search: MatchState) -> set[Expr]:
        """The values that the placed roots stand for."""
        found: set[Expr] = set()
        for root in self.placed:
            leaf = search.bound[root.pattern][0]
            found.update(leaf if isinstance(leaf, list) else (leaf,))  # pyright: ignore[reportUnknownArgumentType]
        return found


class _Plan:
    """The goals of a context: to place its roots one after the other, and check constraints as soon as that can be.

    ``several`` are the patterns that stand in more than one root, and ``tied`` those that a constraint names.
    """

    def __init__(self, context: PatternContext) -> None:
        patterns = context.roots()
        _refuse_empty(patterns)
        self.context = context
        self.steps = CompiledPatterns(patterns)
        places = Counter(part for pattern in patterns for part in all_patterns(pattern))
        self.several = {part for part, count in places.items() if count > 1}
        checks: list[_Constraint] = [((use.source, use.user), _use_check(use)) for use in context.uses]
        checks += [(constraint.args, _shape_check(constraint)) for constraint in context.same_shapes]
        self.tied = {part for parts, _ in checks for part in parts}
        self._refuse_constraints()
        self._next = Step(patterns[0], self._go_on)
        roots: list[_Root] = []
        for pattern in patterns:
            is_repeat = isinstance(pattern, RepeatPattern)
            root = _RepeatedRoot(self, pattern) if is_repeat else _SingleRoot(self, pattern)
            root.kind = next((other.kind for other in roots if other.form == root.form), len(roots))
            roots.append(root)
        self.anchor = min(roots, key=_reluctance)
        self._start = _Open((), tuple(roots), tuple(checks))

    def _refuse_constraints(self) -> None:
        for part in self.tied:
            if part not in self.steps.shared:
                raise PatternError(
                    f"{part!r} is part of a repeat, so it stands for many values and cannot be in a constraint; "
                    "put it in `shared`, or check it in the rewriter"
                )
        for part in (part for use in self.context.uses for part in (use.source, use.user)):
            if part not in self.steps.standing:
                raise PatternError(f"{part!r} stands only under ~, so it stands for no value and cannot be used")

    def goal(self, anchor: Expr) -> Goal:
        """The goal of a match whose anchor is the value ``anchor``."""
        return (self.anchor.seek, (Near(None, 0, None), self._start, anchor), None, None, _WHOLE)

    def after(self, left: _Open) -> Goal:
        """The goal of placing what is ``left``."""
        return (self._next, left, None, None, _WHOLE)

    def _go_on(self, search: MatchState, goal: Goal) -> Goals:
        left: _Open = goal[1]
        # Where an alternative was not taken, a constraint on its patterns says nothing; that is known at the end.
        ready = [one for one in left.pending if not left.waiting or all(p in search.bound for p in one[0])]
        if ready:
            goals = self.after(left._replace(pending=tuple(one for one in left.pending if one not in ready)))
            for _, check in reversed(ready):
                goals = (check, None, goals, None, _WHOLE)
            return goals
        if not left.waiting:
            return None
        waiting = [root for root in left.waiting if isinstance(root, _SingleRoot)]
        places = [(root, root.nearest(search)) for root in waiting or [min(left.waiting, key=_reluctance)]]
        root, near = next((one for one in places if one[1].part is not None), places[0])
        return (root.seek, (near, left, None), None, None, _WHOLE)


def _refuse_empty(patterns: Sequence[DFPattern]) -> None:
    if not patterns:
        raise PatternError("the context has no pattern: make patterns inside `with PatternContext() as ctx:`")
    if all(isinstance(pattern, RepeatPattern) and pattern.min == 0 for pattern in patterns):
        raise PatternError(
            "every root of the context is a repeat with min=0, which nothing would match; give one min=1"
        )


# --- roots


class _Root:
    """A pattern that stands for a binding of its own, or, a repeat, for a set of them; each matches ``element``.

    ``shared`` are the parts whose value other roots, or all elements, agree on. Roots of one ``kind`` have one
    ``form``: they differ only in which parts of their own they bind. The goal of ``seek`` is to place the root and all
    after it; its operand says where to look, what is left, and the anchor, if the root is to be placed there.
    """

    seek: Step
    form: list[Any]
    kind = -1

    def __init__(self, plan: _Plan, pattern: DFPattern, element: DFPattern, agreed: Container[DFPattern]) -> None:
        steps, uses = plan.steps, plan.context.uses
        self.plan = plan
        self.pattern = pattern
        self.element = steps.root(element)
        self.ops = root_ops(pattern)
        self.binds_sizes = any(map(size_variables, all_patterns(pattern)))
        inside = [part for part in all_patterns(element) if fixed_op(part) is None]
        self.shared = [part for part in inside if part in agreed and part in steps.standing]
        places = [(part, height_above(element, part)) for part in self.shared]
        places += [(use.source, 1) for use in uses if use.user is pattern]
        places += [(use.user, -1) for use in uses if use.source is pattern]
        self._places = [Near(part, height, self.ops) for part, height in places if height is not None]

    def nearest(self, search: MatchState) -> Near:
        """The place with the fewest candidates, by what is known."""
        places = [near for near in self._places if near.part in search.bound]
        return min(places, key=lambda near: near.cost(search), default=Near(None, 0, self.ops))

    def may_agree(self, search: MatchState) -> bool:
        """True if it is known what all the candidates that match have to agree on."""
        return not self.binds_sizes and all(part in search.bound for part in self.shared)

    def matches(
        self, search: MatchState, candidates: Iterable[Var], own: Sequence[DFPattern]
    ) -> Iterator[tuple[Var, list[BoundValue | None]]]:
        """The ``candidates`` that match, each by itself, with what the parts ``own`` stand for then."""
        for candidate in candidates:
            row = search.trial((self.element, candidate, None, None, 0), own)
            if row is not None:
                yield candidate, row


class _SingleRoot(_Root):
    """A root that stands for one value."""

    def __init__(self, plan: _Plan, pattern: DFPattern) -> None:
        super().__init__(plan, pattern, pattern, plan.several)
        self.parts = all_patterns(pattern)
        self.form = _form(self.parts, plan.several | plan.tied)
        self._asks_for_users = any(isinstance(p, UsersPattern) and p.count is None for p in self.parts)
        self._own = [at for at, p in enumerate(self.parts) if p not in plan.several and fixed_op(p) is None]
        self.seek = Step(pattern, self._seek, self._why)

    def _seek(self, search: MatchState, goal: Goal) -> Goals:
        near, left, anchor = goal[1]
        group = self._group(search, left)
        if group:
            return search.choose(self._together(search, near, left, group))
        candidates = near.candidates(search) if anchor is None else (anchor,)
        taken, after = left.taken(search), self.plan.after(left.place([self]))
        return search.choose((self.element, c, after, None, 0) for c in candidates if c not in taken)

    def _group(self, search: MatchState, left: _Open) -> list[_SingleRoot]:
        """The waiting roots that are alike and can be placed together with this one; empty if it is placed alone.

        Size variables may be shared without being bound by any one pattern, and who else uses a value can be told when
        all roots are placed, so roots that ask for these are placed alone.
        """
        if not left.placed or self._asks_for_users or not self.may_agree(search):
            return []
        group = [root for root in left.waiting if isinstance(root, _SingleRoot) and root.kind == self.kind]
        return group if len(group) > 1 or left.placed[-1].kind == self.kind else []

    def _together(self, search: MatchState, near: Near, left: _Open, group: Sequence[_SingleRoot]) -> Iterator[Goals]:
        """The candidates are found once, and handed out in combinations, in block order."""
        candidates, taken, last = near.candidates(search), left.taken(search), left.placed[-1]
        value = search.bound[last.pattern][0]
        if last.kind == self.kind and value in candidates:
            candidates = candidates[candidates.index(value) + 1 :]
        own = [self.parts[at] for at in self._own]
        rows = [row for _, row in self.matches(search, [c for c in candidates if c not in taken], own)]
        after = self.plan.after(left.place(group))
        for chosen in combinations(rows, len(group)):
            for root, row in zip(group, chosen, strict=True):
                for at, pair in zip(self._own, row, strict=True):
                    if pair is not None:
                        search.bind(root.parts[at], *pair)
            yield after

    def _why(self, search: MatchState, goal: Goal) -> reasons.Reason:
        near, left, _ = goal[1]
        group, taken = self._group(search, left), left.taken(search)
        others = [] if group else [leaf for leaf in near.candidates(search) if leaf in taken]
        return reasons.taken(self.pattern, others[0]) if others else _none(self.pattern, near, search, len(group) or 1)


class _RepeatedRoot(_Root):
    """A repeat as a root: the largest set of bindings that match and agree.

    Each way to fix the shared patterns gives one set: all bindings that match then, but for those that other roots
    stand for. Cost of a set: one trial per candidate near the shared value that has the fewest users.
    """

    def __init__(self, plan: _Plan, repeat: RepeatPattern) -> None:
        super().__init__(plan, repeat, repeat.pattern, plan.steps.shared)
        self.repeat = repeat
        self.form = [repeat]
        self._own = own_parts(repeat, plan.steps.shared)
        self.seek = Step(repeat, self._seek, lambda search, goal: _none(repeat, goal[1][0], search))
        self._agreed = Step(repeat, self._agree)
        apart = frozenset(p for p in all_patterns(repeat) if p not in plan.several)
        self._too_few = Step(repeat, _fail, self._wrong_count, apart=apart)
        # Where only the length is wrong, that counts as further than any value that did not match.
        self._of_other_length = Step(repeat, _fail, self._wrong_count, apart=apart, further=len(self._own) + 1)

    def _wrong_count(self, _search: MatchState, goal: Goal) -> reasons.Reason:
        return reasons.wrong_count(self.repeat, *goal[1])

    def _seek(self, search: MatchState, goal: Goal) -> Goals:
        near, left, anchor = goal[1]
        if anchor is None and self.may_agree(search):
            return self._gather(search, near, left)
        return search.choose(self._agreements(search, near, left, anchor))

    def _free(self, search: MatchState, candidates: Iterable[Var], left: _Open) -> list[Var]:
        """The candidates that the block binds and no other root stands for."""
        taken, bound = left.taken(search), search.block.position
        return [candidate for candidate in candidates if candidate in bound and candidate not in taken]

    def _agreements(self, search: MatchState, near: Near, left: _Open, anchor: Var | None) -> Iterator[Goals]:
        """The sets that agree with what is matched so far, or those of the anchor that were not offered before."""
        seen, count = set[Any]() if anchor is None else search.seen, len(search.awaiting)
        agreed = (self._agreed, (seen, left, count), None, None, _WHOLE)
        for candidate in self._free(search, near.candidates(search) if anchor is None else (anchor,), left):
            yield (self.element, candidate, agreed, None, 0)
        if anchor is None and not seen:
            yield self._settle(search, [], left)

    def _agree(self, search: MatchState, goal: Goal) -> Goals:
        seen, left, count = goal[1]
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
        search.forget(self._own)
        search.change("awaiting", (*earlier, *compress(fresh, waits)))
        return self._gather(search, self.nearest(search), left)

    def _gather(self, search: MatchState, near: Near, left: _Open) -> Goals:
        candidates = self._free(search, near.candidates(search), left)
        return self._settle(search, islice(self.matches(search, candidates, self._own), self.repeat.max), left)

    def _settle(self, search: MatchState, found: Iterable[tuple[Var, list[BoundValue | None]]], left: _Open) -> Goals:
        repeat, elements = self.repeat, list(found)
        extent, count = repeat.extent, len(elements)
        wanted = None if extent is None else search.extents.get(extent)
        if count < repeat.min:
            return (self._too_few, (count, wanted), None, None, _WHOLE)
        if wanted not in (None, count):
            return (self._of_other_length, (count, wanted), None, None, _WHOLE)
        if extent is not None:
            search.change("extents", {**search.extents, extent: count})
        gather(search, repeat, self._own, [leaf for leaf, _ in elements], [row for _, row in elements])
        return self.plan.after(left.place([self]))


def _fail(_search: MatchState, _goal: Goal) -> Goals:
    return FAILED


def _identity(leaf: Any) -> object:
    return leaf if isinstance(leaf, Expr) else id(leaf)


def _none(root: DFPattern, near: Near, search: MatchState, count: int = 1) -> reasons.Reason:
    """The reason when too few of the candidates can stand for ``root``, or for ``count`` roots like it."""
    linked = None if near.part is None else search.bound[near.part][0]
    users = () if linked is None else search.block.users_of(linked)
    return reasons.no_candidate(root, linked, users, search.block.definitions, count)


def _reluctance(root: _Root) -> tuple[bool, bool, bool]:
    """The order in which roots are placed: single ones, best with a known operator, then repeats, best not empty."""
    if isinstance(root, _RepeatedRoot):
        return True, root.repeat.min == 0, False
    return False, False, root.ops is None


def _form(parts: Sequence[DFPattern], fixed: Container[DFPattern]) -> list[Any]:
    """An outline of a pattern of ``parts``: of the ``fixed`` ones which they are, of others of what kind."""
    numbers = {part: number for number, part in enumerate(parts)}
    return [
        part
        if part in fixed or isinstance(part, RepeatPattern)
        else (type(part), _own_fields(part), [numbers[child] for child in part.children()])
        for part in parts
    ]


def _own_fields(pattern: DFPattern) -> list[Any]:
    return [v for _, v in pattern.fields_of() if not isinstance(v, DFPattern) and not _holds_patterns(v)]


def _holds_patterns(value: object) -> bool:
    return isinstance(value, tuple) and any(isinstance(item, DFPattern) for item in cast("tuple[Any, ...]", value))


# --- constraints


def _use_check(use: UseConstraint) -> Step:
    def run(search: MatchState, goal: Goal) -> Goals:
        if use.source not in search.bound or use.user not in search.bound:
            return goal[2]
        source, user = search.bound[use.source][0], search.bound[use.user][0]
        is_used = uses(search.block, user, source, use.index)
        return goal[2] if is_used and not (use.only and any(other_users(search.block, source, user))) else FAILED

    def why(search: MatchState, _goal: Goal) -> reasons.Reason:
        source, user = search.bound[use.source][0], search.bound[use.user][0]
        if not uses(search.block, user, source, use.index):
            return reasons.not_used(source, user, use.index, search.block.definitions)
        return reasons.extra_user(source, *other_users(search.block, source, user))

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


# --- a context


class CompiledContext:
    """A context ready to run.

    Cost of a search: one run per candidate anchor, plus the users of the values that are shared. Alike roots and
    repeats cost their candidates once; combinations are only gone through while the caller declines them.
    """

    __slots__ = ("_plan", "anchor_ops", "context")

    def __init__(self, context: PatternContext) -> None:
        self.context = context
        self._plan = _Plan(context)
        self.anchor_ops = self._plan.anchor.ops

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
        for _ in search.solutions(self._plan.goal(resolve(view.definitions, anchor))):
            yield search.shown(as_leaves=True)


def compiled_context(context: PatternContext) -> CompiledContext:
    """``context`` ready to run; compiled on first use."""
    found: CompiledContext | None = context.compiled_form
    if found is None:
        found = context.compiled_form = CompiledContext(context)
    return found
