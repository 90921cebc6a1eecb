"""What can be made of a pattern: a copy with new identities, and a short text for messages."""

from __future__ import annotations

from ..ir.op import Op
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
    NotPattern,
    OrPattern,
    PatternError,
    PrimArrPattern,
    RepeatPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    UnorderedTuplePattern,
    VarPattern,
    WildcardPattern,
)


def duplicate(pattern: DFPattern, done: dict[DFPattern, DFPattern]) -> DFPattern:
    """A copy of ``pattern`` with new identities; parts that stand in several places stay one part."""
    known = done.get(pattern)
    if known is not None:
        return known

    def again(part: DFPattern) -> DFPattern:
        return duplicate(part, done)

    match pattern:
        case WildcardPattern():
            copy: DFPattern = WildcardPattern()
        case ExprPattern():
            copy = ExprPattern(pattern.expr)
        case VarPattern() | GlobalVarPattern():
            copy = type(pattern)(pattern.name)
        case ExternFuncPattern():
            copy = ExternFuncPattern(pattern.global_symbol)
        case ConstantPattern():
            copy = ConstantPattern()
        case CallPattern():
            copy = CallPattern(again(pattern.op), [again(a) for a in pattern.args], pattern.varg_default_wildcard)
        case FunctionPattern():
            copy = FunctionPattern([again(p) for p in pattern.params], again(pattern.body))
        case TuplePattern():
            copy = TuplePattern([again(f) for f in pattern.fields])
        case UnorderedTuplePattern():
            copy = UnorderedTuplePattern([again(f) for f in pattern.fields])
        case TupleGetItemPattern():
            copy = TupleGetItemPattern(again(pattern.tuple), pattern.index)
        case OrPattern():
            copy = OrPattern(again(pattern.left), again(pattern.right))
        case AndPattern():
            copy = AndPattern(again(pattern.left), again(pattern.right))
        case NotPattern():
            copy = NotPattern(again(pattern.reject))
        case TypePattern():
            copy = TypePattern(again(pattern.pattern), pattern.ty)
        case DataTypePattern():
            copy = DataTypePattern(again(pattern.pattern), pattern.dtype)
        case ShapePattern():
            copy = ShapePattern(again(pattern.pattern), pattern.shape)
        case AttrPattern():
            copy = AttrPattern(again(pattern.pattern), pattern.attrs)
        case PrimArrPattern():
            copy = PrimArrPattern(pattern.fields)
        case RepeatPattern():
            body = again(pattern.pattern)
            shared = [again(p) for p in pattern.shared]
            copy = RepeatPattern(body, pattern.min, pattern.max, shared, pattern.extent)
        case _:
            raise PatternError(f"cannot duplicate {type(pattern).__name__}")
    done[pattern] = copy
    return copy


def describe(pattern: DFPattern) -> str:
    """A short text: ``add(*, const)``; for messages, not for parsing."""
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
        case ConstantPattern():
            return "const"
        case CallPattern():
            args = [*map(describe, pattern.args), *(["..."] if pattern.varg_default_wildcard else [])]
            return f"{describe(pattern.op)}({', '.join(args)})"
        case FunctionPattern():
            return f"function({', '.join(map(describe, pattern.params))}) -> {describe(pattern.body)}"
        case TuplePattern():
            return f"({', '.join(map(describe, pattern.fields))}{',' if len(pattern.fields) == 1 else ''})"
        case UnorderedTuplePattern():
            return f"unordered({', '.join(map(describe, pattern.fields))})"
        case TupleGetItemPattern():
            return f"{describe(pattern.tuple)}[{'any' if pattern.index is None else pattern.index}]"
        case OrPattern():
            return f"({describe(pattern.left)} | {describe(pattern.right)})"
        case AndPattern():
            return f"({describe(pattern.left)} & {describe(pattern.right)})"
        case NotPattern():
            return f"~{describe(pattern.reject)}"
        case TypePattern():
            return f"{describe(pattern.pattern)}: {pattern.ty!r}"
        case DataTypePattern():
            return f"{describe(pattern.pattern)}: {pattern.dtype}"
        case ShapePattern():
            return f"{describe(pattern.pattern)}: ({', '.join(map(str, pattern.shape))})"
        case AttrPattern():
            attrs = ", ".join(f"{name}={value!r}" for name, value in pattern.attrs.items())
            return f"{describe(pattern.pattern)}{{{attrs}}}"
        case PrimArrPattern():
            return f"shape({', '.join(map(str, pattern.fields))})"
        case RepeatPattern():
            most = "" if pattern.max is None else pattern.max
            return f"repeat({describe(pattern.pattern)}, {pattern.min}..{most})"
        case _:
            return type(pattern).__name__
