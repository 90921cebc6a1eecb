"""Values made of a pattern: a copy with new identities, and a short text for messages."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Final, cast

from ..ir.op import Op
from .chain_pattern import ChainPattern, HolePattern
from .parts import inner_first
from .pattern import (
    AndPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataflowVarPattern,
    DataTypePattern,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    FunctionPattern,
    GlobalVarPattern,
    IfPattern,
    NotPattern,
    OpPattern,
    OrPattern,
    PrimArrPattern,
    RepeatPattern,
    ScalarPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    UnorderedTuplePattern,
    UsersPattern,
    VarPattern,
    WildcardPattern,
)


def duplicate(pattern: DFPattern, done: dict[DFPattern, DFPattern]) -> DFPattern:
    """A copy of ``pattern`` with new identities; parts that stand in several places stay one part."""
    for part in inner_first(pattern):
        if part not in done:
            copy = done[part] = type(part).__new__(type(part))
            for name, value in part.fields_of():
                setattr(copy, name, _with_copies(value, done))
    return done[pattern]


def form_of(parts: Sequence[DFPattern], fixed: Container[DFPattern]) -> list[Any]:
    """An outline of a pattern of ``parts``: of the ``fixed`` ones, and repeats, which they are, of others what kind."""
    numbers = {part: number for number, part in enumerate(parts)}
    return [
        part
        if part in fixed or isinstance(part, RepeatPattern)
        else (type(part), [_with_copies(value, numbers) for _, value in part.fields_of()])
        for part in parts
    ]


def _with_copies(value: Any, copies: Mapping[DFPattern, Any]) -> Any:
    """A field of a pattern, with copies in the place of patterns."""
    if isinstance(value, tuple):
        return tuple([_with_copies(item, copies) for item in cast("tuple[Any, ...]", value)])
    return copies[value] if isinstance(value, DFPattern) else value


_LONGEST_PART: Final = 200
"""The number of characters of a part that are shown; parts in many places would make the text grow without limit."""


def describe(pattern: DFPattern) -> str:
    """A short text: ``add(*, const)``; for messages, not for parsing."""
    texts: dict[DFPattern, str] = {}
    for part in inner_first(pattern):
        text = _text(part, texts)
        texts[part] = text if len(text) <= _LONGEST_PART or part is pattern else text[: _LONGEST_PART - 3] + "..."
    return texts[pattern]


def text_with_parts(pattern: DFPattern, texts: Mapping[DFPattern, str]) -> str:
    """`describe`, with ``texts`` in the places of the parts that it has one for."""
    return _text(pattern, {**{part: describe(part) for part in pattern.children() if part not in texts}, **texts})


def _text(pattern: DFPattern, texts: Mapping[DFPattern, str]) -> str:
    match pattern:
        case WildcardPattern():
            return "*"
        case ExprPattern(expr=Op() as op):
            return op.name.removeprefix("relax.")
        case ExprPattern():
            return f"is_expr({pattern.expr!r})"
        case VarPattern():
            return f"{'dfv' if isinstance(pattern, DataflowVarPattern) else 'var'}({pattern.name})"
        case GlobalVarPattern():
            return f"gv({pattern.name})"
        case ExternFuncPattern():
            return f"extern({pattern.global_symbol})"
        case ConstantPattern(value=None):
            return "const"
        case ConstantPattern():
            return f"const({pattern.value!r})"
        case OpPattern():
            return pattern.text
        case ScalarPattern():
            return "scalar"
        case CallPattern():
            args = [*map(texts.__getitem__, pattern.args), *(["..."] if pattern.varg_default_wildcard else [])]
            return f"{texts[pattern.op]}({', '.join(args)})"
        case FunctionPattern():
            return f"function({', '.join(map(texts.__getitem__, pattern.params))}) -> {texts[pattern.body]}"
        case TuplePattern():
            return f"({', '.join(map(texts.__getitem__, pattern.fields))}{',' if len(pattern.fields) == 1 else ''})"
        case UnorderedTuplePattern():
            return f"unordered({', '.join(map(texts.__getitem__, pattern.fields))})"
        case TupleGetItemPattern():
            return f"{texts[pattern.tuple]}[{'any' if pattern.index is None else pattern.index}]"
        case OrPattern():
            return f"({texts[pattern.left]} | {texts[pattern.right]})"
        case HolePattern():
            return "below"
        case ChainPattern():
            return f"chain({pattern.text}, until={texts[pattern.until]})"
        case AndPattern():
            return f"({texts[pattern.left]} & {texts[pattern.right]})"
        case NotPattern():
            return f"~{texts[pattern.reject]}"
        case TypePattern():
            return f"{texts[pattern.pattern]}: {pattern.ty!r}"
        case DataTypePattern():
            return f"{texts[pattern.pattern]}: {pattern.dtype}"
        case ShapePattern():
            return f"{texts[pattern.pattern]}: ({', '.join(map(str, pattern.shape))})"
        case UsersPattern(count=None):
            return f"{texts[pattern.pattern]}: used only here"
        case UsersPattern():
            return f"{texts[pattern.pattern]}: {pattern.count} user{'' if pattern.count == 1 else 's'}"
        case IfPattern():
            return f"if({', '.join(map(texts.__getitem__, pattern.children()))})"
        case AttrPattern():
            attrs = ", ".join(f"{name}={value!r}" for name, value in pattern.attrs.items())
            return f"{texts[pattern.pattern]}{{{attrs}}}"
        case PrimArrPattern():
            return f"shape({', '.join(map(str, pattern.fields))})"
        case RepeatPattern():
            most = "" if pattern.max is None else pattern.max
            return f"repeat({texts[pattern.pattern]}, {pattern.min}..{most})"
        case _:
            return type(pattern).__name__
