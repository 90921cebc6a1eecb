"""Questions about types, with Relax's names: how two types relate, types without sizes, and the sizes in a type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from ..ir.dims import Dim, SymVar, dim_at_least
from ..ir.expr import Var
from ..ir.leaf_types import leaf_types
from ..ir.op import Call
from ..ir.reading import defining_symvars
from ..ir.types import (
    FuncType,
    ObjectType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    common_supertype,
    dims_of,
    erase_unbound,
    is_subtype,
    leaves_in,
    map_type,
    substitute_type,
    type_symvars,
    without_sizes,
)


class BaseCheckResult(IntEnum):
    """The degrees to which the values of one type belong to another type.

    FAIL_L0: none of them do. FAIL_L1: they may, but even the rank or the kind of value must be checked. FAIL_L2: they
    may, and only sizes must be checked. PASS: all of them do.
    """

    FAIL_L0 = 0
    FAIL_L1 = 1
    FAIL_L2 = 2
    PASS = 3


def type_base_check(base: Type, derived: Type) -> BaseCheckResult:
    """The degree to which values of ``derived`` are values of ``base``.

    A function's parameter of shape ``(m, n)`` takes every matrix, since a call defines ``m`` and ``n``.
    """
    if isinstance(base, FuncType) and isinstance(derived, FuncType):
        derived = _as_it_is_called(derived)
    verdict = is_subtype(derived, base)
    if verdict is not None:
        return BaseCheckResult.PASS if verdict else BaseCheckResult.FAIL_L0
    if is_subtype(get_static_type(derived), get_static_type(base)) is True:
        return BaseCheckResult.FAIL_L2
    return BaseCheckResult.FAIL_L1


def _as_it_is_called(function: FuncType) -> FuncType:
    """``function`` without the shapes of parameters that accept any shape, since they define all of their sizes."""
    if function.params is None:
        return function
    counts = Counter(size for param in function.params for size in defining_symvars(param))

    def takes_any(param: Type) -> bool:
        return all(isinstance(dim, SymVar) and counts[dim] == 1 for leaf in leaf_types(param) for dim in dims_of(leaf))

    params = [get_static_type(param) if takes_any(param) else param for param in function.params]
    return FuncType(params, function.ret, function.purity)


def type_lca(lhs: Type, rhs: Type) -> Type:
    """The most precise type that contains the values of both."""
    if isinstance(lhs, FuncType) and isinstance(rhs, FuncType):
        return _common_function(lhs, rhs)
    return common_supertype(lhs, rhs)


def _common_function(lhs: FuncType, rhs: FuncType) -> Type:
    ret, purity = type_lca(lhs.ret, rhs.ret), lhs.purity and rhs.purity
    if lhs.params is None or rhs.params is None or len(lhs.params) != len(rhs.params):
        return FuncType(None, ret, purity) if lhs.params is None or rhs.params is None else ObjectType()
    return FuncType([type_lca(a, b) for a, b in zip(lhs.params, rhs.params, strict=True)], ret, purity)


def get_static_type(ty: Type) -> Type:
    """``ty`` without sizes; ranks and dtypes stay."""
    return map_type(ty, without_sizes)


def erase_to_well_defined(
    ty: Type, shape_var_map: Mapping[SymVar, Dim] | None = None, var_map: Mapping[Any, Any] | None = None
) -> Type:
    """``ty`` with size variables replaced by ``shape_var_map``; shapes that mention other variables are dropped.

    The type of a function stays: its parameters define its sizes. ``var_map`` is accepted as in Relax and has no
    effect: types here mention no variables of the program.
    """
    del var_map
    known = shape_var_map or {}
    if isinstance(ty, TupleType):
        return TupleType([erase_to_well_defined(field, known) for field in ty.fields])
    if isinstance(ty, FuncType):
        return ty
    return substitute_type(erase_unbound(ty, known.__contains__), known)


def tir_vars_in_type(ty: Type) -> list[SymVar]:
    """The size variables that ``ty`` mentions, in order of first appearance."""
    return list(type_symvars(ty))


def definable_tir_vars_in_type(ty: Type) -> list[SymVar]:
    """The size variables that ``ty`` defines as the type of a parameter: those that are a dimension by themselves.

    For a function type: those of its parameters and its result.
    """
    parts = (*(ty.params or ()), ty.ret) if isinstance(ty, FuncType) else (ty,)
    return list(dict.fromkeys(size for part in parts for size in defining_symvars(part)))


def collect_non_negative_expressions(ty: Type) -> list[Dim]:
    """The symbolic dims of ``ty``, each once, that are at least 0 because they are sizes of something."""
    sizes = (dim for leaf in leaves_in(ty) if isinstance(leaf, TensorType | ShapeType) for dim in dims_of(leaf))
    found = dict.fromkeys(dim for dim in sizes if not isinstance(dim, int))
    return [dim for dim in found if dim_at_least(dim, 0) is not False]


def derive_call_ret_type(func_ty: FuncType, call: Call, ctx: Any = None) -> Type:
    """The type of the result of ``call``, whose callee has the type ``func_ty``.

    Raises `OpTypeError` for wrong arguments. ``ctx``, a `BlockBuilder`, is accepted as in Relax and has no effect.
    """
    del ctx
    return Call(Var("callee", func_ty), call.args, call.attrs, call.ty_args).ty
