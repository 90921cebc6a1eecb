"""BindParams and BindSymbolicVars: bind parameters and sizes to values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..analysis import called_names
from ..ir.binding_values import bind_params, bind_symbolic_vars, size_value, sizes_of
from ..ir.dims import Dim, SymVar
from ..ir.errors import IRError
from ..ir.expr import Expr, PrimValue, Var, const
from ..ir.module import IRModule
from ..ir.program import Function
from .context import PassContext, PassError
from .passes import ModulePass, Pass

# --- parameters


def BindParams(func_name: str, params: Mapping[str | Var, Any]) -> Pass:
    """Replace parameters of one function by values: ``{name or variable: array}``.

    Sizes that only the type of such a parameter mentions become the sizes of its value. The attribute ``num_input`` is
    reduced accordingly.

    Needs: names that belong to one parameter each. Guarantees: the same values as with these arguments. Raises
    `PassError` for a name that does not exist or is ambiguous, and for a value of another shape or dtype. Cost: linear;
    values are not copied.
    """

    def transform(module: IRModule, _context: PassContext) -> IRModule:
        if func_name not in module:
            raise PassError(f"BindParams: the module has no function {func_name!r}; it has: {', '.join(module)}")
        if not params:
            return module
        try:
            new = bind_params(module[func_name], {key: const(value) for key, value in params.items()})
        except IRError as error:
            raise PassError(f"BindParams: {error}") from None
        if func_name in called_names(module):
            raise PassError(
                f"BindParams: {func_name!r} is called by other functions, which give it all of its parameters"
            )
        return IRModule({**dict(module.items()), func_name: new}, module.attrs)

    return ModulePass(transform, "BindParams", keeps_values=False)


# --- sizes


def BindSymbolicVars(binding_map: Mapping[str | SymVar, Dim | PrimValue | Expr], func_name: str | None = None) -> Pass:
    """Replace size variables by sizes: ``{name or variable: size}``, in one function or in all.

    Needs: names that belong to one size each in a function. Guarantees: the same values for inputs that have these
    sizes. Raises `PassError` for a name or variable that no function mentions. Cost: linear.
    """
    wanted = {key: size_value(value, f"BindSymbolicVars: {key}") for key, value in binding_map.items()}

    def transform(module: IRModule, _context: PassContext) -> IRModule:
        if func_name is not None and func_name not in module:
            raise PassError(f"BindSymbolicVars: there is no function {func_name!r}; there are: {', '.join(module)}")
        used: set[str | SymVar] = set()

        def change(name: str, function: Function) -> Function:
            if func_name not in (None, name):
                return function
            own = sizes_of(function)
            there = {*own, *(size.name for size in own)}
            here = {key: value for key, value in wanted.items() if key in there}
            used.update(here)
            try:
                return bind_symbolic_vars(function, here)
            except IRError as error:
                raise PassError(f"BindSymbolicVars: {error}") from None

        bound = module.with_each(change)
        for key in wanted:
            if key not in used:
                raise PassError(f"BindSymbolicVars: no function mentions a size {key}")
        return bound

    return ModulePass(transform, "relax.BindSymbolicVars", keeps_values=False, opt_level=1)
