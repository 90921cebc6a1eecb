"""The parts of a program that have effects."""

from __future__ import annotations

from ..ir.expr import Expr, GlobalVar, Var
from ..ir.op import Call
from ..ir.program import Function
from ..ir.visitor import ExprVisitor, Visitable


class _Impurity(ExprVisitor):
    def __init__(self, root: Expr, own_name: Var | GlobalVar | None) -> None:
        self.found: Call | None = None
        self._root = root
        self._own_name = own_name

    def enters(self, node: Visitable) -> bool:
        # To define a function is not to call it.
        return self.found is None and (node is self._root or not isinstance(node, Function))

    def visit_call_(self, call: Call) -> None:
        if self.found is None and not call.is_pure and not self._is_own(call.op):
            self.found = call

    def _is_own(self, callee: Expr) -> bool:
        own = self._own_name
        if isinstance(own, GlobalVar) and isinstance(callee, GlobalVar):
            return own.name_hint == callee.name_hint
        return own is not None and callee is own


def find_impure_call(expr: Expr, own_name: Var | GlobalVar | None = None) -> Call | None:
    """The first call in ``expr`` that may have effects, or None; see `contains_impure_call`."""
    visitor = _Impurity(expr, own_name)
    visitor.visit(expr)
    return visitor.found


def contains_impure_call(expr: Expr, own_name: Var | GlobalVar | None = None) -> bool:
    """True if evaluating ``expr`` (for a function: calling it) may have effects.

    A call of unknown purity counts as impure; functions that are defined inside, and not called, do not
    count. ``own_name`` is the name of a recursive function, whose calls of itself say nothing new. Cost:
    linear.
    """
    return find_impure_call(expr, own_name) is not None
