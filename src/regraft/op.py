"""The vocabulary under Relax's name for it: ``regraft.op.add`` is `regraft.ops.add`."""

from .ops import *  # noqa: F403 - an alias has the names of what it stands for
from .ops import __all__ as __all__
