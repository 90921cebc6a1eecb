"""Reading operators that fold axes, and running sums."""

from __future__ import annotations

from .... import op as ops
from ....ir.dtypes import is_integer
from ....ir.expr import Expr
from ....op.primitive.reduction import extreme_of_none
from .importing import Imported, NodeImporter, in_dtype, reads
from .run_time import along_axis, count_of
from .run_time_reduction import RunTimeReduction


def _axes(node: NodeImporter) -> list[int] | None:
    """The axes to fold; None for all. An empty list means all too, unless ``noop_with_empty_axes`` says none."""
    axes = [] if node.has(1) and node.ty(1).shape == (0,) else node.axes()
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
    if _is_over_tensor(node):
        return _reduce_at_run_time(node)
    axes, keepdims = _axes(node), bool(node.attr("keepdims", 1))
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
            return _logarithm(node, ops.sum(x, axes, keepdims))
        case "ReduceLogSumExp":
            return _log_sum_exp(node, x, axes, keepdims)
        case _:
            return ops.sum(ops.square(x), axes, keepdims)


def _is_over_tensor(node: NodeImporter) -> bool:
    """True if the axes are a tensor that is computed at run time, and are not none at all."""
    return node.attr("axes") is None and node.has(1) and node.array(1) is None and node.ty(1).shape != (0,)


def _reduce_at_run_time(node: NodeImporter) -> Imported:
    x = node.operand(0)
    reduction = RunTimeReduction(node, count_of(node, 1), keepdims=bool(node.attr("keepdims", 1)))
    match node.op_type:
        case "ReduceSum":
            return reduction.sum(x)
        case "ReduceMean":
            return reduction.mean(x)
        case "ReduceMax":
            return reduction.extreme(x, "max")
        case "ReduceMin":
            return reduction.extreme(x, "min")
        case "ReduceProd":
            return reduction.product(x)
        case "ReduceL1":
            return reduction.sum(ops.abs(x))
        case "ReduceL2":
            return _square_root(node, reduction.sum(ops.square(x)))
        case "ReduceLogSum":
            return _logarithm(node, reduction.sum(x))
        case "ReduceLogSumExp":
            return reduction.log_sum_exp(x)
        case _:
            return reduction.sum(ops.square(x))


def _square_root(node: NodeImporter, x: Expr) -> Expr:
    dtype = node.dtype()
    return in_dtype(ops.sqrt(in_dtype(x, "float64")), dtype) if is_integer(dtype) else ops.sqrt(x)


def _logarithm(node: NodeImporter, x: Expr) -> Expr:
    dtype = node.dtype()
    return in_dtype(ops.log(in_dtype(x, "float64")), dtype) if is_integer(dtype) else ops.log(x)


def _extreme(node: NodeImporter, x: Expr, axes: list[int] | None, keepdims: bool, *, greatest: bool) -> Expr:
    shape = node.ty(0).shape
    folded = range(len(shape)) if shape is not None and axes is None else axes or []
    if shape is not None and any(isinstance(shape[axis], int) and shape[axis] == 0 for axis in folded):
        # Of nothing the greatest is the least there is.
        dtype = node.dtype()
        least = extreme_of_none(dtype, greatest=greatest)
        kept = {axis % len(shape) for axis in folded}
        sizes = [1 if axis in kept else size for axis, size in enumerate(shape) if keepdims or axis not in kept]
        return ops.full(sizes, least, dtype)
    return (ops.max if greatest else ops.min)(x, axes, keepdims)


def _log_sum_exp(node: NodeImporter, x: Expr, axes: list[int] | None, keepdims: bool) -> Expr:
    dtype = node.dtype()
    shape = node.ty(0).shape
    if is_integer(dtype):
        # ONNX Runtime makes each term an integer, and their logarithm again.
        peak = node.emit(ops.max(x, axes, True))
        terms = in_dtype(ops.exp(in_dtype(ops.subtract(x, peak), "float64")), dtype)
        found = _logarithm(node, ops.sum(node.emit(terms), axes, keepdims))
        return ops.add(found, peak if keepdims else ops.max(x, axes, False))
    if shape is not None and 0 in shape:
        return ops.log(ops.sum(ops.exp(x), axes, keepdims))
    peak = node.emit(ops.max(x, axes, True))
    peak = node.emit(ops.where(ops.isfinite(peak), peak, ops.zeros_like(peak)))
    total = ops.log(ops.sum(ops.exp(ops.subtract(x, peak)), axes, keepdims))
    base = peak if keepdims else ops.sum(peak, axes, False)
    return ops.add(total, base)


@reads("CumSum", "CumProd")
def _scan(node: NodeImporter) -> Imported:
    x = node.operand(0)
    backwards, exclusive = bool(node.attr("reverse", 0)), bool(node.attr("exclusive", 0))
    function = ops.cumsum if node.op_type == "CumSum" else ops.cumprod

    def scanned(axis: int) -> Expr:
        result = function(ops.flip(x, axis) if backwards else x, axis, exclusive=exclusive)
        return ops.flip(result, axis) if backwards else result

    known = node.known_integers(1)
    return along_axis(node, node.operand(1), scanned) if known is None else scanned(known[0])
