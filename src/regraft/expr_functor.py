"""Relax's module name for visitors and mutators that recurse by themselves: `regraft.ir`'s classes for them."""

from .ir import ExprFunctor, PyExprMutator, PyExprVisitor, mutator, visitor
from .second_paths import names_around

__all__ = ["ExprFunctor", "PyExprMutator", "PyExprVisitor", "mutator", "visitor"]

__getattr__ = names_around(__name__)
