"""The public name for running a module: what `regraft.run` holds."""

from .run import *  # noqa: F403 - a facade has the names of what it stands for
from .run import __all__ as __all__
