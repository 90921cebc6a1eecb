"""Models written as modules: layers with parameters, whose methods become functions of a program.

Derive from `Module`, compute with the functions of `op` on tensors, and call `Module.export_tvm` to get the program.
The names are those of Relax's ``frontend.nn``.
"""

from __future__ import annotations

from . import core as core
from . import modules as modules
from . import op as op
from . import spec as spec
from .exporter import Exporter as Exporter
from .extern import ExternModule as ExternModule
from .extern import ObjectModule as ObjectModule
from .extern import SourceModule as SourceModule
from .extern import add_extern as add_extern
from .jit import JitModule as JitModule
from .module import Module as Module
from .module import ModuleDict as ModuleDict
from .module import ModuleList as ModuleList
from .module import ParameterDict as ParameterDict
from .module import ParameterList as ParameterList
from .modules import GELU as GELU
from .modules import Attention as Attention
from .modules import Conv1D as Conv1D
from .modules import Conv2D as Conv2D
from .modules import Conv3D as Conv3D
from .modules import ConvTranspose1D as ConvTranspose1D
from .modules import Embedding as Embedding
from .modules import GroupNorm as GroupNorm
from .modules import Identity as Identity
from .modules import IOEffect as IOEffect
from .modules import KVCache as KVCache
from .modules import LayerNorm as LayerNorm
from .modules import Linear as Linear
from .modules import ReLU as ReLU
from .modules import RMSNorm as RMSNorm
from .modules import SiLU as SiLU
from .modules import TimestepEmbedding as TimestepEmbedding
from .modules import Timesteps as Timesteps
from .op import *  # noqa: F403 - its functions are names of this module, too
from .subroutine import SubroutineMixin as SubroutineMixin
from .values import Effect as Effect
from .values import Object as Object
from .values import Parameter as Parameter
from .values import Tensor as Tensor
from .values import get_default_dtype as get_default_dtype
from .values import set_default_dtype as set_default_dtype
from .values import wrap_nested as wrap_nested
from .visitor import Mutator as Mutator

__all__: list[str] = ["core", "modules", "op", "spec"]
__all__ += sorted([name for name, value in globals().items() if callable(value)])  # pyright: ignore[reportUnsupportedDunderAll]
