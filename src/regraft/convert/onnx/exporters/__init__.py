"""How each operator is written as ONNX, by family; importing this fills `lowering.LOWERINGS`."""

from . import create, elementwise, linear_algebra, manipulate, nn, reduction, spatial

__all__ = ["create", "elementwise", "linear_algebra", "manipulate", "nn", "reduction", "spatial"]
