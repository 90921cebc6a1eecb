"""Shapes as values, and their conversion to and from tensors of integers."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, Final

from ...ir.expr import Constant, Expr, ShapeExpr
from ...ir.op import Call, Trait, wrong_operand
from ...ir.types import UNKNOWN_NDIM, ShapeType, TensorType, Type
from ..public_function import declares
from ..rules import require_rank, shape_operand, tensor_operand
from ..semantics import index_array

__all__ = ["get_shape_of", "shape_of", "shape_to_tensor", "size", "tensor_to_shape"]


_of_sizes: Final = partial(declares, primitive=True, named={"expr": "input"}, traits=(Trait.STOPS_GRADIENT,))
"""The declaration of operators that return or take sizes."""


# --- shape_of


def _shape_of_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    return ShapeType(ty.shape, ty.ndim)


def _shape_of(xp: Any, input: Any) -> tuple[int, ...]:
    del xp
    return tuple(input.shape)


@_of_sizes("relax.shape_of", infer=_shape_of_type, reference=_shape_of)
def shape_of(expr: Expr) -> Call:
    """The shape of a tensor, as a shape value; follows ``Shape`` of ONNX, except that the result is not a tensor.

    Operands: ``expr``, any tensor. Result: a shape, known as far as the tensor's shape is.
    """
    ...


def get_shape_of(expr: Expr) -> Expr:
    """The shape of a tensor: a `ShapeExpr` if its type has the shape, else a call of `shape_of`."""
    ty = expr.ty
    return ShapeExpr(ty.shape) if isinstance(ty, TensorType) and ty.shape is not None else shape_of(expr)


# --- size


def _size_type(call: Call) -> Type:
    tensor_operand(call, 0)
    return TensorType((), "int64")


def _size(xp: Any, input: Any) -> Any:
    return xp.reshape(index_array(xp, [prod(input.shape)], input), ())


@_of_sizes("relax.size", infer=_size_type, reference=_size)
def size(expr: Expr) -> Call:
    """The number of elements of a tensor; follows ``Size`` of ONNX.

    Operands: ``expr``, any tensor. Result: int64, a scalar.
    """
    ...


# --- shape_to_tensor


def _shape_to_tensor_type(call: Call) -> Type:
    shape = shape_operand(call, 0)
    return TensorType(None if shape.ndim == UNKNOWN_NDIM else (shape.ndim,), "int64", 1)


def _shape_to_tensor(xp: Any, input: tuple[int, ...]) -> Any:
    return xp.asarray(input, dtype=xp.int64)


@_of_sizes("relax.shape_to_tensor", infer=_shape_to_tensor_type, reference=_shape_to_tensor)
def shape_to_tensor(expr: Expr) -> Call:
    """The sizes in a shape value as a tensor.

    Operands: ``expr``, a shape. Result: int64, shape (number of axes,). Raises `OpTypeError` if it is not a
    shape.
    """
    ...


# --- tensor_to_shape


def _tensor_to_shape_type(call: Call) -> Type:
    ty = require_rank(call, 0, "a tensor of integers of rank 1", 1, integers=True)
    length = None if ty.shape is None else ty.shape[0]
    if not isinstance(length, int):
        return ShapeType()
    source = call.args[0]
    if not isinstance(source, Constant):
        return ShapeType(None, length)
    sizes = [int(size) for size in source.data.numpy()]
    if any(size < 0 for size in sizes):
        raise wrong_operand(call, 0, f"sizes of 0 or more, not {sizes}")
    return ShapeType(sizes)


def _tensor_to_shape(xp: Any, input: Any) -> tuple[int, ...]:
    del xp
    return tuple(int(size) for size in input)


@_of_sizes("relax.tensor_to_shape", infer=_tensor_to_shape_type, reference=_tensor_to_shape)
def tensor_to_shape(expr: Expr) -> Call:
    """The elements of a tensor as a shape value, to reshape or broadcast to.

    Operands: ``expr``, integers of rank 1, none below 0. Result: a shape; its length is known if the tensor's
    shape is, and its sizes if the tensor is a constant. Name the sizes with ``R.match_cast``.
    Raises `OpTypeError` for any other tensor, and for a constant with an element below 0.
    """
    ...
