"""Elementwise operators of three operands: choice, limits, multiply-add."""

from __future__ import annotations

import builtins
import math
from typing import Any

from ...ir.dtypes import is_bool, is_integer
from ...ir.expr import Expr
from ...ir.op import Call, Precision, Trait, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, Type, shapes_equal
from .. import adjoints
from ..public_function import Number, declares
from ..row import primitive
from ..rules import broadcast_types, common_dtype, format_dims, is_real, require_kind, scalar_operand, tensor_operand
from ..semantics import array_function, cast, dtype_name, integer_range, rounded_once
from .comparison import equal

__all__ = ["clip", "ewise_fma", "masked_fill", "where"]


# --- choice


def _where_type(call: Call) -> Type:
    condition = tensor_operand(call, 0)
    if condition.dtype not in (None, "bool"):
        raise wrong_operand(call, 0, "bool; test numbers first: R.not_equal(x, 0)")
    dtype = common_dtype(call, (1, 2))
    dims, ndim = broadcast_types(call)
    return TensorType(dims, dtype, ndim)


def _where_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    condition, x1, x2 = call.args
    first, second = where(condition, adjoint, 0.0), where(condition, 0.0, adjoint)
    return [None, adjoints.collapse_to(first, x1), adjoints.collapse_to(second, x2)]


WHERE = primitive(
    "relax.where",
    ("condition", "x1", "x2"),
    infer=_where_type,
    reference=array_function("where"),
    traits=(Trait.ELEMENTWISE,),
    finite=True,
    gradient=_where_gradient,
)


def where(condition: Expr, x1: Expr | float, x2: Expr | float) -> Call:
    """``x1`` where ``condition`` is true, ``x2`` elsewhere; follows ``numpy.where``.

    Operands: ``condition``, bool; ``x1`` and ``x2``, of one dtype (a number takes the dtype of the other); all
    three broadcast. Result: the dtype of ``x1``, the broadcast shape. Elements that are not chosen have no
    influence, even if they are NaN. Raises `OpTypeError` for other dtypes, or shapes that do not broadcast.
    """
    tensors = [value.ty for value in (x1, x2) if isinstance(value, Expr) and isinstance(value.ty, TensorType)]
    dtype = next((ty.dtype for ty in tensors if ty.dtype is not None), None)
    return WHERE(condition, WHERE.coerce_operand(1, x1, dtype), WHERE.coerce_operand(2, x2, dtype))


def masked_fill(x: Expr, mask: Expr, value: float) -> Call:
    """``x`` with its elements replaced by ``value`` where ``mask`` is true; follows ``torch.masked_fill``.

    A call of `where`. Operands: ``x``, any tensor; ``mask``, bool, of a shape that broadcasts with it. ``value``: a
    number that the dtype of ``x`` can hold. Raises `OpTypeError` otherwise.
    """
    return where(mask, value, x)


# --- limits


def _clip_type(call: Call) -> Type:
    ty = require_kind(call, 0, is_real, "a tensor of real numbers")
    for index in (1, 2):
        limit = scalar_operand(call, index)
        if is_bool(limit.dtype):
            raise wrong_operand(call, index, "a number")
        whole = not isinstance(limit.value, float) or math.isinf(limit.value) or limit.value.is_integer()
        if is_integer(ty.dtype) and not whole:
            raise wrong_operand(call, index, f"a limit without a fraction, since x is {ty.dtype}")
    return ty


def _limit(xp: Any, value: Any, x: Any) -> Any:
    """``value`` in the dtype of ``x``; of an integer dtype, clipped to its range."""
    name = dtype_name(x.dtype)
    if is_integer(name):
        least, greatest = integer_range(name)
        value = int(builtins.min(builtins.max(value, least), greatest))
    return xp.asarray(value, dtype=x.dtype)


def _clip(xp: Any, x: Any, min: Any, max: Any) -> Any:
    limited = xp.minimum(xp.maximum(x, _limit(xp, min, x)), _limit(xp, max, x))
    return cast(xp, xp.asarray(limited), dtype_name(x.dtype))


@declares(
    "relax.clip",
    infer=_clip_type,
    reference=_clip,
    traits=(Trait.ELEMENTWISE,),
    precision=Precision.FOLLOWS,
    finite=True,
    # An unchanged element is within the limits or equal to one; PyTorch passes the gradient in both cases.
    gradient=lambda call, output, adjoint: [where(equal(output, call.args[0]), adjoint, 0.0), None, None],
)
def clip(x: Expr, min: Number, max: Number) -> Call:
    """``x`` with elements below ``min`` raised to ``min``, and elements above ``max`` lowered to ``max``.

    Follows ``numpy.clip``: NaN stays NaN, and ``max`` wins if ``min`` is above it. Operands: ``x``, a
    tensor of real numbers; ``min`` and ``max``, numbers (for tensors use `maximum` and `minimum`).
    Result: the type of ``x``. Raises `OpTypeError` for other operands, and for fractional limits of integers.
    """
    ...


# --- multiply-add


def _ewise_fma_type(call: Call) -> Type:
    dtype = common_dtype(call)
    if is_bool(dtype):
        raise wrong_operand(call, 0, "numbers, not bool")
    known = tensor_operand(call, 0)
    for index in (1, 2):
        ty = tensor_operand(call, index)
        if UNKNOWN_NDIM not in (ty.ndim, known.ndim) and ty.ndim != known.ndim:
            raise wrong_operand(call, index, f"a tensor of {known.ndim} axes, as before: nothing is broadcast")
        if known.shape is not None and ty.shape is not None and shapes_equal(known.shape, ty.shape) is False:
            raise wrong_operand(call, index, f"the shape {format_dims(known.shape)}: nothing is broadcast")
        if known.ndim == UNKNOWN_NDIM or (known.shape is None and ty.shape is not None):
            known = ty
    return known.with_dtype(dtype)


def _fma(xp: Any, x1: Any, x2: Any, x3: Any) -> Any:
    return xp.add(xp.multiply(x1, x2), x3)


@declares("relax.ewise_fma", infer=_ewise_fma_type, reference=rounded_once(_fma), traits=(Trait.ELEMENTWISE,))
def ewise_fma(x1: Expr, x2: Expr, x3: Expr) -> Call:
    """``x1 * x2 + x3``, elementwise; follows ``relax.op.ewise_fma``.

    Operands: tensors of one dtype and one shape, without broadcasting. Result: the same type. Floats narrower
    than float32 are rounded once, at the end.
    Raises `OpTypeError` for bool, and if dtypes or shapes differ.
    """
    ...
