"""Relax's module name for patterns and rewriting by them: the names of `regraft.pattern` and `regraft.rewrite`."""

import regraft.pattern as _pattern  # by its full name, so that type checkers can read the additions to ``__all__``

from .pattern import *  # noqa: F403 - a facade has the names of its package
from .rewrite import PatternMatchingRewriter, explain, rewrite_bindings, rewrite_call
from .second_paths import attach_second_paths

__all__ = ["PatternMatchingRewriter", "explain", "rewrite_bindings", "rewrite_call"]
__all__ += _pattern.__all__

attach_second_paths(__name__)
