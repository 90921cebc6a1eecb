"""Binding parameters and sizes to values: BindParams and BindSymbolicVars."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from ..ir.dims import Dim, SymExpr, SymVar
from ..ir.dims import substitute as substitute_dim
from ..ir.expr import Constant, Expr, PrimValue, ShapeExpr, Var, const
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call
from ..ir.program import Function
from ..ir.types import Type, as_dim, bind_type, substitute_type, type_symvars
from ..ir.visitor import iter_bindings
from .context import PassContext, PassError
from .passes import ModulePass, Pass

_Key = TypeVar("_Key", Var, SymVar)


class _Binder(ExprMutator):
    """Replaces size variables wherever a program mentions them."""

    def __init__(self, sizes: Mapping[SymVar, Dim]) -> None:
        super().__init__()
        self._sizes = sizes

    def visit_type(self, ty: Type) -> Type:
        return substitute_type(ty, self._sizes) if self._mentions(ty) else ty

    def visit_shape_expr_(self, shape: ShapeExpr) -> Expr:
        if not self._mentions(shape.ty):
            return shape
        return ShapeExpr([substitute_dim(dim, self._sizes) for dim in shape.values])

    def visit_prim_value_(self, value: PrimValue) -> Expr:
        if not isinstance(value.value, SymExpr):
            return value
        new = substitute_dim(value.value, self._sizes)
        return value if new is value.value else PrimValue(new)

    def visit_call_(self, call: Call) -> Expr:
        attrs = {name: self._attribute(value) for name, value in call.attrs.items()}
        if all(attrs[name] is value for name, value in call.attrs.items()):
            return call
        return Call(call.op, call.args, attrs, call.ty_args)

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, SymExpr):
            return substitute_dim(value, self._sizes)
        if not isinstance(value, tuple):
            return value
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        new = tuple([self._attribute(item) for item in items])
        return value if all(a is b for a, b in zip(new, items, strict=True)) else new  # pyright: ignore[reportUnknownVariableType]

    def _mentions(self, ty: Type) -> bool:
        return any(size in self._sizes for size in type_symvars(ty))


def bind_sizes(function: Function, sizes: Mapping[SymVar, Dim]) -> Function:
    """``function`` with size variables replaced, in types too; itself if it mentions none of them. Cost: linear."""
    return _Binder(sizes).mutate(function) if sizes else function


def _sizes_of(function: Function) -> dict[SymVar, None]:
    """The size variables that ``function`` mentions in the types of its parameters and bindings."""
    found = {size: None for param in function.params for size in type_symvars(param.ty)}
    for binding in iter_bindings(function):
        found.update(dict.fromkeys(type_symvars(binding.var.ty)))
    return found


def _named(what: str, name: str, values: Mapping[_Key, None], names: Mapping[_Key, str]) -> _Key:
    """The one of ``values`` that is called ``name``; raises `PassError` if there is none, or several."""
    found = [value for value in values if names[value] == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise PassError(f"{what} {name!r} is ambiguous: {len(found)} have that name; give the variable itself")
    near = get_close_matches(name, names.values(), n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else f"; there are: {', '.join(names.values()) or 'none'}"
    raise PassError(f"there is no {what} {name!r}{hint}")


# --- parameters


def _bound_params(function: Function, params: Mapping[str | Var, Any]) -> Function:
    own = dict.fromkeys(function.params)
    names = {param: param.name_hint for param in own}
    values: dict[Var, Constant] = {}
    sizes: dict[SymVar, Dim] = {}
    for key, value in params.items():
        param = key if isinstance(key, Var) else _named("parameter", key, own, names)
        if param not in own:
            raise PassError(f"{param.name_hint} is no parameter of {function.name or 'the function'}")
        constant = const(value)
        if bind_type(param.ty, constant.ty, sizes) is False:
            raise PassError(f"parameter {param.name_hint} is {param.ty!r}, but its value is {constant.ty!r}")
        values[param] = constant
    if not values:
        return function
    count = function.attrs.get("num_input")
    attrs = dict(function.attrs)
    if isinstance(count, int):
        attrs["num_input"] = count - sum(param in values for param in function.params[:count])
    binder = _Binder(sizes)
    for param, constant in values.items():
        binder.remap(param, constant)
    body = Function([], function.body, function.ret_ty, function.is_pure)
    kept = [param for param in function.params if param not in values]
    renamed: dict[Var, Var] = {}
    for param in kept:
        renamed[param] = Var(param.name_hint, binder.visit_type(param.ty), param.origins)
        binder.remap(param, renamed[param])
    new = binder.mutate(body)
    return Function(list(renamed.values()), new.body, new.ret_ty, function.is_pure, attrs)


def BindParams(func_name: str, params: Mapping[str | Var, Any]) -> Pass:
    """Put values in the place of parameters of one function: ``{name or variable: array}``.

    Sizes that only such a parameter's type mentions become those of its value. The attribute ``num_input`` counts
    what is left.

    Needs: names that are those of one parameter each. Guarantees: the same values as with these arguments.
    Raises `PassError` for a name that is not there or ambiguous, and for a value of another shape or dtype.
    Cost: linear; values are not copied.
    """

    def transform(module: IRModule, _context: PassContext) -> IRModule:
        if func_name not in module:
            raise PassError(f"BindParams: the module has no function {func_name!r}; it has: {', '.join(module)}")
        if not params:
            return module
        new = _bound_params(module[func_name], params)
        table = {var.name_hint: function for var, function in module.functions.items()}
        table[func_name] = new
        return IRModule(table, module.attrs) if _is_never_called(module, func_name) else _refuse_called(func_name)

    return ModulePass(transform, "BindParams", keeps_values=False)


def _is_never_called(module: IRModule, name: str) -> bool:
    from ..analysis import all_global_vars

    return not any(var.name_hint == name for function in module.functions.values() for var in all_global_vars(function))


def _refuse_called(name: str) -> IRModule:
    raise PassError(f"BindParams: {name!r} is called by other functions, which give it all of its parameters")


# --- sizes


def BindSymbolicVars(binding_map: Mapping[str | SymVar, Dim | PrimValue | Expr], func_name: str | None = None) -> Pass:
    """Put sizes in the place of size variables: ``{name or variable: size}``, in one function or in all.

    Needs: names that are those of one size each in a function. Guarantees: the same values where these sizes hold.
    Raises `PassError` for a name or variable that no function mentions. Cost: linear.
    """
    wanted = {key: _as_size(key, value) for key, value in binding_map.items()}

    def transform(module: IRModule, _context: PassContext) -> IRModule:
        if func_name is not None and func_name not in module:
            raise PassError(f"BindSymbolicVars: there is no function {func_name!r}; there are: {', '.join(module)}")
        used: set[str | SymVar] = set()
        changed: dict[str, Function] = {}
        for name, function in module.items():
            if func_name not in (None, name):
                continue
            own = _sizes_of(function)
            names = {size: size.name for size in own}
            sizes: dict[SymVar, Dim] = {}
            for key, value in wanted.items():
                if key not in own and key not in names.values():
                    continue
                used.add(key)
                sizes[key if isinstance(key, SymVar) else _named("size", key, own, names)] = value
            new = bind_sizes(function, sizes)
            if new is not function:
                changed[name] = new
        for key in wanted:
            if key not in used:
                raise PassError(f"BindSymbolicVars: no function mentions a size {key}")
        return module.with_functions(changed) if changed else module

    return ModulePass(transform, "BindSymbolicVars", keeps_values=False)


def _as_size(key: str | SymVar, value: Dim | PrimValue | Expr) -> Dim:
    size = value.value if isinstance(value, PrimValue) else value
    if isinstance(size, Constant):
        size = size.data.numpy().item()
    return as_dim(size, f"BindSymbolicVars: {key}")
