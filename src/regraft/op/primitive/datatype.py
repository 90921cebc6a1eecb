"""Conversion of a tensor's elements to another dtype."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ...ir.expr import Expr
from ...ir.op import Call, Trait, wrong_attribute
from ...ir.types import TensorType, Type
from .. import adjoints
from ..public_function import Dtype, declares
from ..rules import tensor_operand
from ..semantics import cast

__all__ = ["astype", "wrap_param"]


def _converted_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    dtype = call.attrs.dtype
    if dtype is None:
        raise wrong_attribute(call, "dtype", 'a dtype, such as "float32"')
    if ty.dtype is not None and ty.dtype.startswith("complex") and not dtype.startswith("complex"):
        raise wrong_attribute(call, "dtype", f"a complex dtype: x is {ty.dtype}, and its imaginary part would be lost")
    return ty.with_dtype(dtype)


def _astype(xp: Any, x: Any, dtype: str) -> Any:
    return xp.asarray(cast(xp, x, dtype))


_converts: Final = partial(
    declares,
    primitive=True,
    infer=_converted_type,
    reference=_astype,
    traits=(Trait.ELEMENTWISE,),
    gradient=lambda call, output, adjoint: [adjoints.converted_like(adjoint, call.args[0])],
)


@_converts("relax.astype", finite=True)
def astype(x: Expr, dtype: Dtype) -> Call:
    """``x`` with its elements converted to ``dtype``; follows ``numpy.astype``.

    Operands: ``x``, any tensor. Attributes: ``dtype``. Result: that dtype, the shape of ``x``. Floats lose
    their fraction on the way to integers (those that do not fit have no defined result); all but zero become
    true.
    Raises `OpTypeError` for no dtype, and for complex numbers to be made real.
    """
    ...


@_converts("relax.wrap_param")
def wrap_param(data: Expr, dtype: Dtype = "float32") -> Call:
    """A parameter of the model as ``dtype``: `astype`, which also tells passes that ``data`` is a parameter.

    Operands: ``data``, any tensor. Attributes: ``dtype``. Result: that dtype, the shape of ``data``.
    Raises `OpTypeError` as `astype` does.
    """
    ...


def in_dtype_of_first(data: Expr, other: Expr, *rest: Any) -> tuple[Any, ...]:
    """The arguments with ``other`` cast to the dtype of ``data`` where both are tensors of known dtypes that differ."""
    dtypes = [x.ty.dtype if isinstance(x.ty, TensorType) else None for x in (data, other)]
    return data, other if None in dtypes or dtypes[0] == dtypes[1] else astype(other, dtypes[0]), *rest
