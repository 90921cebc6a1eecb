"""The reference matcher: what each pattern means, in the plainest words that run.

This is the definition of the pattern language. It tries everything, copies everything, and recurses, so it is for small
programs only; tests hold the matcher that runs (`matcher`) to give the same matches on random
programs. It knows patterns, how operands resolve (`view`), and the language; nothing of how the other one works.

A pattern that stands in several places means one value, and where it asks for a field of a tuple, each place is written
as such a field. A pattern inside a repeat means one value for each element,
unless it is an operator, is listed in a repeat's ``shared``, or stands outside of repeats as well: then it means the
same value for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from regraft.analysis import free_vars
from regraft.analysis.values import (
    Definitions,
    arguments_of,
    definition,
    projections,
    resolve,
    same_value,
)
from regraft.ir.dims import SymVar
from regraft.ir.expr import Expr, ShapeExpr, Tuple, Var
from regraft.ir.op import Call, Op
from regraft.ir.program import Binding, BindingBlock, Function, If, VarBinding
from regraft.ir.types import TensorType, shapes_equal
from regraft.pattern.chain_pattern import ChainPattern, HolePattern
from regraft.pattern.constrained_patterns import AttrPattern, DataTypePattern, ShapePattern, TypePattern, UsersPattern
from regraft.pattern.context import PatternContext, UseConstraint
from regraft.pattern.leaf_patterns import ExprPattern, PrimArrPattern
from regraft.pattern.pattern import (
    AndPattern,
    CallPattern,
    DFPattern,
    Extent,
    FunctionPattern,
    IfPattern,
    NotPattern,
    OrPattern,
    RepeatPattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
    all_patterns,
)

from .reference_leaves import condition_holds, is_leaf_of
from .reference_uses import has_other_use, holds_value, is_handed_out, users


class LateRejection(NamedTuple):
    """A value that must not match ``pattern``, once everything else is known.

    ``own`` is what its element of a repeat says of the element's own patterns: their leaves, or None.
    """

    pattern: DFPattern
    value: Expr
    definitions: Definitions
    own: Mapping[DFPattern, Any]


class LateClosing(NamedTuple):
    """The value of ``pattern``, which nothing may use but what the match describes, once everything else is known."""

    pattern: DFPattern
    value: Expr


class Matched(NamedTuple):
    """The state of a match: the leaf of each pattern, and what a rewriter is shown for it; never changed."""

    leaves: Mapping[DFPattern, Any] = {}
    shown: Mapping[DFPattern, Any] = {}
    sizes: Mapping[SymVar, Any] = {}
    extents: Mapping[Extent, int] = {}
    rejections: tuple[LateRejection | LateClosing, ...] = ()

    def bind(self, pattern: DFPattern, leaf: Any, shown: Any) -> Matched:
        """This, with ``pattern`` standing for ``leaf``."""
        return self._replace(leaves={**self.leaves, pattern: leaf}, shown={**self.shown, pattern: shown})

    def without(self, patterns: Sequence[DFPattern]) -> Matched:
        """This, with nothing said of ``patterns``."""
        leaves = {p: v for p, v in self.leaves.items() if p not in patterns}
        return self._replace(leaves=leaves, shown={p: v for p, v in self.shown.items() if p not in patterns})


class World(NamedTuple):
    """The fixed data of a match: what variables are bound to, and which patterns mean one value for all.

    ``block`` is the one that is searched; if it is no more than bindings, nothing is seen after it.
    """

    definitions: Definitions
    shared: frozenset[DFPattern]
    block: BindingBlock | Sequence[Binding]

    def inside(self, bodies: Sequence[BindingBlock]) -> World:
        """This, with the bindings of a body as well."""
        found = {b.var: b.value for block in bodies for b in block if isinstance(b, VarBinding)}
        return self._replace(definitions={**self.definitions, **found})


def matches(
    pattern: DFPattern, definitions: Definitions, leaf: Expr, block: BindingBlock | None = None
) -> Iterator[dict[Any, Any]]:
    """Each way in which ``leaf`` matches, as it is written: from each pattern to what a rewriter is shown for it.

    It stands in ``block``; without one, all ``definitions`` are taken for the bindings of one.
    """
    bindings = [VarBinding(var, value) for var, value in definitions.items()] if block is None else block
    world = World(definitions, _shared([pattern]), bindings)
    for known in _ways(pattern, leaf, Matched(), world):
        if _nothing_rejected_matches(known, world):
            yield {**known.shown, **known.sizes}


def _shared(roots: Sequence[DFPattern]) -> frozenset[DFPattern]:
    """The patterns that mean one value throughout the match, also where they stand inside a repeat."""
    found: set[DFPattern] = set()
    stack = list(roots)
    while stack:
        pattern = stack.pop()
        if isinstance(pattern, RepeatPattern):
            found.update(part for one in pattern.shared for part in all_patterns(one, RepeatPattern))
            found.update([pattern] if pattern.is_chained else ())
        elif pattern not in found:
            found.add(pattern)
            stack.extend(pattern.children())
    return frozenset(found)


def _nothing_rejected_matches(known: Matched, world: World) -> bool:
    """``~p``: the value has no match of ``p`` that agrees with the rest of the match. What ``p`` binds stays inside."""
    for one in known.rejections:
        if isinstance(one, LateClosing):
            if not _is_closed(one.value, known, world):
                return False
            continue
        pattern, value, definitions, own = one
        inner = world._replace(definitions=definitions)
        leaves = {p: found for p, found in {**known.leaves, **own}.items() if found is not None}
        start = known._replace(leaves=leaves, shown={**leaves, **known.shown}, rejections=())
        if any(_nothing_rejected_matches(found, inner) for found in _ways(pattern, value, start, inner)):
            return False
    return True


def _ways(pattern: DFPattern, operand: Expr, known: Matched, world: World) -> Iterator[Matched]:
    """Each way in which ``operand``, as it is written, matches ``pattern`` and agrees with what is known."""
    leaf = resolve(world.definitions, operand)
    if pattern in known.leaves:
        if same_value(world.definitions, leaf, known.leaves[pattern]) and _written_so(pattern, operand, known, world):
            yield known
        return
    bound = definition(world.definitions, leaf)
    match pattern:
        case CallPattern():
            yield from _call(pattern, leaf, known, world)
        case TuplePattern():  # A tuple written out whose fields match, one by one; a repeat takes a run of them.
            if isinstance(bound, Tuple):
                for found in _in_a_row(pattern.fields, bound.fields, known, world):
                    yield found.bind(pattern, leaf, bound)
        case UnorderedTuplePattern():  # A tuple written out whose fields match in some order.
            if isinstance(bound, Tuple) and len(bound.fields) == len(pattern.fields):
                for found in _in_any_order(pattern.fields, bound.fields, known, world):
                    yield found.bind(pattern, leaf, bound)
        case TupleGetItemPattern():  # A projection, of that index if one is given, of a tuple that matches.
            for item in projections(world.definitions, operand):
                if pattern.index in (None, item.index):
                    for found in _ways(pattern.tuple, item.tuple_value, known, world):
                        yield found.bind(pattern, leaf, item)
        case OrPattern():  # The value matches one side, and then stands for what that side stands for.
            for side in (pattern.left, pattern.right):
                for found in _ways(side, operand, known, world):
                    yield found.bind(pattern, leaf, found.shown[side])
        case AndPattern():  # The value matches both sides.
            for left in _ways(pattern.left, operand, known, world):
                for found in _ways(pattern.right, operand, left, world):
                    yield found.bind(pattern, leaf, found.shown[pattern.left])
        case ChainPattern():
            yield from _chained(pattern, operand, known, world)
        case NotPattern():  # Decided last, when all that the rejected pattern shares with the rest is known.
            later = LateRejection(pattern.reject, operand, world.definitions, {})
            yield known._replace(rejections=(*known.rejections, later)).bind(pattern, leaf, leaf)
        case TypePattern() | ShapePattern() | DataTypePattern() | AttrPattern():
            for found in _ways(pattern.pattern, operand, known, world):
                sizes = dict(found.sizes)
                if condition_holds(pattern, leaf, bound, sizes):
                    yield found._replace(sizes=sizes).bind(pattern, leaf, found.shown[pattern.pattern])
        case UsersPattern(count=None):  # Decided last, when all that the match describes is known.
            for found in _ways(pattern.pattern, operand, known, world):
                closed = found.bind(pattern, leaf, found.shown[pattern.pattern])
                yield closed._replace(rejections=(*closed.rejections, LateClosing(pattern, leaf)))
        case UsersPattern():  # The value is bound in the block, and used so often.
            for found in _ways(pattern.pattern, operand, known, world):
                if _user_count(leaf, world) == pattern.count:
                    yield found.bind(pattern, leaf, found.shown[pattern.pattern])
        case FunctionPattern():
            yield from _function(pattern, leaf, known, world)
        case IfPattern():  # A branch whose condition matches, and the results of both branches, looking inside.
            if isinstance(bound, If):
                yield from (found.bind(pattern, leaf, bound) for found in _branch(pattern, bound, known, world))
        case PrimArrPattern():  # A shape written out, of certainly these sizes.
            if isinstance(leaf, ShapeExpr) and condition_holds(pattern, leaf, bound, sizes := dict(known.sizes)):
                yield known._replace(sizes=sizes).bind(pattern, leaf, leaf)
        case HolePattern():  # Any value; the link below goes on from it as it is written.
            yield known.bind(pattern, leaf, operand)
        case _:
            if is_leaf_of(pattern, leaf, bound, world.definitions):
                yield known.bind(pattern, leaf, leaf)


def _written_so(pattern: DFPattern, operand: Expr, known: Matched, world: World) -> bool:
    """True if ``operand``, of the value that ``pattern`` stands for, is written as the projections that it asks for."""
    match pattern:
        case TupleGetItemPattern():
            return any(
                same_value(world.definitions, resolve(world.definitions, item.tuple_value), known.leaves[pattern.tuple])
                and _written_so(pattern.tuple, item.tuple_value, known, world)
                for item in projections(world.definitions, operand)
                if pattern.index in (None, item.index)
            )
        case OrPattern():
            sides = [side for side in (pattern.left, pattern.right) if side in known.leaves]
            leaf = resolve(world.definitions, operand)
            taken = [side for side in sides if same_value(world.definitions, leaf, known.leaves[side])]
            return any(_written_so(side, operand, known, world) for side in taken)
        case AndPattern():
            return all(_written_so(side, operand, known, world) for side in (pattern.left, pattern.right))
        case TypePattern() | ShapePattern() | DataTypePattern() | AttrPattern() | UsersPattern():
            return _written_so(pattern.pattern, operand, known, world)
        case ChainPattern():
            return bool(known.leaves[pattern.links]) or _written_so(pattern.until, operand, known, world)
        case _:
            return True


def _call(pattern: CallPattern, leaf: Expr, known: Matched, world: World) -> Iterator[Matched]:
    """A call: callee and arguments match; two arguments of a commutative operator may stand either way round."""
    call = definition(world.definitions, leaf)
    if not isinstance(call, Call):
        return
    orders = [call.args]
    if isinstance(call.op, Op) and call.op.is_commutative and len(call.args) == 2:
        orders.append(call.args[::-1])
    for callee in _ways(pattern.op, call.op, known, world):
        for args in orders:
            for found in _in_a_row(pattern.args, args, callee, world, allow_rest=pattern.varg_default_wildcard):
                yield found.bind(pattern, leaf, call)


def _branch(pattern: IfPattern, bound: If, known: Matched, world: World) -> Iterator[Matched]:
    then, otherwise = (world.inside(b.blocks) for b in (bound.true_branch, bound.false_branch))
    for first in _ways(pattern.cond, bound.cond, known, world):
        for second in _ways(pattern.then, bound.true_branch.body, first, then):
            yield from _ways(pattern.otherwise, bound.false_branch.body, second, otherwise)


def _function(pattern: FunctionPattern, leaf: Expr, known: Matched, world: World) -> Iterator[Matched]:
    """A function value: its parameters match, and so does its result, looking through the bindings inside."""
    function = definition(world.definitions, leaf)
    if not isinstance(function, Function) or len(function.params) != len(pattern.params):
        return
    inner = world.inside(function.body.blocks)
    values = (*function.params, function.body.body)
    for found in _in_a_row((*pattern.params, pattern.body), values, known, inner):
        yield found.bind(pattern, leaf, function)


def _in_a_row(
    parts: Sequence[DFPattern], values: Sequence[Expr], known: Matched, world: World, *, allow_rest: bool = False
) -> Iterator[Matched]:
    """The values match the parts one after the other; none is left, unless ``allow_rest``.

    Repeats take runs of values, as long ones as can be first.
    """
    if not parts:
        if allow_rest or not values:
            yield known
        return
    part, *others = parts
    for length in range(len(values), -1, -1):
        taken, left = values[:length], values[length:]
        if isinstance(part, RepeatPattern):
            ways = _repeated(part, taken, known, world)
        else:
            ways = _ways(part, taken[0], known, world) if length == 1 else iter(())
        for found in ways:
            yield from _in_a_row(others, left, found, world, allow_rest=allow_rest)


def _in_any_order(
    parts: Sequence[DFPattern], values: Sequence[Expr], known: Matched, world: World
) -> Iterator[Matched]:
    """Each part matches a value of its own."""
    if not parts:
        yield known
        return
    for at, value in enumerate(values):
        left = (*values[:at], *values[at + 1 :])
        for found in _ways(parts[0], value, known, world):
            yield from _in_any_order(parts[1:], left, found, world)


# --- repeats


def _repeated(repeat: RepeatPattern, values: Sequence[Expr], known: Matched, world: World) -> Iterator[Matched]:
    """A run of values that each match; what the element's own patterns stand for is gathered in lists."""
    sized = _of_length(repeat, len(values), known)
    if sized is None:
        return
    own = _own_parts(repeat, world)
    leaves = [resolve(world.definitions, value) for value in values]
    for found, rows in _each_element(repeat.pattern, values, sized, world, own):
        yield _gathered(repeat, leaves, rows, found, own)


def _of_length(repeat: RepeatPattern, length: int, known: Matched) -> Matched | None:
    """``known`` with the repeat's extent fixed, or None if the repeat cannot have that length."""
    if length < repeat.min or (repeat.max is not None and length > repeat.max):
        return None
    if repeat.extent is None:
        return known
    if known.extents.get(repeat.extent, length) != length:
        return None
    return known._replace(extents={**known.extents, repeat.extent: length})


def _own_parts(repeat: RepeatPattern, world: World) -> list[DFPattern]:
    """The patterns that mean one value for each element: not those that are shared, only rejected, or an operator."""
    known = [p for p in all_patterns(repeat.pattern) if isinstance(p, RepeatPattern) and p in world.shared]
    shared = {part for one in (*known, *repeat.shared) for part in all_patterns(one)} | world.shared
    return [p for p in all_patterns(repeat.pattern, NotPattern) if p not in shared and not _is_operator(p)]


def _is_operator(pattern: DFPattern) -> bool:
    return isinstance(pattern, ExprPattern) and isinstance(pattern.expr, Op)


Assignment = dict[DFPattern, tuple[Any, Any]]


def _one_element(
    pattern: DFPattern, value: Expr, known: Matched, world: World, own: Sequence[DFPattern]
) -> Iterator[tuple[Matched, Assignment]]:
    """Each way for one element: what it says of the shared patterns, and, apart, of its own."""
    # Outside of the repeats in it a pattern means one value for the element, also inside of these.
    within = world._replace(shared=world.shared | _shared([pattern]))
    for found in _ways(pattern, value, known, within):
        row = {p: (found.leaves[p], found.shown[p]) for p in own if p in found.leaves}
        leaves = {p: found.leaves.get(p) for p in own}
        fresh = found.rejections[len(known.rejections) :]
        rejections = (
            *known.rejections,
            *(one if isinstance(one, LateClosing) else one._replace(own={**one.own, **leaves}) for one in fresh),
        )
        yield found.without(own)._replace(rejections=rejections), row


def _each_element(
    pattern: DFPattern, values: Sequence[Expr], known: Matched, world: World, own: Sequence[DFPattern]
) -> Iterator[tuple[Matched, list[Assignment]]]:
    if not values:
        yield known, []
        return
    for first, row in _one_element(pattern, values[0], known, world, own):
        for found, rows in _each_element(pattern, values[1:], first, world, own):
            yield found, [row, *rows]


def _gathered(
    repeat: RepeatPattern,
    leaves: Sequence[Expr],
    rows: Sequence[Assignment],
    known: Matched,
    own: Sequence[DFPattern],
) -> Matched:
    """Lists for the element's own patterns, with None where an element took another alternative."""
    found = known.bind(repeat, list(leaves), list(leaves))
    for part in own:
        if not rows or any(part in row for row in rows):
            column = [row.get(part, (None, None)) for row in rows]
            found = found.bind(part, [leaf for leaf, _ in column], [shown for _, shown in column])
    return found


def _chained(pattern: ChainPattern, operand: Expr, known: Matched, world: World) -> Iterator[Matched]:
    """As many links as match, each over the value in the hole of the one above, and then the end; or fewer links."""
    links, own = pattern.links, _own_parts(pattern.links, world)
    most = float("inf") if links.max is None else links.max
    top = resolve(world.definitions, operand)
    pending: list[tuple[Expr | None, Matched, int, Any, bool]] = [(operand, known, 0, None, False)]
    while pending:
        value, so_far, length, above, is_end = pending.pop()
        if value is not None and not is_end:
            pending.append((value, so_far, length, above, True))
            leaf = resolve(world.definitions, value)
            longer = list(_one_element(links.pattern, value, so_far, world, own)) if length < most else []
            for found, row in reversed(longer):
                below = row[pattern.hole][1] if pattern.hole in row else None
                pending.append((below, found, length + 1, (leaf, row, above), False))
        elif length >= links.min:
            for found in [so_far] if value is None else _ways(pattern.until, value, so_far, world):
                leaves, rows = _from_the_top(above)
                shown = rows[0][links.pattern][1] if rows else found.shown[pattern.until]
                yield _gathered(links, leaves, rows, found, own).bind(pattern, top, shown)


def _from_the_top(above: Any) -> tuple[list[Expr], list[Assignment]]:
    """The leaves and rows of the links ``above``, which are given innermost first, as nested pairs."""
    leaves: list[Expr] = []
    rows: list[Assignment] = []
    while above is not None:
        leaf, row, above = above
        leaves.append(leaf)
        rows.append(row)
    return leaves[::-1], rows[::-1]


# --- contexts


def context_matches(context: PatternContext, block: BindingBlock) -> Iterator[dict[Any, Any]]:
    """Each way in which the context matches in ``block``: from each pattern to the leaf that it stands for.

    The roots that are no repeats stand for different values of the block, and every choice of them is tried. Then each
    repeat takes the largest set of the bindings that are left and agree: first those that need some, then those that
    may have none (``min=0``), each kind in the order in which they were made.
    """
    definitions = {b.var: b.value for b in block if isinstance(b, VarBinding)}
    bound = {binding.var for binding in block}
    roots = context.roots()
    plain = [root for root in roots if not isinstance(root, RepeatPattern)]
    repeats = sorted((root for root in roots if isinstance(root, RepeatPattern)), key=lambda root: root.min == 0)
    world = World(definitions, _shared(roots), block)
    values = _values_of(block, definitions)
    for placed, left in _place_roots(plain, values, Matched(), world):
        for known in _place_repeats(repeats, [v for v in left if v in bound], placed, world):
            holds = all(_use_holds(use, known, block, definitions) for use in context.uses)
            holds = holds and all(_one_shape([known.leaves.get(p) for p in c.args]) for c in context.same_shapes)
            if holds and _nothing_rejected_matches(known, world):
                yield {**known.leaves, **known.sizes}


def _values_of(block: BindingBlock, definitions: Definitions) -> list[Var]:
    """The variables of a block that are no other names: first those from before it, then those that it binds."""
    bound = [binding.var for binding in block]
    used = [var for binding in block for var in free_vars(binding.value)]
    outside = [var for var in dict.fromkeys(used) if var not in set(bound)]
    return [var for var in (*outside, *bound) if resolve(definitions, var) is var]


def _place_roots(
    roots: Sequence[DFPattern], values: Sequence[Var], known: Matched, world: World
) -> Iterator[tuple[Matched, Sequence[Var]]]:
    """Each way to give the roots values of their own, and the values that are left."""
    if not roots:
        yield known, values
        return
    for value in values:
        for found in _ways(roots[0], value, known, world):
            yield from _place_roots(roots[1:], [v for v in values if v is not value], found, world)


def _place_repeats(
    repeats: Sequence[RepeatPattern], values: Sequence[Var], known: Matched, world: World
) -> Iterator[Matched]:
    """For each way to fix the shared patterns: all values that match then, the first ``max`` of them."""
    if not repeats:
        yield known
        return
    repeat, *rest = repeats
    own = _own_parts(repeat, world)

    def ways(value: Var, agreed: Matched) -> Iterator[tuple[Matched, Assignment]]:
        """The ways for one element. Only who may use a value that all elements share is left for the end.

        A shared pattern that the elements have agreed to leave out is one of this element alone.
        """
        for found, row in _one_element(repeat.pattern, value, agreed._replace(rejections=()), world, own):
            closings = [r for r in found.rejections if isinstance(r, LateClosing) and r.pattern in world.shared]
            of_all = [r for r in closings if agreed is known or r.pattern in agreed.leaves]
            now = tuple(r for r in found.rejections if all(r is not other for other in of_all))
            leaves = {**found.leaves, **{part: pair[0] for part, pair in row.items()}}
            if _nothing_rejected_matches(found._replace(leaves=leaves, rejections=now), world):
                yield found._replace(rejections=(*agreed.rejections, *of_all)), row

    agreements: list[Matched] = []
    for value in values:
        for found, _row in ways(value, known):
            if not any(_agree(found, other, world) for other in agreements):
                agreements.append(found)
    for agreement in agreements or [known]:
        chosen = [value for value in values if any(True for _ in ways(value, agreement))][: repeat.max]
        rows = [next(ways(value, agreement))[1] for value in chosen]
        sized = _of_length(repeat, len(chosen), agreement)
        if sized is not None:
            gathered = _gathered(repeat, chosen, rows, sized, own)
            yield from _place_repeats(rest, [v for v in values if v not in chosen], gathered, world)


def _agree(left: Matched, right: Matched, world: World) -> bool:
    if left.sizes != right.sizes or left.leaves.keys() != right.leaves.keys():
        return False
    pairs = [(left.leaves[p], right.leaves[p]) for p in left.leaves]
    return all(a is b or same_value(world.definitions, a, b) for a, b in pairs)


# --- constraints


def _use_holds(use: UseConstraint, known: Matched, block: BindingBlock, definitions: Definitions) -> bool:
    """The source is argument ``index`` (any, if -1) of the user, by itself or in a tuple; no one else's, if ``only``.

    A constraint on a pattern of an alternative that was not taken says nothing.
    """
    if use.source not in known.leaves or use.user not in known.leaves:
        return True
    source, user = known.leaves[use.source], known.leaves[use.user]
    operands = arguments_of(definitions, user)
    operands = operands if use.index < 0 else operands[use.index : use.index + 1]
    if not any(holds_value(operand, source, definitions) for operand in operands):
        return False
    return not use.only or not has_other_use(source, user, block, definitions)


def _is_closed(source: Expr, known: Matched, world: World) -> bool:
    """True if the block binds the value, does not hand it out, and the match describes all that computes with it."""
    if all(source is not binding.var for binding in world.block):
        return False
    kinds = (CallPattern, FunctionPattern, IfPattern, TupleGetItemPattern)
    described = _in_lists([leaf for pattern, leaf in known.leaves.items() if isinstance(pattern, kinds)])
    if isinstance(world.block, BindingBlock) and is_handed_out(source, world.block, world.definitions):
        return False
    return all(any(user is one for one in described) for user in users(source, world.block, world.definitions))


def _in_lists(found: Any) -> list[Any]:
    if not isinstance(found, list):
        return [found]
    return [leaf for one in cast("list[Any]", found) for leaf in _in_lists(one)]


def _user_count(source: Expr, world: World) -> int | None:
    """The number of bindings that compute with a value, plus one if it is seen after the block; None if not bound."""
    if all(source is not binding.var for binding in world.block):
        return None
    count = len(users(source, world.block, world.definitions))
    if isinstance(world.block, BindingBlock):
        count += is_handed_out(source, world.block, world.definitions)
    return count


def _one_shape(leaves: Sequence[Expr | None]) -> bool:
    """The values that are there certainly have one shape."""
    types = [leaf.ty for leaf in leaves if leaf is not None]
    shapes = [ty.shape if isinstance(ty, TensorType) else None for ty in types]
    return all(s is not None and shapes_equal(shapes[0] or (), s) is True for s in shapes)
