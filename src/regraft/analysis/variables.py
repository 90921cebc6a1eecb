"""The variables, sizes and functions that a program mentions and defines, and their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..ir.dims import SymExpr, SymVar, free_symvars
from ..ir.expr import Expr, GlobalVar, PrimValue, ShapeExpr, Var
from ..ir.module import IRModule
from ..ir.op import Call
from ..ir.program import Binding, Function, MatchCast, SeqExpr, VarBinding
from ..ir.reading import defining_symvars
from ..ir.types import Type, type_symvars
from ..ir.visitor import Visitable, iter_bindings, parts_of, walk


def get_var2val(func: Function) -> dict[Any, Expr]:
    """The value of each bound variable of ``func``, in order of evaluation, without variables of `MatchCast`.

    Includes branches and inner functions. Cost: linear. For type checkers, the keys have the type Any: lookups often
    use an `Expr` that is known to be a variable, such as a function's result.
    """
    return {binding.var: binding.value for binding in iter_bindings(func) if isinstance(binding, VarBinding)}


def name_to_binding(func: Function) -> dict[str, list[Binding]]:
    """The bindings of ``func`` by the name of their variable, in order of evaluation; names may repeat."""
    found: dict[str, list[Binding]] = {}
    for binding in iter_bindings(func):
        found.setdefault(binding.var.name_hint, []).append(binding)
    return found


def _appearances(root: Visitable) -> Iterator[tuple[Var, bool]]:
    """The variables of ``root`` in order of appearance, with True for definitions, which precede uses in values."""
    seen: set[int] = set()
    stack: list[Visitable] = [root]
    while stack:
        current = stack.pop()
        if isinstance(current, Var):
            yield current, False
        elif id(current) not in seen:
            seen.add(id(current))
            if isinstance(current, VarBinding | MatchCast):
                yield current.var, True
            elif isinstance(current, Function):
                yield from ((param, True) for param in current.params)
            stack.extend(reversed(parts_of(current)))


def free_vars(expr: Visitable) -> list[Var]:
    """The variables that ``expr`` uses and does not bind, in order of first use. Cost: linear."""
    found = list(_appearances(expr))
    bound = {var for var, is_definition in found if is_definition}
    return list(dict.fromkeys(var for var, _ in found if var not in bound))


def bound_vars(expr: Visitable) -> list[Var]:
    """The variables that ``expr`` binds, including parameters, in order. Cost: linear."""
    return list(dict.fromkeys(var for var, is_definition in _appearances(expr) if is_definition))


def all_vars(expr: Visitable) -> list[Var]:
    """The variables that ``expr`` binds or uses, in order of first appearance. Cost: linear."""
    return list(dict.fromkeys(var for var, _ in _appearances(expr)))


def all_global_vars(expr: Visitable) -> list[GlobalVar]:
    """The functions of the module that ``expr`` mentions, in order of first use. Cost: linear."""
    return list(dict.fromkeys(found for found in walk(expr) if isinstance(found, GlobalVar)))


def called_names(program: Function | IRModule) -> dict[str, None]:
    """The names of the functions that a function, or any function of a module, mentions, in order. Cost: linear."""
    return {var.name_hint: None for var in all_global_vars(program)}


def post_order_visit(expr: Visitable, fvisit: Callable[[Expr], None]) -> None:
    """Call ``fvisit`` on every expression of ``expr``, operands before users, in the order of `walk`."""
    for found in walk(expr):
        fvisit(found)


# --- sizes


def own_symvars(expr: Expr) -> tuple[SymVar, ...]:
    """The size variables that ``expr`` itself mentions, without those of its operands and its type."""
    match expr:
        case ShapeExpr() | PrimValue():
            return type_symvars(expr.ty)
        case Call():
            if not expr.attrs and not expr.ty_args:
                return ()
            found = dict.fromkeys(size for ty in expr.ty_args for size in type_symvars(ty))
            for value in expr.attrs.values():
                items: tuple[object, ...] = value if isinstance(value, tuple) else (value,)  # pyright: ignore[reportUnknownVariableType]
                for item in items:
                    if isinstance(item, SymExpr):
                        found.update(dict.fromkeys(free_symvars(item)))
            return tuple(found)
        case _:
            return ()


def _stated_types(expr: Expr) -> Iterator[tuple[Type, bool]]:
    """The types that ``expr`` states, with True for types that define their bare sizes."""
    if isinstance(expr, Function):
        yield from ((param.ty, True) for param in expr.params)
    for binding in iter_bindings(expr):
        if isinstance(binding.value, Function):
            yield from ((param.ty, True) for param in binding.value.params)
        if isinstance(binding, MatchCast):
            yield binding.ty, True
        yield binding.var.ty, False
    if isinstance(expr, Function):
        yield expr.ret_ty, False


def defined_symbolic_vars(func: Expr) -> list[SymVar]:
    """The size variables that a function or other expression defines, in parameters and casts, in order.

    A size is defined by a dimension that consists of it alone: ``(n, 4)`` defines ``n``, ``(2 * n, 4)`` does not.
    """
    found: dict[SymVar, None] = {}
    for ty, defines in _stated_types(func):
        if defines:
            found.update(dict.fromkeys(defining_symvars(ty)))
    return list(found)


def _used_before_casts(expr: Expr) -> set[SymVar]:
    """The size variables that a value of ``expr`` mentions before the cast that defines them."""
    early: set[SymVar] = set()
    bindings = list(iter_bindings(expr))
    if not any(isinstance(binding, MatchCast) for binding in bindings):
        return early
    functions = [one for one in (expr, *(binding.value for binding in bindings)) if isinstance(one, Function)]
    known = {size for one in functions for param in one.params for size in defining_symvars(param.ty)}
    for binding in bindings:
        for part in walk(binding.value, lambda compound: not isinstance(compound, SeqExpr | Function)):
            early.update(size for size in own_symvars(part) if size not in known)
        if isinstance(binding, MatchCast):
            known.update(defining_symvars(binding.ty))
    return early


def free_symbolic_vars(func: Expr) -> list[SymVar]:
    """The size variables that an expression or function mentions, also in types, and does not define, in order.

    A size that a value mentions before the cast that defines it has to be known from outside, and is free.
    """
    defined = set(defined_symbolic_vars(func)) - _used_before_casts(func)
    found: dict[SymVar, None] = {}
    for ty, _ in _stated_types(func):
        found.update(dict.fromkeys(type_symvars(ty)))
    for expr in walk(func):
        found.update(dict.fromkeys(own_symvars(expr)))
        if isinstance(expr, Call) and not isinstance(func, Function):
            found.update(dict.fromkeys(type_symvars(expr.ty)))
    return [size for size in found if size not in defined]
