"""The part of a function that is computed before it gets its inputs: weights, and what is made of them alone."""

from __future__ import annotations

from ..analysis.values import leaves_of
from ..ir.expr import Expr, Var
from ..ir.op import Call
from ..ir.program import Function, If, VarBinding


def weights_of(function: Function) -> tuple[Var, ...]:
    """The parameters that are weights: those after the first ``num_input``, an attribute of the function.

    None without that attribute: every parameter may be an input then.
    """
    count = function.attrs.get("num_input")
    return function.params[count:] if isinstance(count, int) else ()


def known_before_inputs(function: Function, *, casts: bool = False) -> dict[Var, None]:
    """The weights of ``function`` and every value of its body that depends on weights and constants only, in order.

    Values with effects, branches, and casts unless ``casts`` are left out, and so is what a branch binds. A value that
    depends on nothing at all counts, if it is computed by a call. Cost: linear.
    """
    known = dict.fromkeys(weights_of(function))
    for block in function.body.blocks:
        for binding in block:
            value = binding.value
            if (type(binding) is not VarBinding and not casts) or isinstance(value, If | Function):
                continue
            if isinstance(value, Call) and not value.is_pure:
                continue
            if all(is_known(leaf, known) for leaf in leaves_of(value)):
                known[binding.var] = None
    return known


def is_known(leaf: Expr, known: dict[Var, None]) -> bool:
    """True if ``leaf`` is no variable, or one of ``known``."""
    return not isinstance(leaf, Var) or leaf in known
