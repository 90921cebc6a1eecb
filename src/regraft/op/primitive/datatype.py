"""Conversion of a tensor's elements to another dtype: by value, or by reinterpreting their bits."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, Final

from array_api_compat import is_jax_namespace, is_torch_namespace

from ...ir.dtypes import SUB_BYTE, is_bool, is_float, is_integer, itemsize
from ...ir.expr import Expr
from ...ir.op import Call, Precision, Trait, wrong_attribute, wrong_operand
from ...ir.types import TensorType, Type
from .. import adjoints
from ..public_function import Dtype, declares
from ..rules import required_dtype, tensor_operand
from ..semantics import cast, namespace_dtype

__all__ = ["astype", "bitcast", "wrap_param"]


def _converted_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    dtype = required_dtype(call)
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
    """``x`` cast to ``dtype``; follows ``numpy.astype``.

    Operands: ``x``, any tensor. Attributes: ``dtype``. Result: that dtype, the shape of ``x``. A cast from float to
    integer drops the fraction; the result is undefined for values that do not fit. In a cast to bool, all values
    except 0 become true.
    Raises `OpTypeError` if ``dtype`` is None, and for a cast from complex to real numbers.
    """
    ...


@_converts("relax.wrap_param")
def wrap_param(data: Expr, dtype: Dtype = "float32") -> Call:
    """A parameter of the model, cast to ``dtype``: an `astype` that also marks ``data`` as a parameter, for passes.

    Operands: ``data``, any tensor. Attributes: ``dtype``. Result: that dtype, the shape of ``data``.
    Raises `OpTypeError` as `astype` does.
    """
    ...


def in_dtype_of_first(_attrs: object, data: Expr, other: Expr) -> tuple[Expr, Expr]:
    """The operands, with ``other`` cast to the dtype of ``data`` if both are tensors of different known dtypes."""
    dtypes = [x.ty.dtype if isinstance(x.ty, TensorType) else None for x in (data, other)]
    return data, other if None in dtypes or dtypes[0] == dtypes[1] else astype(other, dtypes[0])


# --- bits


def _is_plain(dtype: str) -> bool:
    """True for floats and integers that fill whole bytes."""
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
    # The array API standard has no function for it; each library has its own.
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
    """The bits of each element of ``x``, read as ``dtype``; follows ``BitCast`` of ONNX and ``torch.view``.

    Operands: ``x``, integers or floats of whole bytes, or bool. Attributes: ``dtype``, an integer or floating dtype of
    the same width. Result: that dtype, the shape of ``x``. Raises `OpTypeError` for dtypes of other kinds or widths.
    """
    ...
