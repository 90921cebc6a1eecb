"""PyTorch's own kernels for operators that it has as one function; they run in place of reference semantics.

A kernel returns `NotImplemented` for a case that PyTorch's function does not cover (see `kernel_table`).
"""

from __future__ import annotations

from typing import Final

from .. import torch_namespace as xp
from ..kernel_table import with_references
from . import (
    blocks,
    convolution,
    elementwise,
    images,
    normalization,
    pooling,
    products,
    quantization,
    recurrent,
    sizes,
    splitting,
)

_FAMILIES: Final = (
    blocks, convolution, elementwise, images, normalization, pooling, products, quantization, recurrent, sizes,
    splitting,
)  # fmt: skip

KERNELS: Final = with_references([family.KERNELS for family in _FAMILIES], xp)
"""The kernels, by the names of their operators."""
