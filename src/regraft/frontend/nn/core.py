"""The names that Relax has in ``frontend.nn.core``."""

from __future__ import annotations

from .module import Module, ModuleDict, ModuleList, ParameterDict, ParameterList
from .values import Effect, Object, Parameter, Tensor, get_default_dtype, set_default_dtype, wrap_nested

__all__ = [
    "Effect",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Object",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "Tensor",
    "get_default_dtype",
    "set_default_dtype",
    "wrap_nested",
]
