"""Rearranging the elements of a tensor: axes, shapes, order. No element changes its value.

Each operator is declared whole here: type rule, meaning, gradient, traits, and the function people call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.expr import Expr
from ..ir.op import Call, Op, Trait, wrong_attribute
from ..ir.types import UNKNOWN_NDIM, TensorType, Type
from .rules import as_optional_int_tuple, normalize_axes, tensor_operand


def permutation(call: Call) -> tuple[int, ...] | None:
    """The axes of a ``permute_dims`` call, from 0 and explicit; None when they follow from a rank not known."""
    ndim = tensor_operand(call, 0).ndim
    axes = call.attrs.axes
    if axes is None:
        return None if ndim == UNKNOWN_NDIM else tuple(reversed(range(ndim)))
    return normalize_axes(call, "axes", axes, len(axes))


def _permute_dims_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    axes = call.attrs.axes
    if axes is not None and ty.ndim not in (UNKNOWN_NDIM, len(axes)):
        raise wrong_attribute(call, "axes", f"a permutation of the {ty.ndim} axes of x")
    order = permutation(call)
    if order is None or ty.shape is None:
        return TensorType(None, ty.dtype, ty.ndim if order is None else len(order))
    return TensorType([ty.shape[axis] for axis in order], ty.dtype)


def _permute_dims(xp: Any, x: Any, axes: tuple[int, ...] | None) -> Any:
    order = tuple(reversed(range(x.ndim))) if axes is None else tuple(axis % x.ndim for axis in axes)
    return xp.permute_dims(x, order)


PERMUTE_DIMS = Op(
    "relax.permute_dims",
    ("x",),
    {"axes": None},
    infer=_permute_dims_type,
    reference=_permute_dims,
    traits=(Trait.VIEW,),
)


def permute_dims(x: Expr, axes: Sequence[int] | None = None) -> Call:
    """``x`` with its axes in another order; follows ``numpy.transpose``.

    Operands: ``x``, any tensor. Attributes: ``axes``, for each axis of the result the axis of ``x`` it comes from
    (negative ones count from the end); None reverses all. Result: ``x``'s dtype, ``x.shape[axes[i]]`` at axis i.
    Raises `OpTypeError` when ``axes`` is no permutation of the axes of ``x``.
    """
    return PERMUTE_DIMS(x, axes=as_optional_int_tuple(axes, "relax.permute_dims", "axes"))
