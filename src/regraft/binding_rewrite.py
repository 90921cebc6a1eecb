"""Relax's module name for editing one dataflow block: `regraft.rewrite`'s class for it."""

from .rewrite import DataflowBlockRewrite
from .second_paths import names_around

__all__ = ["DataflowBlockRewrite"]

__getattr__ = names_around(__name__)
