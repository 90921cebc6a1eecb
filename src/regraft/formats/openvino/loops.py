"""Loops and branches: layers that hold networks, as ONNX's ``Loop`` and ``If``, whose bodies are graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import onnx
from onnx import helper

from ..onnx.element_types import to_onnx_dtype
from .graph import Graph, LayerCall, UnsupportedLayerError, Value
from .network import Body, Port

_LAST: Final = np.iinfo(np.int64).max


class Inside(NamedTuple):
    """A converted body: its graph, and its results by layer number."""

    graph: Graph
    results: Mapping[int, Value]

    def result(self, number: int) -> Value:
        """A result; raises `UnsupportedLayerError` if it depends on a layer that cannot be read."""
        if number not in self.results:
            raise UnsupportedLayerError("its body holds a layer that cannot be read")
        return self.results[number]


Write: TypeAlias = Callable[[Body, Mapping[int, Value]], Inside]
"""Converts a body whose parameters are given by layer number."""


def _as_graph(inside: Inside, inputs: Sequence[onnx.ValueInfoProto], results: Iterable[str]) -> onnx.GraphProto:
    """The body as a graph. A node of its own makes each output."""
    outputs = [inside.graph.node("Identity", name) for name in results]
    given = [helper.make_tensor_value_info(name, 0, None) for name in outputs]
    return helper.make_graph(inside.graph.nodes, "body", inputs, given)


def _info(value: Value) -> onnx.ValueInfoProto:
    dtype = value.port.dtype
    return helper.make_tensor_value_info(value.name, 0 if dtype is None else to_onnx_dtype(dtype), None)


def _read_by(call: LayerCall, entry: Mapping[str, str]) -> Value:
    """The outer value that an input of a body reads."""
    return call.inputs[call.layer.ports.index(int(entry["external_port_id"]))]


def _scalar(graph: Graph, value: str | Value) -> str:
    return graph.node("Reshape", value, graph.constant(np.zeros(0, np.int64)))


# --- branches


def _if(call: LayerCall, write: Write) -> list[str]:
    branches: dict[str, Any] = {}
    for name in ("then", "else"):
        body = call.layer.bodies[f"{name}_body"]
        inside = write(body, {int(one["internal_layer_id"]): _read_by(call, one) for one in body.inputs})
        given = {int(one["external_port_id"]): int(one["internal_layer_id"]) for one in body.outputs}
        results = [inside.result(given[port.number]).name for port in call.layer.outputs]
        branches[f"{name}_branch"] = _as_graph(inside, [], results)
    return call.graph.nodes_of("If", [_scalar(call.graph, call.inputs[0])], len(call.layer.outputs), **branches)


# --- loops


class _Slices(NamedTuple):
    """Slices of size 1 along an axis, one for each step; the last slice comes first if ``is_backwards``."""

    axis: int
    is_backwards: bool


def _slices(entry: Mapping[str, str]) -> _Slices | None:
    """The slices of an input or of a joined result; None if it is whole. Raises `UnsupportedLayerError` for others."""
    if "axis" not in entry:
        return None
    numbers = tuple(int(entry.get(key, default)) for key, default in _WHOLE)
    if numbers not in ((0, -1, 1, 1), (-1, 0, -1, 1)):
        start, end, stride, size = numbers
        raise UnsupportedLayerError(
            f"it takes slices of {size} from {start} to {end} in steps of {stride}, not all one by one"
        )
    return _Slices(int(entry["axis"]), numbers[2] < 0)


_WHOLE: Final = (("start", "0"), ("end", "-1"), ("stride", "1"), ("part_size", "1"))


def _loop(call: LayerCall, write: Write) -> list[str]:
    graph, body = call.graph, call.layer.bodies["body"]
    ports = {layer.number: layer.outputs[0] for layer in body.layers if layer.kind == "Parameter"}
    step = Value(graph.fresh(), Port(0, "int64", (), ()))
    goes_on = Value(graph.fresh(), Port(0, "bool", (), ()))
    before = Graph(graph)  # the first nodes of each step
    given: dict[int, Value] = {}
    carried: list[tuple[Value, Value, int]] = []
    count = "" if call.layer.kind == "TensorIterator" else _count(call)
    for entry in body.inputs:
        number = int(entry["internal_layer_id"])
        port = ports[number]
        if entry.get("purpose") == "current_iteration":
            given[number] = Value(_as_port(before, step, port), port)
            continue
        value, cut = _read_by(call, entry), _slices(entry)
        if cut is not None:
            length = graph.node("Gather", graph.node("Shape", value), graph.constant(np.int64(cut.axis)), axis=0)
            count = count or length
            given[number] = Value(_slice(before, value, cut, step, length), port)
        elif number in body.back:
            given[number] = Value(graph.fresh(), port._replace(dtype=port.dtype or value.port.dtype))
            carried.append((value, given[number], body.back[number]))
        else:
            given[number] = value
    inside = write(body, given)
    inside.graph.nodes[:0] = before.nodes
    return _written(call, inside, (step, goes_on), carried, count)


def _count(call: LayerCall) -> str:
    """The number of steps of a Loop; empty if only its condition ends it."""
    known = call.inputs[0].numbers
    if known is not None and known.size == 1 and int(known.reshape(-1)[0]) < 0:
        return ""
    return _scalar(call.graph, call.cast(call.inputs[0], "int64"))


def _as_port(graph: Graph, step: Value, port: Port) -> str:
    """The number of the step in the dtype and shape of the body's parameter."""
    cast = graph.node("Cast", step, to=to_onnx_dtype(port.dtype or "int64"))
    return graph.node("Reshape", cast, graph.integers(*[1] * len(port.sizes or ())))


def _slice(graph: Graph, value: Value, cut: _Slices, step: Value, length: str) -> str:
    """The slice of ``value`` that a step reads."""
    one = graph.constant(np.int64(1))
    place = graph.node("Sub", graph.node("Sub", length, one), step) if cut.is_backwards else step.name
    return graph.node("Gather", value, graph.node("Reshape", place, graph.integers(1)), axis=cut.axis)


def _written(
    call: LayerCall,
    inside: Inside,
    counted: tuple[Value, Value],
    carried: Sequence[tuple[Value, Value, int]],
    count: str,
) -> list[str]:
    """Add the loop and the nodes that follow it; returns the names of the layer's outputs."""
    graph, body = call.graph, call.layer.bodies["body"]
    of_layer = {int(one["external_port_id"]): one for one in body.outputs if one.get("purpose") is None}
    condition = next((one for one in body.outputs if one.get("purpose") == "execution_condition"), None)
    ends = inside.graph
    if condition is None:
        after = ends.constant(np.bool_(True))
    else:
        after = _scalar(ends, inside.result(int(condition["internal_layer_id"])))
    results = [after, *(inside.result(number).name for _, _, number in carried)]
    places = {number: place for place, (_, _, number) in enumerate(carried)}
    stacked: dict[int, int] = {}
    for port in call.layer.outputs:
        entry = of_layer[port.number]
        number, cut = int(entry["internal_layer_id"]), _slices(entry)
        if cut is not None or number not in places:
            stacked[port.number] = len(results) - 1
            value = inside.result(number).name
            results.append(value if cut is None else ends.node("Squeeze", value, ends.integers(cut.axis)))
    starts = [count, _scalar(graph, call.inputs[1]) if call.layer.kind == "Loop" else ""]
    graph_of_body = _as_graph(inside, [*map(_info, counted), *(_info(one) for _, one, _ in carried)], results)
    read = [*starts, *(value.name for value, _, _ in carried)]
    found = graph.nodes_of("Loop", read, len(results) - 1, body=graph_of_body)
    names: list[str] = []
    for port in call.layer.outputs:
        entry = of_layer[port.number]
        cut, place = _slices(entry), stacked.get(port.number)
        if place is None:
            names.append(found[places[int(entry["internal_layer_id"])]])
        elif cut is None:
            names.append(graph.node("Gather", found[place], graph.constant(np.int64(-1)), axis=0))
        else:
            names.append(_together(graph, found[place], cut, port))
    return names


def _together(graph: Graph, stacked: str, cut: _Slices, port: Port) -> str:
    """The slices in ``stacked`` (steps, ...) along their axis, in their order."""
    if cut.is_backwards:
        ends = [graph.integers(number) for number in (-1, -_LAST, 0, -1)]
        stacked = graph.node("Slice", stacked, *ends)
    if port.sizes is None:
        raise UnsupportedLayerError("the rank of the results that it stacks is not known")
    axis = cut.axis % len(port.sizes)
    order = [*range(1, axis + 1), 0, *range(axis + 1, len(port.sizes))]
    return graph.node("Transpose", stacked, perm=order) if axis else stacked


NESTED: Final[Mapping[str, Callable[[LayerCall, Write], list[str]]]] = {
    "If": _if,
    "Loop": _loop,
    "TensorIterator": _loop,
}
"""The writers of layers that hold networks, by type."""
