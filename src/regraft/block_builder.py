"""Relax's module name for the builder of functions: `regraft.ir`'s class for it."""

from .ir import BlockBuilder
from .second_paths import names_around

__all__ = ["BlockBuilder"]

__getattr__ = names_around(__name__)
