"""Reverse-mode gradients of programs: the transform, its simplifier, checkpoints, and rules that users register.

`Gradient` is the pass. The gradient of each operator is declared with the operator, in the vocabulary, or follows from
the program that a composite decomposes into. This package knows the language, the vocabulary and rewriting. It names no
operators except those that the simplifier matches.
"""

from ..op.adjoints import GradientError
from .registry import has_gradient, register_gradient
from .simplify import GRADIENT_RULES, simplify_gradient
from .transform import Gradient

__all__ = ["GRADIENT_RULES", "Gradient", "GradientError", "has_gradient", "register_gradient", "simplify_gradient"]
