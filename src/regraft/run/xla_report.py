"""The report on a compiled program: bytes on each device, and collectives with their sizes, by source layer.

It is read from XLA's compiled text, so it describes what will run, not what was planned. Sizes are per device.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from .mesh import Mesh
from .python_source import PythonModule

SCOPE: Final = "regraft_line_"
"""The prefix of the name scope of a binding's operations; the line of the text follows."""

_COLLECTIVE: Final = re.compile(
    r"= (?P<type>\(.*?\)|\S+) "
    r"(?P<kind>all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?P<start>-start)?\("
)
_ARRAY: Final = re.compile(r"([a-z]+\d*(?:e\d+m\d+\w*)?)\[([\d,]*)\]")
_BITS: Final = re.compile(r"\d+")
_NAME: Final = re.compile(r'op_name="([^"]*)"')
_LINE: Final = re.compile(rf"{SCOPE}(\d+)")
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True)
class Collective:
    """One exchange between devices in a compiled program."""

    kind: str
    """XLA's name: ``all-reduce``, ``all-gather``, ``all-to-all``, ``collective-permute`` or ``reduce-scatter``."""
    bytes: int
    """The size of its result on a device."""
    layer: str
    """The node of the source model, or the binding, that it comes from."""


@dataclass(frozen=True, slots=True)
class FunctionReport:
    """One function, compiled for one set of sizes; all bytes are per device."""

    name: str
    sizes: str
    devices: int
    weights: int
    arguments: int
    """Bytes of all arguments, including weights."""
    temporaries: int
    results: int
    aliased: int
    """Bytes of arguments whose memory the results reuse."""
    collectives: tuple[Collective, ...]

    @property
    def counts(self) -> Counter[str]:
        """The number of collectives of each kind."""
        return Counter(collective.kind for collective in self.collectives)

    @property
    def collective_bytes(self) -> int:
        """Bytes of the results of all collectives."""
        return sum(collective.bytes for collective in self.collectives)

    def __str__(self) -> str:
        where = f"on each of {self.devices} devices" if self.devices > 1 else "on the device"
        lines = [
            f"{self.name}({self.sizes})",
            f"  {where}: weights {size_text(self.weights)}, arguments {size_text(self.arguments)}, "
            f"temporaries {size_text(self.temporaries)}, results {size_text(self.results)}",
        ]
        total = ", ".join(f"{count} {kind}" for kind, count in sorted(self.counts.items()))
        lines.append(f"  collectives: {f'{total}; {size_text(self.collective_bytes)}' if total else 'none'}")
        layers: dict[tuple[str, str], list[int]] = {}
        for collective in self.collectives:
            layers.setdefault((collective.layer, collective.kind), []).append(collective.bytes)
        width = max([len(layer) for layer, _ in layers], default=0)
        for (layer, kind), sizes in layers.items():
            lines.append(f"    {layer:{width}}  {len(sizes)} {kind}, {size_text(sum(sizes))}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class XlaReport:
    """The result of `XlaExecutable.report`; ``print`` shows it."""

    mesh: Mesh | None
    functions: tuple[FunctionReport, ...]
    compilations: int
    """The number of programs that were compiled: one for each function and set of sizes."""

    def __getitem__(self, name: str) -> FunctionReport:
        return next(function for function in self.functions if function.name == name)

    def __str__(self) -> str:
        over = f"mesh {self.mesh}" if self.mesh is not None else "one device"
        head = f"{over}; {self.compilations} program{'s' if self.compilations != 1 else ''} compiled"
        return "\n".join([head, *map(str, self.functions)])


def size_text(count: int) -> str:
    """A number of bytes as a text for people."""
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 or size >= 100 else f"{size:.2f} {_UNITS[unit]}"


def collectives_of(text: str, program: PythonModule) -> tuple[Collective, ...]:
    """The collectives of a compiled program's text, in order."""
    found: list[Collective] = []
    for line in text.splitlines():
        match = _COLLECTIVE.search(line)
        if match is None:
            continue
        arrays = _ARRAY.findall(match["type"])
        if match["start"] and len(arrays) > 1 and match["kind"] != "all-reduce":
            arrays = arrays[len(arrays) // 2 :]  # a started exchange returns its operands first
        found.append(Collective(match["kind"], _bytes(arrays), _layer(line, program)))
    return tuple(found)


def _bytes(arrays: Iterable[tuple[str, str]]) -> int:
    total = 0
    for dtype, dims in arrays:
        bits = _BITS.search(dtype)
        width = 8 if dtype == "pred" or bits is None else int(bits[0])
        total += prod(map(int, filter(None, dims.split(",")))) * width // 8
    return total


def _layer(line: str, program: PythonModule) -> str:
    name = _NAME.search(line)
    place = _LINE.findall(name[1]) if name is not None else []
    if not place or int(place[-1]) not in program.places:
        return "the program"
    var = program.places[int(place[-1])].var
    if var is None:
        return "the program"
    return ", ".join([origin.name for origin in var.origins[:1]]) or var.name_hint


def memory_of(compiled: Any) -> tuple[int, int, int, int]:
    """Bytes of arguments, temporaries, results, and arguments that the results reuse, on one device."""
    stats = compiled.memory_analysis()
    if stats is None:
        return 0, 0, 0, 0
    return (
        stats.argument_size_in_bytes,
        stats.temp_size_in_bytes,
        stats.output_size_in_bytes,
        stats.alias_size_in_bytes,
    )


def sizes_text(names: Sequence[str], arrays: Sequence[tuple[tuple[int, ...], Any]]) -> str:
    """The arguments of a compiled function as a text: ``x: float32 (2, 3)``."""
    shown = [f"{name}: {dtype} {shape}" for name, (shape, dtype) in zip(names, arrays, strict=True)]
    more = f", and {len(shown) - 6} more" if len(shown) > 6 else ""
    return ", ".join(shown[:6]) + more
