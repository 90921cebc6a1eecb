"""The part of a function that can be computed before its inputs are known: weights, and values computed from them."""

from __future__ import annotations

from collections.abc import Set

from ..ir.dims import SymVar
from ..ir.expr import Expr, Var
from ..ir.op import Call
from ..ir.program import Function, If, VarBinding
from ..ir.reading import defining_symvars
from .uses import direct_uses
from .variables import free_symbolic_vars


def weights_of(function: Function) -> tuple[Var, ...]:
    """The parameters that are weights: those after the first ``num_input``, an attribute of the function.

    Empty without that attribute: every parameter may then be an input.
    """
    count = function.attrs.get("num_input")
    return function.params[count:] if isinstance(count, int) else ()


def known_before_inputs(
    function: Function, *, casts: bool = False, sizes: Set[SymVar] | None = None
) -> dict[Var, None]:
    """The weights of ``function`` and every value of its body that depends on weights and constants only, in order.

    Values with effects, branches, inner functions, and casts (unless ``casts``) are left out, and so are values bound
    in a branch. A value that uses no variable counts. With ``sizes``, values that mention other sizes are left out,
    too. Cost: linear.
    """
    known = dict.fromkeys(weights_of(function))
    for block in function.body.blocks:
        for binding in block:
            value = binding.value
            if (type(binding) is not VarBinding and not casts) or isinstance(value, If | Function):
                continue
            if isinstance(value, Call) and not value.is_pure:
                continue
            if not all(var in known for var in direct_uses(value).variables):
                continue
            if sizes is None or sizes >= set(free_symbolic_vars(value)):
                known[binding.var] = None
    return known


def is_known(leaf: Expr, known: dict[Var, None]) -> bool:
    """True if ``leaf`` is not a variable, or is one of ``known``."""
    return not isinstance(leaf, Var) or leaf in known


def computable_at_compile_time(func: Function) -> list[Var]:
    """The weights of ``func``, and the values that are computed from weights and constants alone.

    Weights are the parameters after the first ``num_input``. In order of definition; empty without the attribute
    ``num_input``. Values with effects, branches, inner functions, casts, and values with sizes that no weight has are
    left out, and so are values bound in a branch. Cost: linear.
    """
    if not isinstance(func.attrs.get("num_input"), int):
        return []
    sizes = {size for weight in weights_of(func) for size in defining_symvars(weight.ty)}
    return list(known_before_inputs(func, sizes=sizes))
