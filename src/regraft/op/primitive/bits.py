"""The bits of a tensor's elements, read as another dtype."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from array_api_compat import is_jax_namespace, is_torch_namespace

from ...ir.dtypes import SUB_BYTE, is_bool, is_float, is_integer, itemsize
from ...ir.expr import Expr
from ...ir.op import Call, Precision, Trait, wrong_attribute, wrong_operand
from ...ir.types import Type
from ..public_function import Dtype, declares
from ..rules import tensor_operand
from ..semantics import namespace_dtype

__all__ = ["bitcast"]


def _is_plain(dtype: str) -> bool:
    """True if elements are numbers that fill whole bytes."""
    return (is_float(dtype) or is_integer(dtype)) and dtype not in SUB_BYTE


def _bitcast_type(call: Call) -> Type:
    ty, dtype = tensor_operand(call, 0), call.attrs.dtype
    if dtype is None or not _is_plain(dtype):
        raise wrong_attribute(call, "dtype", "integers or floats of whole bytes")
    if ty.dtype is None:
        return ty.with_dtype(dtype)
    if not _is_plain(ty.dtype) and not is_bool(ty.dtype):
        raise wrong_operand(call, 0, "integers or floats of whole bytes, or bool")
    if itemsize(ty.dtype) != itemsize(dtype):
        raise wrong_attribute(call, "dtype", f"a dtype of {itemsize(ty.dtype)} bytes, as {ty.dtype} has")
    return ty.with_dtype(dtype)


def _bitcast(xp: Any, x: Any, dtype: str) -> Any:
    # The array API standard has no word for it; each library has its own.
    target = namespace_dtype(xp, dtype)
    if is_torch_namespace(xp):
        return x.view(target)
    if is_jax_namespace(xp):
        return import_module("jax.lax").bitcast_convert_type(x, target)
    return xp.asarray(x).view(target)


@declares(
    "relax.bitcast",
    primitive=True,
    infer=_bitcast_type,
    reference=_bitcast,
    traits=(Trait.ELEMENTWISE, Trait.STOPS_GRADIENT),
    precision=Precision.KEEPS,
)
def bitcast(x: Expr, dtype: Dtype) -> Call:
    """The bits of each element of ``x`` as an element of ``dtype``; follows ``BitCast`` of ONNX and ``torch.view``.

    Operands: ``x``, integers or floats of whole bytes, or bool. Attributes: ``dtype``, integers or floats of as many
    bytes. Result: that dtype, the shape of ``x``. Raises `OpTypeError` for dtypes of other kinds or sizes.
    """
    ...
