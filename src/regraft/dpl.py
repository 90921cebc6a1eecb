"""Relax's module name for patterns and rewriting by them: the names of `regraft.pattern` and `regraft.rewrite`."""

import regraft.pattern as _pattern  # by its full name: checkers of types then read what ``__all__`` gets from it

from .pattern import *  # noqa: F403 - a facade has the names of what it stands for
from .rewrite import PatternMatchingRewriter, explain, rewrite_bindings, rewrite_call
from .second_paths import attach_second_paths

__all__ = ["PatternMatchingRewriter", "explain", "rewrite_bindings", "rewrite_call"]
__all__ += _pattern.__all__

attach_second_paths(__name__)
