"""Relax's name for the pattern language and for rewriting by it: what `regraft.pattern` and `regraft.rewrite` hold."""

from . import pattern
from .pattern import *  # noqa: F403 - a facade has the names of what it stands for
from .rewrite import PatternMatchingRewriter, explain, rewrite_bindings, rewrite_call

__all__ = ["PatternMatchingRewriter", "explain", "rewrite_bindings", "rewrite_call"]
__all__ += pattern.__all__
