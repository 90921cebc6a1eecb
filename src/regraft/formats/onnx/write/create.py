"""Operators that create tensors, and operators between shapes and tensors, as ONNX."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ....ir.dtypes import is_integer, numpy_dtype
from ....ir.expr import Constant, Expr
from ....ir.op import Call
from ....ir.tensor_data import TensorData
from ....ir.types import PrimType, TensorType
from ..element_types import to_onnx_dtype
from .elementwise import stem
from .lowering import LOWERINGS, Lowered, Lowering, known_dtype, lowers, tensor_type


def shape_value(lowering: Lowering, expr: Expr) -> ir.Value:
    """The shape of a tensor operand: a constant if it is known, else a Shape node."""
    shape = tensor_type(expr).shape
    if shape is not None and all(isinstance(size, int) for size in shape):
        return lowering.graph.shape(shape)
    return lowering.graph.op("Shape", lowering.tensor(expr))


def filled(lowering: Lowering, shape: ir.Value, fill: Expr | float, dtype: str) -> ir.Value:
    """A tensor of ``shape`` with ``fill`` in every element."""
    graph = lowering.graph
    if isinstance(fill, Expr) and not isinstance(fill, Constant):
        return graph.op("Expand", graph.cast(lowering.tensor(fill), dtype), shape)
    number = fill.data.numpy() if isinstance(fill, Constant) else np.asarray(fill)
    one = np.asarray(number).reshape(1).astype(numpy_dtype(dtype))
    return graph.op("ConstantOfShape", shape, dtype=dtype, value=ir.Tensor(one, dtype=to_onnx_dtype(dtype)))


@lowers("full", "full_like")
def _full(lowering: Lowering, call: Call) -> Lowered:
    assert isinstance(call.ty, TensorType)
    shape, fill = call.args[:2]
    sizes = lowering.tensor(shape) if stem(call) == "full" else shape_value(lowering, shape)
    return filled(lowering, sizes, fill, known_dtype(call.ty))


@lowers("arange")
def _arange(lowering: Lowering, call: Call) -> Lowered:
    graph, dtype = lowering.graph, call.attrs["dtype"]
    bounds = [arg.ty.value if isinstance(arg.ty, PrimType) else None for arg in call.args]
    if all(isinstance(bound, int | float) for bound in bounds):
        op = call.op
        return graph.constant_data(TensorData(op.reference(np, *bounds, dtype=dtype)), graph.hint)  # type: ignore[union-attr]
    work = "int64" if all(isinstance(a.ty, PrimType) and is_integer(a.ty.dtype) for a in call.args) else "float64"
    return graph.cast(graph.op("Range", *[graph.cast(lowering.tensor(arg), work) for arg in call.args]), dtype)


@lowers("tril", "triu", because="1 node in place of 4, 4 to 5 times as fast")
def _triangle(lowering: Lowering, call: Call) -> Lowered:
    x, k = lowering.tensors(call.args)
    return lowering.graph.op("Trilu", x, k, upper=int(stem(call) == "triu"))


# --- shapes

LOWERINGS.update(
    {
        "relax.shape_of": lambda lowering, call: shape_value(lowering, call.args[0]),
        "relax.shape_to_tensor": lambda lowering, call: lowering.tensor(call.args[0]),
        "relax.tensor_to_shape": lambda lowering, call: lowering.graph.cast(lowering.tensor(call.args[0]), "int64"),
        "relax.size": lambda lowering, call: lowering.graph.op(
            "ReduceProd", shape_value(lowering, call.args[0]), keepdims=0
        ),
    }
)


# --- what passes through


@lowers(
    "dist.annotate_sharding", "grad.no_grad", "grad.start_checkpoint", "grad.end_checkpoint", "builtin.stop_lift_params"
)
def _unchanged(lowering: Lowering, call: Call) -> Lowered:
    return lowering.value(call.args[0])
