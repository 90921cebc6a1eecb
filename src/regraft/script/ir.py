"""The ``I`` namespace: modules."""

from __future__ import annotations

from ..ir.expr import StringImm as StringImm
from ..ir.vdevice import DummyGlobalInfo, VDevice
from .annotations import StringConstructor
from .decorators import ir_module as ir_module
from .decorators import pyfunc as pyfunc
from .intrinsics import module_attrs as module_attrs
from .intrinsics import module_global_infos as module_global_infos

Range = range
"""Consecutive numbers: ``I.Range(0, 4)`` is 0 to 3."""

dummy_global_info = DummyGlobalInfo
"""A piece of information about a module, without content."""
vdevice = VDevice
"""A device that types may name: ``I.vdevice("cuda", 0, "global")``."""

StringType = StringConstructor()
"""The type of strings."""

__all__ = [
    "Range",
    "StringImm",
    "StringType",
    "dummy_global_info",
    "ir_module",
    "module_attrs",
    "module_global_infos",
    "pyfunc",
    "vdevice",
]
