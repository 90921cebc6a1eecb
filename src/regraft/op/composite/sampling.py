"""Sampling from a distribution, with the random numbers as an operand; so the operators are pure."""

from __future__ import annotations

from typing import Any

from ...ir.dims import dims_equal
from ...ir.dtypes import is_float, is_integer
from ...ir.expr import Expr
from ...ir.op import Call, Trait, wrong_attribute, wrong_operand
from ...ir.types import TensorType, Type
from ..public_function import Dtype, declares
from ..rules import require_rank, tensor_operand
from ..semantics import cast, widened

__all__ = ["multinomial_from_uniform"]


def _multinomial_type(call: Call) -> Type:
    prob, uniform, rows = (tensor_operand(call, index) for index in range(3))
    for index, ty in enumerate((prob, uniform, rows)):
        require_rank(call, index, "a tensor of rank 2", 2)
        wanted = "integers" if index == 2 else "a floating dtype"
        if not (ty.dtype is None or (is_integer(ty.dtype) if index == 2 else is_float(ty.dtype))):
            raise wrong_operand(call, index, wanted)
        if index > 0 and ty.shape is not None and dims_equal(ty.shape[1], 1) is False:
            raise wrong_operand(call, index, "a tensor of shape (n, 1)")
    if not is_integer(call.attrs.dtype):
        raise wrong_attribute(call, "dtype", "an integer dtype")
    known = uniform.shape or rows.shape
    if uniform.shape and rows.shape and dims_equal(uniform.shape[0], rows.shape[0]) is False:
        raise wrong_operand(call, 2, f"as many rows as uniform_sample has, {uniform.shape[0]}")
    return TensorType(None if known is None else [known[0], 1], call.attrs.dtype, 2)


def _multinomial(xp: Any, prob: Any, uniform_sample: Any, sample_indices: Any, dtype: str) -> Any:
    totals = xp.cumulative_sum(widened(xp, prob), axis=1)
    rows = xp.take(totals, cast(xp, xp.reshape(sample_indices, (-1,)), "int64"), axis=0)
    below = xp.less_equal(rows, cast(xp, uniform_sample, "float64"))
    place = xp.sum(cast(xp, below, "int64"), axis=1, keepdims=True)
    last = xp.full_like(place, prob.shape[1] - 1)
    return cast(xp, xp.minimum(place, last), dtype)


@declares(
    "relax.multinomial_from_uniform", infer=_multinomial_type, reference=_multinomial, traits=(Trait.STOPS_GRADIENT,)
)
def multinomial_from_uniform(prob: Expr, uniform_sample: Expr, sample_indices: Expr, dtype: Dtype = "int64") -> Call:
    """For each uniform number, the outcome that it draws from a row of ``prob``; follows Relax.

    The outcome is the first index at which the running sum of probabilities exceeds the number (the last index, if
    rounding leaves none). Operands: ``prob``, floating, (rows, outcomes); ``uniform_sample``, floating, (n,
    1), from 0 up to but without 1; ``sample_indices``, integers, (n, 1), the row of ``prob`` for each.
    Attributes: ``dtype``, an integer dtype. Result: (n, 1). Raises `OpTypeError` for operands of other ranks,
    shapes or dtypes.
    """
    ...
