"""XLA's own operations for operators that it has as one operation; they run in place of reference semantics.

A kernel returns `NotImplemented` for a case that XLA's operation does not cover (see `kernel_table`).
"""

from __future__ import annotations

from typing import Final

from ..kernel_table import with_references
from ..xla_library import jnp
from . import bits, convolution, pooling, sizes

KERNELS: Final = with_references([family.KERNELS for family in (bits, convolution, pooling, sizes)], jnp)
"""The kernels, by the names of their operators."""
