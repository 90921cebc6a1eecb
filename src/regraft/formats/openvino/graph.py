"""The ONNX graph that a network is converted to: nodes, constants, and the known facts of each value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ...ir.builder import NameSupply
from ...ir.dtypes import numpy_dtype
from ..onnx.element_types import to_onnx_dtype
from .network import Layer, Port, numbers


class UnsupportedLayerError(Exception):
    """A layer that has no counterpart; the message is the reason."""


class Value(NamedTuple):
    """A value of the graph: its name, its port, and its numbers if it is a small constant."""

    name: str
    port: Port
    numbers: np.ndarray | None = None


def _unlike(names: Iterable[str]) -> str:
    """A prefix that no name in ``names`` has."""
    known, prefix = list(names), "value_"
    while any(name.startswith(prefix) for name in known):
        prefix += "_"
    return prefix


class Graph:
    """The nodes and constants of a graph, as they are added; names are unique.

    The graph of a body, inside of ``outer``, has its own nodes; all constants are in the outermost graph. A generated
    name has a prefix that no name in ``reserved`` has. `named` and `named_constant` give names of the file.
    """

    def __init__(self, outer: Graph | None = None, reserved: Iterable[str] = ()) -> None:
        self.nodes: Final[list[onnx.NodeProto]] = []
        self.constants: Final[list[onnx.TensorProto]] = [] if outer is None else outer.constants
        self._numbers: Final[Iterator[int]] = count(1) if outer is None else outer._numbers
        self._known: Final[dict[bytes, str]] = {} if outer is None else outer._known
        self.names: Final = NameSupply() if outer is None else outer.names
        self.named_values: Final[set[str]] = set()
        """The values of nodes that have a name of the file."""
        self._prefix: Final[str] = _unlike(reserved) if outer is None else outer._prefix
        self.layer = "" if outer is None else outer.layer
        """The name of the layer that is being written; its nodes take this name."""

    def fresh(self) -> str:
        """A new, unused name."""
        return f"{self._prefix}{next(self._numbers)}"

    def named(self, value: str, name: str, since: int) -> str:
        """Rename ``value`` to ``name``, that of the file, or a similar name, if a node from ``since`` on makes it.

        Returns the name that ``value`` has then.
        """
        nodes = self.nodes[since:]
        if not any(value in node.output for node in nodes):
            return value
        name = self.names.fresh(name)
        for node in nodes:
            for names in (node.input, node.output):
                names[:] = [name if one == value else one for one in names]
        self.named_values.add(name)
        return name

    def node(self, kind: str, *operands: str | Value, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output; returns the name of the output."""
        return self.nodes_of(kind, operands, 1, domain=domain, **attributes)[0]

    def nodes_of(
        self, kind: str, operands: Iterable[str | Value], outputs: int, domain: str = "", **attributes: Any
    ) -> list[str]:
        """Add a node with so many ``outputs``; returns their names. Attributes that are None are left out."""
        names = [self.fresh() for _ in range(outputs)]
        read = [one if isinstance(one, str) else one.name for one in operands]
        given = {key: value for key, value in attributes.items() if value is not None}
        node = helper.make_node(kind, read, names, domain=domain, **given)
        node.name = f"{self.layer}" if self.layer else names[0]
        self.nodes.append(node)
        return names

    def named_constant(self, array: np.ndarray, name: str) -> str:
        """Add a small constant of the file as ``name`` or a similar name. Equal constants are kept apart."""
        name = self.names.fresh(name)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def constant(self, value: Any, dtype: str | None = None) -> str:
        """The name of a small constant. Equal constants share one name."""
        array = np.asarray(value, None if dtype is None else numpy_dtype(dtype))
        key = repr((array.dtype.name, array.shape)).encode() + array.tobytes()
        if key not in self._known:
            name = self._known[key] = self.fresh()
            self.constants.append(numpy_helper.from_array(array, name))
        return self._known[key]

    def integers(self, *values: int) -> str:
        """A constant vector of int64."""
        return self.constant(np.asarray(values, np.int64))


class LayerCall:
    """A layer with the values that it reads: the argument of the rows of the table in `layers`."""

    def __init__(self, layer: Layer, inputs: Sequence[Value], graph: Graph) -> None:
        self.layer: Final = layer
        self.inputs: Final = inputs
        self.graph: Final = graph

    def text(self, key: str, default: str | None = None) -> str:
        """An attribute as text; raises `UnsupportedLayerError` if it is missing and has no default."""
        found = self.layer.attributes.get(key, default)
        if found is None:
            raise UnsupportedLayerError(f"it has no attribute {key}")
        return found

    def flag(self, key: str, default: bool = False) -> bool:
        """A boolean attribute."""
        return self.text(key, "true" if default else "false").lower() in ("true", "1")

    def integer(self, key: str, default: int | None = None) -> int:
        """An integer attribute."""
        return int(self.text(key, None if default is None else str(default)))

    def number(self, key: str, default: float | None = None) -> float:
        """A float attribute."""
        return float(self.text(key, None if default is None else str(default)))

    def integers(self, key: str, default: Sequence[int] | None = None) -> list[int]:
        """An attribute that lists integers, separated by commas."""
        return list(numbers(self.text(key, None if default is None else ",".join(map(str, default)))))

    def known(self, index: int) -> np.ndarray:
        """The numbers of an operand that has to be a small constant; raises `UnsupportedLayerError` if it is not."""
        found = self.inputs[index].numbers if index < len(self.inputs) else None
        if found is None:
            raise UnsupportedLayerError(f"its operand {index} is computed at run time, or too large to be evaluated")
        return found

    def rank(self, index: int) -> int:
        """The rank of an operand; raises `UnsupportedLayerError` if it is not known."""
        sizes = self.inputs[index].port.sizes
        if sizes is None:
            raise UnsupportedLayerError(f"the rank of its operand {index} is not known")
        return len(sizes)

    def dtype(self, index: int) -> str:
        """The dtype of an operand; raises `UnsupportedLayerError` if it is not known."""
        found = self.inputs[index].port.dtype
        if found is None:
            raise UnsupportedLayerError(f"the dtype of its operand {index} is not known")
        return found

    def like(self, index: int, value: float) -> str:
        """A constant scalar of the dtype of an operand."""
        return self.graph.constant(value, self.dtype(index))

    @property
    def result(self) -> Port:
        """The port of the first output."""
        return self.layer.outputs[0]

    def node(self, kind: str, *operands: str | Value, **attributes: Any) -> str:
        """Add an ONNX node with one output; returns the name of the output."""
        return self.graph.node(kind, *operands, **attributes)

    def cast(self, value: str | Value, dtype: str | None) -> str:
        """``value`` cast to ``dtype``; raises `UnsupportedLayerError` if that is None."""
        if dtype is None:
            raise UnsupportedLayerError("the dtype of its result is not known")
        return self.node("Cast", value, to=to_onnx_dtype(dtype))
