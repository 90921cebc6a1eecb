"""Neural-network operators, reached as ``regraft.op.nn`` and, in scripts, as ``R.nn``."""

# ruff: noqa: F403 - each module lists its public names

from __future__ import annotations

from .composite.activation import *
from .composite.attention import *
from .composite.loss import *
from .composite.normalization import *
from .composite.padding import *
from .composite.pooling import *
from .composite.rearrangement import *
from .composite.recurrent import *
from .composite.regularization import *
from .composite.unfolding import *
from .primitive.conv import *
from .primitive.conv_transpose import *

__all__: list[str] = sorted([name for name, value in globals().items() if callable(value)])  # pyright: ignore[reportUnsupportedDunderAll]
