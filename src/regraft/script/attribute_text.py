"""Attributes of calls, functions and modules as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from ..ir.vdevice import DummyGlobalInfo, VDevice
from ..op.primitive.dist import DeviceMesh

TAKE_NUMBERS: Final = frozenset(
    f"relax.{name}"
    for name in (
        "arange",
        "call_packed",
        "call_pure_packed",
        "clip",
        "eye_like",
        "hamming_window",
        "memory.alloc_tensor",
        "slice_scatter",
        "tril",
        "triu",
        "unique",
    )
)
"""Operators for which a plain number is a scalar. For others it is a tensor of the other operands' dtype."""
WITHOUT_KEYWORDS: Final = frozenset(
    f"relax.{name}" for name in ("memory.alloc_storage", "memory.alloc_tensor", "builtin.alloc_tensor")
)
"""Operators whose attributes are operands in Relax, and are printed as operands."""
WITH_TEXTS: Final = frozenset({"relax.print", "relax.assert_op"})
"""Operators whose text is an operand in Relax and is printed with a keyword nevertheless."""
DEVICES: Final[Mapping[int, str]] = {
    1: "cpu",
    2: "cuda",
    4: "opencl",
    7: "vulkan",
    8: "metal",
    9: "vpi",
    10: "rocm",
    12: "ext_dev",
    14: "hexagon",
    15: "webgpu",
}
"""The kinds of devices by their DLPack numbers, which TVM prints."""
GlobalInfo = DeviceMesh | VDevice | DummyGlobalInfo


def global_infos_text(named: tuple[tuple[str, tuple[GlobalInfo, ...]], ...], prefix: str = "I") -> str:
    """The text of the devices, meshes and other information that a module names."""
    entries: list[str] = []
    for name, devices_or_meshes in named:
        texts: list[str] = []
        for entry in devices_or_meshes:
            if isinstance(entry, DummyGlobalInfo):
                texts.append(f"{prefix}.dummy_global_info()")
                continue
            if isinstance(entry, VDevice):
                texts.append(f"{prefix}.vdevice({entry.described()})")
                continue
            shape, ids = entry
            in_order = ids == tuple(range(ids[0], ids[0] + len(ids)))
            devices = f"{prefix}.Range({ids[0]}, {ids[0] + len(ids)})" if in_order else str(list(ids))
            texts.append(f"R.device_mesh({shape}, {devices})")
        entries.append(f"{string_text(name)}: [{', '.join(texts)}]")
    return "{" + ", ".join(entries) + "}"


def string_text(value: str) -> str:
    """A string literal in double quotes."""
    if value.isprintable():
        return json.dumps(value, ensure_ascii=False)
    escaped = value.encode("unicode_escape").decode("ascii").replace('"', '\\"')
    return f'"{escaped}"'


def device_text(device: Any) -> str:
    """The argument of ``R.hint_on_device`` for a device such as ``"cuda:1"``; other values as any attribute."""
    if not isinstance(device, str):
        return attribute_text(device)
    kind, _, index = device.partition(":")
    number = next((number for number, name in DEVICES.items() if name == kind), None)
    if number is None or not index.isdecimal():
        return f"R.device({string_text(device)})"
    return f"R.device(device_type={number}, index={index})"


def attribute_text(value: Any) -> str:
    """The text of an attribute's value, as an argument of a call or of `R.func_attr`."""
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, float):
        return repr(value) if value - value == 0 else f'T.float64("{value}")'
    if isinstance(value, Mapping):
        table = cast("Mapping[str, Any]", value)
        return "{" + ", ".join(f"{string_text(key)}: {attribute_text(table[key])}" for key in sorted(table)) + "}"
    if isinstance(value, VDevice):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(attribute_text, cast('Sequence[Any]', value)))}]"
    return str(value)
