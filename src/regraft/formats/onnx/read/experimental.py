"""Reading experimental operators that ONNX removed, which ONNX Runtime still runs in opsets before 10."""

from __future__ import annotations

import numpy as np

from .... import op as ops
from ....ir.expr import Expr, const
from .importing import Imported, NodeImporter, reads, reads_as


def _scaled(node: NodeImporter, x: Expr, name: str, default: float = 1.0) -> Expr:
    """``x`` times an attribute of the node."""
    factor = node.attr(name, default)
    return x if factor == 1.0 else x * factor


reads_as(
    {
        "Affine": lambda node: _scaled(node, node.operand(0), "alpha") + node.attr("beta", 0.0),
        "ParametricSoftplus": lambda node: _scaled(
            node, ops.nn.softplus(_scaled(node, node.operand(0), "beta")), "alpha"
        ),
        "Scale": lambda node: _scaled(node, node.operand(0), "scale"),
        "ScaledTanh": lambda node: _scaled(node, ops.tanh(_scaled(node, node.operand(0), "beta")), "alpha"),
    }
)


@reads("ThresholdedRelu")  # a regular operator since opset 10
def _thresholded_relu(node: NodeImporter) -> Imported:
    x = node.operand(0)
    return ops.where(x > node.attr("alpha", 1.0), x, node.like(0))


@reads("ImageScaler")
def _image_scaler(node: NodeImporter) -> Imported:
    bias = const(np.reshape(node.attr("bias"), (-1, 1, 1)), node.dtype())
    return ops.add(_scaled(node, node.operand(0), "scale"), bias)


@reads("Crop")
def _crop(node: NodeImporter) -> Imported:
    left, top, right, bottom = node.attr("border")
    height, width = node.shape()[2:]
    ends = node.attr("scale")
    down, across = (top + ends[0], left + ends[1]) if ends else (height - bottom, width - right)
    return ops.strided_slice(node.operand(0), [2, 3], [top, left], [down, across])
