"""Relax's name for values and devices at run time: what `regraft.run` holds of them."""

from .run import Device, Executable, ShapeTuple, Tensor, convert, cpu, device, empty, tensor

__all__ = ["Device", "Executable", "ShapeTuple", "Tensor", "convert", "cpu", "device", "empty", "tensor"]
