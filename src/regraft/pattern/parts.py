"""Facts about patterns: their parts, shared values, depth, and the operators of their roots."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ..ir import walks
from ..ir.expr import Expr
from ..ir.op import Op
from .chain_pattern import ChainPattern, HolePattern
from .constrained_patterns import UsersPattern
from .leaf_patterns import ExprPattern, ExternFuncPattern, OpPattern
from .pattern import (
    AndPattern,
    CallPattern,
    ConstrainedPattern,
    DFPattern,
    FieldsPattern,
    FunctionPattern,
    IfPattern,
    NotPattern,
    OrPattern,
    PatternError,
    RepeatPattern,
    TupleGetItemPattern,
    all_patterns,
)


def fixed_op(pattern: DFPattern) -> Op | None:
    """The operator, if ``pattern`` stands for one given operator; else None."""
    return pattern.expr if isinstance(pattern, ExprPattern) and isinstance(pattern.expr, Op) else None


def names_a_callee(pattern: DFPattern) -> bool:
    """True if ``pattern`` stands for an operator or an external function, which is no value of a block."""
    return fixed_op(pattern) is not None or isinstance(pattern, ExternFuncPattern)


def bindable(root: DFPattern) -> list[DFPattern]:
    """``root`` and the patterns inside it that a match may bind: all parts outside of `NotPattern`."""
    return all_patterns(root, NotPattern)


def is_decided_last(part: DFPattern) -> bool:
    """True if the condition of ``part`` may depend on the whole match."""
    return isinstance(part, NotPattern) or (isinstance(part, UsersPattern) and part.count is None)


def describes_operands(part: DFPattern) -> bool:
    """True if ``part`` describes the operands of its value; `only_used_by` accepts such a value as a user."""
    return isinstance(part, CallPattern | FunctionPattern | IfPattern | TupleGetItemPattern)


def own_parts(repeat: RepeatPattern, shared: Container[DFPattern]) -> list[DFPattern]:
    """The patterns that each element of ``repeat`` binds anew: not ``shared``, also by the repeat, nor operators."""
    known = [p for p in all_patterns(repeat.pattern) if isinstance(p, RepeatPattern) and p in shared]
    by_repeat = {part for one in (*known, *repeat.shared) for part in all_patterns(one)}
    return [p for p in bindable(repeat.pattern) if p not in shared and p not in by_repeat and fixed_op(p) is None]


def shared_throughout(roots: Iterable[DFPattern]) -> set[DFPattern]:
    """The patterns that stand for one value in the whole match.

    They stand outside of every repeat, or a repeat lists them in ``shared``.
    """
    found: set[DFPattern] = set()
    for root in roots:
        for part in all_patterns(root, RepeatPattern):
            if not isinstance(part, RepeatPattern) or part.is_chained:
                found.add(part)
            for one in part.shared if isinstance(part, RepeatPattern) else ():
                found.update(all_patterns(one, RepeatPattern))
    return found


def shared_in_runs(roots: Sequence[DFPattern], shared: Iterable[DFPattern]) -> dict[DFPattern, set[DFPattern]]:
    """The patterns that the elements of each repeat share: ``shared`` ones, and those of an element around it."""
    repeats = [part for root in roots for part in all_patterns(root) if isinstance(part, RepeatPattern)]
    found: dict[DFPattern, set[DFPattern]] = {repeat: set(shared) for repeat in repeats}
    for around in repeats:
        of_element = shared_throughout([around.pattern])
        for part in all_patterns(around.pattern):
            if isinstance(part, RepeatPattern):
                found[part] |= of_element
    return found


def inner_first(root: DFPattern) -> list[DFPattern]:
    """``root`` and every pattern inside it, each once, after its own parts."""
    return walks.inner_first(root, lambda pattern: pattern.children())


def depth(pattern: DFPattern) -> int:
    """The most definitions between the root of a match and a value that it reads.

    An edit further below cannot change the match. A chain without a maximum counts as one link.
    """
    same_value = (OrPattern, AndPattern, NotPattern, ConstrainedPattern, RepeatPattern)
    levels: dict[DFPattern, int] = {}
    for part in inner_first(pattern):
        if isinstance(part, ChainPattern):
            levels[part] = levels[part.until] + levels[part.links] * (part.links.max or 1)
            continue
        step = 0 if isinstance(part, same_value) else 1
        levels[part] = max((levels[child] + step for child in part.children()), default=0)
    return levels[pattern]


def height_above(root: DFPattern, part: DFPattern) -> int | None:
    """The most uses between the value of ``part`` and the value of ``root`` in a match.

    None if there is no limit (``part`` is the end of a chain), or if a match of ``root`` may leave ``part`` out (it
    stands in one alternative only, or in a repeat that may be empty).
    """
    above: dict[DFPattern, int | None] = {part: 0}
    for pattern in inner_first(root):
        if pattern is part:
            continue
        parts = pattern.args if isinstance(pattern, CallPattern) else pattern.children()
        known = [height for one in parts if (height := above[one]) is not None]
        match pattern:
            case NotPattern() | ChainPattern():
                known = []
            case RepeatPattern() if pattern.min == 0:
                known = []
            case OrPattern() if len(known) < 2:
                known = []
            case FunctionPattern() | IfPattern():
                # A use inside of a branch or function counts as a use by the binding of the branch or function.
                known = [1 for _ in known]
            case CallPattern() | FieldsPattern() | TupleGetItemPattern():
                known = [height + 1 for height in known]
            case _:
                pass
        above[pattern] = max(known, default=None)
    return above[root]


def differ_turned(args: Sequence[DFPattern]) -> bool:
    """True if two patterns may match two operands in one order only.

    The same pattern in both places may do so if it contains a projection or a hole: these depend on how the first
    operand is written.
    """
    same = len(args) == 2 and args[0] is args[1]
    return len(args) == 2 and (
        not same or any(isinstance(p, TupleGetItemPattern | HolePattern) for p in all_patterns(args[0]))
    )


def refuse_two_runs(roots: Sequence[DFPattern], shared: Mapping[DFPattern, Container[DFPattern]]) -> None:
    """Raise `PatternError` if a pattern that is not shared would stand for two runs in one match."""
    runs: dict[DFPattern, dict[DFPattern, Any]] = {}

    def merged(owner: object, parts: Sequence[DFPattern], *, either: bool) -> dict[DFPattern, Any]:
        found: dict[DFPattern, Any] = {}
        for place, part in enumerate(parts):
            of_part = runs[part]
            if isinstance(part, RepeatPattern):
                of_part = dict.fromkeys(own_parts(part, shared[part]), (owner, place))
            for pattern, run in of_part.items():
                if found.setdefault(pattern, run) != run and not either:
                    raise in_two_repeats(pattern)
        return found

    rejected: dict[DFPattern, None] = {}
    for root in roots:
        for part in inner_first(root):
            if isinstance(part, NotPattern):
                rejected[part.reject] = None
            parts = () if isinstance(part, NotPattern | RepeatPattern) else part.children()
            runs[part] = merged(part, parts, either=isinstance(part, OrPattern))
    bound = merged(None, roots, either=False)
    for pattern, run in (pair for part in rejected for pair in runs[part].items()):
        if bound.get(pattern, run) != run:
            raise in_two_repeats(pattern)


def in_two_repeats(part: DFPattern) -> PatternError:
    """The error for a pattern that would stand for two runs."""
    return PatternError(
        f"{part!r} is part of two repeats, so it would be bound to two runs; give the second repeat a "
        "pattern of its own (dup()), or list it in `shared` if it is one value"
    )


Ops: TypeAlias = "tuple[Op, ...] | None"


def root_ops(pattern: DFPattern) -> Ops:
    """The operators whose calls may match ``pattern``; None if other values may match, or if they are not known."""
    found: dict[DFPattern, Ops] = {}
    for part in walks.inner_first(pattern, _of_same_value):
        match part:
            case CallPattern():
                found[part] = callee_ops(part.op)
            case OrPattern():
                found[part] = _either(found[part.left], found[part.right])
            case AndPattern():
                found[part] = _both(found[part.left], found[part.right])
            case ConstrainedPattern() | RepeatPattern():
                found[part] = found[part.pattern]
            case ChainPattern(links=links, until=until):
                found[part] = found[links] if links.min else _either(found[links], found[until])
            case _:
                found[part] = None
    return found[pattern]


def callee_ops(pattern: DFPattern) -> Ops:
    """The operators that may match ``pattern`` as a callee; None if they are not known."""
    found: dict[DFPattern, Ops] = {}
    for part in walks.inner_first(pattern, _of_same_value):
        if isinstance(part, OrPattern):
            found[part] = _either(found[part.left], found[part.right])
        else:
            op = fixed_op(part)
            found[part] = None if op is None else (op,)
    return found[pattern]


def _of_same_value(pattern: DFPattern) -> Sequence[DFPattern]:
    """The parts of ``pattern`` that stand for the same value as ``pattern``, or for one of its elements."""
    same = (OrPattern, AndPattern, ConstrainedPattern, RepeatPattern, ChainPattern)
    return pattern.children() if isinstance(pattern, same) else ()


def link_tests(pattern: DFPattern) -> list[Callable[[Expr], bool]]:
    """Tests whether a callee may stand in a link of a chain without a maximum; `depth` counts only one such link."""
    endless = [p.links for p in all_patterns(pattern) if isinstance(p, ChainPattern) and p.links.max is None]
    return [_callee_test(part.op) for links in endless for part in all_patterns(links) if isinstance(part, CallPattern)]


def _callee_test(callee: DFPattern) -> Callable[[Expr], bool]:
    if isinstance(callee, OpPattern):
        return lambda op: isinstance(op, Op) and callee.accepts(op)
    ops = callee_ops(callee)
    return lambda op: ops is None or op in ops


def _either(left: Ops, right: Ops) -> Ops:
    return None if left is None or right is None else tuple(dict.fromkeys((*left, *right)))


def _both(left: Ops, right: Ops) -> Ops:
    if left is None or right is None:
        return right if left is None else left
    return tuple(op for op in left if op in right)
