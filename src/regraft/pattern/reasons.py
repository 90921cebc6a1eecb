"""The reasons why a goal of a match failed, in words.

Each function here is asked by the matcher's own step, on the values it failed on, and only when someone listens.
It gives a kind, which programs can test for (`KINDS`), and a sentence for people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..analysis.values import same_attribute
from ..ir.builder import operands_of
from ..ir.dims import SymVar
from ..ir.expr import Constant, DataflowVar, Expr, ExternFunc, GlobalVar, Tuple, TupleGetItem, Var
from ..ir.op import Call, Op
from ..ir.program import Function
from ..ir.types import ShapeType, TensorType, bind_type
from .derived import describe
from .pattern import (
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
)

KINDS: Final = {
    "op": "another operator, or no call at all",
    "arity": "another number of arguments or fields",
    "attribute": "an attribute with another value",
    "dtype": "another dtype",
    "shape": "another shape, or one that cannot be told",
    "type": "another type, or one that cannot be told; also: the replacement has one that does not serve",
    "constant": "no constant, or another one",
    "kind": "another kind of value: a variable, tuple, projection, function or shape is wanted",
    "name": "a variable or function of another name",
    "shared value": "a pattern that stands in two places meets two values",
    "rejected": "the value matches what ~ rejects",
    "extent": "repeats that share an extent differ in length, or a run is too short or too long",
    "not used": "a value is not used by the one that should use it",
    "no candidate": "no binding where it should be can stand for a root of the context",
    "users": "a value has more or fewer users than wanted, or is not bound in the block",
    "extra user": "a value that only one may use has another user, or is an output of the block",
    "taken": "the binding already stands for another pattern of the context",
    "declined": "the rewriter declined",
    "cycle": "the replacement would depend on itself",
    "visible": "the replacement uses a value that cannot be seen where it would stand",
    "error": "the rewriter raised an error, or made what cannot stand there",
}
"""Every kind of reason, and what it means."""

Reason = tuple[str, str]


def show(expr: Any) -> str:
    """A value for a message, on one line and not too long."""
    if isinstance(expr, Var):
        return expr.name_hint
    if isinstance(expr, Op):
        return expr.name.removeprefix("relax.")
    if isinstance(expr, Call):
        return f"{show(expr.op)}({', '.join(show(arg) for arg in expr.args)})"
    if isinstance(expr, Tuple):
        fields = [show(field) for field in expr.fields[:4]] + (["..."] if len(expr.fields) > 4 else [])
        return f"({', '.join(fields)})"
    if isinstance(expr, TupleGetItem):
        return f"{show(expr.tuple_value)}[{expr.index}]"
    text = repr(expr)
    return text if len(text) <= 80 else text[:77] + "..."


def _bound(leaf: Expr, definitions: Mapping[Var, Expr]) -> Expr:
    return definitions.get(leaf, leaf) if isinstance(leaf, Var) else leaf


def _what(leaf: Expr, definitions: Mapping[Var, Expr]) -> str:
    value = _bound(leaf, definitions)
    return show(leaf) if value is leaf else f"{show(leaf)} = {show(value)}"


def shared_value(pattern: DFPattern, first: Expr, second: Expr) -> Reason:
    """A pattern stands in two places and meets two values."""
    return (
        "shared value",
        f"{describe(pattern)} stands for {show(first)} elsewhere in the pattern, but here it meets {show(second)}",
    )


def wrong_call(pattern: CallPattern, leaf: Expr, definitions: Mapping[Var, Expr]) -> Reason:
    """No call, another operator, or another number of arguments."""
    value = _bound(leaf, definitions)
    wanted = describe(pattern.op)
    if not isinstance(value, Call):
        if isinstance(value, Var):
            where = "has no definition here: it is a parameter, a match_cast, or hidden in another block"
            return ("op", f"a call of {wanted} is wanted, but {show(leaf)} {where}")
        return ("op", f"a call of {wanted} is wanted, but here is {_what(leaf, definitions)}")
    if isinstance(pattern.op, ExprPattern) and isinstance(pattern.op.expr, Op) and value.op is not pattern.op.expr:
        return ("op", f"a call of {wanted} is wanted, but {_what(leaf, definitions)}")
    fewest = _number(len(pattern.args), "argument") + (" or more" if pattern.varg_default_wildcard else "")
    return ("arity", f"{wanted} is wanted with {fewest}, but {_what(leaf, definitions)} has {len(value.args)}")


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def wrong_run(pattern: DFPattern, leaf: Expr, length: int, parts: Sequence[DFPattern], known: Sequence[Any]) -> Reason:
    """No way to share the elements out between the repeats."""
    fixed = [n for n in known if isinstance(n, int)]
    extents = [part.extent for part in parts if isinstance(part, RepeatPattern) and part.extent is not None]
    also = f", and an extent is {fixed[0]} already" if fixed else ""
    if len(set(extents)) < len(extents):
        also += ", where repeats of one extent take equally many"
    bounds = " + ".join(
        f"{p.min}..{'' if p.max is None else p.max}" if isinstance(p, RepeatPattern) else "1" for p in parts
    )
    return ("extent", f"{show(leaf)} has {_number(length, 'element')}, but {describe(pattern)} takes {bounds}{also}")


def wrong_value(pattern: DFPattern, leaf: Expr, definitions: Mapping[Var, Expr]) -> Reason:
    """Another kind of value, name, constant, shape or number of parts."""
    got = _what(leaf, definitions)
    match pattern:
        case CallPattern():
            return wrong_call(pattern, leaf, definitions)
        case TuplePattern() | UnorderedTuplePattern():
            whole = _bound(leaf, definitions)
            if not isinstance(whole, Tuple):
                return ("kind", f"a tuple {describe(pattern)} is wanted, but here is {got}")
            fields, found = _number(len(pattern.fields), "field"), len(whole.fields)
            return ("arity", f"{describe(pattern)} has {fields}, but {show(leaf)} has {found}")
        case TupleGetItemPattern():
            which = "any field" if pattern.index is None else f"field {pattern.index}"
            return ("kind", f"{which} of a tuple is wanted, but here is {got}")
        case NotPattern():
            return ("rejected", f"{show(leaf)} matches {describe(pattern.reject)}, which the pattern rejects")
        case ConstantPattern(value=None):
            return ("constant", f"a constant is wanted, but here is {got}")
        case ConstantPattern():
            return ("constant", f"the number {pattern.value!r} is wanted, but here is {got}")
        case OpPattern():
            return ("op", f"an operator that is {pattern.text} is wanted, but here is {got}")
        case ScalarPattern():
            return ("shape", f"a tensor of one element is wanted, but here is {got}")
        case ExprPattern(expr=Constant()) if isinstance(leaf, Constant):
            return ("constant", f"the constant {show(pattern.expr)} is wanted, but here is {got}")
        case ExprPattern(expr=Op()):
            return ("op", f"the operator {describe(pattern)} is wanted, but here is {got}")
        case ExprPattern():
            return ("kind", f"exactly {show(pattern.expr)} is wanted, but here is {got}")
        case DataflowVarPattern() if not isinstance(leaf, DataflowVar):
            return ("kind", f"a variable of a dataflow block is wanted, but here is {got}")
        case VarPattern() if isinstance(leaf, Var) and pattern.name:
            return ("name", f"a variable named {pattern.name!r} is wanted, but here is {got}")
        case VarPattern():
            return ("kind", f"a variable is wanted, but here is {got}")
        case PrimArrPattern():
            return (
                "shape",
                f"the shape ({', '.join(map(str, pattern.fields))}) is wanted, but here is {got}",
            )
        case IfPattern():
            return ("kind", f"an if is wanted, but here is {got}")
        case FunctionPattern():
            return ("kind", f"a function of {_number(len(pattern.params), 'parameter')} is wanted, but here is {got}")
        case GlobalVarPattern():
            return _wrong_callee("a function of the module", pattern.name, isinstance(leaf, GlobalVar), got)
        case ExternFuncPattern():
            return _wrong_callee("an outside function", pattern.global_symbol, isinstance(leaf, ExternFunc), got)
        case _:
            return ("kind", f"{describe(pattern)} is wanted, but here is {got}")


def _wrong_callee(what: str, name: str, right_kind: bool, got: str) -> Reason:
    named = f" named {name!r}" if name else ""
    return ("name" if right_kind else "kind", f"{what}{named} is wanted, but here is {got}")


def condition(pattern: DFPattern, leaf: Expr, expr: Expr, sizes: Mapping[SymVar, Any]) -> Reason:
    """A condition on a value that has matched so far."""
    match pattern:
        case DataTypePattern():
            dtype = leaf.ty.dtype if isinstance(leaf.ty, TensorType) else None
            return (
                "dtype",
                f"dtype {pattern.dtype} is wanted, but {show(leaf)} has {dtype or repr(leaf.ty)}",
            )
        case ShapePattern():
            wanted = f"({', '.join(map(str, pattern.shape))})"
            return (
                "shape",
                f"shape {wanted} is wanted{_maybe(pattern, leaf, sizes)}, but {show(leaf)} is {leaf.ty!r}",
            )
        case TypePattern():
            certain = " for certain" if bind_type(pattern.ty, leaf.ty, dict(sizes)) is None else ""
            return ("type", f"type {pattern.ty!r} is wanted{certain}, but {show(leaf)} is {leaf.ty!r}")
        case _:
            assert isinstance(pattern, AttrPattern)
            return ("attribute", _attribute(pattern, expr))


def user_count(pattern: UsersPattern, leaf: Expr, users: tuple[Sequence[Var], bool] | None) -> Reason:
    """A value has another number of users; None: it is not bound in the block, so they cannot be told."""
    if pattern.count is None:
        wanted = "no user is wanted but what the pattern describes"
    else:
        wanted = f"{_number(pattern.count, 'user')} {'is' if pattern.count == 1 else 'are'} wanted"
    if users is None:
        return ("users", f"{wanted}, but {show(leaf)} is not bound in this block")
    names = [show(user) for user in users[0][:4]] + (["..."] if len(users[0]) > 4 else [])
    found = ", ".join(names + (["what follows the block"] if users[1] else [])) or "nothing"
    return ("users", f"{wanted}, but {show(leaf)} is used by {found}")


def _maybe(pattern: ShapePattern, leaf: Expr, sizes: Mapping[SymVar, Any]) -> str:
    ty = leaf.ty
    if not isinstance(ty, TensorType):
        return ""
    unknown = ty.shape is None or bind_type(ShapeType(pattern.shape), ShapeType(ty.shape), dict(sizes)) is None
    return " for certain" if unknown else ""


def _attribute(pattern: AttrPattern, expr: Expr) -> str:
    if not isinstance(expr, Call | Function):
        return f"a call with attributes {pattern.attrs} is wanted, but here is {show(expr)}"
    for name, value in pattern.attrs.items():
        if name not in expr.attrs:
            known = ", ".join(expr.attrs) or "none"
            return f"{name}={value!r} is wanted, but {show(expr)} has no attribute {name!r} (it has: {known})"
        if not same_attribute(expr, name, value):
            return f"{name}={value!r} is wanted, but {show(expr)} has {name}={expr.attrs[name]!r}"
    raise AssertionError("an attribute pattern failed on a call that has all its attributes")


def not_used(source: Expr, user: Expr, index: int, definitions: Mapping[Var, Expr]) -> Reason:
    """A value is no operand of the one that should use it."""
    where = "" if index < 0 else f" as argument {index}"
    operands = ", ".join(show(o) for o in operands_of(_bound(user, definitions))) or "nothing"
    return (
        "not used",
        f"{show(source)} should be used by {show(user)}{where}, whose operands are {operands}",
    )


def extra_user(source: Expr, others: Sequence[Var], is_output: bool) -> Reason:
    """A value has a user too many."""
    if is_output:
        return ("extra user", f"{show(source)} should have one user only, but it is an output of the block")
    names = ", ".join(show(v) for v in others[:4])
    return ("extra user", f"{show(source)} should have one user only, but it is used by {names} as well")


def taken(pattern: DFPattern, leaf: Expr) -> Reason:
    """Two patterns of a context would stand for one binding."""
    return (
        "taken",
        f"{show(leaf)} already stands for another pattern, so it cannot stand for {describe(pattern)}",
    )


def same_shape(shapes: Sequence[Expr]) -> Reason:
    """Values that should have one shape do not, for certain."""
    return (
        "shape",
        "one shape is wanted for certain, but: " + "; ".join(f"{show(e)} is {e.ty!r}" for e in shapes),
    )


def wrong_count(pattern: RepeatPattern, found: int, wanted: int | None) -> Reason:
    """A set of bindings is too small, or of another length than its extent."""
    if wanted is None or found < pattern.min:
        return ("extent", f"{describe(pattern)} needs {pattern.min} or more bindings, but {found} match")
    return ("extent", f"{describe(pattern)} needs {wanted} bindings, as its extent says, but {found} match")


def no_candidate(
    pattern: DFPattern, linked: Expr | None, users: Sequence[Var], definitions: Mapping[Var, Expr], count: int = 1
) -> Reason:
    """Too few bindings of the block can stand for a pattern of the context, or for ``count`` that are alike.

    They were sought next to ``linked``, which ``users`` use; in the whole block, if it is None.
    """
    near = "in the block" if linked is None else f"next to {show(linked)}"
    used = ""
    if linked is not None:
        names = [_what(user, definitions) for user in users[:4]] + (["..."] if len(users) > 4 else [])
        used = f"; it is used by {', '.join(names)}" if names else "; nothing uses it"
    if count > 1:
        return ("no candidate", f"fewer than {count} further bindings {near} match {describe(pattern)}{used}")
    return ("no candidate", f"no further binding {near} matches {describe(pattern)}{used}")
