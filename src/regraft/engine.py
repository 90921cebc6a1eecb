"""The public module for running programs: the names of `regraft.run`."""

from .run import *  # noqa: F403 - a facade has the names of its package
from .run import __all__ as __all__
