"""The candidates of a context: near which value to look for a root, and which value uses which."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...analysis.values import BlockView, Definitions, arguments_of, definition, resolve
from ...ir.builder import operands_of
from ...ir.expr import Expr, Tuple, Var
from ...ir.op import Op
from .. import reasons
from ..chain_pattern import ChainPattern
from ..parts import inner_first
from ..pattern import (
    CallPattern,
    DFPattern,
    FunctionPattern,
    IfPattern,
    NotPattern,
    OrPattern,
    RepeatPattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
)
from .machine import MatchState


class Link(NamedTuple):
    """Where to look for a root: so many uses above the value of ``part``, or below it, or (None) anywhere.

    ``ops`` are the operators that it may call.
    """

    part: DFPattern | None
    heights: frozenset[int]
    ops: tuple[Op, ...] | None
    below: bool = False

    def candidates(self, search: MatchState) -> list[Var]:
        """The values to try, each under one name, in block order."""
        view = view_of(search)
        leaf = None if self.part is None else search.bound[self.part][0]
        if not isinstance(leaf, Var):
            return values_of(view, self.ops)
        if self.below:
            return [v for v in _held_below(view.definitions, leaf) if isinstance(v, Var)]
        reached: dict[Var, None] = {leaf: None} if 0 in self.heights else {}
        frontier: list[Var] = [leaf]
        for level in range(1, max(self.heights) + 1):
            frontier = list(dict.fromkeys(user for value in frontier for user in view.users_of(value)))
            if level in self.heights:
                reached.update(dict.fromkeys(frontier))
        if self.ops is not None:
            index = [view.by_op.get(op, {}) for op in self.ops]
            found = [v for v in reached if any(v in table for table in index)]
        else:
            found = [v for v in reached if resolve(view.definitions, v) is v]
        return sorted(found, key=view.rank)

    def why_none(self, root: DFPattern, search: MatchState, count: int = 1) -> reasons.Reason:
        """The reason when too few of the candidates can stand for ``root``, or for ``count`` roots like it."""
        view = view_of(search)
        linked = None if self.part is None else search.bound[self.part][0]
        users = () if linked is None else view.users_of(linked)
        return reasons.no_candidate(root, linked, users, view.definitions, count)


def view_of(search: MatchState) -> BlockView:
    """The block that is searched."""
    assert search.view is not None
    return search.view


def values_of(view: BlockView, ops: Iterable[Op] | None) -> list[Var]:
    """The calls of one of ``ops``, or else all values that the block binds or uses, in order."""
    if ops is not None:
        return view.candidates(ops)
    outside = [var for var in view.users if var not in view.position]
    found = (*outside, *sorted(view.position, key=view.rank))
    return [var for var in found if resolve(view.definitions, var) is var]


def _held_below(definitions: Definitions, leaf: Expr) -> list[Expr]:
    """The operands of ``leaf``, resolved, and what the tuples among them hold."""
    found: dict[Expr, None] = {}
    pending = list(reversed(operands_of(definition(definitions, leaf))))
    while pending:
        operand = resolve(definitions, pending.pop())
        if operand not in found:
            found[operand] = None
            whole = definition(definitions, operand)
            if type(whole) is Tuple:
                pending.extend(reversed(whole.fields))
    return list(found)


def heights_above(root: DFPattern, part: DFPattern) -> frozenset[int]:
    """The numbers of uses that may lie between the value of ``part`` and that of ``root``.

    Empty if some match of ``root`` leaves ``part`` out: it stands only in one alternative, or in a run of none.
    """
    above: dict[DFPattern, frozenset[int]] = {}
    for pattern in inner_first(root):
        inner = [above[child] for child in pattern.children()]
        match pattern:
            case _ if pattern is part:
                above[pattern] = frozenset({0})
            case NotPattern():
                above[pattern] = frozenset()
            case RepeatPattern() if pattern.min == 0:
                above[pattern] = frozenset()
            case ChainPattern():  # Any number: there is no place to look at.
                above[pattern] = frozenset()
            case OrPattern():
                above[pattern] = frozenset().union(*inner) if all(inner) else frozenset()
            case CallPattern():
                above[pattern] = frozenset(height + 1 for heights in inner[1:] for height in heights)
            case FunctionPattern() | IfPattern():
                # What is used inside of a branch or a function, is used by the binding that holds it.
                above[pattern] = frozenset({1}) if any(inner) else frozenset()
            case TuplePattern() | UnorderedTuplePattern() | TupleGetItemPattern():
                # A tuple of calls is one use above them; below a call, it and its fields are used by one and the same.
                above[pattern] = frozenset(height + more for heights in inner for height in heights for more in (0, 1))
            case _:
                above[pattern] = frozenset().union(*inner)
    return above[root]


def uses(view: BlockView, user: Expr, source: Expr, index: int) -> bool:
    """True if ``source`` is argument ``index`` (any, if -1) of ``user``, by itself or in a tuple."""
    operands = arguments_of(view.definitions, user)
    if index >= 0:
        operands = operands[index : index + 1]
    return any(holds(view.definitions, operand, source) for operand in operands)


def holds(definitions: Definitions, expr: Expr, source: Expr, beside: Expr | None = None) -> bool:
    """True if ``expr`` is ``source``, or a tuple written out that holds it; ``beside`` is not looked into."""
    stack = [expr]
    while stack:
        leaf = resolve(definitions, stack.pop())
        if leaf is beside:
            continue
        if leaf is source:
            return True
        whole = definition(definitions, leaf)
        if type(whole) is Tuple:
            stack.extend(whole.fields)
    return False


def other_users(view: BlockView, source: Expr, user: Expr | None = None) -> tuple[list[Var], bool]:
    """The bindings that compute with ``source`` beside ``user``, and whether it is handed out of the block beside it.

    Aliases, and tuples that hold it, are not uses by themselves. Cost: linear in the users of its names.
    """
    definitions = view.definitions
    others: dict[Var, None] = {}
    is_output = False
    names: dict[Var, None] = {source: None} if isinstance(source, Var) else {}
    pending = list(names)
    while pending:
        name = pending.pop()
        # A field taken out of `user`, where that is a tuple, may be the source again, so names of it are followed too.
        is_source = holds(definitions, name, source, beside=user)
        is_output = is_output or (is_source and name in view.outputs)
        for other in view.users.get(name, ()):
            is_name = resolve(definitions, other) is not other or type(definitions.get(other)) is Tuple
            if is_name and other not in names:
                names[other] = None
                pending.append(other)
            elif is_source and not is_name and other is not user:
                others[other] = None
    return list(others), is_output


def taken_by(search: MatchState, roots: Iterable[DFPattern]) -> set[Expr]:
    """The values that ``roots`` stand for."""
    found: set[Expr] = set()
    for root in roots:
        leaf = search.bound[root][0]
        found.update(leaf if isinstance(leaf, list) else (leaf,))  # pyright: ignore[reportUnknownArgumentType]
    return found
