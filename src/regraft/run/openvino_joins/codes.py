"""Codes of 4 bits that a program converts by itself: with a scale for each of them, OpenVINO divides by zero."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from .nodes import Nodes

_BYTES: Final = {ir.DataType.INT4: np.int8, ir.DataType.UINT4: np.uint8}


def reads_codes(node: ir.Node) -> bool:
    """True for a conversion of a constant of 4 bits."""
    value = node.inputs[0]
    return value is not None and value.dtype in _BYTES and ir.convenience.get_const_tensor(value) is not None


def read_bytes(node: ir.Node) -> None:
    """Let the conversion read the same numbers, each in a byte."""
    value = node.inputs[0]
    assert value is not None
    assert value.dtype is not None
    held = ir.convenience.get_const_tensor(value)
    assert held is not None
    made = Nodes(f"{value.name}/Bytes")
    node.replace_input_with(0, made.tensor(held.numpy().astype(_BYTES[value.dtype])))
    assert node.graph is not None
    node.graph.insert_before(node, made.nodes)
