"""Relax's module name for the passes: the names of `regraft.passes`."""

from .left_out import names_left_out
from .passes import *  # noqa: F403 - a facade has the names of its package
from .passes import __all__ as __all__
from .second_paths import attach_second_paths

__getattr__ = names_left_out(__name__)
attach_second_paths(__name__)
