"""Facts about programs, read from a rule: the dtypes in its pattern's conditions, and the numbers in its code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, cast

from ..ir.dtypes import COMMON_DTYPES
from ..ir.expr import Constant
from ..ir.types import TensorType
from ..pattern.constrained_patterns import DataTypePattern, TypePattern
from ..pattern.context import PatternContext
from ..pattern.leaf_patterns import ConstantPattern, ExprPattern
from ..pattern.pattern import ConstrainedPattern, DFPattern, all_patterns
from ..rewrite import Rule

_SHORTEST: Final = len("int")


def numbers_of(rule: Rule) -> tuple[float, ...]:
    """The numbers that ``rule`` may compare constants with, from its pattern and from the code of its rewriter.

    Numbers of 2**15 or more in absolute value are left out.
    """
    roots = [rule.pattern] if isinstance(rule.pattern, DFPattern) else rule.pattern.roots()
    parts = [part for root in roots for part in all_patterns(root)]
    found = {part.value: None for part in parts if isinstance(part, ConstantPattern) and part.value is not None}
    for code in _codes(rule.rewriter):
        found.update(dict.fromkeys(one for one in code.co_consts if type(one) in (int, float)))
    return tuple([number for number in found if abs(number) < 2**15])


def named_dtypes_of(rule: Rule) -> tuple[str, ...]:
    """The dtypes named in the code of ``rule``'s rewriter, in full ("uint8") or by a prefix ("uint")."""
    found: set[str] = set()
    for code in _codes(rule.rewriter):
        for held in code.co_consts:
            words = cast("Iterable[Any]", held) if isinstance(held, tuple | frozenset) else (held,)
            found.update(word for word in words if isinstance(word, str) and len(word) >= _SHORTEST)
    return tuple([dtype for dtype in COMMON_DTYPES if any(dtype.startswith(word) for word in found)])


def _codes(function: Callable[..., Any]) -> Iterator[CodeType]:
    """The code of a function, of the functions inside it, and of the functions of its module or closure that it uses.

    The attributes of the object of a bound method are searched, too.
    """
    pending: list[Any] = [function]
    seen: set[int] = set()
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, MethodType):
            pending.append(one.__func__)
            pending.extend(getattr(one.__self__, "__dict__", {}).values())
        elif isinstance(one, FunctionType):
            pending.append(one.__code__)
            named = [one.__globals__.get(name) for name in one.__code__.co_names]
            pending.extend(f for f in named if isinstance(f, FunctionType) and f.__module__ == one.__module__)
            pending.extend(cell.cell_contents for cell in one.__closure__ or () if cell.cell_contents is not function)
        elif isinstance(one, CodeType):
            yield one
            pending.extend(part for part in one.co_consts if isinstance(part, CodeType))


def dtypes_of(pattern: DFPattern | PatternContext) -> list[str]:
    """The dtypes that the pattern's dtype and type conditions require."""
    roots = [pattern] if isinstance(pattern, DFPattern) else pattern.roots()
    found: dict[str, None] = {}
    for part in (part for root in roots for part in all_patterns(root)):
        if isinstance(part, DataTypePattern):
            found[part.dtype] = None
        elif isinstance(part, TypePattern) and isinstance(part.ty, TensorType) and part.ty.dtype is not None:
            found[part.ty.dtype] = None
    return list(found)


def core(pattern: DFPattern) -> DFPattern:
    """``pattern`` without the conditions around it."""
    while isinstance(pattern, ConstrainedPattern):
        pattern = pattern.pattern
    return pattern


def is_operator(pattern: DFPattern) -> bool:
    """True if ``pattern`` matches one given expression that is not a constant, such as an operator."""
    return isinstance(pattern, ExprPattern) and not isinstance(pattern.expr, Constant)
