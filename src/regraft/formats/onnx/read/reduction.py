"""Reading operators that reduce axes, and running sums.

If the axes are a tensor that is computed at run time, the index of each element in the result is computed from its
indices in the operand. The reduction is then a scatter of all elements into the result. The number of axes must be
known, since the rank of the result depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from .... import op as ops
from ....analysis.tensors import dtype_of
from ....ir.dims import Dim
from ....ir.dtypes import is_bool, is_integer, is_unsigned
from ....ir.expr import Expr, PrimValue, ShapeExpr, const
from ....op.primitive.reduction import extreme_of_none
from .importing import Imported, NodeImporter, in_dtype, reads
from .run_time import along_axis, axes_among, count_of, integers, kept_sizes, row, shape_row

_Fold: TypeAlias = Literal["sum", "mean", "prod", "max", "min"]


class _FoldForm(NamedTuple):
    """A reduction: its kind, and the functions of each element before it and of each result after it."""

    kind: _Fold
    before: Callable[[Expr], Expr] | None = None
    after: Callable[[Expr], Expr] | None = None


_FORMS: Final[dict[str, _FoldForm]] = {
    "ReduceL1": _FoldForm("sum", ops.abs),
    "ReduceL2": _FoldForm("sum", ops.square, ops.sqrt),
    "ReduceLogSum": _FoldForm("sum", None, ops.log),
    "ReduceMax": _FoldForm("max"),
    "ReduceMean": _FoldForm("mean"),
    "ReduceMin": _FoldForm("min"),
    "ReduceProd": _FoldForm("prod"),
    "ReduceSum": _FoldForm("sum"),
    "ReduceSumSquare": _FoldForm("sum", ops.square),
}


@reads(*_FORMS, "ReduceLogSumExp")
def _reduce(node: NodeImporter) -> Imported:
    x, dtype, keepdims = node.operand(0), node.dtype(), node.flag("keepdims", 1)
    if node.attr("axes") is None and node.has(1) and node.array(1) is None and node.ty(1).shape != (0,):
        reduction = _RunTimeReduction(node, count_of(node, 1), keepdims=keepdims)
    else:
        reduction = _Reduction(node, _axes(node), keepdims)
    if node.op_type == "ReduceLogSumExp":
        return _log_sum_exp(node, reduction, x)
    kind, before, after = _FORMS[node.op_type]
    found = reduction.of(x if before is None else before(x), kind)
    if after is None:
        return found
    return in_dtype(after(in_dtype(found, "float64")), dtype) if is_integer(dtype) else after(found)


def _axes(node: NodeImporter) -> list[int] | None:
    """The axes to reduce; None for all. An empty list means all too, unless ``noop_with_empty_axes`` is set."""
    axes = [] if node.has(1) and node.ty(1).shape == (0,) else node.axes()
    if axes:
        return axes
    return [] if node.flag("noop_with_empty_axes") else None


_FOLDS: Final[dict[_Fold, Callable[..., Expr]]] = {
    "sum": ops.sum,
    "mean": ops.mean,
    "prod": ops.prod,
    "max": ops.max,
    "min": ops.min,
}


class _Reduction(NamedTuple):
    """The reduction of operand 0 of a node along known axes; None for all axes."""

    node: NodeImporter
    axes: list[int] | None
    keepdims: bool

    def of(self, x: Expr, kind: _Fold) -> Expr:
        """``x`` reduced, in the shape of the node's result."""
        nothing = None if kind in ("sum", "prod") else self._of_nothing(kind)
        return _FOLDS[kind](x, self.axes, self.keepdims) if nothing is None else nothing

    def _of_nothing(self, kind: _Fold) -> Expr | None:
        """The result if each of its elements reduces no elements, else None. The mean is then 0, as in ONNX Runtime."""
        shape, axes, dtype = self.node.ty(0).shape, self.axes, self.node.dtype()
        if shape is None:
            return None
        folded = {axis % len(shape) for axis in (range(len(shape)) if axes is None else axes)}
        if not any(isinstance(shape[axis], int) and shape[axis] == 0 for axis in folded):
            return None
        kept = [axis for axis in range(len(shape)) if self.keepdims or axis not in folded]
        sizes = [1 if axis in folded else shape[axis] for axis in kept]
        return ops.full(sizes, 0 if kind == "mean" else extreme_of_none(dtype, greatest=kind == "max"), dtype)

    def kept(self, x: Expr, kind: _Fold) -> Expr:
        """The results, with size 1 for each reduced axis."""
        return self.node.emit(_FOLDS[kind](x, self.axes, True))

    def spread(self, kept: Expr) -> Expr:
        """The results in a shape that broadcasts to the operand; results with sizes of 1 do."""
        return kept

    def result(self, kept: Expr) -> Expr:
        """The results of `kept` in the shape of the node's result."""
        return kept if self.keepdims else ops.sum(kept, self.axes, False)


_STARTS: Final = {"sum": 0, "prod": 1}
_SCATTERED: Final[dict[_Fold, Literal["add", "mul", "max", "min"]]] = {
    "sum": "add",
    "prod": "mul",
    "max": "max",
    "min": "min",
}


class _RunTimeReduction:
    """The reduction of operand 0 of a node along the axes in operand 1. It has the methods of `_Reduction`."""

    def __init__(self, node: NodeImporter, count: int, *, keepdims: bool) -> None:
        self._node: Final = node
        shape, rank = node.shape(), node.rank()
        among = axes_among(node, rank)
        self._folded: Final = node.emit(ops.equal(among, 1))
        self._shape: Final = shape_row(node)
        sizes = node.emit(ops.where(self._folded, integers(1), self._shape))
        [self._total] = node.named_sizes(row(node, ops.prod(sizes)), 1)
        named = node.named_sizes(sizes, rank) if keepdims else kept_sizes(node, among, rank - count)
        self._result: Final[list[Dim]] = named
        # The product of the sizes after each axis. Only new opsets have an operator for running products.
        after = const(np.triu(np.ones((rank, rank), bool), 1), "bool")
        strides = ops.prod(ops.where(after, ops.expand_dims(sizes, 0), integers(1)), 1)
        steps = node.emit(ops.where(self._folded, integers(0), strides))
        places: Expr = integers(0)
        for axis, size in enumerate(shape):
            own = ops.arange(size, dtype="int64") * ops.take(steps, PrimValue(axis), axis=0)
            places = places + ops.reshape(own, ShapeExpr([1] * axis + [size] + [1] * (rank - axis - 1)))
        self._places: Final = node.emit(ops.flatten(ops.broadcast_to(places, ShapeExpr(shape))))

    def of(self, x: Expr, kind: _Fold) -> Expr:
        if kind == "mean":
            count = ops.prod(ops.where(self._folded, self._shape, integers(1)))
            return self.of(x, "sum") / ops.astype(count, self._node.dtype())
        if is_bool(self._node.dtype()):
            return ops.astype(self.result(self.kept(ops.astype(x, "int32"), kind)), "bool")
        return self.result(self.kept(x, kind))

    def kept(self, x: Expr, kind: _Fold) -> Expr:
        """The results as a vector."""
        node, dtype = self._node, self._node.dtype()
        start = _STARTS[kind] if kind in _STARTS else extreme_of_none(dtype, greatest=kind == "max")
        filled = node.emit(ops.full(ShapeExpr([self._total]), const(np.asarray(start), dtype_of(x) or dtype)))
        elements = node.emit(ops.flatten(x))
        return node.emit(ops.scatter_elements(filled, self._places, elements, 0, _SCATTERED[kind]))

    def spread(self, kept: Expr) -> Expr:
        return ops.reshape(ops.take(kept, self._places, axis=0), ShapeExpr(self._node.shape()))

    def result(self, kept: Expr) -> Expr:
        return ops.reshape(kept, ShapeExpr(self._result))


def _log_sum_exp(node: NodeImporter, reduction: _Reduction | _RunTimeReduction, x: Expr) -> Expr:
    """The logarithm of the sum of exponentials, computed relative to the largest element."""
    dtype = node.dtype()
    if is_unsigned(dtype):  # by ONNX's function for it
        return in_dtype(ops.log(reduction.of(ops.exp(in_dtype(x, "float64")), "sum")), dtype)
    if not is_integer(dtype) and 0 in (node.ty(0).shape or ()):
        return ops.log(reduction.of(ops.exp(x), "sum"))
    peaks = reduction.kept(x, "max")
    if is_integer(dtype):
        # ONNX Runtime truncates each term, and then the logarithm of the sum plus the largest element.
        terms = in_dtype(ops.exp(in_dtype(x - reduction.spread(peaks), "float64")), dtype)
        total = ops.log(in_dtype(reduction.kept(node.emit(terms), "sum"), "float64"))
        return reduction.result(in_dtype(total + in_dtype(peaks, "float64"), dtype))
    peaks = node.emit(ops.where(ops.isfinite(peaks), peaks, ops.zeros_like(peaks)))
    terms = ops.exp(x - reduction.spread(peaks))
    return reduction.result(ops.log(reduction.kept(terms, "sum")) + peaks)


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
