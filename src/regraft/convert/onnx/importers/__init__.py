"""How each operator of ONNX is read, by family; importing this fills `importing.IMPORTERS`."""

from typing import Final

from . import (
    control_flow,
    convolution,
    elementwise,
    indexing,
    linear_algebra,
    loops,
    normalization,
    recurrent,
    reduction,
    resize,
    shaping,
    signal,
    vision,
)
from .folding import folded
from .partial_sizes import partial_sizes
from .size_arithmetic import on_sizes

FAMILIES: Final = (
    control_flow,
    convolution,
    elementwise,
    indexing,
    linear_algebra,
    loops,
    normalization,
    recurrent,
    reduction,
    resize,
    shaping,
    signal,
    vision,
)
"""The modules that hold the readers."""

__all__ = ["FAMILIES", "folded", "on_sizes", "partial_sizes"]
