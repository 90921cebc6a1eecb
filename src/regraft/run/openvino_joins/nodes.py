"""Common parts of the rewrites for OpenVINO: new nodes, and queries about the nodes before a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

REDUCTIONS: Final = tuple(
    f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)
MOST_AFTER: Final = 16
"""The number of nodes after a reduction that are searched for per-channel numbers."""
END: Final = np.iinfo(np.int64).max
"""The end of an axis of any size."""
_MOST_BEFORE: Final = 4
"""The length of the longest chain of nodes that may compute a constant, or that is searched for a rank."""
FALLING: Final = ("Abs", "Gelu", "HardSwish", "LeakyRelu", "Mish", "PRelu", "Sigmoid", "Softplus", "Swish")
"""Unary operators that are not monotonic, or that begin a pattern which OpenVINO takes for an activation."""
ALONE: Final = ("Cast", "Clip", "Erf", "Exp", "Neg", "Relu", "Sqrt", "Tanh", *FALLING)
"""Unary elementwise operators, which OpenVINO moves transposes across."""
MOVES: Final = ("Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that OpenVINO moves activations across."""
KEEPING: Final = (
    "Abs",
    "Add",
    "Cast",
    "Div",
    "Exp",
    "Max",
    "Min",
    "Mul",
    "Neg",
    "Pow",
    "Relu",
    "Sqrt",
    "Sub",
    "Where",
)
"""Operators whose result has the highest rank of their operands; the values between nodes of one call have no shape."""


class Nodes:
    """New nodes in order, whose values are named after the value that they replace: ``name/Squeeze_0``."""

    def __init__(self, name: str) -> None:
        self._name: Final = name
        self.nodes: Final[list[ir.Node]] = []

    def add(self, op_type: str, inputs: Sequence[ir.Value], **attributes: int | Sequence[int]) -> ir.Value:
        """Add a node and return its output."""
        node = ir.node(op_type, inputs, attributes)
        node.outputs[0].name = f"{self._name}/{op_type}_{len(self.nodes)}"
        self.nodes.append(node)
        return node.outputs[0]

    def constant(self, numbers: Sequence[int]) -> ir.Value:
        """Add a constant node with integers and return its output."""
        return self.tensor(np.array(numbers, np.int64))

    def number(self, number: float, dtype: ir.DataType) -> ir.Value:
        """Add a constant node with one number and return its output."""
        return self.tensor(np.array(number, dtype.numpy()))

    def tensor(self, array: np.ndarray) -> ir.Value:
        """Add a constant node with ``array`` and return its output."""
        node = ir.node("Constant", [], {"value": ir.Tensor(array)})
        node.outputs[0].name = f"{self._name}/Constant_{len(self.nodes)}"
        self.nodes.append(node)
        return node.outputs[0]

    def stand_after(self, old: ir.Value) -> None:
        """Insert the nodes after ``old``; the last one, which reads ``old`` first, gets its name and its users."""
        last, maker = self.nodes[-1], old.producer()
        assert maker is not None
        assert maker.graph is not None
        new = last.outputs[0]
        new.shape, new.type = old.shape, old.type
        old.name, new.name = new.name, old.name
        old.shape = None
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
        last.replace_input_with(0, old)
        maker.graph.insert_after(maker, self.nodes)


def numbers_of(value: ir.Value | None) -> list[int] | None:
    """The numbers of a constant as a list; None if ``value`` is not a constant."""
    held = None if value is None else ir.convenience.get_const_tensor(value)
    return None if held is None else [int(number) for number in held.numpy().reshape(-1)]


def rank_of(value: ir.Value, depth: int = _MOST_BEFORE) -> int | None:
    """The number of axes of ``value``, from its shape or from the nodes before it; None if they do not determine it."""
    made_by = value.producer()
    if value.shape is not None:
        return len(value.shape)
    if made_by is None or made_by.domain or not depth:
        return None
    operands = [one for one in made_by.inputs if one is not None]
    if made_by.op_type == "Attention":
        return rank_of(operands[0], depth - 1)
    if made_by.op_type == "Reshape" and operands[1].const_value is not None:
        return int(operands[1].const_value.size)
    if made_by.op_type in REDUCTIONS:
        rank = rank_of(operands[0], depth - 1)
        if rank is None or made_by.attributes.get_int("keepdims", 1):
            return rank
        axes = numbers_of(operands[1]) if len(operands) > 1 else None
        return rank - len(axes) if axes else None
    ranks = [rank_of(one, depth - 1) for one in operands]
    known = [rank for rank in ranks if rank is not None]
    return max(known) if made_by.op_type in KEEPING and len(known) == len(ranks) else None


def is_constant(value: ir.Value, depth: int = _MOST_BEFORE) -> bool:
    """True if ``value`` is a constant, or if a few nodes compute it from constants alone."""
    made_by = value.producer()
    if value.const_value is not None or made_by is None or not depth:
        return value.const_value is not None
    return all(one is None or is_constant(one, depth - 1) for one in made_by.inputs)


def sizes_of(made: Nodes, data: ir.Value, start: int, end: int) -> ir.Value:
    """The sizes of ``data`` from axis ``start`` up to ``end``."""
    stated = () if data.shape is None else data.shape[start:end]
    known = [size for size in stated if isinstance(size, int)]
    return made.constant(known) if len(known) == end - start else made.add("Shape", [data], start=start, end=end)
