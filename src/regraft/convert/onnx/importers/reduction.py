"""Reading operators that fold axes, and running sums."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from .... import ops
from ....ir.dims import dim_product
from ....ir.dtypes import is_bool, is_float, is_integer, numpy_dtype
from ....ir.expr import Expr
from ..importing import Imported, NodeImporter, Sizes, reads


def _axes(node: NodeImporter) -> list[int] | None:
    """The axes to fold; None for all. An empty list means all too, unless ``noop_with_empty_axes`` says none."""
    axes = node.axes()
    if axes:
        return axes
    return [] if node.attr("noop_with_empty_axes", 0) else None


@reads(
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceSumSquare",
)
def _reduce(node: NodeImporter) -> Imported:
    axes, keepdims = _axes(node), bool(node.attr("keepdims", 1))
    known = node.sizes(0)
    if node.op_type == "ReduceProd" and known is not None and not known.is_scalar and axes in (None, [0], [-1]):
        return Sizes((dim_product(known.values),), not keepdims, known.dtype)
    x = node.operand(0)
    match node.op_type:
        case "ReduceSum":
            return ops.sum(x, axes, keepdims)
        case "ReduceMean":
            return ops.mean(x, axes, keepdims)
        case "ReduceMax":
            return _extreme(node, x, axes, keepdims, greatest=True)
        case "ReduceMin":
            return _extreme(node, x, axes, keepdims, greatest=False)
        case "ReduceProd":
            return ops.prod(x, axes, keepdims)
        case "ReduceL1":
            return ops.sum(ops.abs(x), axes, keepdims)
        case "ReduceL2":
            return _square_root(node, ops.sum(ops.square(x), axes, keepdims))
        case "ReduceLogSum":
            return ops.log(ops.sum(x, axes, keepdims))
        case "ReduceLogSumExp":
            return _log_sum_exp(node, x, axes, keepdims)
        case _:
            return ops.sum(ops.square(x), axes, keepdims)


def _square_root(node: NodeImporter, x: Expr) -> Expr:
    dtype = node.dtype()
    return ops.astype(ops.sqrt(ops.astype(x, "float64")), dtype) if is_integer(dtype) else ops.sqrt(x)


def _extreme(node: NodeImporter, x: Expr, axes: list[int] | None, keepdims: bool, *, greatest: bool) -> Expr:
    shape = node.ty(0).shape
    folded = range(len(shape)) if shape is not None and axes is None else axes or []
    if shape is not None and any(isinstance(shape[axis], int) and shape[axis] == 0 for axis in folded):
        # Of nothing the greatest is the least there is.
        dtype = node.dtype()
        if is_bool(dtype):
            least = not greatest
        elif is_float(dtype):
            least = -np.inf if greatest else np.inf
        else:
            limits = ml_dtypes.iinfo(numpy_dtype(dtype))
            least = int(limits.min if greatest else limits.max)
        kept = {axis % len(shape) for axis in folded}
        sizes = [1 if axis in kept else size for axis, size in enumerate(shape) if keepdims or axis not in kept]
        return ops.full(sizes, least, dtype)
    return (ops.max if greatest else ops.min)(x, axes, keepdims)


def _log_sum_exp(node: NodeImporter, x: Expr, axes: list[int] | None, keepdims: bool) -> Expr:
    dtype = node.dtype()
    shape = node.ty(0).shape
    if is_integer(dtype):
        raise node.refuse("integers are not supported")
    if shape is not None and 0 in shape:
        return ops.log(ops.sum(ops.exp(x), axes, keepdims))
    peak = node.emit(ops.max(x, axes, True))
    peak = node.emit(ops.where(ops.isfinite(peak), peak, ops.zeros_like(peak)))
    total = ops.log(ops.sum(ops.exp(ops.subtract(x, peak)), axes, keepdims))
    base = peak if keepdims else ops.sum(peak, axes, False)
    return ops.add(total, base)


@reads("CumSum", "CumProd")
def _scan(node: NodeImporter) -> Imported:
    axis = node.number(1, "its axis")
    x = node.operand(0)
    backwards = bool(node.attr("reverse", 0))
    function = ops.cumsum if node.op_type == "CumSum" else ops.cumprod
    if backwards:
        x = ops.flip(x, axis)
    result = function(x, axis, exclusive=bool(node.attr("exclusive", 0)))
    return ops.flip(result, axis) if backwards else result
