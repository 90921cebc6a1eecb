"""A program over a mesh of devices as data for the page: the placement of weights, and the data devices exchange."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ..ir.expr import Constant
from ..ir.module import IRModule
from ..ir.tensor_data import TensorData
from ..ir.visitor import parts_of, walk
from ..model.models import type_text
from .records import Records, entries

if TYPE_CHECKING:
    from ..run.xla_executable import XlaExecutable

_WHOLE: Final = "whole on each device"


def sharding_row(
    executable: XlaExecutable, module: IRModule, records: Records, sizes: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """The memory, weights and communication of ``executable``, built from ``module``, for ``sizes`` of symbolic dims.

    Cost: that of its report, which compiles it.
    """
    reports = executable.report(sizes=sizes).functions
    exchanged: dict[tuple[str, str], list[int]] = {}
    for function in reports:
        for one in function.collectives:
            exchanged.setdefault((one.kind, one.layer), []).append(one.bytes)
    layers = _layers(module, records)
    weights = _weights(executable, module, records)
    return {
        "devices": "one device" if executable.mesh is None else f"mesh {executable.mesh}",
        "count": 1 if executable.mesh is None else executable.mesh.devices,
        "memory": {
            "whole": sum(data.nbytes for data, _ in weights),
            "weights": max((one.weights for one in reports), default=0),
            "temporaries": max((one.temporaries for one in reports), default=0),
        },
        "arguments": _arguments(executable, module, records),
        "weights": [row for _, row in weights],
        "collectives": [
            {"kind": kind, "where": layer, "bytes": sum(sizes), "count": len(sizes), "node": layers.get(layer, -1)}
            for (kind, layer), sizes in exchanged.items()
        ],
    }


def _layers(module: IRModule, records: Records) -> dict[str, int]:
    """The first node of each layer of the source, by the layer's name. The name of each value is a layer, too."""
    found: dict[str, int] = {}
    for function in module.functions.values():
        for entry in entries(function):
            if entry.is_node:
                for layer in (*[origin.name for origin in entry.var.origins[:1]], entry.var.name_hint):
                    found.setdefault(layer, records.known(entry.var))
    return found


def _row(executable: XlaExecutable, name: str, ty: str, node: int) -> dict[str, Any]:
    spec = executable.placements.get(name, ())
    cut = [f"axis {index} cut over {' and '.join(axes)}" for index, axes in enumerate(spec) if axes]
    return {"name": name, "type": ty, "placed": ", ".join(cut) or _WHOLE, "node": node}


def _arguments(executable: XlaExecutable, module: IRModule, records: Records) -> list[dict[str, Any]]:
    return [
        _row(executable, param.name_hint, type_text(param.ty), records.known(param))
        for function in module.functions.values()
        for param in function.params
    ]


def _weights(executable: XlaExecutable, module: IRModule, records: Records) -> list[tuple[TensorData, dict[str, Any]]]:
    found: dict[int, tuple[TensorData, dict[str, Any]]] = {}
    for function in module.functions.values():
        for entry in entries(function):
            for part in parts_of(entry.value) if entry.is_node and not isinstance(entry.value, Constant) else ():
                for leaf in walk(part):
                    if isinstance(leaf, Constant) and leaf.data.size > 1 and id(leaf.data) not in found:
                        name = leaf.data.name or f"a constant of {entry.var.name_hint}"
                        row = _row(executable, name, type_text(leaf.ty), records.known(entry.var))
                        found[id(leaf.data)] = leaf.data, row
    return list(found.values())
