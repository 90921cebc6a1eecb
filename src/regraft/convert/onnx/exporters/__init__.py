"""How each operator is written as ONNX, by family; importing this fills `lowering.LOWERINGS`."""

from typing import Final

from . import create, elementwise, linear_algebra, manipulate, nn, reduction, spatial

FAMILIES: Final = (create, elementwise, linear_algebra, manipulate, nn, reduction, spatial)
"""The modules that hold the lowerings."""
