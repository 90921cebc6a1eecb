"""A tensor's elements in another dtype: converted, or their bits read as it."""

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


def in_dtype_of_first(_attrs: object, data: Expr, other: Expr) -> tuple[Expr, Expr]:
    """The operands with ``other`` cast to the dtype of ``data`` where both are tensors of known dtypes that differ."""
    dtypes = [x.ty.dtype if isinstance(x.ty, TensorType) else None for x in (data, other)]
    return data, other if None in dtypes or dtypes[0] == dtypes[1] else astype(other, dtypes[0])


# --- bits


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
