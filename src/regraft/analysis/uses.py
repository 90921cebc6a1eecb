"""The users of variables: the edges of a program's dataflow.

`direct_uses` defines "uses" for all analyses: an `If` uses its condition and the results of its branches, while the
bindings inside the branches are users themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from ..ir.expr import Expr, Var
from ..ir.op import Call, Op
from ..ir.program import Binding, DataflowBlock, Function, SeqExpr
from ..ir.visitor import COMPOUND, Visitable, iter_bindings, parts_of
from .variables import free_vars


class DirectUses(NamedTuple):
    """The uses of an expression itself: ``variables``, in order and with repeats, and nested ``bodies``."""

    variables: list[Var]
    bodies: list[SeqExpr | Function]


def direct_uses(expr: Expr) -> DirectUses:
    """The variables that ``expr`` uses outside nested bindings, and the bodies that contain those bindings.

    The result of a nested body counts as used by ``expr``. Cost: linear in ``expr``, without nested bindings.
    """
    if type(expr) is Call and type(expr.op) is Op:
        for arg in expr.args:
            if type(arg) in COMPOUND:
                break
        else:
            return DirectUses([arg for arg in expr.args if isinstance(arg, Var)], [])
    variables: list[Var] = []
    bodies: list[SeqExpr | Function] = []
    seen: set[int] = set()
    stack: list[Expr] = [expr]
    while stack:
        current = stack.pop()
        if isinstance(current, Var):
            variables.append(current)
            continue
        if type(current) not in COMPOUND or id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, SeqExpr | Function):
            bodies.append(current)
            stack.append(current.body.body if isinstance(current, Function) else current.body)
        else:
            stack.extend(reversed(cast("Sequence[Expr]", parts_of(current))))
    return DirectUses(variables, bodies)


def variables_of(value: Expr) -> Iterable[Var]:
    """The variables that ``value`` reads, in order; for branches and functions, only variables from outside.

    Cost: linear in ``value``, including everything nested in it.
    """
    if type(value) is Call and not value.ty_args and all(isinstance(arg, Var) for arg in value.args):
        return [arg for arg in (value.op, *value.args) if isinstance(arg, Var)]
    uses = direct_uses(value)
    return free_vars(value) if uses.bodies else uses.variables


def users_of(root: Visitable) -> dict[Var, tuple[Binding, ...]]:
    """For each variable that a binding of ``root`` uses, these bindings, each once, in order of evaluation.

    Includes the bindings in branches and inner functions. The result of a function has no binding, so its use is not
    included; a branch's result is used by the binding of its `If`. Cost: linear.
    """
    users: dict[Var, dict[Binding, None]] = {}
    for binding in iter_bindings(root):
        for variable in direct_uses(binding.value).variables:
            users.setdefault(variable, {})[binding] = None
    return {variable: tuple(bindings) for variable, bindings in users.items()}


def udchain(dfb: DataflowBlock) -> dict[Var, list[Var]]:
    """For each variable that a dataflow block binds or uses, the variables bound to its users, in order.

    A variable without users has an empty list. Cost: linear.
    """
    chain: dict[Var, dict[Var, None]] = {}
    for binding in dfb.bindings:
        for variable in direct_uses(binding.value).variables:
            chain.setdefault(variable, {})[binding.var] = None
        chain.setdefault(binding.var, {})
    return {variable: list(users) for variable, users in chain.items()}


def used_vars(expr: Expr) -> list[Var]:
    """The variables that ``expr`` uses, including in nested bindings, in order of first use."""
    values = [*(binding.value for binding in iter_bindings(expr)), expr]
    return list(dict.fromkeys(var for value in values for var in direct_uses(value).variables))
