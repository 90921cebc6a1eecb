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
from functools import partial
from itertools import combinations
from typing import Any, cast

from ...ir.expr import Var
from ...ir.types import TensorType, shapes_equal
from .. import reasons
from ..context import PatternContext, UseConstraint
from ..pattern import DFPattern, PatternError, RepeatPattern, all_patterns
from .compile import Compiler, briefly, in_two_repeats
from .conditions import size_variables
from .elements import first_row
from .gather import RepeatRoot
from .links import Link, heights_above, other_users, taken_by, uses, values_of
from .machine import DEFINITIONS, SEEN, SIZES, TRACER, UNSET, VIEW, Registers, Tracer, solutions
from .match import matchings_in
from .parts import bindable, fixed_op, root_ops
from .view import BlockView, resolve


class _Planner:
    """Compiles a context: places its roots one after the other, and each constraint as soon as it can be checked."""

    def __init__(self, context: PatternContext, most: int | None) -> None:
        self.context = context
        self.roots = context.roots()
        self.compiler = Compiler(self.roots, most)
        if not self.roots:
            raise PatternError("the context has no pattern: make patterns inside `with PatternContext() as ctx:`")
        if all(isinstance(root, RepeatPattern) and root.min == 0 for root in self.roots):
            raise PatternError(
                "every root of the context is a repeat with min=0, which nothing would match; give one min=1"
            )
        self.entry = self.compiler.register()
        self.placed: list[DFPattern] = []
        self.pending_uses = list(context.uses)
        self.pending_shapes = list(context.same_shapes)
        self._refuse_runs_of_two_roots()
        self._refuse_constraints_on_repeated()
        self._refuse_constraints_on_rejected()

    def _refuse_constraints_on_repeated(self) -> None:
        tied = [p for use in self.context.uses for p in (use.source, use.user)]
        tied.extend(p for constraint in self.context.same_shapes for p in constraint.args)
        for part in tied:
            if part not in self.compiler.outside_repeats:
                raise PatternError(
                    f"{part!r} is part of a repeat, so it stands for many values and cannot be in a constraint; "
                    "put it in `shared`, or check it in the rewriter"
                )

    def _refuse_runs_of_two_roots(self) -> None:
        for root in self.roots:
            others = {part for other in self.roots if other is not root for part in all_patterns(other)}
            for part in all_patterns(root) if isinstance(root, RepeatPattern) else ():
                if part in others and part not in self.compiler.outside_repeats and fixed_op(part) is None:
                    raise in_two_repeats(part)

    def _refuse_constraints_on_rejected(self) -> None:
        standing = {part for root in self.roots for part in bindable(root)}
        for use in self.context.uses:
            for part in (use.source, use.user):
                if part not in standing:
                    raise PatternError(f"{part!r} stands only under ~, so it stands for no value and cannot be used")

    def plan(self) -> None:
        """Place the anchor, then every other root next to what is placed; repeats after all others."""
        anchor = min(self.roots, key=_reluctance)
        waiting = [root for root in self.roots if root is not anchor]
        self._place_anchor(anchor)
        self._check_what_can_be()
        while waiting:
            plain = [root for root in waiting if not isinstance(root, RepeatPattern)]
            link, root = self._nearest(plain or [min(waiting, key=_reluctance)])
            alike = [other for other in waiting if other is root or self._alike(root, other)]
            if isinstance(root, RepeatPattern):
                self._place_repeat(root, link)
                alike = [root]
            elif self._is_settled(root) and (len(alike) > 1 or self._alike(self.placed[-1], root)):
                self._place_alike(alike, link)
            else:
                self._place(root, link)
                alike = [root]
            waiting = [other for other in waiting if other not in alike]
            self._check_what_can_be()
        self._check_the_rest()
        self.compiler.finish()

    def _place_anchor(self, anchor: DFPattern) -> None:
        if isinstance(anchor, RepeatPattern):
            self._place_repeat(anchor, Link(None, frozenset(), root_ops(anchor)), anchored=True)
        else:
            self.compiler.compile(anchor, self.entry)
            self.placed.append(anchor)

    def _nearest(self, waiting: Sequence[DFPattern]) -> tuple[Link, DFPattern]:
        known = self.compiler.bound | self.compiler.maybe
        for root in waiting:
            ops = root_ops(root)
            for part in all_patterns(root):
                if part in self.compiler.bound and part not in self.compiler.repeated and fixed_op(part) is None:
                    heights = heights_above(root, part)
                    if heights:
                        return Link(self.compiler.slot(part), heights, ops), root
            for use in self.context.uses:
                if use.user is root and use.source in known:
                    return Link(self.compiler.slot(use.source), frozenset({1}), ops), root
                if use.source is root and use.user in known:
                    return Link(self.compiler.slot(use.user), frozenset(), ops, below=True), root
        return Link(None, frozenset(), root_ops(waiting[0])), waiting[0]

    def _alike(self, first: DFPattern, second: DFPattern) -> bool:
        """Whether two roots differ only in which parts of their own they bind, and no constraint tells them apart."""
        tied = {p for use in self.context.uses for p in (use.source, use.user)}
        tied.update(p for constraint in self.context.same_shapes for p in constraint.args)
        mapping: dict[DFPattern, DFPattern] = {}
        elsewhere = {p for root in self.roots if root is not first and root is not second for p in all_patterns(root)}
        return _same_form(first, second, mapping) and not any(
            a is not b and (a in tied or b in tied or a in elsewhere or b in elsewhere) for a, b in mapping.items()
        )

    def _is_settled(self, root: DFPattern) -> bool:
        """Whether all that ``root`` shares with other roots is known, so that its candidates do not depend on others.

        Size variables may be shared without being bound by any one pattern, so roots with some are never settled.
        """
        shared = [p for p in self._known_parts(root) if fixed_op(p) is None and p in self.compiler.standing]
        return all(p in self.compiler.bound for p in shared) and not any(map(size_variables, all_patterns(root)))

    # --- roots

    def _place(self, root: DFPattern, link: Link) -> None:
        register = self.compiler.register()
        after = len(self.compiler.code.steps) + 1
        others = self._root_registers()

        def run(r: Registers) -> Iterator[int]:
            taken = taken_by(r, others)
            for candidate in link.candidates(r):
                if candidate not in taken:
                    r[register] = candidate
                    yield after

        def why(r: Registers) -> tuple[str, str]:
            taken = [leaf for leaf in link.candidates(r) if leaf in taken_by(r, others)]
            return reasons.taken(root, taken[0]) if taken else link.why_none(root, r)

        self.compiler.code.add_choice(run, root, why)
        self.compiler.compile(root, register)
        self.placed.append(root)

    def _place_alike(self, roots: Sequence[DFPattern], link: Link) -> None:
        """Find the candidates for the first of ``roots`` once; hand out combinations of them, in block order."""
        model = roots[0]
        body = self.compiler.element_code(model, (), self._known_parts(model))
        shared = [p for p in all_patterns(model) if p in body.shared]
        own = [p for p in all_patterns(model) if p not in body.shared]
        rows = [[self.compiler.slot(p) for p in _parallel(model, root, own)] for root in roots]
        model_slots = [self.compiler.slot(p) for p in own]
        after = len(self.compiler.code.steps) + 1
        others = self._root_registers()
        earlier = self.compiler.slot(self.placed[-1]) if self._alike(self.placed[-1], model) else None

        def run(r: Registers) -> Iterator[int]:
            view: BlockView = r[VIEW]
            taken = taken_by(r, others)
            first = view.rank(r[earlier]) if earlier is not None and isinstance(r[earlier], Var) else -2
            candidates = [c for c in link.candidates(r) if c not in taken and view.rank(c) > first]
            found = [first_row(body, candidate, model_slots, r) for candidate in candidates]
            for chosen in combinations([row for row in found if row is not None], len(roots)):
                for registers, row in zip(rows, chosen, strict=True):
                    for register, (leaf, shown) in zip(registers, row, strict=True):
                        r[register], r[register + 1] = leaf, shown
                yield after

        def why(r: Registers) -> tuple[str, str]:
            return link.why_none(model, r, len(roots))

        self.compiler.code.add_choice(run, model, why)
        for root in roots:
            self.compiler.bound.update(_parallel(model, root, own))
            self.placed.append(root)
        self.compiler.maybe |= set(shared) - self.compiler.bound

    def _known_parts(self, model: DFPattern) -> list[DFPattern]:
        inside = all_patterns(model)
        others = {p for root in self.roots if root is not model for p in all_patterns(root)}
        return [p for p in inside if p in others and p is not model]

    def _place_repeat(self, root: RepeatPattern, link: Link, *, anchored: bool = False) -> None:
        """The largest set of bindings that match and agree; the anchor's own, if this root is the anchor."""
        compiler = self.compiler
        body = compiler.element_code(root.pattern, root.shared, compiler.outside_repeats)
        sets = RepeatRoot(root, body, link, self._root_registers(), compiler)
        after = len(compiler.code.steps) + 1
        run = sets.of_anchor(self.entry, after) if anchored else sets.of_block(after)

        def why(r: Registers) -> tuple[str, str]:
            return link.why_none(root, r)

        compiler.code.add_choice(run, root, why)
        compiler.bound |= body.own | {root}
        compiler.repeated |= body.own | {root}
        compiler.maybe |= body.shared - compiler.bound
        if root.min > 0:
            compiler.bound |= body.shared & body.certain
        self.placed.append(root)

    def _root_registers(self) -> list[int]:
        return [self.compiler.slot(root) for root in self.placed]

    # --- constraints

    def _check_what_can_be(self) -> None:
        """Add the checks of constraints whose patterns are all bound."""
        bound = self.compiler.bound
        for use in list(self.pending_uses):
            if use.source in bound and use.user in bound:
                self.pending_uses.remove(use)
                self._check_use(use)
        for constraint in list(self.pending_shapes):
            if all(p in bound for p in constraint.args):
                self.pending_shapes.remove(constraint)
                self._check_shapes(constraint.args)

    def _check_the_rest(self) -> None:
        """Constraints on patterns of alternatives: where one was not taken, there is nothing to check."""
        for use in self.pending_uses:
            self._check_use(use)
        for constraint in self.pending_shapes:
            self._check_shapes(constraint.args)

    def _check_use(self, use: UseConstraint) -> None:
        source, user = self.compiler.slot(use.source), self.compiler.slot(use.user)
        after = len(self.compiler.code.steps) + 1

        def run(r: Registers) -> int:
            if r[source] is UNSET or r[user] is UNSET:
                return after
            view: BlockView = r[VIEW]
            if not uses(view, r[user], r[source], use.index):
                return -1
            if use.only:
                others, is_output = other_users(view, r[source], r[user])
                if others or is_output:
                    return -1
            return after

        def why(r: Registers) -> tuple[str, str]:
            view: BlockView = r[VIEW]
            if not uses(view, r[user], r[source], use.index):
                return reasons.not_used(r[source], r[user], use.index, view.definitions)
            return reasons.extra_user(r[source], *other_users(view, r[source], r[user]))

        self.compiler.code.add_test(run, use.source, why)

    def _check_shapes(self, patterns: Sequence[DFPattern]) -> None:
        slots = [self.compiler.slot(p) for p in patterns]
        after = len(self.compiler.code.steps) + 1

        def run(r: Registers) -> int:
            types = [r[slot].ty for slot in slots if r[slot] is not UNSET]
            shapes = [ty.shape if isinstance(ty, TensorType) else None for ty in types]
            same = all(s is not None and shapes_equal(shapes[0] or (), s) is True for s in shapes)
            return after if same else -1

        self.compiler.code.add_test(run, patterns[0], lambda r: reasons.same_shape([r[slot] for slot in slots]))


def _reluctance(root: DFPattern) -> tuple[bool, bool, bool]:
    """How late a root is to be placed: first single ones, best with a known operator, then repeats, best not empty."""
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
    names = [name for kind in type(pattern).__mro__ for name in getattr(kind, "__slots__", ())]
    values: list[Any] = [getattr(pattern, name) for name in names if name != "compiled_form"]
    return [v for v in values if not isinstance(v, DFPattern) and not _holds_patterns(v)]


def _holds_patterns(value: object) -> bool:
    return isinstance(value, tuple) and any(isinstance(item, DFPattern) for item in cast("tuple[Any, ...]", value))


def _parallel(model: DFPattern, other: DFPattern, own: Sequence[DFPattern]) -> list[DFPattern]:
    """The parts of ``other`` that stand where the parts ``own`` of ``model`` stand."""
    mapping: dict[DFPattern, DFPattern] = {}
    _same_form(model, other, mapping)
    return [mapping[part] for part in own]


def _planned(context: PatternContext, most: int | None) -> _Planner:
    planner = _Planner(context, most)
    planner.plan()
    return planner


class CompiledContext:
    """A context ready to run.

    Cost of a search: one run per candidate anchor, plus the users of the values that are shared. Alike roots and
    repeats cost their candidates once; combinations are only gone through while the caller declines them.
    """

    __slots__ = ("_code", "_entry", "_names", "_template", "anchor_ops", "context")

    def __init__(self, context: PatternContext) -> None:
        planner = briefly(partial(_planned, context))
        compiler = planner.compiler
        self.context = context
        self._code = compiler.code
        self._entry = planner.entry
        self._names = tuple(compiler.slots.items())
        self._template = compiler.fresh_registers({})
        self.anchor_ops = root_ops(planner.placed[0])

    def search(self, view: BlockView, tracer: Tracer | None = None) -> Iterator[dict[Any, Any]]:
        """Each match in the block, anchors in block order."""
        seen: set[Any] = set()
        for anchor in values_of(view, self.anchor_ops):
            yield from self.at(view, anchor, seen, tracer)

    def at(
        self, view: BlockView, anchor: Var, seen: set[Any], tracer: Tracer | None = None
    ) -> Iterator[dict[Any, Any]]:
        """Each match whose anchor is the binding ``anchor``; ``seen`` holds the groups that were offered already."""
        r = self._template.copy()
        r[DEFINITIONS] = view.definitions
        r[VIEW] = view
        r[TRACER] = tracer
        r[SEEN] = seen
        r[self._entry] = resolve(view.definitions, anchor)
        for _ in solutions(self._code, r):
            yield self._matchings(r)

    def _matchings(self, r: Registers) -> dict[Any, Any]:
        found = matchings_in(r, self._names, shown=False)
        if r[SIZES]:
            found.update(r[SIZES])
        return found


def compiled_context(context: PatternContext) -> CompiledContext:
    """``context`` ready to run; compiled on first use."""
    found: CompiledContext | None = context.compiled_form
    if found is None:
        found = context.compiled_form = CompiledContext(context)
    return found
