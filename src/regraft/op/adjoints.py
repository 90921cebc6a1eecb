"""Common parts of gradient rules: converting an adjoint to the type of its operand.

A rule takes the adjoint of a call's result and returns each operand's share of it: an expression of the operand's
type. It uses operators that have gradients themselves, so a gradient can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.dims import Dim, dim_product
from ..ir.dtypes import is_float, itemsize
from ..ir.errors import RegraftError
from ..ir.expr import Expr, ShapeExpr, Tuple, TupleGetItem, const
from ..ir.leaf_types import leaf_tensors
from ..ir.op import Call, Op
from ..ir.types import UNKNOWN_NDIM, TensorType, TupleType, Type, shapes_equal

# Modules rather than names, since these modules import this one: their operators have gradients.
from .primitive import broadcast, create, datatype, reduction, reshaping, shape


class GradientError(RegraftError, ValueError, RuntimeError):
    """A gradient that cannot be computed; the message names operator or parameter, the binding, and what to do."""


# --- facts about an operand


def tensor_type(value: Expr) -> TensorType:
    """The type of ``value``, which must be a tensor, as the operator's type rule has checked."""
    ty = value.ty
    assert isinstance(ty, TensorType)
    return ty


def is_differentiable(ty: Type) -> bool:
    """True if values of type ``ty`` hold floating numbers, so that they can have an adjoint."""
    return any(leaf.dtype is None or is_float(leaf.dtype) for leaf in leaf_tensors(ty))


def known_shape(call: Call, operand: Expr, name: str) -> tuple[Dim, ...]:
    """The shape of ``operand``. Raises `GradientError` if it is unknown."""
    dims = tensor_type(operand).shape
    if dims is None:
        raise _needs(call, f"the shape of {name}, which is {operand.ty!r}; give it one with R.match_cast")
    return dims


def known_rank(call: Call, operand: Expr, name: str) -> int:
    """The rank of ``operand``. Raises `GradientError` if it is unknown."""
    ndim = tensor_type(operand).ndim
    if ndim == UNKNOWN_NDIM:
        raise _needs(call, f"the rank of {name}, which is {operand.ty!r}; give it one with R.match_cast")
    return ndim


def _needs(call: Call, what: str) -> GradientError:
    assert isinstance(call.op, Op)
    return GradientError(f"{call.op.name}: the gradient needs {what}")


def static_size(call: Call, size: Dim, what: str) -> int:
    """``size`` as an int. Raises `GradientError` if it is symbolic."""
    if not isinstance(size, int):
        remedy = "give it one with transform.BindSymbolicVars, or R.match_cast"
        raise _needs(call, f"{what} as a number, but it is {size}; {remedy}")
    return size


def fields_of(value: Expr) -> tuple[Expr, ...]:
    """The fields of an operand of tuple type, as expressions."""
    if isinstance(value, Tuple):
        return value.fields
    assert isinstance(value.ty, TupleType)
    return tuple([TupleGetItem(value, index) for index in range(len(value.ty.fields))])


# --- shapes


def has_shape_of(share: Expr, operand: Expr) -> bool:
    """True if two tensors are known to have the same shape."""
    have, want = tensor_type(share).shape, tensor_type(operand).shape
    return have is not None and want is not None and shapes_equal(have, want) is True


def collapse_to(share: Expr, operand: Expr) -> Expr:
    """``share``, which has the shape that ``operand`` was broadcast to, summed to the shape of ``operand``."""
    if has_shape_of(share, operand):
        return share
    dims = tensor_type(operand).shape
    if dims is None:
        return broadcast.collapse_sum_like(share, operand)
    return broadcast.collapse_sum_to(share, ShapeExpr(dims))


def broadcast_like(share: Expr, operand: Expr) -> Expr:
    """``share`` broadcast to the shape of ``operand``; as in Relax, the call is made even if the shapes are equal."""
    return broadcast.broadcast_to(share, shape.get_shape_of(operand))


def reshape_like(share: Expr, operand: Expr) -> Expr:
    """The elements of ``share`` in the shape of ``operand``."""
    return share if has_shape_of(share, operand) else reshaping.reshape(share, shape.get_shape_of(operand))


def widened(value: Expr) -> Expr:
    """``value`` in the dtype for sums over it: float32 for narrower floats, else its own."""
    dtype = tensor_type(value).dtype
    is_narrow = dtype is not None and is_float(dtype) and itemsize(dtype) < 4
    return datatype.astype(value, "float32") if is_narrow else value


def converted_like(share: Expr, operand: Expr) -> Expr:
    """``share`` in the dtype of ``operand``."""
    dtype = tensor_type(operand).dtype
    return share if dtype is None or tensor_type(share).dtype == dtype else datatype.astype(share, dtype)


# --- values


def zeros_of(value: Expr) -> Expr:
    """Zeros of the type of ``value``, a tensor or a tuple of them at any depth."""
    ty = value.ty
    if isinstance(ty, TupleType):
        return Tuple([zeros_of(field) for field in fields_of(value)])
    return _made_like(value, create.zeros, create.zeros_like)


def ones_of(value: Expr) -> Expr:
    """Ones of the type of ``value``, a tensor."""
    return _made_like(value, create.ones, create.ones_like)


def _made_like(value: Expr, make: Callable[[Any, str], Expr], make_like: Callable[[Expr], Expr]) -> Expr:
    """A tensor of the type of ``value``; the result depends on ``value`` only if that type is not fully known."""
    dims, dtype = tensor_type(value).shape, tensor_type(value).dtype
    return make_like(value) if dims is None or dtype is None else make(ShapeExpr(dims), dtype)


def count_of(dims: Sequence[Dim], dtype: str | None) -> Expr:
    """The product of ``dims`` as a scalar of ``dtype``; computed at run time if it is symbolic."""
    count = dim_product(dims)
    kind = dtype or "float32"
    if isinstance(count, int):
        return const(float(count), kind)
    size = reshaping.reshape(shape.shape_to_tensor(ShapeExpr([count])), ShapeExpr([]))
    return datatype.astype(size, kind)


def total(share: Expr) -> Expr:
    """The sum of all elements."""
    return share if tensor_type(share).ndim == 0 else reduction.sum(share)
