"""Running a module: `build` makes it ready for a target, and what it gives runs on arrays.

Knows the language, the vocabulary and the analyses; nothing of scripts, patterns or passes. Each engine is a
module of its own, imported when it is first asked for; NumPy is the reference, against which the others are
held.
"""

from .custom_operators import custom_operators
from .errors import BuildError, ExecutionError, TypeCheckError
from .executable import Executable
from .externs import get_global_func, register_func, remove_global_func
from .mesh import Mesh
from .relax_values import (
    DataType,
    Device,
    ShapeTuple,
    Tensor,
    convert,
    cpu,
    cuda,
    device,
    empty,
    from_dlpack,
    opencl,
    register_global_func,
    tensor,
)
from .targets import Target, build, register_target, remove_target, runs_on, target_names
from .virtual_machine import VirtualMachine, VMInstrumentReturnKind

__all__ = [
    "BuildError",
    "DataType",
    "Device",
    "Executable",
    "ExecutionError",
    "Mesh",
    "ShapeTuple",
    "Target",
    "Tensor",
    "TypeCheckError",
    "VMInstrumentReturnKind",
    "VirtualMachine",
    "build",
    "convert",
    "cpu",
    "cuda",
    "custom_operators",
    "device",
    "empty",
    "from_dlpack",
    "get_global_func",
    "opencl",
    "register_func",
    "register_global_func",
    "register_target",
    "remove_global_func",
    "remove_target",
    "runs_on",
    "target_names",
    "tensor",
]
