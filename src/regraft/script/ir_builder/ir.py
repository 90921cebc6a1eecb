"""Modules inside an `IRBuilder`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.errors import IRError
from ...ir.expr import GlobalVar
from ...ir.program import Function
from ...ir.vdevice import DummyGlobalInfo, VDevice
from ..intrinsics import freeze
from .frames import ModuleFrame, innermost

IRModuleFrame = ModuleFrame
dummy_global_info = DummyGlobalInfo
vdevice = VDevice


def ir_module() -> ModuleFrame:
    """``with ir_module():`` writes a module; functions inside are its functions."""
    return ModuleFrame()


def module_attrs(attrs: Mapping[str, Any], allow_overwrite: bool = False) -> None:
    """Set the attributes of the module. Raises `IRError` if it already has some, unless ``allow_overwrite`` is True."""
    frame = innermost(ModuleFrame, "module_attrs")
    if frame.attrs and not allow_overwrite:
        raise IRError("the module has attributes already; allow_overwrite=True puts these in their place")
    frame.attrs = freeze(dict(attrs))


def module_get_attr(attr_key: str) -> Any:
    """The module's attribute of that name; None if it has none."""
    return innermost(ModuleFrame, "module_get_attr").attrs.get(attr_key)


def module_set_attr(attr_key: str, attr_value: Any, allow_overwrite: bool = False) -> None:
    """Set one attribute of the module. Raises `IRError` if it is already set, unless ``allow_overwrite`` is True."""
    frame = innermost(ModuleFrame, "module_set_attr")
    if attr_key in frame.attrs and not allow_overwrite:
        raise IRError(f"the module has the attribute {attr_key!r} already; allow_overwrite=True puts this in its place")
    frame.attrs = {**frame.attrs, **freeze({attr_key: attr_value})}


def module_global_infos(global_infos: Mapping[str, Sequence[Any]]) -> None:
    """Set the devices and other information that the module names. Raises `IRError` if it already has some."""
    frame = innermost(ModuleFrame, "module_global_infos")
    if frame.global_infos:
        raise IRError("the module has global infos already; give all of them in one call")
    frame.global_infos = {name: tuple(infos) for name, infos in global_infos.items()}


def lookup_vdevice(target_kind: str | None = None, device_index: int = -1) -> VDevice:
    """The module's device number ``device_index`` of the devices of that kind; by default, the first of any kind.

    Raises `IRError` if the module names no such device.
    """
    devices = innermost(ModuleFrame, "lookup_vdevice").global_infos.get("vdevice", ())
    kinds = [device for device in devices if target_kind in (None, "vdevice", device.target.split()[0])]
    place = max(device_index, 0)
    if place >= len(kinds):
        raise IRError(f"the module names no device {target_kind!r} of index {device_index}; it has: {list(devices)}")
    return kinds[place]


def lookup_name(name: str) -> bool:
    """True if the module declares or holds a function of that name."""
    frame = innermost(ModuleFrame, "lookup_name")
    return name in frame.variables or name in frame.functions


def decl_function(func_name: str, func_signature: Function) -> GlobalVar:
    """Declare a function that is written later, for calls of it; ``func_signature`` has its parameters and result.

    Raises `IRError` if the module already has a function of that name, and for a value that is not a function.
    """
    frame = innermost(ModuleFrame, "decl_function")
    if not isinstance(func_signature, Function):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise IRError(f"decl_function takes a function, not {func_signature!r}")
    if lookup_name(func_name):
        raise IRError(f"the module has a function {func_name!r} already")
    return frame.variables.setdefault(func_name, GlobalVar(func_name, func_signature.ty))


def def_function(func_name: str, func: Function) -> None:
    """Add a finished function to the module. Raises `IRError` if no function of that name was declared."""
    frame = innermost(ModuleFrame, "def_function")
    if func_name not in frame.variables:
        raise IRError(f"the module declares no function {func_name!r}; call decl_function first")
    frame.functions[func_name] = func
