"""Common parts of the declarations in this package: the domain, and helpers of type rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ....ir.dims import Dim
from ....ir.op import Call, Op, Reference, TypeRule
from ....ir.types import TensorType
from ...declare import operator
from ...rules import shaped as shaped
from ...rules import tensor_operand

DOMAIN: Final = "com.microsoft"


def contributed(name: str, infer: TypeRule, **options: Any) -> Callable[[Reference], Op]:
    """Declare ``com.microsoft.<name>``, for which ONNX Runtime has kernels, by its reference semantics."""
    return operator(f"{DOMAIN}.{name}", onnx=f"{DOMAIN}::{name}", infer=infer, **options)


def is_given(call: Call, index: int) -> bool:
    """True if the call gives operand ``index``; an operand omitted before others is an empty tuple."""
    return index < len(call.args) and isinstance(call.args[index].ty, TensorType)


def sizes_of(call: Call, index: int, rank: int) -> tuple[Dim | None, ...]:
    """The sizes of operand ``index``, a tensor of rank ``rank``; None for unknown sizes."""
    ty = tensor_operand(call, index)
    return (None,) * rank if ty.shape is None or len(ty.shape) != rank else ty.shape


def product(left: Dim | None, right: Dim | None) -> Dim | None:
    """The product of two sizes; None if one is unknown."""
    return None if left is None or right is None else left * right


def total(left: Dim | None, right: Dim | None) -> Dim | None:
    """The sum of two sizes; None if one is unknown."""
    return None if left is None or right is None else left + right
