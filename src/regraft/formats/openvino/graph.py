"""The graph of ONNX that a network is written down as: nodes, constants, and what is known of each value."""

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
    """A layer that has no counterpart, and why."""


class Value(NamedTuple):
    """A value of the graph: its name, what its port says of it, and its numbers where it is a small constant."""

    name: str
    port: Port
    numbers: np.ndarray | None = None


def _unlike(names: Iterable[str]) -> str:
    """A prefix that none of the names has."""
    known, prefix = list(names), "value_"
    while any(name.startswith(prefix) for name in known):
        prefix += "_"
    return prefix


class Graph:
    """Nodes and constants as they are added; names are unique.

    The graph of a body, inside of ``outer``, has nodes of its own; constants all lie in the outermost graph.
    No name begins as one of those ``reserved`` does, unless it is given by `named`.
    """

    def __init__(self, outer: Graph | None = None, reserved: Iterable[str] = ()) -> None:
        self.nodes: Final[list[onnx.NodeProto]] = []
        self.constants: Final[list[onnx.TensorProto]] = [] if outer is None else outer.constants
        self._numbers: Final[Iterator[int]] = count(1) if outer is None else outer._numbers
        self._known: Final[dict[bytes, str]] = {} if outer is None else outer._known
        self.names: Final = NameSupply() if outer is None else outer.names
        self.named_values: Final[set[str]] = set()
        """Values of nodes that have the name of the file."""
        self._prefix: Final[str] = _unlike(reserved) if outer is None else outer._prefix
        self.layer = "" if outer is None else outer.layer
        """The name of the layer that is written, which its nodes take."""

    def fresh(self) -> str:
        """A name that nothing has."""
        return f"{self._prefix}{next(self._numbers)}"

    def named(self, value: str, name: str, since: int) -> str:
        """``value`` under the ``name`` that it has in the file, if a node from ``since`` on makes it."""
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
        """A node with one output; gives the name of that."""
        return self.nodes_of(kind, operands, 1, domain=domain, **attributes)[0]

    def nodes_of(
        self, kind: str, operands: Iterable[str | Value], outputs: int, domain: str = "", **attributes: Any
    ) -> list[str]:
        """A node with that many ``outputs``; gives their names. Attributes that are None are left out."""
        names = [self.fresh() for _ in range(outputs)]
        read = [one if isinstance(one, str) else one.name for one in operands]
        given = {key: value for key, value in attributes.items() if value is not None}
        node = helper.make_node(kind, read, names, domain=domain, **given)
        node.name = f"{self.layer}" if self.layer else names[0]
        self.nodes.append(node)
        return names

    def named_constant(self, array: np.ndarray, name: str) -> str:
        """A small constant of the file, under ``name`` or one like it: others may have the same numbers."""
        name = self.names.fresh(name)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def constant(self, value: Any, dtype: str | None = None) -> str:
        """The name of a small constant, the same one for the same numbers."""
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
    """A layer with the values that it reads: what the rows of the table in `layers` are given."""

    def __init__(self, layer: Layer, inputs: Sequence[Value], graph: Graph) -> None:
        self.layer: Final = layer
        self.inputs: Final = inputs
        self.graph: Final = graph

    def text(self, key: str, default: str | None = None) -> str:
        """An attribute as it is written; raises `UnsupportedLayerError` where it is missing and has no default."""
        found = self.layer.attributes.get(key, default)
        if found is None:
            raise UnsupportedLayerError(f"it has no attribute {key}")
        return found

    def flag(self, key: str, default: bool = False) -> bool:
        """A truth value."""
        return self.text(key, "true" if default else "false").lower() in ("true", "1")

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number."""
        return int(self.text(key, None if default is None else str(default)))

    def number(self, key: str, default: float | None = None) -> float:
        """A number."""
        return float(self.text(key, None if default is None else str(default)))

    def integers(self, key: str, default: Sequence[int] | None = None) -> list[int]:
        """Whole numbers with commas between."""
        return list(numbers(self.text(key, None if default is None else ",".join(map(str, default)))))

    def known(self, index: int) -> np.ndarray:
        """The numbers of an operand that has to be a constant; raises `UnsupportedLayerError` for another."""
        found = self.inputs[index].numbers if index < len(self.inputs) else None
        if found is None:
            raise UnsupportedLayerError(
                f"its operand {index} is computed as the model runs, or too large to be looked at"
            )
        return found

    def rank(self, index: int) -> int:
        """The rank of an operand; raises `UnsupportedLayerError` where it is not known."""
        sizes = self.inputs[index].port.sizes
        if sizes is None:
            raise UnsupportedLayerError(f"the rank of its operand {index} is not known")
        return len(sizes)

    def dtype(self, index: int) -> str:
        """The dtype of an operand."""
        found = self.inputs[index].port.dtype
        if found is None:
            raise UnsupportedLayerError(f"the dtype of its operand {index} is not known")
        return found

    def like(self, index: int, value: float) -> str:
        """A constant scalar of the dtype of an operand."""
        return self.graph.constant(value, self.dtype(index))

    @property
    def result(self) -> Port:
        """The first output."""
        return self.layer.outputs[0]

    def node(self, kind: str, *operands: str | Value, **attributes: Any) -> str:
        """A node of ONNX with one output."""
        return self.graph.node(kind, *operands, **attributes)

    def cast(self, value: str | Value, dtype: str | None) -> str:
        """A value in another dtype."""
        if dtype is None:
            raise UnsupportedLayerError("the dtype of its result is not known")
        return self.node("Cast", value, to=to_onnx_dtype(dtype))
