"""Patterns without parts, and conditions, on one value, in the matcher's slow definition (`reference`)."""

from __future__ import annotations

from typing import Any

from regraft.analysis.values import Definitions, is_number, is_single, resolve, same_attribute, same_value
from regraft.ir.dims import SymVar
from regraft.ir.expr import Constant, DataflowVar, Expr, ExternFunc, GlobalVar, Var
from regraft.ir.op import Call, Op
from regraft.ir.program import Function
from regraft.ir.types import ShapeType, TensorType, bind_type
from regraft.pattern.constrained_patterns import AttrPattern, DataTypePattern, ShapePattern, TypePattern
from regraft.pattern.leaf_patterns import (
    ConstantPattern,
    DataflowVarPattern,
    ExprPattern,
    ExternFuncPattern,
    GlobalVarPattern,
    OpPattern,
    PrimArrPattern,
    ScalarPattern,
    VarPattern,
    WildcardPattern,
)
from regraft.pattern.pattern import DFPattern, PatternError


def is_leaf_of(pattern: DFPattern, leaf: Expr, bound: Expr, definitions: Definitions) -> bool:
    """Patterns without parts: they say what the leaf itself is."""
    match pattern:
        case WildcardPattern():  # Any value.
            return True
        case ConstantPattern(value=None):  # A constant tensor.
            return isinstance(leaf, Constant)
        case ConstantPattern(value=float() | int() as value):  # A constant of that one number, in its own dtype.
            return isinstance(leaf, Constant) and is_number(leaf, value, pattern.rtol)
        case ScalarPattern():  # A tensor of one element.
            return is_single(leaf.ty)
        case OpPattern():  # An operator of which the function holds.
            return isinstance(leaf, Op) and bool(pattern.accepts(leaf))
        case DataflowVarPattern(name=name):  # A variable local to a dataflow block, of that name if one is given.
            return isinstance(leaf, DataflowVar) and name in ("", leaf.name_hint)
        case VarPattern(name=name):  # Any variable, of that name if one is given.
            return isinstance(leaf, Var) and name in ("", leaf.name_hint)
        case GlobalVarPattern(name=name):  # A function of the module, of that name if one is given.
            return isinstance(leaf, GlobalVar) and name in ("", leaf.name_hint)
        case ExternFuncPattern(global_symbol=name):  # A function from outside, of that name if one is given.
            return isinstance(leaf, ExternFunc) and name in ("", leaf.global_symbol)
        case ExprPattern(expr=expr):  # This expression: the leaf is its value, or is bound to one like it.
            return same_value(definitions, bound, expr) or same_value(definitions, leaf, resolve(definitions, expr))
        case _:
            raise PatternError(f"{pattern!r} stands where a single value is wanted")


def condition_holds(pattern: DFPattern, leaf: Expr, bound: Expr, sizes: dict[SymVar, Any]) -> bool:
    """Conditions on a value, over its pattern; ``sizes`` takes what size variables of the pattern are."""
    match pattern:
        case TypePattern(ty=ty):  # The value is certainly of this type.
            return bind_type(ty, leaf.ty, sizes) is True
        case PrimArrPattern(fields=fields):  # The shape is certainly of these sizes.
            return bind_type(ShapeType(fields), leaf.ty, sizes) is True
        case ShapePattern(shape=shape):  # The value is a tensor, certainly of this shape.
            if not isinstance(leaf.ty, TensorType) or leaf.ty.shape is None:
                return False
            return bind_type(ShapeType(shape), ShapeType(leaf.ty.shape), sizes) is True
        case DataTypePattern(dtype=dtype):  # The value is a tensor of this dtype.
            return isinstance(leaf.ty, TensorType) and leaf.ty.dtype == dtype
        case AttrPattern(attrs=attrs):  # The value is what a call (or a function) with these attributes gives.
            if not isinstance(bound, Call | Function):
                return False
            return all(same_attribute(bound, name, value) for name, value in attrs.items())
        case _:
            raise PatternError(f"{pattern!r} is no condition")
