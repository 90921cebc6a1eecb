"""Questions about a pattern: where its parts stand, which of them mean one value, which operators it must meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from ...ir.op import Op
from ..pattern import (
    AndPattern,
    CallPattern,
    ConstantPattern,
    ConstrainedPattern,
    DFPattern,
    ExprPattern,
    FunctionPattern,
    NotPattern,
    OrPattern,
    PrimArrPattern,
    RepeatPattern,
    ScalarPattern,
    TupleGetItemPattern,
    all_patterns,
)


def fixed_op(pattern: DFPattern) -> Op | None:
    """The operator that ``pattern`` stands for, if it is one."""
    return pattern.expr if isinstance(pattern, ExprPattern) and isinstance(pattern.expr, Op) else None


def bindable(root: DFPattern) -> list[DFPattern]:
    """``root`` and the patterns inside it that a match may bind: all but those that are only rejected."""
    return reached(root, NotPattern)


def shared_throughout(roots: Iterable[DFPattern]) -> set[DFPattern]:
    """The patterns that stand outside of every repeat, or that a repeat lists as shared: one value each."""
    found: set[DFPattern] = set()
    for root in roots:
        for part in reached(root, RepeatPattern):
            if not isinstance(part, RepeatPattern):
                found.add(part)
                continue
            for one in part.shared:
                found.update(all_patterns(one))
    return found


def reached(root: DFPattern, closed: type[DFPattern]) -> list[DFPattern]:
    """What is reached from ``root`` without looking into patterns of the kind ``closed``."""
    seen: dict[DFPattern, None] = {}
    stack = [root]
    while stack:
        pattern = stack.pop()
        if pattern not in seen:
            seen[pattern] = None
            if not isinstance(pattern, closed):
                stack.extend(reversed(pattern.children()))
    return list(seen)


def inner_first(root: DFPattern) -> list[DFPattern]:
    """``root`` and every pattern inside it, each once, after its own parts."""
    done: dict[DFPattern, None] = {}
    stack = [(root, False)]
    while stack:
        pattern, parts_are_done = stack.pop()
        if parts_are_done:
            done[pattern] = None
        elif pattern not in done:
            stack.append((pattern, True))
            stack.extend((part, False) for part in reversed(pattern.children()))
    return list(done)


def standing_in_several_places(roots: Iterable[DFPattern]) -> set[DFPattern]:
    """The patterns made of others that are a part in more than one place."""
    parts = dict.fromkeys(part for root in roots for part in all_patterns(root))
    places = Counter(child for part in parts for child in part.children())
    return {part for part, count in places.items() if count > 1 and part.children()}


def written_projections(roots: Iterable[DFPattern]) -> set[DFPattern]:
    """The patterns whose match can depend on how an operand is written: as a field of a tuple that is written out.

    Everything else sees only what such a field stands for.
    """
    found: set[DFPattern] = set()
    no_tuple: set[DFPattern] = set()
    for root in roots:
        for part in inner_first(root):
            match part:
                case CallPattern() | ConstantPattern() | FunctionPattern() | PrimArrPattern() | ScalarPattern():
                    no_tuple.add(part)
                case TupleGetItemPattern() if part.tuple not in no_tuple:
                    found.add(part)
                case OrPattern() | AndPattern() | NotPattern() | ConstrainedPattern() | RepeatPattern():
                    inner = part.children()
                    if any(child in found for child in inner):
                        found.add(part)
                    some = any if isinstance(part, AndPattern) else all
                    if not isinstance(part, NotPattern) and some(child in no_tuple for child in inner):
                        no_tuple.add(part)
                case _:
                    pass
    return found


Ops: TypeAlias = "tuple[Op, ...] | None"


def root_ops(pattern: DFPattern) -> Ops:
    """The operators that a call must have to match ``pattern``; None when it need not be one of a known few."""
    found: dict[DFPattern, Ops] = {}
    for part in inner_first(pattern):
        match part:
            case CallPattern():
                found[part] = callee_ops(part.op)
            case OrPattern():
                found[part] = _either(found[part.left], found[part.right])
            case AndPattern():
                found[part] = _both(found[part.left], found[part.right])
            case ConstrainedPattern() | RepeatPattern():
                found[part] = found[part.pattern]
            case _:
                found[part] = None
    return found[pattern]


def callee_ops(pattern: DFPattern) -> Ops:
    """The operators that a callee must be one of to match ``pattern``; None when that is not known."""
    found: dict[DFPattern, Ops] = {}
    for part in inner_first(pattern):
        if isinstance(part, OrPattern):
            found[part] = _either(found[part.left], found[part.right])
        else:
            op = fixed_op(part)
            found[part] = None if op is None else (op,)
    return found[pattern]


def _either(left: Ops, right: Ops) -> Ops:
    return None if left is None or right is None else tuple(dict.fromkeys((*left, *right)))


def _both(left: Ops, right: Ops) -> Ops:
    if left is None or right is None:
        return right if left is None else left
    return tuple(op for op in left if op in right)
