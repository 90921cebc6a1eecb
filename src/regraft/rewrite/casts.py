"""The `match_cast` of a replacement as a value: while a block is edited, values are expressions, and a cast is not one.

`cast` makes a call of a function that no program contains; writing the block turns the call into a binding again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..ir.dims import Dim, SymVar
from ..ir.expr import Expr, ExternFunc, Var
from ..ir.op import Call
from ..ir.program import Binding, MatchCast, VarBinding
from ..ir.types import FuncType, Type, is_subtype, type_symvars
from .errors import RuleFormError

_CAST: Final = ExternFunc("relax.match_cast", FuncType.opaque_func(purity=True))


def cast(value: Expr, ty: Type) -> Call:
    """A value whose binding is a `match_cast` of ``value`` to ``ty``."""
    return Call(_CAST, [value], ty_args=[ty])


def as_precise(value: Expr, ty: Type) -> Expr:
    """``value``, cast to ``ty`` if its own type leaves open whether it has the type ``ty``."""
    return cast(value, ty) if is_subtype(value.ty, ty) is None else value


def is_cast(value: Expr) -> bool:
    """True for a value made by `cast`."""
    return type(value) is Call and value.op is _CAST


def bound_to(var: Var, value: Expr) -> Binding:
    """The binding of ``var`` to ``value``; a `MatchCast` if the value was made by `cast`."""
    if type(value) is Call and value.op is _CAST:
        return MatchCast(var, value.args[0], value.ty_args[0])
    return VarBinding(var, value)


def check_sizes(where: str, bound: Mapping[Var, Expr], given: Mapping[SymVar, Dim]) -> None:
    """Raise `RuleFormError` if a cast among the values of a replacement has a size that is not ``given``."""
    for var, value in bound.items():
        new = [size for size in type_symvars(value.ty) if size not in given] if is_cast(value) else []
        if new:
            raise RuleFormError(
                f"{where}: the match_cast of {var.name_hint} in replacement has the size {new[0]}, which no parameter "
                "has; write it in the type of a parameter"
            )
