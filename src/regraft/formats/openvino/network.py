"""The XML of a network: its layers in order, with their operands, outputs and attributes."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import Final, NamedTuple

from ..errors import ConvertError

DTYPES: Final = {
    "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64", "boolean": "bool", "i4": "int4",
    "u4": "uint4", "i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "i32": "int32", "u32": "uint32",
    "i64": "int64", "u64": "uint64",
}  # fmt: skip
"""Element types by OpenVINO's names."""

_PORT_DTYPES: Final = {"FP32": "f32", "FP16": "f16", "BF16": "bf16", "FP64": "f64", "BOOL": "boolean"}


_BODIES: Final = ("body", "then_body", "else_body")
_ENDS: Final = ("input", "output")


class Port(NamedTuple):
    """An output of a layer: its number, dtype, sizes (-1 if unknown; None if the rank is unknown) and names."""

    number: int
    dtype: str | None
    sizes: tuple[int, ...] | None
    names: tuple[str, ...]


class OutputRef(NamedTuple):
    """The layer that a value comes from, and the port there."""

    layer: int
    port: int


@dataclass(frozen=True, slots=True)
class Body:
    """A network inside of a layer: its layers in order, and the links between its ends and that layer's ports.

    ``inputs`` and ``outputs`` are attributes as written in the file. ``back`` is for inputs that are carried from step
    to step: it maps the layer number of such an input to the layer number of the result that gives its next value.
    """

    layers: tuple[Layer, ...]
    inputs: tuple[dict[str, str], ...]
    outputs: tuple[dict[str, str], ...]
    back: dict[int, int]


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer: its name, type, attributes as written in the file, operands and outputs.

    ``ports`` are the numbers of the ports that read ``inputs``. ``bodies`` are the networks of loops and branches, by
    the names of their elements.
    """

    number: int
    name: str
    kind: str
    version: str
    attributes: dict[str, str]
    inputs: tuple[OutputRef, ...]
    outputs: tuple[Port, ...]
    ports: tuple[int, ...]
    bodies: dict[str, Body]


def read_network(path: Path) -> list[Layer]:
    """The layers of a file, each after the layers that it reads. Raises `ConvertError` if ``path`` is no such file."""
    try:
        root = ElementTree.parse(path).getroot()
    except OSError as error:
        raise ConvertError(f"{path}: {error.strerror or error}") from error
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise ConvertError(f"{path}: this is no file of OpenVINO, or it is damaged: {error}") from error
    if root.tag != "net" or root.find("layers") is None:
        raise ConvertError(f"{path}: this is no file of OpenVINO, or it is damaged: it has no net with layers")
    version = root.get("version", "")
    if not version.isdecimal() or int(version) < 10:
        raise ConvertError(f"{path}: read are files of version 10 and later, and this one is of {version or 'none'}")
    try:
        return _in_order(_layers(root, path), path)
    except (KeyError, ValueError, TypeError) as error:
        raise ConvertError(f"{path}: the file is damaged: {error}") from error


def _layers(root: ElementTree.Element, path: Path) -> dict[int, Layer]:
    ends = {
        (int(edge.attrib["to-layer"]), int(edge.attrib["to-port"])): OutputRef(
            int(edge.attrib["from-layer"]), int(edge.attrib["from-port"])
        )
        for edge in root.iterfind("edges/edge")
    }
    found: dict[int, Layer] = {}
    for element in root.iterfind("layers/layer"):
        number = int(element.attrib["id"])
        data = element.find("data")
        ports = [int(port.attrib["id"]) for port in element.iterfind("input/port")]
        found[number] = Layer(
            number,
            element.get("name", str(number)),
            element.attrib["type"],
            element.get("version", ""),
            {} if data is None else dict(data.attrib),
            tuple(ends[number, port] for port in ports),
            tuple(_port(port) for port in element.iterfind("output/port")),
            tuple(ports),
            {name: body for name in _BODIES if (body := _body(element, name, path)) is not None},
        )
    return found


def _body(element: ElementTree.Element, name: str, path: Path) -> Body | None:
    inside = element.find(name)
    if inside is None:
        return None
    ports = name.removesuffix("body") + "port_map"
    inputs, outputs = (tuple(dict(one.attrib) for one in element.iterfind(f"{ports}/{end}")) for end in _ENDS)
    edges = element.iterfind("back_edges/edge")
    back = {int(edge.attrib["to-layer"]): int(edge.attrib["from-layer"]) for edge in edges}
    return Body(tuple(_in_order(_layers(inside, path), path)), inputs, outputs, back)


def _port(element: ElementTree.Element) -> Port:
    written = element.get("precision", "")
    dtype = DTYPES.get(_PORT_DTYPES.get(written, written.lower()))
    sizes = tuple(int(dim.text or "-1") for dim in element.iterfind("dim"))
    rank_is_known = element.find("rank") is None
    names = tuple(name for name in element.get("names", "").split(",") if name)
    return Port(int(element.attrib["id"]), dtype, sizes if rank_is_known else None, names)


def _in_order(layers: dict[int, Layer], path: Path) -> list[Layer]:
    """The layers, each after the layers that it reads, otherwise in the order of the file.

    Inputs and results have this order too. Raises `ConvertError` if there is no such order, or if a layer
    reads one that is not there.
    """
    places = {number: place for place, number in enumerate(layers)}
    waiting = {number: len({source.layer for source in layer.inputs}) for number, layer in layers.items()}
    readers: dict[int, list[int]] = {}
    for number, layer in layers.items():
        for source in {source.layer for source in layer.inputs}:
            if source not in layers:
                raise ConvertError(f"{path}: layer {layer.name} reads layer {source}, which is not there")
            readers.setdefault(source, []).append(number)
    ready = [(places[number], number) for number, count in waiting.items() if not count]
    found: list[Layer] = []
    while ready:
        _, number = heappop(ready)
        found.append(layers[number])
        for reader in readers.get(number, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                heappush(ready, (places[reader], reader))
    if len(found) != len(layers):
        raise ConvertError(f"{path}: the layers read each other in a circle")
    return found


def numbers(text: str) -> Sequence[int]:
    """The integers in ``text``, separated by commas, as attributes hold them."""
    return [int(part) for part in text.split(",") if part.strip()]
