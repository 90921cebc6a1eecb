"""Relax's name for the builder of functions: what `regraft.ir` holds of it."""

from .ir import BlockBuilder
from .second_paths import names_around

__all__ = ["BlockBuilder"]

__getattr__ = names_around(__name__)
