"""The conditions that patterns put on one value: one small function for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ...analysis.values import definition, is_number, is_single, resolve, same_attribute, same_value
from ...ir.dims import SymVar
from ...ir.expr import Constant, DataflowVar, Expr, ExternFunc, GlobalVar, ShapeExpr, Var
from ...ir.op import Call, Op, attribute_key
from ...ir.program import Function
from ...ir.types import ShapeType, TensorType, Type, bind_type, type_symvars
from ..chain_pattern import HolePattern
from ..parts import Ops, size_variables
from ..pattern import (
    AndPattern,
    AttrPattern,
    ConstantPattern,
    DataflowVarPattern,
    DataTypePattern,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    GlobalVarPattern,
    OpPattern,
    OrPattern,
    PatternError,
    PrimArrPattern,
    ScalarPattern,
    ShapePattern,
    TypePattern,
    UsersPattern,
    VarPattern,
    WildcardPattern,
)
from .machine import MatchState
from .uses import has_users

Condition: TypeAlias = "Callable[[MatchState, Expr], bool]"
"""A condition on a resolved leaf; it may bind size variables."""


def may_call(search: MatchState, leaf: Expr, ops: Ops) -> bool:
    """True if a resolved leaf is a call of one of ``ops``; if None, any value may match."""
    return ops is None or getattr(definition(search.definitions, leaf), "op", None) in ops


def condition(pattern: DFPattern) -> Condition:
    """The condition of ``pattern`` itself, beside those of its parts."""
    match pattern:
        case WildcardPattern() | HolePattern() | OrPattern() | AndPattern():
            return lambda _, leaf: True
        case ConstantPattern(value=None):
            return lambda _, leaf: type(leaf) is Constant
        case ConstantPattern(value=float() | int() as value, rtol=rtol):
            return lambda _, leaf: type(leaf) is Constant and is_number(leaf, value, rtol)
        case ScalarPattern():
            return lambda _, leaf: is_single(leaf.ty)
        case OpPattern(accepts=accepts):
            return lambda _, leaf: type(leaf) is Op and bool(accepts(leaf))
        case DataflowVarPattern(name=name):
            return lambda _, leaf: type(leaf) is DataflowVar and (not name or leaf.name_hint == name)
        case VarPattern(name=name):
            return lambda _, leaf: isinstance(leaf, Var) and (not name or leaf.name_hint == name)
        case GlobalVarPattern(name=name):
            return lambda _, leaf: isinstance(leaf, GlobalVar) and (not name or leaf.name_hint == name)
        case ExternFuncPattern(global_symbol=name):
            return lambda _, leaf: isinstance(leaf, ExternFunc) and (not name or leaf.global_symbol == name)
        case ExprPattern(expr=Op() as op):
            return lambda _, leaf: leaf is op
        case ExprPattern(expr=expr):
            return lambda search, leaf: _is_expr(search, leaf, expr)
        case PrimArrPattern(fields=dims):
            shape = ShapeType(dims)
            return _sized(
                pattern, lambda leaf, sizes: isinstance(leaf, ShapeExpr) and bind_type(shape, leaf.ty, sizes) is True
            )
        case TypePattern(ty=ty):
            return _sized(pattern, lambda leaf, sizes: bind_type(ty, leaf.ty, sizes) is True)
        case ShapePattern(shape=dims):
            shape = ShapeType(dims)
            return _sized(pattern, lambda leaf, sizes: _has_shape(leaf.ty, shape, sizes))
        case DataTypePattern(dtype=dtype):
            return lambda _, leaf: isinstance(leaf.ty, TensorType) and leaf.ty.dtype == dtype
        case AttrPattern(attrs=attrs):
            return _attributes(attrs)
        case UsersPattern():
            return lambda search, leaf: has_users(search, pattern, leaf)
        case _:
            raise PatternError(f"{type(pattern).__name__} is a kind of pattern that the matcher does not know")


def _is_expr(search: MatchState, leaf: Expr, expr: Expr) -> bool:
    known = search.definitions
    return same_value(known, definition(known, leaf), expr) or same_value(known, leaf, resolve(known, expr))


def _sized(pattern: DFPattern, holds: Callable[[Expr, dict[SymVar, Any]], bool]) -> Condition:
    """A condition on the type of a leaf, which binds the size variables of ``pattern``."""
    if not size_variables(pattern):
        return lambda _search, leaf: holds(leaf, {})

    def check(search: MatchState, leaf: Expr) -> bool:
        sizes = dict(search.sizes)
        if not holds(leaf, sizes):
            return False
        search.change("sizes", sizes)
        return True

    return check


def _has_shape(ty: Type, shape: ShapeType, sizes: dict[SymVar, Any]) -> bool:
    if not isinstance(ty, TensorType) or ty.shape is None:
        return False
    found = ShapeType(ty.shape)
    own = type_symvars(found)
    for variable in type_symvars(shape):
        if variable in own:  # a size of the program is none that the pattern binds
            sizes.setdefault(variable, variable)
    return bind_type(shape, found, sizes) is True


def _attributes(attrs: Mapping[str, Any]) -> Condition:
    wanted = [(name, attribute_key(value), value) for name, value in attrs.items()]

    def holds(search: MatchState, leaf: Expr) -> bool:
        expr = definition(search.definitions, leaf)
        return isinstance(expr, Call | Function) and all(
            name in expr.attrs and (attribute_key(expr.attrs[name]) == key or same_attribute(expr, name, value))
            for name, key, value in wanted
        )

    return holds
