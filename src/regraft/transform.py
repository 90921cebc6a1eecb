"""Relax's name for the passes: what `regraft.passes` holds."""

from .passes import *  # noqa: F403 - a facade has the names of what it stands for
from .passes import __all__ as __all__
