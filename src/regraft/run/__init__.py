"""Running a module: `build` compiles it for a target, and the result runs on arrays.

The package uses the language, the vocabulary, the analyses and the formats, but no scripts, patterns or passes. Each
engine is a module of its own, imported on first use. NumPy is the reference; the other engines are compared with it.
"""

from .custom_operators import custom_operators as custom_operators
from .errors import BuildError as BuildError
from .errors import ExecutionError as ExecutionError
from .errors import TypeCheckError as TypeCheckError
from .executable import Executable as Executable
from .externs import get_global_func as get_global_func
from .externs import register_func as register_func
from .externs import remove_global_func as remove_global_func
from .mesh import Mesh as Mesh
from .relax_values import DataType as DataType
from .relax_values import Device as Device
from .relax_values import ShapeTuple as ShapeTuple
from .relax_values import Tensor as Tensor
from .relax_values import convert as convert
from .relax_values import cpu as cpu
from .relax_values import cuda as cuda
from .relax_values import device as device
from .relax_values import empty as empty
from .relax_values import from_dlpack as from_dlpack
from .relax_values import opencl as opencl
from .relax_values import register_global_func as register_global_func
from .relax_values import tensor as tensor
from .targets import Target as Target
from .targets import build as build
from .targets import register_target as register_target
from .targets import remove_target as remove_target
from .targets import runs_on as runs_on
from .targets import target_names as target_names
from .virtual_machine import VirtualMachine as VirtualMachine
from .virtual_machine import VMInstrumentReturnKind as VMInstrumentReturnKind

__all__: list[str] = sorted([name for name, value in globals().items() if callable(value)])  # pyright: ignore[reportUnsupportedDunderAll]
