"""Models written as modules: layers with parameters, whose methods become functions of a program.

Derive from `Module`, compute with the functions of `op` on tensors, and `Module.export_tvm` writes the program. The
names are those of Relax's ``frontend.nn``.
"""

from __future__ import annotations

from . import core, modules, op, spec
from .exporter import Exporter
from .extern import ExternModule, ObjectModule, SourceModule, add_extern
from .jit import JitModule
from .module import Module, ModuleDict, ModuleList, ParameterDict, ParameterList
from .modules import (
    GELU,
    Attention,
    Conv1D,
    Conv2D,
    Conv3D,
    ConvTranspose1D,
    Embedding,
    GroupNorm,
    Identity,
    IOEffect,
    KVCache,
    LayerNorm,
    Linear,
    ReLU,
    RMSNorm,
    SiLU,
    TimestepEmbedding,
    Timesteps,
)
from .op import *  # noqa: F403 - its functions are names of this module, too
from .subroutine import SubroutineMixin
from .values import Effect, Object, Parameter, Tensor, get_default_dtype, set_default_dtype, wrap_nested
from .visitor import Mutator

__all__ = [
    "GELU",
    "Attention",
    "Conv1D",
    "Conv2D",
    "Conv3D",
    "ConvTranspose1D",
    "Effect",
    "Embedding",
    "Exporter",
    "ExternModule",
    "GroupNorm",
    "IOEffect",
    "Identity",
    "JitModule",
    "KVCache",
    "LayerNorm",
    "Linear",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Mutator",
    "Object",
    "ObjectModule",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "RMSNorm",
    "ReLU",
    "SiLU",
    "SourceModule",
    "SubroutineMixin",
    "Tensor",
    "TimestepEmbedding",
    "Timesteps",
    "add_extern",
    "core",
    "get_default_dtype",
    "modules",
    "op",
    "set_default_dtype",
    "spec",
    "wrap_nested",
]
__all__ += op.__all__
