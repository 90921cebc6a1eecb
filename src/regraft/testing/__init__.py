"""What tests of programs and rules need: random programs and inputs for them.

Knows the language, the vocabulary, the analyses and the engines. Nothing in the library depends on it.
"""

from .random_programs import Options, programs, random_function, random_inputs, random_module

__all__ = ["Options", "programs", "random_function", "random_inputs", "random_module"]
