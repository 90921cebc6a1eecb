"""Relax's name for visitors and mutators that go on by themselves: what `regraft.ir` holds of them."""

from .ir import ExprFunctor, PyExprMutator, PyExprVisitor, mutator, visitor

__all__ = ["ExprFunctor", "PyExprMutator", "PyExprVisitor", "mutator", "visitor"]
