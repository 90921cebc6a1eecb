"""Reverse-mode gradients of programs: the transform, its simplifier, checkpoints, and rules that users register.

`Gradient` is the pass. The gradient of each operator is declared beside the operator, in the vocabulary, or is that of
the program that a composite decomposes into. This room knows the language, the vocabulary and rewriting, and lists no
operator names but those that the simplifier looks for.
"""

from ..op.adjoints import GradientError
from .registry import has_gradient, register_gradient
from .simplify import GRADIENT_RULES, simplify_gradient
from .transform import Gradient

__all__ = ["GRADIENT_RULES", "Gradient", "GradientError", "has_gradient", "register_gradient", "simplify_gradient"]
