"""Nodes over a few known numbers: their results, so that whoever reads the model has nothing left to fold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from ....ir.dtypes import is_bool, is_integer
from ....ir.tensor_data import TensorData
from ..element_types import from_onnx_dtype

_MOST: Final = 64
"""The most elements of an operand, and of a result."""
_MOVES: Final = frozenset({"Concat", "Flatten", "Gather", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators that only move elements."""
_EXACT: Final = frozenset(
    {
        *("Add", "And", "BitShift", "Cast", "Equal", "Expand", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
        *("Max", "Min", "Mul", "Neg", "Not", "Or", "Sub", "Where", "Xor"),
    }
)
"""Operators whose results on integers and booleans are the same everywhere."""


def known_result(node: ir.Node, operands: Sequence[TensorData | None], opset: int) -> np.ndarray | None:
    """The one result of ``node`` on ``operands``, None for one that it leaves out; None if it is not computed here.

    Integers and booleans are computed with, and any elements moved, at most `_MOST` of them. Source: ONNX's reference
    evaluator.
    """
    held = [data for data in operands if data is not None]
    if node.domain or not held or len(node.outputs) != 1 or any(data.size > _MOST for data in held):
        return None
    if node.op_type not in _MOVES and not (node.op_type in _EXACT and all(_is_exact(data.dtype) for data in held)):
        return None
    wanted = node.outputs[0].dtype
    dtype = "" if wanted is None else from_onnx_dtype(wanted, "")
    found = _evaluated(node, operands, opset) if node.op_type in _MOVES or _is_exact(dtype) else None
    return found if found is not None and found.size <= _MOST and found.dtype.name == dtype else None


def _is_exact(dtype: str) -> bool:
    return is_integer(dtype) or is_bool(dtype)


def _evaluated(node: ir.Node, operands: Sequence[TensorData | None], opset: int) -> np.ndarray | None:
    from onnx.reference import ReferenceEvaluator

    names = ["" if data is None else f"operand_{place}" for place, data in enumerate(operands)]
    alone = ir.serde.serialize_node(node)
    del alone.input[:], alone.output[:]
    alone.input.extend(names)
    alone.output.append("result")
    given = {name: data.numpy() for name, data in zip(names, operands, strict=True) if data is not None}
    try:
        evaluator: Any = ReferenceEvaluator(alone, opsets={"": opset})
        found = evaluator.run(None, given)
    except Exception:  # the evaluator raises whatever NumPy does: a node that no runtime can compute stays
        return None
    return np.asarray(found[0])
