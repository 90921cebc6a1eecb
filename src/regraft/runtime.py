"""Relax's module name for values and devices at run time: `regraft.run`'s names for them."""

from .ir import Node as Object
from .run import DataType, Device, Executable, ShapeTuple, Tensor, convert, cpu, device, empty, from_dlpack, tensor
from .run.saved_executable import load_module
from .second_paths import attach_second_paths

Module = Executable
"""A compiled module, under TVM's name."""

__all__ = [
    "DataType",
    "Device",
    "Executable",
    "Module",
    "Object",
    "ShapeTuple",
    "Tensor",
    "convert",
    "cpu",
    "device",
    "empty",
    "from_dlpack",
    "load_module",
    "tensor",
]

attach_second_paths(__name__)
