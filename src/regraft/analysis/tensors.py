"""Facts about a tensor: its shape and dtype, its value if it is one number, and a factor it is multiplied by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from ..ir.dims import Dim, dims_equal
from ..ir.dtypes import HALF
from ..ir.expr import Expr, PrimValue, Tuple, Var, number_of
from ..ir.op import Call, Op, is_call_of
from ..ir.types import TensorType
from .values import definition, resolve

_SCALED: Final = ("relax.astype", "relax.divide", "relax.multiply")


def shape_of(expr: Expr) -> tuple[Dim, ...]:
    """The shape of a tensor; empty for a value without a known shape."""
    return (expr.ty.shape or ()) if isinstance(expr.ty, TensorType) else ()


def stated_shape(expr: Expr) -> tuple[Dim, ...] | None:
    """The shape of a tensor; None if it is not known."""
    return expr.ty.shape if isinstance(expr.ty, TensorType) else None


def is_static(ty: TensorType) -> bool:
    """True if all sizes are numbers."""
    return ty.shape is not None and all(isinstance(size, int) for size in ty.shape)


def dtype_of(tensor: Expr) -> str | None:
    """The dtype of a tensor; None if it is not known."""
    return tensor.ty.dtype if isinstance(tensor.ty, TensorType) else None


def same_sizes(ours: Sequence[Dim], theirs: Sequence[Dim]) -> bool:
    """True if the sizes are certainly the same."""
    return len(ours) == len(theirs) and all(dims_equal(a, b) is True for a, b in zip(ours, theirs, strict=True))


def whole_numbers(operand: Expr) -> list[int] | None:
    """The numbers in an operand such as the bounds of a slice; None if one of them is not known."""
    fields = operand.fields if isinstance(operand, Tuple) else [operand]
    found = [field.value for field in fields if isinstance(field, PrimValue) and isinstance(field.value, int)]
    return found if len(found) == len(fields) else None


def without_factor(expr: Expr, bindings: Mapping[Var, Expr]) -> tuple[Expr, float] | None:
    """``expr`` as a tensor of its own type times a number other than 0; None if it does not have this form.

    A tensor of half precision may be cast to a wider dtype, multiplied there, and cast back.
    """
    call = definition(bindings, resolve(bindings, expr))
    if not isinstance(call, Call) or not isinstance(call.op, Op) or call.op.name not in _SCALED:
        return None
    if is_call_of(call, "relax.astype"):
        inner = definition(bindings, resolve(bindings, call.args[0]))
        wide = None if is_call_of(inner, "relax.astype") else without_factor(inner, bindings)
        cast = None if wide is None else definition(bindings, resolve(bindings, wide[0]))
        if wide is None or not is_call_of(cast, "relax.astype"):
            return None
        return (cast.args[0], wide[1]) if cast.args[0].ty == call.ty and dtype_of(call) in HALF else None
    tensor, factor = call.args
    number = number_of(resolve(bindings, factor))
    is_product = is_call_of(call, "relax.multiply")
    if number is None and is_product:
        tensor, number = factor, number_of(resolve(bindings, tensor))
    if number is None or number == 0.0 or not np.isfinite(number) or tensor.ty != call.ty:
        return None
    return tensor, number if is_product else 1.0 / number
