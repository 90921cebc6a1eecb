"""Modules inside of an `IRBuilder`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.program import Function
from ..intrinsics import freeze
from .frames import ModuleFrame, innermost


def ir_module() -> ModuleFrame:
    """``with ir_module():`` writes a module; functions inside are its functions."""
    return ModuleFrame()


def module_attrs(attrs: Mapping[str, Any]) -> None:
    """Attributes of the module."""
    innermost(ModuleFrame, "module_attrs").attrs.update(freeze(dict(attrs)))


def def_function(func_name: str, func: Function) -> None:
    """Put a finished function into the module."""
    innermost(ModuleFrame, "def_function").functions[func_name] = func
