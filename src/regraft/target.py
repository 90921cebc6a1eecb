"""Relax's module name for the targets that programs are built for: `regraft.run`'s class for them."""

from .run.relax_values import RelaxTarget as Target

__all__ = ["Target"]
