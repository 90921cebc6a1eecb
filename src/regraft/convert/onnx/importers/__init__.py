"""How each operator of ONNX is read, by family; importing this fills `importing.IMPORTERS`."""

from typing import Final

from . import (
    control_flow,
    convolution,
    elementwise,
    indexing,
    linear_algebra,
    normalization,
    reduction,
    resize,
    shaping,
)
from .folding import folded

FAMILIES: Final = (
    control_flow,
    convolution,
    elementwise,
    indexing,
    linear_algebra,
    normalization,
    reduction,
    resize,
    shaping,
)
"""The modules that hold the readers."""

__all__ = ["FAMILIES", "folded"]
