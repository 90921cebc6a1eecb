"""The results of nodes on a few known numbers, so that a runtime has nothing left to fold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from ....ir.dtypes import is_exact
from ....ir.tensor_data import TensorData
from ....op.folding import MOST_KNOWN
from ..element_types import from_onnx_dtype

_MOVES: Final = frozenset({"Concat", "Flatten", "Gather", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators that only move elements."""
_EXACT: Final = frozenset(
    {
        *("Add", "And", "BitShift", "Cast", "Equal", "Expand", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
        *("Max", "Min", "Mul", "Neg", "Not", "Or", "Sub", "Where", "Xor"),
    }
)
"""Operators whose results on integers and booleans are the same on all runtimes."""

_EXACT_OF_FLOATS: Final = frozenset({"Abs", "Neg", "Sign"})
"""Operators whose results on floats are the same on all runtimes too."""
_MOST_FLOATS: Final = 16
"""The most elements of such a result. Runtimes leave larger ones to the run."""


def known_result(node: ir.Node, operands: Sequence[TensorData | None], opset: int) -> np.ndarray | None:
    """The result of ``node`` on ``operands``, with None for an operand left out; None if it is not computed here.

    At most `MOST_KNOWN` elements are computed if they are integers or booleans, or moved if they are of any type. At
    most `_MOST_FLOATS` floats lose or change their sign. Source: ONNX's reference evaluator.
    """
    held = [data for data in operands if data is not None]
    if node.domain or not held or len(node.outputs) != 1 or any(data.size > MOST_KNOWN for data in held):
        return None
    if all(is_exact(data.dtype) for data in held):
        computes = node.op_type in _EXACT | _EXACT_OF_FLOATS
    else:
        computes = node.op_type in _EXACT_OF_FLOATS and held[0].size <= _MOST_FLOATS
    if node.op_type not in _MOVES and not computes:
        return None
    wanted = node.outputs[0].dtype
    dtype = "" if wanted is None else from_onnx_dtype(wanted, "")
    is_same_everywhere = is_exact(dtype) or node.op_type in _MOVES | _EXACT_OF_FLOATS
    try:
        found = evaluated(node, [data and data.numpy() for data in operands], opset) if is_same_everywhere else None
    except Exception:  # the evaluator raises any error of NumPy; a node that no runtime can compute stays
        return None
    return found if found is not None and found.size <= MOST_KNOWN and found.dtype.name == dtype else None


def evaluated(node: ir.Node, operands: Sequence[np.ndarray | None], opset: int) -> np.ndarray:
    """The first result of a node on ``operands``, by ONNX's evaluator; raises the evaluator's errors."""
    from onnx.reference import ReferenceEvaluator

    names = ["" if data is None else f"operand_{place}" for place, data in enumerate(operands)]
    alone = ir.serde.serialize_node(node)
    del alone.input[:], alone.output[:]
    alone.input.extend(names)
    alone.output.append("result")
    evaluator: Any = ReferenceEvaluator(alone, opsets={"": opset})
    given = {name: data for name, data in zip(names, operands, strict=True) if data is not None}
    return np.asarray(evaluator.run(None, given)[0])
