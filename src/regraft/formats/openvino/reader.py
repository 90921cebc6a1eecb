"""`from_openvino`: a file of OpenVINO as a program. The network is converted to an ONNX model, layer by layer."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, helper

from ...ir.dtypes import numpy_dtype
from ...ir.module import IRModule
from ..errors import ConvertError, UnsupportedOperatorError
from ..onnx.element_types import to_onnx_dtype
from ..onnx.read.reader import from_message
from . import quantized as _quantized
from . import recurrent as _recurrent
from .graph import Graph, LayerCall, UnsupportedLayerError, Value
from .layers import ROWS
from .loops import NESTED, Inside
from .network import DTYPES, Body, Layer, OutputRef, Port, numbers, read_network

TABLES: Final = (_quantized, _recurrent)
"""The modules that add rows to the table of layers."""

_OPSET: Final = 21
_LOOKED_AT: Final = 2**16
"""Constants of at most so many bytes are read with the file: axes, sizes and scales. Larger ones stay in their file."""
_BITS: Final = {"int4": 4, "uint4": 4}


def from_openvino(path: str | os.PathLike[str], *, dims: Mapping[str, int] | None = None) -> IRModule:
    """A file of OpenVINO (``.xml``, with its ``.bin`` beside it) as a module with one function, ``main``.

    Supported are the layers of convolutional networks, transformers and recurrent networks, loops and branches, and
    quantized layers: values that are held to 256 levels become ``quantize`` and ``dequantize``. State that a network
    keeps from run to run (``ReadValue`` and ``Assign``) becomes an input of the same name and a last result,
    ``<name>_after``. The caller provides the initial state.
    ``dims`` gives numbers for symbolic sizes by name: ``input_axis``, such as ``x_0``. Weights stay in their
    file until they are read. Needs no OpenVINO. Raises `ConvertError` for a damaged file and
    `UnsupportedOperatorError` with all layers that cannot be read. Cost: linear in the layers, some 200 µs each.
    """
    where = Path(path)
    layers = read_network(where)
    results = {source for layer in layers if layer.kind == "Result" for source in layer.inputs}
    network = _Network(
        where, results=results, reserved={_name_of(layer, port) for layer in layers for port in layer.outputs}
    )
    for layer in layers:
        network.add(layer)
    return from_message(network.model(), os.fspath(where), dims=dims or {})


def _name_of(layer: Layer, port: Port) -> str:
    """The name of a value: the first name of its port, or the name of its layer and its index, unless that is 0."""
    place = layer.outputs.index(port)
    return port.names[0] if port.names else f"{layer.name}_{place}" if place else layer.name


class _Network:
    """A network that is being converted to ONNX."""

    def __init__(
        self,
        path: Path,
        outer: _Network | None = None,
        given: Mapping[int, Value] | None = None,
        results: Collection[OutputRef] = (),
        reserved: Iterable[str] = (),
    ) -> None:
        """The network of a file, or of a body in ``outer`` whose parameters are ``given`` by layer number.

        ``results`` are the values that the network of the file returns, ``reserved`` the names of all its values.
        """
        self._wanted: Final = results
        self._path: Final = path
        self._data: Final = path.with_suffix(".bin")
        self._graph: Final = Graph(None if outer is None else outer._graph, reserved)
        self._given: Final = given
        self._results: Final[dict[int, Value]] = {}
        self._kept: Final[list[tuple[str, Value]]] = []
        self._values: Final[dict[OutputRef, Value]] = {}
        self._inputs: Final[list[onnx.ValueInfoProto]] = []
        self._outputs: Final[list[onnx.ValueInfoProto]] = []
        self._problems: Final[list[str]] = [] if outer is None else outer._problems

    def add(self, layer: Layer) -> None:
        """Convert a layer. The layers that it reads must have been added before."""
        self._graph.layer = layer.name
        if layer.kind == "Parameter":
            self._parameter(layer)
        elif layer.kind in ("ReadValue", "Assign") and self._given is None:
            self._state(layer)
        elif layer.kind == "Const":
            try:
                self._constant(layer)
            except (KeyError, ValueError) as error:
                raise ConvertError(f"{self._path}: the constant {layer.name} is damaged: {error}") from error
        elif layer.kind == "Result":
            self._result(layer)
        else:
            self._computed(layer)

    def _computed(self, layer: Layer) -> None:
        found = [self._values.get(source) for source in layer.inputs]
        read = [value for value in found if value is not None]
        if len(read) < len(found):
            self._check_places(layer)
            return
        row, nested = ROWS.get(layer.kind), NESTED.get(layer.kind)
        if (row is None and nested is None) or not layer.outputs:
            self._leave(layer, "the operator is not supported")
            return
        before = len(self._graph.nodes)
        try:
            call = LayerCall(layer, read, self._graph)
            names = row(call) if row is not None else nested(call, self._inside) if nested is not None else ()
        except UnsupportedLayerError as error:
            self._leave(layer, str(error))
            return
        except (KeyError, ValueError, IndexError, TypeError) as error:
            self._leave(layer, f"its attributes or operands are not those of the operation set ({error})")
            return
        names = [names] if isinstance(names, str) else names
        for port, name in zip(layer.outputs, names, strict=True):
            if name:
                name = self._graph.named(name, _name_of(layer, port), before)
                self._values[OutputRef(layer.number, port.number)] = Value(name, port, self._folded(layer, read))

    def _folded(self, layer: Layer, read: list[Value]) -> np.ndarray | None:
        """The numbers of a small constant that the layer casts, as in files with half precision; None otherwise."""
        if layer.kind != "Convert" or read[0].numbers is None or layer.outputs[0].dtype is None:
            return None
        return read[0].numbers.astype(numpy_dtype(layer.outputs[0].dtype))

    def _check_places(self, layer: Layer) -> None:
        """Report a layer as unreadable if it reads an output that the row of the source layer did not write."""
        for source in layer.inputs:
            if source not in self._values and any(known.layer == source.layer for known in self._values):
                self._leave(layer, "it reads the indices of a pooling, which are not supported")

    def _leave(self, layer: Layer, why: str) -> None:
        self._problems.append(f"{layer.kind} ({layer.version}), layer {layer.name}: {why}")

    def _inside(self, body: Body, given: Mapping[int, Value]) -> Inside:
        """The nodes and results of a body whose parameters are ``given``."""
        inner = _Network(self._path, self, given)
        for layer in body.layers:
            inner.add(layer)
        return Inside(inner._graph, inner._results)

    def _parameter(self, layer: Layer) -> None:
        port = layer.outputs[0]
        if self._given is not None:
            self._values[OutputRef(layer.number, port.number)] = self._given[layer.number]
            return
        self._input(layer, self._graph.names.fresh(_name_of(layer, port)), layer.attributes.get("element_type", ""))

    def _input(self, layer: Layer, name: str, element_type: str) -> None:
        """Make the layer's output an input of the model."""
        port = layer.outputs[0]
        dtype = DTYPES.get(element_type, port.dtype)
        if dtype is None:
            self._leave(layer, f"its dtype is {element_type}")
            return
        sizes = None
        if port.sizes is not None:
            sizes = [f"{name}_{axis}" if size < 0 else size for axis, size in enumerate(port.sizes)]
        self._inputs.append(helper.make_tensor_value_info(name, to_onnx_dtype(dtype), sizes))
        self._values[OutputRef(layer.number, port.number)] = Value(name, port._replace(dtype=dtype))

    def _state(self, layer: Layer) -> None:
        """Convert state that is kept from run to run: the value read is an input, the assigned value a result."""
        name, port = layer.attributes["variable_id"], layer.outputs[0]
        if layer.kind == "ReadValue":
            self._input(layer, self._graph.names.fresh(name), layer.attributes.get("variable_type", ""))
            return
        value = self._values.get(layer.inputs[0])
        if value is not None:
            self._values[OutputRef(layer.number, port.number)] = value
            self._kept.append((name, value))

    def _constant(self, layer: Layer) -> None:
        port, attributes = layer.outputs[0], layer.attributes
        dtype = DTYPES.get(attributes.get("element_type", ""))
        if dtype is None:
            self._leave(layer, f"its dtype is {attributes.get('element_type')}")
            return
        shape = tuple(numbers(attributes.get("shape", "")))
        offset, size = int(attributes["offset"]), int(attributes["size"])
        wanted = -(-prod(shape) * _BITS.get(dtype, 8 * numpy_dtype(dtype).itemsize) // 8)
        size = size if wanted else 0  # OpenVINO writes one byte for a constant of no elements.
        if size != wanted or offset < 0:
            raise ConvertError(f"{self._path}: the constant {layer.name} has {size} bytes, where {wanted} are its own")
        found: np.ndarray | None = None
        # A constant that is a result gets the name of the result.
        name = None if OutputRef(layer.number, port.number) in self._wanted else _name_of(layer, port)
        if size <= _LOOKED_AT and dtype not in _BITS:
            found = np.frombuffer(self._bytes(offset, size, layer), numpy_dtype(dtype)).reshape(shape)
            name = self._graph.constant(found) if name is None else self._graph.named_constant(found, name)
        else:
            name = self._graph.names.fresh(name) if name else self._graph.fresh()
            tensor = TensorProto(name=name, data_type=to_onnx_dtype(dtype), dims=shape)
            tensor.data_location = TensorProto.EXTERNAL
            facts = {"location": self._data.name, "offset": str(offset), "length": str(size)}
            for key, value in facts.items():
                tensor.external_data.add(key=key, value=value)
            self._graph.constants.append(tensor)
        self._values[OutputRef(layer.number, port.number)] = Value(name, port._replace(dtype=dtype, sizes=shape), found)

    def _bytes(self, offset: int, size: int, layer: Layer) -> bytes:
        try:
            with self._data.open("rb") as file:
                file.seek(offset)
                found = file.read(size)
        except OSError as error:
            raise ConvertError(
                f"{self._data}: {error.strerror or error}; the constants of {self._path} lie there"
            ) from error
        if len(found) != size:
            raise ConvertError(f"{self._data} is too short: the constant {layer.name} lies beyond its end")
        return found

    def _result(self, layer: Layer) -> None:
        value = self._values.get(layer.inputs[0])
        if value is None:
            return
        if self._given is not None:
            self._results[layer.number] = value
            return
        taken = [output.name for output in self._outputs]
        names = [name for name in value.port.names if name not in taken]
        self._output(names[0] if names else layer.name, value, layer.name)

    def _output(self, wanted: str, value: Value, layer: str) -> None:
        """Add a result ``wanted`` or a similar name: the value itself if it has that name and is no result yet."""
        name = value.name
        if name == wanted and name in self._graph.named_values:
            self._graph.named_values.remove(name)
        else:
            name = self._graph.names.fresh(wanted)
            self._graph.nodes.append(helper.make_node("Identity", [value.name], [name], name=layer))
        dtype = 0 if value.port.dtype is None else to_onnx_dtype(value.port.dtype)
        self._outputs.append(helper.make_tensor_value_info(name, dtype, None))

    def model(self) -> onnx.ModelProto:
        """The network as a model; raises `UnsupportedOperatorError` for layers that could not be converted."""
        if self._problems:
            listed = "\n".join(f"  {line}" for line in dict.fromkeys(self._problems))
            raise UnsupportedOperatorError(f"{self._path} has layers that cannot be read:\n{listed}")
        for name, value in self._kept:
            self._output(f"{name}_after", value, name)
        if not self._outputs:
            raise ConvertError(f"{self._path}: the network has no results")
        graph = helper.make_graph(
            self._graph.nodes, self._path.stem, self._inputs, self._outputs, self._graph.constants
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=10)
