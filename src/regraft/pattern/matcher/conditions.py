"""The checks that patterns without parts, and conditions on values, make: one small function for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...analysis.values import Definitions, definition, is_number, is_single, resolve, same_attribute, same_value
from ...ir.dims import SymVar
from ...ir.expr import Constant, DataflowVar, Expr, ExternFunc, GlobalVar, ShapeExpr, Var
from ...ir.op import Call, Op, attribute_key
from ...ir.program import Function
from ...ir.types import ShapeType, TensorType, Type, bind_type, type_symvars
from ..chain_pattern import HolePattern
from ..pattern import (
    AttrPattern,
    ConstantPattern,
    ConstrainedPattern,
    DataflowVarPattern,
    DataTypePattern,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    GlobalVarPattern,
    OpPattern,
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


def leaf_check(pattern: DFPattern) -> Callable[[Definitions, Expr], bool]:
    """The check that a leaf pattern makes of a resolved leaf."""
    match pattern:
        case WildcardPattern() | HolePattern():
            return lambda _d, leaf: True
        case ConstantPattern(value=None):
            return lambda _d, leaf: type(leaf) is Constant
        case ConstantPattern(value=float() | int() as value, rtol=rtol):
            return lambda _d, leaf: type(leaf) is Constant and is_number(leaf, value, rtol)
        case ScalarPattern():
            return lambda _d, leaf: is_single(leaf.ty)
        case OpPattern(accepts=accepts):
            return lambda _d, leaf: type(leaf) is Op and bool(accepts(leaf))
        case DataflowVarPattern(name=name):
            return lambda _d, leaf: type(leaf) is DataflowVar and (not name or leaf.name_hint == name)
        case VarPattern(name=name):
            return lambda _d, leaf: isinstance(leaf, Var) and (not name or leaf.name_hint == name)
        case GlobalVarPattern(name=name):
            return lambda _d, leaf: isinstance(leaf, GlobalVar) and (not name or leaf.name_hint == name)
        case ExternFuncPattern(global_symbol=name):
            return lambda _d, leaf: isinstance(leaf, ExternFunc) and (not name or leaf.global_symbol == name)
        case ExprPattern(expr=Op() as op):
            return lambda _d, leaf: leaf is op
        case ExprPattern(expr=expr):
            return lambda d, leaf: same_value(d, definition(d, leaf), expr) or same_value(d, leaf, resolve(d, expr))
        case _:
            raise PatternError(f"{type(pattern).__name__} is a kind of pattern that the matcher does not know")


def leaf_condition(pattern: DFPattern) -> Callable[[MatchState, Expr], bool]:
    """The condition that a pattern without parts puts on a resolved leaf."""
    if isinstance(pattern, PrimArrPattern):
        shape = ShapeType(pattern.fields)
        return _typed(
            pattern, lambda leaf, sizes: isinstance(leaf, ShapeExpr) and bind_type(shape, leaf.ty, sizes) is True
        )
    accepts = leaf_check(pattern)
    return lambda search, leaf: accepts(search.definitions, leaf)


def size_variables(pattern: DFPattern) -> Sequence[SymVar]:
    """The size variables that ``pattern`` itself mentions, and may bind."""
    match pattern:
        case TypePattern(ty=ty):
            return type_symvars(ty)
        case ShapePattern(shape=dims) | PrimArrPattern(fields=dims):
            return type_symvars(ShapeType(dims))
        case _:
            return ()


def condition(pattern: ConstrainedPattern) -> Callable[[MatchState, Expr], bool]:
    """The condition that ``pattern`` puts on a leaf that has matched what is inside of it."""
    match pattern:
        case TypePattern(ty=ty):
            return _typed(pattern, lambda leaf, sizes: bind_type(ty, leaf.ty, sizes) is True)
        case ShapePattern(shape=dims):
            shape = ShapeType(dims)
            return _typed(pattern, lambda leaf, sizes: _has_shape(leaf.ty, shape, sizes))
        case DataTypePattern(dtype=dtype):
            return lambda _search, leaf: isinstance(leaf.ty, TensorType) and leaf.ty.dtype == dtype
        case AttrPattern(attrs=attrs):
            return _attributes(attrs)
        case UsersPattern():
            return lambda search, leaf: has_users(search, pattern, leaf)
        case _:
            raise PatternError(f"{type(pattern).__name__} is a kind of pattern that the matcher does not know")


def _typed(pattern: DFPattern, holds: Callable[[Expr, dict[SymVar, Any]], bool]) -> Callable[[MatchState, Expr], bool]:
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


def _attributes(attrs: Mapping[str, Any]) -> Callable[[MatchState, Expr], bool]:
    wanted = [(name, attribute_key(value), value) for name, value in attrs.items()]

    def holds(search: MatchState, leaf: Expr) -> bool:
        expr = definition(search.definitions, leaf)
        if not isinstance(expr, Call | Function):
            return False
        attrs = expr.attrs
        for name, key, value in wanted:
            if name not in attrs or (attribute_key(attrs[name]) != key and not same_attribute(expr, name, value)):
                return False
        return True

    return holds
