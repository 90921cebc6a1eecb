"""The parts of a program that have effects."""

from __future__ import annotations

from ..ir.expr import Expr, GlobalVar, Var
from ..ir.op import Call
from ..ir.program import Function
from ..ir.visitor import walk


def find_impure_call(expr: Expr, own_name: Var | GlobalVar | None = None) -> Call | None:
    """The first call in ``expr`` that may have effects, or None; see `contains_impure_call`."""
    # Defining a function does not call it.
    for found in walk(expr, lambda part: part is expr or not isinstance(part, Function)):
        if isinstance(found, Call) and not found.is_pure and not _is_own(found.op, own_name):
            return found
    return None


def _is_own(callee: Expr, own: Var | GlobalVar | None) -> bool:
    if isinstance(own, GlobalVar) and isinstance(callee, GlobalVar):
        return own.name_hint == callee.name_hint
    return own is not None and callee is own


def contains_impure_call(expr: Expr, own_name: Var | GlobalVar | None = None) -> bool:
    """True if evaluating ``expr`` (for a function: calling it) may have effects.

    A call of unknown purity counts as impure. Functions that are defined inside, and not called, do not count.
    ``own_name`` is the name of a recursive function, whose calls of itself are ignored. Cost: linear.
    """
    return find_impure_call(expr, own_name) is not None
