"""Checks for patterns that can never match.

These are calls with a number of operands, or an attribute, that the operator does not have, and operators that are not
called: no value of a program is an operator. As in Relax, such a pattern is allowed and does not match. The function
that makes the pattern warns. In a rule it is an error.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import TypeVar

from ..ir.op import Op
from .constrained_patterns import AttrPattern
from .leaf_patterns import OpPattern
from .parts import callee_ops, fixed_op, root_ops
from .pattern import (
    CallPattern,
    ConstrainedPattern,
    DFPattern,
    NotPattern,
    OrPattern,
    PatternError,
    RepeatPattern,
    all_patterns,
)

Made = TypeVar("Made", bound=DFPattern)


def check_possible(pattern: DFPattern) -> None:
    """Raise `PatternError` if a part of ``pattern`` can never match: an impossible call, or an operator by itself.

    Cost: linear in the number of parts.
    """
    _check_called(pattern)
    for part in all_patterns(pattern, NotPattern):
        _check_part(part)


def warn_if_impossible(made: Made) -> Made:
    """``made``. If it can never match, warn with a `PatternWarning` at the caller of the calling function."""
    from .context import PatternWarning

    try:
        _check_part(made)
    except PatternError as error:
        warnings.warn(f"this pattern never matches: {error}", PatternWarning, stacklevel=3)
    return made


def _check_part(part: DFPattern) -> None:
    if isinstance(part, CallPattern):
        for arg in part.args:
            _check_called(arg)
        if not any(isinstance(arg, RepeatPattern) for arg in part.args):
            _check_count(callee_ops(part.op), len(part.args), more=part.varg_default_wildcard)
    elif isinstance(part, AttrPattern):
        _check_names(root_ops(part.pattern), part.attrs)


def _alternatives(pattern: DFPattern) -> Iterator[DFPattern]:
    """The alternatives of ``pattern``, without the conditions around them."""
    stack = [pattern]
    while stack:
        one = stack.pop()
        if isinstance(one, OrPattern):
            stack.extend((one.left, one.right))
        elif isinstance(one, ConstrainedPattern):
            stack.append(one.pattern)
        else:
            yield one


def _check_called(value: DFPattern) -> None:
    """Raise `PatternError` if ``value``, or one of its alternatives, is an operator."""
    for one in _alternatives(value):
        if isinstance(one, OpPattern) or fixed_op(one) is not None:
            raise PatternError(
                f"{one} is an operator, not a value of a program; call it with a pattern for each operand, or "
                "with varg_default_wildcard=True for any"
            )


def _check_count(operators: Sequence[Op] | None, given: int, *, more: bool) -> None:
    """Raise `PatternError` if no operator takes ``given`` operands, or, with ``more``, at least as many."""
    for op in operators or ():
        least, most = op.arity
        if (most is None or given <= most) and (more or given >= least):
            return
    if not operators:
        return
    first = operators[0]
    least, most = first.arity
    wanted = f"{least}" if least == most else f"{least} or more" if most is None else f"{least} to {most}"
    names = ", ".join(f"{operand.name}?" if operand.optional else operand.name for operand in first.operands)
    hint = "; varg_default_wildcard=True allows more" if given < least else ""
    plural = "" if most == 1 else "s"
    raise PatternError(f"{first.name} takes {wanted} operand{plural} ({names}), and the pattern has {given}{hint}")


def _check_names(operators: Sequence[Op] | None, names: Iterable[str]) -> None:
    """Raise `PatternError` for the name of an attribute that none of ``operators`` has."""
    if not operators or any(op.is_foreign for op in operators):
        return
    known = list(dict.fromkeys(name for op in operators for name in op.attributes))
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(known) or 'none'}"
            raise PatternError(f"has_attr: {operators[0].name} has no attribute {name!r}; {hint}")
