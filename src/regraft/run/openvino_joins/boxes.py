"""Non-maximum suppression without any overlap: with a limit of 0, OpenVINO keeps only one box of each class."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from .nodes import Nodes

_LIMIT: Final = 3
"""The position of the operand for the allowed overlap; a missing operand means 0."""
_LEAST: Final = np.float32(1e-30)
"""A limit that OpenVINO accepts, smaller than the overlap of any two boxes that overlap."""


def limit_overlap(node: ir.Node) -> None:
    """Make the allowed overlap of boxes greater than 0."""
    limit = node.inputs[_LIMIT] if len(node.inputs) > _LIMIT else None
    held = None if limit is None else ir.convenience.get_const_tensor(limit)
    if held is not None and (held.numpy() > 0).all():
        return
    made = Nodes(f"{node.outputs[0].name}/Overlap")
    least = made.tensor(np.array([_LEAST]))
    node.resize_inputs(max(len(node.inputs), _LIMIT + 1))
    node.replace_input_with(_LIMIT, least if limit is None or held is not None else made.add("Max", [limit, least]))
    assert node.graph is not None
    node.graph.insert_before(node, made.nodes)
