"""Matching a whole context: which bindings to try, in which order, and when each constraint can be checked.

One root is the *anchor*: it is tried at each binding that its operator allows. From there each further root is sought
where it must be: among the users of a value it shares with what is matched, or among the operands or users that a
constraint names; only a root with no such tie is sought in the whole block. Roots that are alike (the n matmuls of one
left side) are taken together: the candidates that match are found once, and then combined in block order, so that n
patterns cost what the candidates cost and no two permutations of one match are offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from ..ir.builder import operands_of
from ..ir.expr import Expr, Tuple, Var
from ..ir.op import Op
from ..ir.types import TensorType, shapes_equal
from . import reasons
from .compile import Compiler, ElementCode
from .context import PatternContext, UseConstraint
from .machine import DEFINITIONS, SEEN, SIZES, TRACER, UNSET, VIEW, Registers, Step, Tracer, solutions
from .match import outside_of_repeats, root_ops
from .pattern import CallPattern, DFPattern, NotPattern, PatternError, RepeatPattern, all_patterns
from .view import BlockView, leaves_of, resolve


class Link:
    """Where to look for a root: so many uses above the value in a register, or below it, or anywhere."""

    __slots__ = ("below", "heights", "ops", "register")

    def __init__(
        self,
        register: int | None,
        heights: frozenset[int],
        ops: tuple[Op, ...] | None,
        *,
        below: bool = False,
    ) -> None:
        self.register = register
        self.heights = heights
        self.ops = ops
        self.below = below

    def candidates(self, r: Registers) -> list[Var]:
        """The bindings to try, in block order."""
        view: BlockView = r[VIEW]
        if self.register is None:
            return view.candidates(self.ops)
        leaf = r[self.register]
        if self.below:
            value = view.definitions.get(leaf, leaf) if isinstance(leaf, Var) else leaf
            found = [resolve(view.definitions, o) for o in leaves_of(value)]
            return [v for v in dict.fromkeys(found) if isinstance(v, Var)]
        if not isinstance(leaf, Var):
            return view.candidates(self.ops)
        reached: dict[Var, None] = {}
        frontier: list[Expr] = [leaf]
        for level in range(1, max(self.heights) + 1):
            frontier = list(dict.fromkeys(user for value in frontier for user in view.users_of(value)))
            if level in self.heights:
                reached.update(dict.fromkeys(v for v in frontier if isinstance(v, Var)))
        allowed = self.ops
        if allowed is not None:
            index = [view.by_op.get(op, {}) for op in allowed]
            reached = {v: None for v in reached if any(v in table for table in index)}
        return sorted(reached, key=view.rank)


def heights_above(root: DFPattern, part: DFPattern) -> frozenset[int]:
    """How many uses lie between the value of ``part`` and that of ``root`` (at least one), over all its places."""
    found: set[int] = set()
    stack: list[tuple[DFPattern, int]] = [(root, 0)]
    seen: set[tuple[DFPattern, int]] = set()
    while stack:
        pattern, height = stack.pop()
        if (pattern, height) in seen or isinstance(pattern, NotPattern):
            continue
        seen.add((pattern, height))
        if pattern is part:
            found.add(max(height, 1))
            continue
        if isinstance(pattern, CallPattern):
            stack.extend((arg, height + 1) for arg in pattern.args)
        else:
            stack.extend((child, height) for child in pattern.children())
    return frozenset(found)


class _Planner:
    """Compiles a context: places its roots one after the other, and each constraint as soon as it can be checked."""

    def __init__(self, context: PatternContext) -> None:
        self.context = context
        self.compiler = Compiler()
        self.roots = context.roots()
        if not self.roots:
            raise PatternError("the context has no pattern: make patterns inside `with PatternContext() as ctx:`")
        for root in self.roots:
            inner = root.pattern if isinstance(root, RepeatPattern) else root
            if not isinstance(root, RepeatPattern):
                self.compiler.outside_repeats |= outside_of_repeats(inner)
        self.entry = self.compiler.register()
        self.placed: list[DFPattern] = []
        self.pending_uses = list(context.uses)
        self.pending_shapes = list(context.same_shapes)
        self._refuse_constraints_on_repeated()

    def _refuse_constraints_on_repeated(self) -> None:
        tied = {p for use in self.context.uses for p in (use.source, use.user)}
        tied.update(p for constraint in self.context.same_shapes for p in constraint.args)
        for root in self.roots:
            if not isinstance(root, RepeatPattern):
                continue
            shared = {p for one in root.shared for p in all_patterns(one)} | self.compiler.outside_repeats
            for part in (root, *all_patterns(root.pattern)):
                if part in tied and part not in shared:
                    raise PatternError(
                        f"{part!r} is part of a repeat, so it stands for many values and cannot be in a constraint; "
                        "put it in `shared`, or check it in the rewriter"
                    )

    def plan(self) -> None:
        """Place the anchor, then every other root next to what is placed."""
        anchor = next((root for root in self.roots if root_ops(root) is not None), self.roots[0])
        waiting = [root for root in self.roots if root is not anchor]
        self._place_anchor(anchor)
        self._check_what_can_be()
        while waiting:
            link, root = self._nearest(waiting)
            alike = [other for other in waiting if other is root or self._alike(root, other)]
            if isinstance(root, RepeatPattern):
                self._place_repeat(root, link)
                alike = [root]
            elif len(alike) > 1 or (self.placed and self._alike(self.placed[-1], root)):
                self._place_alike(alike, link)
            else:
                self._place(root, link)
            waiting = [other for other in waiting if other not in alike]
            self._check_what_can_be()

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
                if part in self.compiler.bound and part not in self.compiler.repeated and not _is_op_pattern(part):
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

    # --- roots

    def _place(self, root: DFPattern, link: Link) -> None:
        register = self.compiler.register()
        after = len(self.compiler.code.steps) + 1
        others = self._root_registers()

        def run(r: Registers) -> Iterator[int]:
            taken = _taken(r, others)
            for candidate in link.candidates(r):
                leaf = resolve(r[DEFINITIONS], candidate)
                if leaf not in taken:
                    r[register] = leaf
                    yield after

        def why(r: Registers) -> tuple[str, str]:
            return reasons.no_candidate(root, None if link.register is None else r[link.register])

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
            taken = _taken(r, others)
            first = view.rank(r[earlier]) if earlier is not None and isinstance(r[earlier], Var) else -2
            found = [
                row
                for candidate in link.candidates(r)
                if candidate not in taken and view.rank(candidate) > first
                for row in _first_row(body, candidate, model_slots, r)
            ]
            for chosen in combinations(found, len(roots)):
                for registers, row in zip(rows, chosen, strict=True):
                    for register, (leaf, shown) in zip(registers, row, strict=True):
                        r[register], r[register + 1] = leaf, shown
                yield after

        def why(r: Registers) -> tuple[str, str]:
            return reasons.no_candidate(model, None if link.register is None else r[link.register], len(roots))

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
        here, matched = self.compiler.place, len(self.compiler.bound)
        body = self.compiler.element_code(root.pattern, root.shared, self.compiler.outside_repeats)
        slot = self.compiler.slot(root)
        keys = [self.compiler.slot(p) for p in all_patterns(root.pattern) if p in body.shared and not _is_op_pattern(p)]
        links = [
            Link(self.compiler.slot(p), heights_above(root.pattern, p), link.ops)
            for p in all_patterns(root.pattern)
            if p in body.shared and not _is_op_pattern(p) and heights_above(root.pattern, p)
        ]
        extent = self.compiler.extent_register(root.extent)
        after = len(self.compiler.code.steps) + 1
        others = self._root_registers()
        entry = self.entry

        def gather(r: Registers, around: Link) -> list[list[tuple[Any, Any]]]:
            taken = _taken(r, others)
            return [
                row
                for candidate in around.candidates(r)
                if candidate not in taken
                for row in _first_row(body, candidate, body.gathered, r)
            ]

        def settle(r: Registers, rows: list[list[tuple[Any, Any]]]) -> bool:
            rows = rows[: root.max]
            wanted = UNSET if extent is None else r[extent]
            if len(rows) < root.min or wanted not in (UNSET, len(rows)):
                tracer: Tracer | None = r[TRACER]
                if tracer is not None:
                    # Where only the length is wrong, that counts as further than any value that did not match.
                    further = 0 if len(rows) < root.min else len(body.own) + 1
                    why = partial(_wrong_count, root, len(rows), wanted)
                    tracer.failed(Step(root, why, here, matched + further), r)
                return False
            for index, register in enumerate(body.gathered):
                r[register] = [row[index][0] for row in rows]
                r[register + 1] = [row[index][1] for row in rows]
            place = body.gathered.index(body.root) if body.root in body.gathered else None
            r[slot] = r[slot + 1] = [] if place is None else list(r[body.root])
            return True

        def finish(r: Registers, rows: list[list[tuple[Any, Any]]]) -> Iterator[int]:
            fixed = extent is not None and r[extent] is UNSET
            if settle(r, rows):
                if extent is not None and fixed:
                    r[extent] = len(rows[: root.max])
                yield after
                if extent is not None and fixed:
                    r[extent] = UNSET
                r[slot] = r[slot + 1] = UNSET

        def from_anchor(r: Registers) -> Iterator[int]:
            view: BlockView = r[VIEW]
            r[body.entry] = r[entry]
            for _ in solutions(body.code, r):
                key = (id(root), *(_identity(r[k]) for k in keys))
                if key in r[SEEN]:
                    if r[TRACER] is not None:
                        r[TRACER].seen_before()
                    continue
                r[SEEN].add(key)
                near = [one for one in links if one.register is not None and isinstance(r[one.register], Var)]
                best = min(near, key=lambda one: len(view.users.get(r[one.register], ())), default=link)
                yield from finish(r, gather(r, best))

        def from_link(r: Registers) -> Iterator[int]:
            if all(r[k] is not UNSET for k in keys):
                yield from finish(r, gather(r, link))
                return
            for candidate in link.candidates(r):
                r[body.entry] = resolve(r[DEFINITIONS], candidate)
                for _ in solutions(body.code, r):
                    near = [one for one in links if one.register is not None and isinstance(r[one.register], Var)]
                    yield from finish(r, gather(r, near[0] if near else link))

        def why(r: Registers) -> tuple[str, str]:
            return reasons.no_candidate(root, None if link.register is None else r[link.register])

        self.compiler.code.add_choice(from_anchor if anchored else from_link, root, why)
        self.compiler.bound |= body.own | {root}
        self.compiler.repeated |= body.own | {root}
        self.compiler.maybe |= body.shared - self.compiler.bound
        if root.min > 0:
            self.compiler.bound |= body.shared
        self.placed.append(root)

    def _root_registers(self) -> list[int]:
        return [self.compiler.slot(root) for root in self.placed]

    # --- constraints

    def _check_what_can_be(self) -> None:
        bound = self.compiler.bound
        for use in list(self.pending_uses):
            if use.source in bound and use.user in bound:
                self.pending_uses.remove(use)
                self._check_use(use)
        for constraint in list(self.pending_shapes):
            if all(p in bound for p in constraint.args):
                self.pending_shapes.remove(constraint)
                self._check_shapes(constraint.args)

    def _check_use(self, use: UseConstraint) -> None:
        source, user = self.compiler.slot(use.source), self.compiler.slot(use.user)
        after = len(self.compiler.code.steps) + 1

        def run(r: Registers) -> int:
            view: BlockView = r[VIEW]
            if not _uses(view, r[user], r[source], use.index):
                return -1
            if use.only:
                consumers, is_output = view.consumers(r[source])
                if is_output or any(resolve(view.definitions, c) is not r[user] for c in consumers):
                    return -1
            return after

        def why(r: Registers) -> tuple[str, str]:
            view: BlockView = r[VIEW]
            if not _uses(view, r[user], r[source], use.index):
                return reasons.not_used(r[source], r[user], use.index, view.definitions)
            consumers, is_output = view.consumers(r[source])
            return reasons.extra_user(r[source], [c for c in consumers if c is not r[user]], is_output)

        self.compiler.code.add_test(run, use.source, why)

    def _check_shapes(self, patterns: Sequence[DFPattern]) -> None:
        slots = [self.compiler.slot(p) for p in patterns]
        after = len(self.compiler.code.steps) + 1

        def run(r: Registers) -> int:
            types = [r[slot].ty for slot in slots]
            shapes = [ty.shape if isinstance(ty, TensorType) else None for ty in types]
            first = shapes[0]
            same = first is not None and all(s is not None and shapes_equal(first, s) is True for s in shapes)
            return after if same else -1

        self.compiler.code.add_test(run, patterns[0], lambda r: reasons.same_shape([r[slot] for slot in slots]))


def _wrong_count(root: RepeatPattern, found: int, wanted: Any, _r: Registers) -> tuple[str, str]:
    return reasons.wrong_count(root, found, None if wanted is UNSET else wanted)


def _is_op_pattern(pattern: DFPattern) -> bool:
    return isinstance(getattr(pattern, "expr", None), Op)


def _identity(leaf: Any) -> object:
    return leaf if isinstance(leaf, Expr) else id(leaf)


def _taken(r: Registers, registers: Iterable[int]) -> set[Expr]:
    found: set[Expr] = set()
    for register in registers:
        value = r[register]
        if isinstance(value, list):
            found.update(value)  # pyright: ignore[reportUnknownArgumentType]
        elif value is not UNSET:
            found.add(value)
    return found


def _first_row(
    body: ElementCode, candidate: Var, registers: Sequence[int], r: Registers
) -> list[list[tuple[Any, Any]]]:
    """What the first way in which ``candidate`` matches binds, as a list of one row; no row if it does not match."""
    r[body.entry] = resolve(r[DEFINITIONS], candidate)
    found: list[list[tuple[Any, Any]]] = []
    for _ in solutions(body.code, r):
        if not found:
            found.append([(r[g], r[g + 1]) for g in registers])
    return found


def _uses(view: BlockView, user: Expr, source: Expr, index: int) -> bool:
    value = view.definitions.get(user, user) if isinstance(user, Var) else user
    operands = operands_of(value)
    if index >= 0:
        operands = operands[index : index + 1]
    stack = list(operands)
    while stack:
        leaf = resolve(view.definitions, stack.pop())
        if leaf is source:
            return True
        whole = view.definitions.get(leaf, leaf) if isinstance(leaf, Var) else leaf
        if isinstance(whole, Tuple):
            stack.extend(whole.fields)
    return False


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
    values = [getattr(pattern, name) for name in names if name != "compiled_form"]
    return [v for v in values if not isinstance(v, DFPattern | tuple)] + [
        v for v in values if isinstance(v, tuple) and not any(isinstance(i, DFPattern) for i in v)
    ]


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

    __slots__ = ("_code", "_entry", "_names", "_template", "anchor_ops", "context")

    def __init__(self, context: PatternContext) -> None:
        planner = _Planner(context)
        planner.plan()
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
        for anchor in view.candidates(self.anchor_ops):
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
        found: dict[Any, Any] = {p: r[slot] for p, slot in self._names if r[slot] is not UNSET}
        if r[SIZES]:
            found.update(r[SIZES])
        return found


def compiled_context(context: PatternContext) -> CompiledContext:
    """``context`` ready to run; compiled on first use."""
    found: CompiledContext | None = context.compiled_form
    if found is None:
        found = context.compiled_form = CompiledContext(context)
    return found
