"""Regularization: operators that have an effect during training."""

from __future__ import annotations

from typing import Any

from ...ir.expr import Expr
from ...ir.op import Call, wrong_attribute
from ...ir.types import TupleType, Type
from ..adjoints import fields_of
from ..public_function import declares
from ..rules import tensor_operand

__all__ = ["dropout"]


def _dropout_type(call: Call) -> Type:
    if not 0 <= call.attrs.rate < 1:
        raise wrong_attribute(call, "rate", "a share from 0 up to, not including, 1")
    ty = tensor_operand(call, 0)
    return TupleType([ty, ty])


def _dropout(xp: Any, x: Any, rate: float) -> tuple[Any, Any]:
    return x, xp.ones_like(x)


@declares(
    "relax.nn.dropout",
    infer=_dropout_type,
    reference=_dropout,
    gradient=lambda call, output, adjoint: [fields_of(adjoint)[0]],
)
def dropout(data: Expr, rate: float = 0.5) -> Call:
    """``data`` and a mask of ones: dropout outside of training, which drops nothing; follows TVM.

    The operator marks a place where training may drop elements; it is pure, and its reference is not random.
    Operands: any tensor. Attributes: ``rate``, the share that training would drop, from 0 up to but without 1.
    Result: a tuple (``data``, mask), both of ``data``'s shape and dtype.
    """
    ...
