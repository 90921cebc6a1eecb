"""Names for the layers of an OpenVINO network that depend on the network only."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from ..formats.openvino.layers import ROWS
from ..ir.builder import NameSupply

_NUMBERED: Final = re.compile(r"(?:constant|lv|value_+|([A-Z]\w*?)(?=\d))\d*(?:_\d+|_part\d*|/[A-Z]\w*)*")
"""A generated name: a kind and a number, and a suffix if several layers compute one value."""
_STEP: Final = re.compile(r"/[A-Z]\w*$")
"""The suffix of layers before the one that computes a value."""
_PART: Final = re.compile(r"_part\d*$")


def name_layers(model: Any, outputs: Sequence[str]) -> None:
    """Give each layer and its values the same name; layers without one are named by kind and number.

    OpenVINO's own counters never restart. If a value has several names, one in ``outputs`` is kept. Names that consist
    of a kind and a number are counted again in the order of the layers, so a network that is read and written again
    keeps its names. Cost: linear in the layers.
    """
    networks = [model]
    for network in networks:
        networks.extend(body for node in network.get_ordered_ops() for body in _bodies(node))
    nodes = [(node, network is not model) for network in networks for node in network.get_ordered_ops()]
    found = [_kept(node, outputs, is_inside=is_inside) for node, is_inside in nodes]
    kept = [None if name and _STEP.sub("", name) in {*found} - {name} else name for name in found]
    names = _Names([*outputs, *(name for name in kept if name)])
    for (node, is_inside), name in zip(nodes, kept, strict=True):
        names.give(node, name, outputs, is_inside=is_inside)


class _Names:
    """The names of a network, given layer by layer."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._reserved: Final = frozenset(reserved)
        self._supply: Final = NameSupply(self._reserved)
        self._given: Final[set[str]] = set()
        self._counts: Final[Counter[str]] = Counter()

    def give(self, node: Any, name: str | None, outputs: Collection[str], *, is_inside: bool) -> None:
        """Name a layer and its values; values in ``outputs`` keep that name."""
        kind, own = node.get_type_name(), node.outputs()
        if kind == "Result":
            own[0].set_names(node.input_value(0).get_names())
            if is_inside:
                node.set_friendly_name(self._numbered(kind))
            return
        if name in self._given:
            name = self._supply.fresh(name)
        first = name or self._numbered(kind)
        self._given.add(first)
        node.set_friendly_name(first)
        for place, port in enumerate(own):
            named = port.get_names().intersection(outputs)
            port.set_names(named or {self._supply.fresh(f"{first}_{place}") if place else first})

    def _numbered(self, kind: str) -> str:
        self._counts[kind] += 1
        name = f"{kind}{self._counts[kind]}"
        return self._numbered(kind) if name in self._reserved else name


def _kept(node: Any, outputs: Sequence[str], *, is_inside: bool) -> str | None:
    """The current name of a layer, if it says more than a kind and a number; else None."""
    if node.get_type_name() == "Result":
        return None
    given = sorted(node.output(0).get_names())
    first = next((name for name in given if name in outputs), given[0] if given else None)
    if first is None or first in outputs or (node.get_type_name() == "Parameter" and not is_inside):
        return first
    found = _NUMBERED.fullmatch(first)
    if found is None:
        return first if node.get_output_size() == 1 else _PART.sub("", first)
    return first if found[1] and found[1] != "Constant" and found[1] not in ROWS else None


def _bodies(node: Any) -> list[Any]:
    """The networks inside a loop or a branch."""
    if node.get_type_name() == "If":
        return [node.get_then_body(), node.get_else_body()]
    return [node.get_function()] if hasattr(node, "get_function") else []
