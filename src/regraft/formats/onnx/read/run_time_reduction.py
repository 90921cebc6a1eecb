"""Reductions over axes that are a tensor, computed at run time.

Which element of the result an element of the operand goes into is arithmetic on its place, so that the reduction is a
scatter of all elements into the result. The number of axes has to be known, since the rank of the result depends on it.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from .... import op as ops
from ....ir.dims import Dim
from ....ir.dtypes import is_bool, is_integer, is_unsigned
from ....ir.expr import Expr, PrimValue, ShapeExpr, const
from ....op.primitive.reduction import extreme_of_none
from .importing import NodeImporter, in_dtype
from .run_time import axes_among, integers, kept_sizes, row, shape_row

Extreme = Literal["max", "min"]


class RunTimeReduction:
    """The folding of operand 0 of a node along the axes that its operand 1 gives."""

    def __init__(self, node: NodeImporter, count: int, *, keepdims: bool) -> None:
        self._node: Final = node
        shape, rank = node.shape(), node.rank()
        among = axes_among(node, rank)
        self._folded: Final = node.emit(ops.equal(among, integers(1)))
        self._shape: Final = shape_row(node)
        sizes = node.emit(ops.where(self._folded, integers(1), self._shape))
        [self._total] = node.named_sizes(row(node, ops.prod(sizes)), 1)
        named = node.named_sizes(sizes, rank) if keepdims else kept_sizes(node, among, rank - count)
        self._result: Final[list[Dim]] = named
        # The product of the sizes after each axis; the running product is an operator of new opsets only.
        after = const(np.triu(np.ones((rank, rank), bool), 1), "bool")
        strides = ops.prod(ops.where(after, ops.expand_dims(sizes, 0), integers(1)), 1)
        steps = node.emit(ops.where(self._folded, integers(0), strides))
        places: Expr = integers(0)
        for axis, size in enumerate(shape):
            own = ops.multiply(ops.arange(size, dtype="int64"), ops.take(steps, PrimValue(axis), axis=0))
            places = ops.add(places, ops.reshape(own, ShapeExpr([1] * axis + [size] + [1] * (rank - axis - 1))))
        self._places: Final = node.emit(ops.flatten(ops.broadcast_to(places, ShapeExpr(shape))))

    def _scattered(self, x: Expr, start: Expr, reduction: Literal["add", "mul", "max", "min"]) -> Expr:
        elements = self._node.emit(ops.flatten(x))
        filled = self._node.emit(ops.full(ShapeExpr([self._total]), start))
        return self._node.emit(ops.scatter_elements(filled, self._places, elements, 0, reduction))

    def _shaped(self, flat: Expr) -> Expr:
        return ops.reshape(flat, ShapeExpr(self._result))

    def sum(self, x: Expr) -> Expr:
        """The sum."""
        return self._shaped(self._scattered(x, self._node.like(0), "add"))

    def product(self, x: Expr) -> Expr:
        """The product."""
        return self._shaped(self._scattered(x, self._node.like(1), "mul"))

    def mean(self, x: Expr) -> Expr:
        """The mean."""
        count = ops.prod(ops.where(self._folded, self._shape, integers(1)))
        return ops.divide(self.sum(x), ops.astype(count, self._node.dtype()))

    def extreme(self, x: Expr, which: Extreme) -> Expr:
        """The greatest element, or the least."""
        dtype = self._node.dtype()
        if is_bool(dtype):
            start = const(np.asarray(which == "min"), "int32")
            return ops.astype(self._shaped(self._scattered(ops.astype(x, "int32"), start, which)), "bool")
        return self._shaped(self._peaks(x, which))

    def _peaks(self, x: Expr, which: Extreme) -> Expr:
        identity = extreme_of_none(self._node.dtype(), greatest=which == "max")
        return self._scattered(x, const(np.asarray(identity), self._node.dtype()), which)

    def log_sum_exp(self, x: Expr) -> Expr:
        """The logarithm of the sum of exponentials, which the greatest element is taken out of."""
        node, dtype = self._node, self._node.dtype()
        if is_unsigned(dtype):  # by the function that ONNX defines it by
            terms = ops.exp(in_dtype(x, "float64"))
            total = self._scattered(terms, const(np.asarray(0.0), "float64"), "add")
            return self._shaped(in_dtype(ops.log(total), dtype))
        peaks = self._peaks(x, "max")
        if is_integer(dtype):
            # ONNX Runtime cuts off each term, and then their logarithm with the greatest element added.
            terms = in_dtype(ops.exp(in_dtype(ops.subtract(x, self._own(peaks)), "float64")), dtype)
            found = ops.log(in_dtype(self._scattered(terms, node.like(0), "add"), "float64"))
            return self._shaped(in_dtype(ops.add(found, in_dtype(peaks, "float64")), dtype))
        peaks = node.emit(ops.where(ops.isfinite(peaks), peaks, ops.zeros_like(peaks)))
        total = self._scattered(ops.exp(ops.subtract(x, self._own(peaks))), node.like(0), "add")
        return self._shaped(ops.add(ops.log(total), peaks))

    def _own(self, results: Expr) -> Expr:
        """For each element of the operand that of ``results`` which it goes into."""
        return ops.reshape(ops.take(results, self._places, axis=0), ShapeExpr(self._node.shape()))
