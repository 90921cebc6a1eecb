"""The sizes of a result, if some are known when a model is read and others only at run time.

A type holds all sizes of a tensor or none. One unknown size should not take away the names of the others, so the
reader asks here, and gives new names to the unknown sizes only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ....ir.dims import Dim
from ....ir.expr import Expr
from ....ir.op import Call, Op, Trait
from ....ir.types import TensorType
from ....op.rules import broadcast_dims

_Shape: TypeAlias = "tuple[Dim, ...]"


def partial_sizes(expr: Expr, ndim: int) -> list[Dim | None]:
    """The known sizes of an expression of rank ``ndim``, axis by axis; None for unknown ones."""
    shapes = _operand_shapes(expr)
    if shapes is not None and isinstance(expr, Call) and isinstance(expr.op, Op):
        if Trait.ELEMENTWISE in expr.op.traits:
            return _broadcast(shapes, ndim)
        if expr.op.name == "relax.matmul" and ndim >= 2 and min(map(len, shapes)) >= 2:
            left, right = shapes
            return [*_broadcast((left[:-2], right[:-2]), ndim - 2), left[-2], right[-1]]
    return [None] * ndim


def _operand_shapes(expr: Expr) -> list[_Shape] | None:
    shapes: list[_Shape] = []
    for operand in expr.args if isinstance(expr, Call) else ():
        shape = operand.ty.shape if isinstance(operand.ty, TensorType) else None
        if shape is None:
            return None
        shapes.append(shape)
    return shapes


def _broadcast(shapes: Iterable[_Shape], ndim: int) -> list[Dim | None]:
    sizes: list[Dim | None] = [1] * ndim
    for shape in shapes:
        for axis, size in enumerate(shape, ndim - len(shape)):
            known = sizes[axis]
            both = None if known is None else broadcast_dims((known,), (size,))
            sizes[axis] = both[0] if isinstance(both, tuple) else None
    return sizes
