"""Relax's name for the builder of functions: what `regraft.ir` holds of it."""

from .ir import BlockBuilder

__all__ = ["BlockBuilder"]
