"""How each operator of ONNX is read, by family; importing this fills `importing.IMPORTERS`."""

from typing import Final

from . import (
    bits,
    control_flow,
    convolution,
    deformable,
    elementwise,
    indexing,
    linear_algebra,
    loops,
    machine_learning,
    normalization,
    optionals,
    recurrent,
    reduction,
    refused,
    resize,
    sequences,
    shaping,
    signal,
    trees,
    vision,
)
from .partial_sizes import partial_sizes
from .size_arithmetic import on_sizes

FAMILIES: Final = (
    bits,
    control_flow,
    convolution,
    deformable,
    elementwise,
    indexing,
    linear_algebra,
    loops,
    machine_learning,
    normalization,
    optionals,
    recurrent,
    reduction,
    refused,
    resize,
    sequences,
    shaping,
    signal,
    trees,
    vision,
)
"""The modules that hold the readers, and the reasons for which there is none."""

__all__ = ["FAMILIES", "on_sizes", "partial_sizes"]
