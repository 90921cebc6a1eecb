"""Relax's name for `regraft.pattern.for_backends`."""

import regraft.pattern.for_backends as _patterns  # by its full name: checkers then read what ``__all__`` gets from it

from ..pattern.for_backends import *  # noqa: F403 - a facade has the names of its package

__all__: list[str] = []
__all__ += _patterns.__all__
