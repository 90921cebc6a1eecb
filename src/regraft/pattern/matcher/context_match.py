"""Matching a whole context: which bindings to try, in which order, and when each constraint can be checked.

One root is the *anchor*: it is tried at each binding that its operator allows. From there each further root is sought
where it must be: among the users of a value it shares with what is matched, or among the operands or users that a
constraint names; only a root with no such tie is sought in the whole block. Roots that are alike (the n matmuls of one
left side) are taken together: the candidates that match are found once, and then combined in block order, so that n
patterns cost what the candidates cost and no two permutations of one match are offered. Repeats come last, each with
all the bindings that are left for it (`gather`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple, cast

from ...analysis.values import BlockView, resolve
from ...ir.expr import Expr, Var
from ...ir.types import TensorType, shapes_equal
from .. import reasons
from ..context import PatternContext, SameShapeConstraint, UseConstraint
from ..parts import bindable, fixed_op, own_parts, root_ops
from ..pattern import DFPattern, PatternError, RepeatPattern, all_patterns
from .conditions import size_variables
from .goals import CompiledPatterns
from .links import Link, heights_above, other_users, taken_by, uses, values_of, view_of
from .machine import FAILED, Goal, Goals, MatchState, Step, Tracer
from .rows import gather


class _Open(NamedTuple):
    """The rest of a context: the roots that are placed, those that wait, and the constraints to be checked."""

    placed: tuple[DFPattern, ...]
    waiting: tuple[DFPattern, ...]
    pending: tuple[tuple[tuple[DFPattern, ...], Step], ...]

    def place(self, roots: Sequence[DFPattern]) -> _Open:
        """This, with ``roots`` placed as well."""
        waiting = tuple(root for root in self.waiting if root not in roots)
        return self._replace(placed=(*self.placed, *roots), waiting=waiting)


class _Planner:
    """The goals of a context: to place its roots one after the other, and check constraints as soon as that can be."""

    def __init__(self, context: PatternContext) -> None:
        self.context = context
        self.roots = context.roots()
        if not self.roots:
            raise PatternError("the context has no pattern: make patterns inside `with PatternContext() as ctx:`")
        if all(isinstance(root, RepeatPattern) and root.min == 0 for root in self.roots):
            raise PatternError(
                "every root of the context is a repeat with min=0, which nothing would match; give one min=1"
            )
        self.steps = CompiledPatterns(self.roots)
        self._refuse_constraints()
        self.anchor = min(self.roots, key=_reluctance)
        waiting = tuple(root for root in self.roots if root is not self.anchor)
        pending = [((use.source, use.user), _use_check(use)) for use in context.uses]
        pending += [(constraint.args, _shape_check(constraint)) for constraint in context.same_shapes]
        self.start = _Open((self.anchor,), waiting, tuple(pending))
        parts = {root: all_patterns(root) for root in self.roots}
        self.elsewhere = {
            root: {p for other in self.roots if other is not root for p in parts[other]} for root in self.roots
        }
        self._near = {root: self._ties(root, parts[root]) for root in self.roots}
        self._own = {
            root: [p for p in parts[root] if p not in self.elsewhere[root] and fixed_op(p) is None]
            for root in self.roots
        }
        self._ops = {root: root_ops(root) for root in self.roots}
        self._alike_roots: dict[tuple[DFPattern, DFPattern], bool] = {}
        self._next = Step(self.anchor, self._go_on)
        self._seek = {
            root: _RepeatRoot(root, self).step if isinstance(root, RepeatPattern) else self._seeking(root)
            for root in self.roots
        }

    def _refuse_constraints(self) -> None:
        standing = {part for root in self.roots for part in bindable(root)}
        tied = [p for use in self.context.uses for p in (use.source, use.user)]
        for part in (*tied, *(p for constraint in self.context.same_shapes for p in constraint.args)):
            if part not in self.steps.shared:
                raise PatternError(
                    f"{part!r} is part of a repeat, so it stands for many values and cannot be in a constraint; "
                    "put it in `shared`, or check it in the rewriter"
                )
        for part in tied:
            if part not in standing:
                raise PatternError(f"{part!r} stands only under ~, so it stands for no value and cannot be used")

    def _ties(self, root: DFPattern, parts: Sequence[DFPattern]) -> list[tuple[DFPattern, frozenset[int]]]:
        """The parts that ``root`` shares with other roots, and how far below it they stand."""
        shared = [p for p in parts if p in self.elsewhere[root] and fixed_op(p) is None]
        return [(part, above) for part in shared if (above := heights_above(root, part))]

    def goals(self, anchor: Expr) -> Goal:
        """The goals of a match whose anchor is the value ``anchor``."""
        if isinstance(self.anchor, RepeatPattern):
            return (self._seek[self.anchor], (Link(None, frozenset(), None), self.start, anchor), None, None, -1)
        return (self.steps.of[self.anchor], anchor, self.after(self.start), None, 0)

    def after(self, left: _Open) -> Goal:
        """The goal of placing what is ``left``."""
        return (self._next, left, None, None, -1)

    def _go_on(self, search: MatchState, goal: Goal) -> Goals:
        left: _Open = goal[1]
        # Where an alternative was not taken, a constraint on its patterns says nothing; that is known at the end.
        ready = [one for one in left.pending if not left.waiting or all(p in search.bound for p in one[0])]
        if ready:
            goals = self.after(left._replace(pending=tuple(one for one in left.pending if one not in ready)))
            for _, check in reversed(ready):
                goals = (check, None, goals, None, -1)
            return goals
        if not left.waiting:
            return None
        plain = [root for root in left.waiting if not isinstance(root, RepeatPattern)]
        link, root = self._nearest(search, plain or [min(left.waiting, key=_reluctance)])
        return (self._seek[root], (link, left, None), None, None, -1)

    def _nearest(self, search: MatchState, waiting: Sequence[DFPattern]) -> tuple[Link, DFPattern]:
        bound = search.bound
        for root in waiting:
            ops = self._ops[root]
            for part, heights in self._near[root]:
                if part in bound:
                    return Link(part, heights, ops), root
            for use in self.context.uses:
                if use.user is root and use.source in bound:
                    return Link(use.source, frozenset({1}), ops), root
                if use.source is root and use.user in bound:
                    return Link(use.user, frozenset(), ops, below=True), root
        return Link(None, frozenset(), self._ops[waiting[0]]), waiting[0]

    # --- roots that stand for one value each

    def _seeking(self, root: DFPattern) -> Step:
        step = self.steps.of[root]

        def run(search: MatchState, goal: Goal) -> Goals:
            link, left, _ = goal[1]
            group = self._group(search, root, left)
            return search.choose(together(search, link, left, group) if group else one(search, link, left))

        def one(search: MatchState, link: Link, left: _Open) -> Iterator[Goals]:
            taken = taken_by(search, left.placed)
            for candidate in link.candidates(search):
                if candidate not in taken:
                    yield (step, candidate, self.after(left.place([root])), None, 0)

        def together(search: MatchState, link: Link, left: _Open, group: Sequence[DFPattern]) -> Iterator[Goals]:
            """The candidates are found once, and handed out in combinations, in block order."""
            own, last = self._own[root], left.placed[-1]
            taken = taken_by(search, left.placed)
            candidates = link.candidates(search)
            if self._alike(last, root) and search.bound[last][0] in candidates:
                candidates = candidates[candidates.index(search.bound[last][0]) + 1 :]
            rows = [search.trial((step, c, None, None, 0), own) for c in candidates if c not in taken]
            parallel = [_parallel(root, other, own) for other in group]
            for chosen in combinations([row for row in rows if row is not None], len(group)):
                for patterns, row in zip(parallel, chosen, strict=True):
                    for pattern, pair in zip(patterns, row, strict=True):
                        if pair is not None:
                            search.bind(pattern, *pair)
                yield self.after(left.place(group))

        def why(search: MatchState, goal: Goal) -> reasons.Reason:
            link, left, _ = goal[1]
            group = self._group(search, root, left)
            taken = taken_by(search, left.placed)
            others = [] if group else [leaf for leaf in link.candidates(search) if leaf in taken]
            return reasons.taken(root, others[0]) if others else link.why_none(root, search, len(group) or 1)

        return Step(root, run, why)

    def _group(self, search: MatchState, root: DFPattern, left: _Open) -> list[DFPattern]:
        """The waiting roots that are alike and can be placed together with ``root``; empty if it is placed alone.

        All that they share with other roots has to be known. Size variables may be shared without being bound by any
        one pattern, so roots with some are placed alone.
        """
        if any(p not in search.bound for p in self._shared_with_others(root)) or _binds_sizes(root):
            return []
        group = [other for other in left.waiting if other is root or self._alike(root, other)]
        return group if len(group) > 1 or self._alike(left.placed[-1], root) else []

    def _shared_with_others(self, root: DFPattern) -> list[DFPattern]:
        others, standing = self.elsewhere[root], self.steps.standing
        return [p for p in all_patterns(root) if p in others and p in standing and fixed_op(p) is None]

    def _alike(self, first: DFPattern, second: DFPattern) -> bool:
        """True if two roots differ only in which parts of their own they bind, and no constraint tells them apart."""
        key = (first, second)
        if key not in self._alike_roots:
            tied = {p for use in self.context.uses for p in (use.source, use.user)}
            tied.update(p for constraint in self.context.same_shapes for p in constraint.args)
            apart = tied.union(*(all_patterns(r) for r in self.roots if r is not first and r is not second))
            mapping: dict[DFPattern, DFPattern] = {}
            self._alike_roots[key] = _same_form(first, second, mapping) and not any(
                a is not b and (a in apart or b in apart) for a, b in mapping.items()
            )
        return self._alike_roots[key]


class _RepeatRoot:
    """A repeat as a root: the largest set of bindings that match and agree.

    Each way to fix the shared patterns gives one set: all bindings that match then, but for those that other roots
    stand for. Cost of a set: one trial per candidate near the shared value that has the fewest users.
    """

    def __init__(self, root: RepeatPattern, planner: _Planner) -> None:
        self.root = root
        self.planner = planner
        self.own = own_parts(root, planner.steps.shared)
        self.element = planner.steps.of[root.pattern]
        shared = [p for p in all_patterns(root.pattern) if p in planner.steps.shared and fixed_op(p) is None]
        self.shared = shared
        self.heights = [(p, above) for p in shared if (above := heights_above(root.pattern, p))]
        self.ops = root_ops(root)
        self.binds_sizes = _binds_sizes(root)
        self.step = Step(root, self._seek, lambda search, goal: goal[1][0].why_none(root, search))
        self._agreed = Step(root, self._agree)
        self._gathered = Step(root, self._gather)
        apart = frozenset(all_patterns(root)) - planner.elsewhere[root]
        self._too_few = Step(root, _fail, self._wrong_count, apart=apart)
        # Where only the length is wrong, that counts as further than any value that did not match.
        self._of_other_length = Step(root, _fail, self._wrong_count, apart=apart, further=len(self.own) + 1)

    def _wrong_count(self, _search: MatchState, goal: Goal) -> reasons.Reason:
        return reasons.wrong_count(self.root, *goal[1])

    def _seek(self, search: MatchState, goal: Goal) -> Goals:
        link, left, anchor = goal[1]
        if anchor is None and not self.binds_sizes and all(p in search.bound for p in self.shared):
            return (self._gathered, (link, left), None, None, -1)
        return search.choose(self._sets(search, link, left, anchor))

    def _sets(self, search: MatchState, link: Link, left: _Open, anchor: Var | None) -> Iterator[Goals]:
        """The sets that agree with what is matched so far, or those of the anchor that were not offered before."""
        view, count = view_of(search), len(search.awaiting)
        taken: set[Expr] = set() if anchor is not None else taken_by(search, left.placed)
        seen: set[Any] = set() if search.seen is None or anchor is None else search.seen
        for candidate in link.candidates(search) if anchor is None else (anchor,):
            if candidate not in taken and candidate in view.position:
                agreed = (self._agreed, (seen, left, count, anchor is not None), None, None, -1)
                yield (self.element, candidate, agreed, None, 0)
        if anchor is None and not seen:
            yield self._settle(search, [], [], left)

    def _agree(self, search: MatchState, goal: Goal) -> Goals:
        seen, left, count, is_anchor = goal[1]
        if any(search.refuses(one) for one in search.awaiting[count:]):
            return FAILED
        fixed = (_identity(search.bound[p][0]) if p in search.bound else None for p in self.shared)
        key = (id(self.root), *fixed, *search.sizes.items())
        if key in seen:
            if is_anchor and search.tracer is not None:
                search.tracer.seen_before()
            return FAILED
        seen.add(key)
        search.forget(self.own)
        search.change("awaiting", search.awaiting[:count])
        return (self._gathered, (self._nearest(search), left), None, None, -1)

    def _nearest(self, search: MatchState) -> Link:
        users = view_of(search).users
        links = [Link(part, above, self.ops) for part, above in self.heights if part in search.bound]
        leaves = [(len(users.get(leaf, ())), link) for link in links if isinstance(leaf := _leaf_of(search, link), Var)]
        return min(leaves, key=lambda one: one[0])[1] if leaves else Link(None, frozenset(), self.ops)

    def _gather(self, search: MatchState, goal: Goal) -> Goals:
        link, left = goal[1]
        view, placed = view_of(search), [root for root in left.placed if root is not self.root]
        taken = taken_by(search, placed)
        leaves: list[Expr] = []
        rows: list[Any] = []
        for candidate in link.candidates(search):
            if candidate in taken or candidate not in view.position or len(rows) == self.root.max:
                continue
            row = search.trial((self.element, candidate, None, None, 0), self.own)
            if row is not None:
                leaves.append(candidate)
                rows.append(row)
        return self._settle(search, leaves, rows, left)

    def _settle(self, search: MatchState, leaves: list[Expr], rows: list[Any], left: _Open) -> Goals:
        extent, count = self.root.extent, len(rows)
        wanted = None if extent is None else search.extents.get(extent)
        if count < self.root.min:
            return (self._too_few, (count, wanted), None, None, -1)
        if wanted not in (None, count):
            return (self._of_other_length, (count, wanted), None, None, -1)
        if extent is not None:
            search.change("extents", {**search.extents, extent: count})
        gather(search, self.root, self.own, leaves, rows)
        return self.planner.after(left.place([self.root]) if self.root in left.waiting else left)


def _fail(_search: MatchState, _goal: Goal) -> Goals:
    return FAILED


def _leaf_of(search: MatchState, link: Link) -> Any:
    return None if link.part is None else search.bound[link.part][0]


def _identity(leaf: Any) -> object:
    return leaf if isinstance(leaf, Expr) else id(leaf)


def _binds_sizes(root: DFPattern) -> bool:
    return any(map(size_variables, all_patterns(root)))


# --- constraints


def _use_check(use: UseConstraint) -> Step:
    def values(search: MatchState) -> tuple[BlockView, Expr, Expr]:
        return view_of(search), search.bound[use.source][0], search.bound[use.user][0]

    def run(search: MatchState, goal: Goal) -> Goals:
        if use.source not in search.bound or use.user not in search.bound:
            return goal[2]
        view, source, user = values(search)
        holds = uses(view, user, source, use.index) and not (use.only and any(other_users(view, source, user)))
        return goal[2] if holds else FAILED

    def why(search: MatchState, _goal: Goal) -> reasons.Reason:
        view, source, user = values(search)
        if not uses(view, user, source, use.index):
            return reasons.not_used(source, user, use.index, view.definitions)
        return reasons.extra_user(source, *other_users(view, source, user))

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


def _reluctance(root: DFPattern) -> tuple[bool, bool, bool]:
    """The order in which roots are placed: single ones, best with a known operator, then repeats, best not empty."""
    if isinstance(root, RepeatPattern):
        return True, root.min == 0, False
    return False, False, root_ops(root) is None


def _same_form(first: DFPattern, second: DFPattern, mapping: dict[DFPattern, DFPattern]) -> bool:
    stack = [(first, second)]
    while stack:
        a, b = stack.pop()
        if a in mapping:
            if mapping[a] is not b:
                return False
            continue
        if a is b:
            mapping[a] = b
            stack.extend((child, child) for child in a.children())
            continue
        if type(a) is not type(b) or isinstance(a, RepeatPattern) or b in mapping.values():
            return False
        if _own_fields(a) != _own_fields(b) or len(a.children()) != len(b.children()):
            return False
        mapping[a] = b
        stack.extend(zip(a.children(), b.children(), strict=True))
    return True


def _own_fields(pattern: DFPattern) -> list[Any]:
    return [v for _, v in pattern.fields_of() if not isinstance(v, DFPattern) and not _holds_patterns(v)]


def _holds_patterns(value: object) -> bool:
    return isinstance(value, tuple) and any(isinstance(item, DFPattern) for item in cast("tuple[Any, ...]", value))


def _parallel(model: DFPattern, other: DFPattern, own: Sequence[DFPattern]) -> list[DFPattern]:
    """The parts of ``other`` that stand where the parts ``own`` of ``model`` stand."""
    mapping: dict[DFPattern, DFPattern] = {}
    _same_form(model, other, mapping)
    return [mapping[part] for part in own]


class CompiledContext:
    """A context ready to run.

    Cost of a search: one run per candidate anchor, plus the users of the values that are shared. Alike roots and
    repeats cost their candidates once; combinations are only gone through while the caller declines them.
    """

    __slots__ = ("_planner", "anchor_ops", "context")

    def __init__(self, context: PatternContext) -> None:
        self.context = context
        self._planner = _Planner(context)
        self.anchor_ops = root_ops(self._planner.anchor)

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
        for _ in search.solutions(self._planner.goals(resolve(view.definitions, anchor))):
            yield search.shown(as_leaves=True)


def compiled_context(context: PatternContext) -> CompiledContext:
    """``context`` ready to run; compiled on first use."""
    found: CompiledContext | None = context.compiled_form
    if found is None:
        found = context.compiled_form = CompiledContext(context)
    return found
