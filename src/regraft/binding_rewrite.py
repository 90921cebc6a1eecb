"""Relax's name for editing one dataflow block: what `regraft.rewrite` holds of it."""

from .rewrite import DataflowBlockRewrite
from .second_paths import names_around

__all__ = ["DataflowBlockRewrite"]

__getattr__ = names_around(__name__)
