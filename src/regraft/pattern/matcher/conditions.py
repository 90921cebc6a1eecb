"""The checks that patterns without parts, and conditions on values, make: one small function for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.dims import SymVar
from ...ir.expr import Constant, DataflowVar, Expr, ExternFunc, GlobalVar, Var
from ...ir.op import Call, Op, attribute_key
from ...ir.program import Function
from ...ir.types import ShapeType, TensorType, Type, bind_type, type_symvars
from ..pattern import (
    AttrPattern,
    ConstantPattern,
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
    VarPattern,
    WildcardPattern,
)
from .machine import DEFINITIONS, Registers
from .view import definition, is_number, is_single, resolve, same_attribute, same_value


def anything(_r: Registers, _leaf: Expr) -> bool:
    """The check of a wildcard: every leaf will do."""
    return True


def leaf_check(pattern: DFPattern) -> Callable[[Registers, Expr], bool]:
    """The check that a leaf pattern makes of a resolved leaf."""
    match pattern:
        case WildcardPattern():
            return anything
        case ConstantPattern(value=None):
            return lambda _r, leaf: type(leaf) is Constant
        case ConstantPattern(value=float() | int() as value, rtol=rtol):
            return lambda _r, leaf: type(leaf) is Constant and is_number(leaf, value, rtol)
        case ScalarPattern():
            return lambda _r, leaf: is_single(leaf.ty)
        case OpPattern(accepts=accepts):
            return lambda _r, leaf: type(leaf) is Op and bool(accepts(leaf))
        case DataflowVarPattern(name=name):
            return lambda _r, leaf: type(leaf) is DataflowVar and (not name or leaf.name_hint == name)
        case VarPattern(name=name):
            return lambda _r, leaf: isinstance(leaf, Var) and (not name or leaf.name_hint == name)
        case GlobalVarPattern(name=name):
            return lambda _r, leaf: isinstance(leaf, GlobalVar) and (not name or leaf.name_hint == name)
        case ExternFuncPattern(global_symbol=name):
            return lambda _r, leaf: isinstance(leaf, ExternFunc) and (not name or leaf.global_symbol == name)
        case ExprPattern(expr=Op() as op):
            return lambda _r, leaf: leaf is op
        case ExprPattern(expr=expr):
            return lambda r, leaf: (
                same_value(r[DEFINITIONS], definition(r[DEFINITIONS], leaf), expr)
                or same_value(r[DEFINITIONS], leaf, resolve(r[DEFINITIONS], expr))
            )
        case _:
            raise PatternError(f"{type(pattern).__name__} is a kind of pattern that the matcher does not know")


def size_variables(pattern: DFPattern) -> Sequence[SymVar]:
    """The size variables that ``pattern`` itself mentions, and may bind."""
    match pattern:
        case TypePattern(ty=ty):
            return type_symvars(ty)
        case ShapePattern(shape=dims) | PrimArrPattern(fields=dims):
            return type_symvars(ShapeType(dims))
        case _:
            return ()


def certainly_of_type(actual: Type, ty: Type | None, shape: Sequence[Any] | None, sizes: dict[SymVar, Any]) -> bool:
    """Whether ``actual`` is certainly of type ``ty``, or a tensor of ``shape``; binds the pattern's size variables."""
    if ty is not None:
        return bind_type(ty, actual, sizes) is True
    if not isinstance(actual, TensorType) or actual.shape is None or shape is None:
        return False
    return bind_type(ShapeType(shape), ShapeType(actual.shape), sizes) is True


def dtype_check(pattern: DataTypePattern) -> Callable[[Expr, Expr], bool]:
    """The check of a matched value's dtype."""
    dtype = pattern.dtype
    return lambda leaf, _expr: isinstance(leaf.ty, TensorType) and leaf.ty.dtype == dtype


def attr_check(pattern: DFPattern) -> Callable[[Expr, Expr], bool]:
    """The check of a matched call's or function's attributes."""
    assert isinstance(pattern, AttrPattern)
    wanted = [(name, attribute_key(value), value) for name, value in pattern.attrs.items()]

    def holds(_leaf: Expr, expr: Expr) -> bool:
        if not isinstance(expr, Call | Function):
            return False
        attrs = expr.attrs
        for name, key, value in wanted:
            if name not in attrs or (attribute_key(attrs[name]) != key and not same_attribute(expr, name, value)):
                return False
        return True

    return holds
