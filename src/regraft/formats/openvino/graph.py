"""The graph of ONNX that a network is written down as: nodes, constants, and what is known of each value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ...ir.dtypes import numpy_dtype
from .network import Layer, Port, numbers

ONNX_DTYPES: Final = {
    "float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16,
    "float64": TensorProto.DOUBLE, "bool": TensorProto.BOOL, "int4": TensorProto.INT4, "uint4": TensorProto.UINT4,
    "int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int16": TensorProto.INT16, "uint16": TensorProto.UINT16,
    "int32": TensorProto.INT32, "uint32": TensorProto.UINT32, "int64": TensorProto.INT64, "uint64": TensorProto.UINT64,
}  # fmt: skip


class Unsupported(Exception):
    """A layer that has no counterpart, and why."""


class Value(NamedTuple):
    """A value of the graph: its name, what its port says of it, and its numbers where it is a small constant."""

    name: str
    port: Port
    numbers: np.ndarray | None = None


class Graph:
    """Nodes and constants as they are added; names are unique."""

    def __init__(self) -> None:
        self.nodes: Final[list[onnx.NodeProto]] = []
        self.constants: Final[list[onnx.TensorProto]] = []
        self._count = 0
        self._known: Final[dict[bytes, str]] = {}
        self.layer = ""
        """The name of the layer that is written, which its nodes take."""

    def fresh(self) -> str:
        """A name that nothing has."""
        self._count += 1
        return f"value_{self._count}"

    def node(self, kind: str, *operands: str | Value, domain: str = "", **attributes: Any) -> str:
        """A node with one output; gives the name of that."""
        return self.nodes_of(kind, operands, 1, domain=domain, **attributes)[0]

    def nodes_of(
        self, kind: str, operands: Iterable[str | Value], count: int, domain: str = "", **attributes: Any
    ) -> list[str]:
        """A node with ``count`` outputs; gives their names. Attributes that are None are left out."""
        names = [self.fresh() for _ in range(count)]
        read = [one if isinstance(one, str) else one.name for one in operands]
        given = {key: value for key, value in attributes.items() if value is not None}
        node = helper.make_node(kind, read, names, domain=domain, **given)
        node.name = f"{self.layer}" if self.layer else names[0]
        self.nodes.append(node)
        return names

    def constant(self, value: Any, dtype: str | None = None) -> str:
        """The name of a small constant; the same one for the same numbers."""
        array = np.asarray(value, None if dtype is None else numpy_dtype(dtype))
        key = repr((array.dtype.name, array.shape)).encode() + array.tobytes()
        if key not in self._known:
            name = self._known[key] = self.fresh()
            self.constants.append(numpy_helper.from_array(array, name))
        return self._known[key]

    def integers(self, *values: int) -> str:
        """A constant vector of int64."""
        return self.constant(np.asarray(values, np.int64))


class Call:
    """A layer with the values that it reads: what the rows of the table in `layers` are given."""

    def __init__(self, layer: Layer, inputs: Sequence[Value], graph: Graph) -> None:
        self.layer: Final = layer
        self.inputs: Final = inputs
        self.graph: Final = graph

    def text(self, key: str, default: str | None = None) -> str:
        """An attribute as it is written; raises `Unsupported` where it is missing and has no default."""
        found = self.layer.attributes.get(key, default)
        if found is None:
            raise Unsupported(f"it has no attribute {key}")
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
        """The numbers of an operand that has to be a constant; raises `Unsupported` for another."""
        found = self.inputs[index].numbers if index < len(self.inputs) else None
        if found is None:
            raise Unsupported(f"its operand {index} is computed as the model runs, or too large to be looked at")
        return found

    def rank(self, index: int) -> int:
        """The rank of an operand; raises `Unsupported` where it is not known."""
        sizes = self.inputs[index].port.sizes
        if sizes is None:
            raise Unsupported(f"the rank of its operand {index} is not known")
        return len(sizes)

    def dtype(self, index: int) -> str:
        """The dtype of an operand."""
        found = self.inputs[index].port.dtype
        if found is None:
            raise Unsupported(f"the dtype of its operand {index} is not known")
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
            raise Unsupported("the dtype of its result is not known")
        return self.node("Cast", value, to=ONNX_DTYPES[dtype])
