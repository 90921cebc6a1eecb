"""How each operator is written as ONNX, by family; importing this fills `lowering.LOWERINGS`."""

from typing import Final

from . import (
    bits,
    create,
    declared,
    elementwise,
    linear_algebra,
    loops,
    manipulate,
    nn,
    quantization,
    recurrent,
    reduction,
    signal,
    spatial,
    unfolding,
    vision,
)

FAMILIES: Final = (
    bits,
    create,
    declared,
    elementwise,
    linear_algebra,
    loops,
    manipulate,
    nn,
    quantization,
    recurrent,
    reduction,
    signal,
    spatial,
    unfolding,
    vision,
)
"""The modules that hold the lowerings."""
