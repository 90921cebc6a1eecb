"""Reading operators that fold axes, and running sums."""

from __future__ import annotations

from typing import Any, NamedTuple

from .... import op as ops
from ....ir.dtypes import is_integer, is_unsigned
from ....ir.expr import Expr
from ....op.primitive.reduction import extreme_of_none
from .importing import Imported, NodeImporter, in_dtype, reads
from .run_time import along_axis, count_of
from .run_time_reduction import Extreme, RunTimeReduction


def _axes(node: NodeImporter) -> list[int] | None:
    """The axes to fold; None for all. An empty list means all too, unless ``noop_with_empty_axes`` says none."""
    axes = [] if node.has(1) and node.ty(1).shape == (0,) else node.axes()
    if axes:
        return axes
    return [] if node.flag("noop_with_empty_axes") else None


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
    x, keepdims = node.operand(0), node.flag("keepdims", 1)
    over_tensor = _is_over_tensor(node)
    fold = (
        RunTimeReduction(node, count_of(node, 1), keepdims=keepdims)
        if over_tensor
        else _Reduction(node, _axes(node), keepdims)
    )
    match node.op_type:
        case "ReduceSum":
            return fold.sum(x)
        case "ReduceMean":
            return fold.mean(x)
        case "ReduceMax":
            return fold.extreme(x, "max")
        case "ReduceMin":
            return fold.extreme(x, "min")
        case "ReduceProd":
            return fold.product(x)
        case "ReduceL1":
            return fold.sum(ops.abs(x))
        case "ReduceL2":
            return _square_root(node, fold.sum(ops.square(x)))
        case "ReduceLogSum":
            return _logarithm(node, fold.sum(x))
        case "ReduceLogSumExp":
            return fold.log_sum_exp(x)
        case _:
            return fold.sum(ops.square(x))


def _is_over_tensor(node: NodeImporter) -> bool:
    """True if the axes are a tensor that is computed at run time, and are not none at all."""
    return node.attr("axes") is None and node.has(1) and node.array(1) is None and node.ty(1).shape != (0,)


def _square_root(node: NodeImporter, x: Expr) -> Expr:
    dtype = node.dtype()
    return in_dtype(ops.sqrt(in_dtype(x, "float64")), dtype) if is_integer(dtype) else ops.sqrt(x)


def _logarithm(node: NodeImporter, x: Expr) -> Expr:
    dtype = node.dtype()
    return in_dtype(ops.log(in_dtype(x, "float64")), dtype) if is_integer(dtype) else ops.log(x)


class _Reduction(NamedTuple):
    """The folding of operand 0 of a node along axes that are known; None for all."""

    node: NodeImporter
    axes: list[int] | None
    keepdims: bool

    def sum(self, x: Expr) -> Expr:
        """The sum."""
        return ops.sum(x, self.axes, self.keepdims)

    def mean(self, x: Expr) -> Expr:
        """The mean; that of nothing is 0 in ONNX Runtime."""
        nothing = self._of_nothing(0)
        return ops.mean(x, self.axes, self.keepdims) if nothing is None else nothing

    def product(self, x: Expr) -> Expr:
        """The product."""
        return ops.prod(x, self.axes, self.keepdims)

    def extreme(self, x: Expr, which: Extreme) -> Expr:
        """The greatest element, or the least; of nothing, the greatest is the least there is."""
        nothing = self._of_nothing(extreme_of_none(self.node.dtype(), greatest=which == "max"))
        found = ops.max if which == "max" else ops.min
        return found(x, self.axes, self.keepdims) if nothing is None else nothing

    def _of_nothing(self, value: Any) -> Expr | None:
        """``value`` in the sizes of the result, where each element of it is one of none; else None."""
        shape, axes = self.node.ty(0).shape, self.axes
        if shape is None:
            return None
        folded = {axis % len(shape) for axis in (range(len(shape)) if axes is None else axes)}
        if not any(isinstance(shape[axis], int) and shape[axis] == 0 for axis in folded):
            return None
        kept = [axis for axis in range(len(shape)) if self.keepdims or axis not in folded]
        sizes = [1 if axis in folded else shape[axis] for axis in kept]
        return ops.full(sizes, value, self.node.dtype())

    def log_sum_exp(self, x: Expr) -> Expr:
        """The logarithm of the sum of exponentials, which the greatest element is taken out of."""
        node, axes = self.node, self.axes
        dtype, shape = node.dtype(), node.ty(0).shape
        if is_unsigned(dtype):  # by the function that ONNX defines it by
            return in_dtype(ops.log(self.sum(ops.exp(in_dtype(x, "float64")))), dtype)
        if is_integer(dtype):
            # ONNX Runtime cuts off each term, and then their logarithm with the greatest element added.
            peak = node.emit(ops.max(x, axes, True))
            terms = in_dtype(ops.exp(in_dtype(ops.subtract(x, peak), "float64")), dtype)
            found = ops.log(in_dtype(self.sum(node.emit(terms)), "float64"))
            most = peak if self.keepdims else ops.max(x, axes, False)
            return in_dtype(ops.add(found, in_dtype(most, "float64")), dtype)
        if shape is not None and 0 in shape:
            return ops.log(self.sum(ops.exp(x)))
        peak = node.emit(ops.max(x, axes, True))
        peak = node.emit(ops.where(ops.isfinite(peak), peak, ops.zeros_like(peak)))
        total = ops.log(self.sum(ops.exp(ops.subtract(x, peak))))
        return ops.add(total, peak if self.keepdims else ops.sum(peak, axes, False))


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
