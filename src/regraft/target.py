"""Relax's name for what a program is built for: what `regraft.run` holds of it."""

from .run.relax_values import RelaxTarget as Target

__all__ = ["Target"]
