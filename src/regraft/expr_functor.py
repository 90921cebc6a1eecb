"""Relax's name for visitors and mutators that go on by themselves: what `regraft.ir` holds of them."""

from .ir import ExprFunctor, PyExprMutator, PyExprVisitor, mutator, visitor
from .second_paths import names_around

__all__ = ["ExprFunctor", "PyExprMutator", "PyExprVisitor", "mutator", "visitor"]

__getattr__ = names_around(__name__)
