"""Operators of programs for Relax's virtual machine: storage, tensors in it, views, the machine's own functions.

Engines here plan memory themselves. So a storage is a separate piece of memory, each allocated tensor is a new one,
and the end of a value's life has no effect. Omitted operands may be written as Relax prints them, as
the empty tuple or as `null_value`.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from math import prod
from typing import Any, TypeAlias

from array_api_compat import is_jax_namespace, is_torch_namespace

from ...ir.dims import Dim
from ...ir.dtypes import itemsize
from ...ir.expr import DataTypeImm, Expr, PrimValue, StringImm, Tuple
from ...ir.op import Call, Trait, stated_type, wrong_attribute, wrong_operand
from ...ir.types import OBJECT, ObjectType, TupleType, Type
from ..primitive.packed import Callee, Types, as_callee, as_packed_arguments, check_arguments, one_of
from ..public_function import Number, ShapeOperand, declares
from ..row import primitive
from ..rules import (
    as_dtype_attribute,
    as_int,
    as_shape_expr,
    integer_operand,
    same_type,
    shape_operand,
    tensor_of_shape,
    tensor_operand,
)
from ..semantics import namespace_dtype

__all__ = [
    "alloc_storage",
    "alloc_tensor",
    "alloc_tensor_in_storage",
    "alloc_vm_storage",
    "alloc_vm_tensor",
    "call_builtin_with_ctx",
    "ensure_zero_offset",
    "kill_object",
    "kill_storage",
    "kill_tensor",
    "view",
]

_Index: TypeAlias = int | Expr
_Dtype: TypeAlias = Any
_Text: TypeAlias = Any


# --- allocation


def _storage_type(call: Call) -> Type:
    shape_operand(call, 0)
    return OBJECT


def _new_tensor_type(call: Call) -> Type:
    return tensor_of_shape(shape_operand(call, 0), call.attrs.dtype)


def _tensor_in_storage_type(call: Call) -> Type:
    if not isinstance(call.args[0].ty, ObjectType):
        raise wrong_operand(call, 0, "a storage, as alloc_storage gives it")
    integer_operand(call, 1)
    return tensor_of_shape(shape_operand(call, 2), call.attrs.dtype)


def _empty(xp: Any, shape: tuple[int, ...], dtype: str, **_place: Any) -> Any:
    return xp.zeros(shape, dtype=namespace_dtype(xp, dtype))


def _empty_in_storage(
    xp: Any, storage: Any, offset: int, shape: tuple[int, ...], dtype: str, runtime_device_ind: int
) -> Any:
    del storage, offset, runtime_device_ind
    return _empty(xp, shape, dtype)


def _as_text(value: Any, _op_name: str, _name: str) -> Any:
    return value.value if isinstance(value, StringImm) else value


def _as_dtype(value: Any, op_name: str, _name: str) -> str | None:
    return as_dtype_attribute(value.value if isinstance(value, DataTypeImm) else value, op_name)


def _as_index(value: Any, op_name: str, name: str) -> int:
    number: Any = value.value if isinstance(value, PrimValue) else value
    return as_int(number, op_name, name)


_allocates = partial(declares, forms={"_Index": _as_index, "_Dtype": _as_dtype, "_Text": _as_text})
_stores = partial(_allocates, infer=_storage_type, reference=_empty)
_takes = partial(_allocates, infer=_tensor_in_storage_type, reference=_empty_in_storage, finite=True)


@_allocates("relax.builtin.alloc_tensor", infer=_new_tensor_type, reference=_empty, finite=True)
def alloc_tensor(
    shape: ShapeOperand, dtype: _Dtype, runtime_device_index: _Index = 0, storage_scope: _Text = "global"
) -> Call:
    """A new tensor of ``shape`` and ``dtype``; its elements are undefined (zeros, here).

    Operands: ``shape``, sizes or an expression of a shape. Attributes: ``dtype``; ``runtime_device_index`` and
    ``storage_scope``, Relax's place for it, which are ignored. Raises `OpTypeError` if ``shape`` is not a shape.
    """
    ...


@_stores("relax.memory.alloc_storage")
def alloc_storage(size: ShapeOperand, virtual_device_index: _Index, storage_scope: _Text, dtype: _Dtype) -> Call:
    """Memory for tensors, of ``size`` elements of ``dtype``.

    Operands: ``size``, a shape. Attributes: ``dtype``; ``virtual_device_index`` and ``storage_scope``, Relax's place
    for it, which are ignored. Result: an object. Raises `OpTypeError` if ``size`` is not a shape.
    """
    ...


@_takes("relax.memory.alloc_tensor")
def alloc_tensor_in_storage(
    storage: Expr, offset: Number, shape: ShapeOperand, dtype: _Dtype, runtime_device_ind: _Index = 0
) -> Call:
    """A tensor in a storage; its elements are undefined (zeros, here).

    Operands: ``storage``, a result of `alloc_storage`; ``offset``, its first byte there, which is ignored, since
    tensors of one storage never share memory here; ``shape``. Attributes: ``dtype``; ``runtime_device_ind``, which is
    ignored too. Raises `OpTypeError` for operands of other kinds.
    """
    ...


@_stores("relax.vm.alloc_storage", order=("dtype", "runtime_device_index", "storage_scope"))
def alloc_vm_storage(
    shape: ShapeOperand, runtime_device_index: _Index, dtype: _Dtype, storage_scope: _Text = "global"
) -> Call:
    """Memory for tensors of the machine; for the arguments see `alloc_storage`."""
    ...


@_takes("relax.vm.alloc_tensor")
def alloc_vm_tensor(
    storage: Expr, offset: Number, shape: ShapeOperand, dtype: _Dtype, runtime_device_ind: _Index = 0
) -> Call:
    """A tensor in a storage of the machine; for the arguments see `alloc_tensor_in_storage`."""
    ...


# --- the end of a value's life


def _kill(xp: Any, value: Any) -> tuple[()]:
    del xp, value
    return ()


_ends = partial(declares, infer=lambda call: TupleType(()), reference=_kill, traits=(Trait.IMPURE,))


@_ends("relax.memory.kill_storage", named={"storage": "value"})
def kill_storage(storage: Expr) -> Call:
    """Mark the end of the use of a storage, which has no effect here. Result: an empty tuple."""
    ...


@_ends("relax.memory.kill_tensor", named={"tensor": "value"})
def kill_tensor(tensor: Expr) -> Call:
    """Mark the end of the use of a tensor, which has no effect here. Result: an empty tuple."""
    ...


@_ends("relax.vm.kill_object", named={"obj": "value"})
def kill_object(obj: Expr) -> Call:
    """Mark the end of the use of a value, which has no effect here. Result: an empty tuple."""
    ...


# --- views


def _bytes(dims: tuple[Dim, ...] | None, dtype: str | None) -> int | None:
    sizes = [size for size in dims or () if isinstance(size, int)]
    if dims is None or dtype is None or len(sizes) != len(dims):
        return None
    return prod(sizes) * itemsize(dtype)


def _view_type(call: Call) -> Type:
    data = tensor_operand(call, 0)
    dtype: str | None = call.attrs.dtype or data.dtype
    offset: int = call.attrs.relative_byte_offset
    if offset < 0:
        raise wrong_attribute(call, "relative_byte_offset", "a number of bytes, at least 0")
    result = data.with_dtype(dtype) if len(call.args) == 1 else tensor_of_shape(shape_operand(call, 1), dtype)
    have, want = _bytes(data.shape, data.dtype), _bytes(result.shape, dtype)
    if have is not None and want is not None and offset + want > have:
        raise wrong_operand(call, 0, f"a tensor of at least {offset + want} bytes; it has {have}")
    return result


def _view(
    xp: Any, data: Any, shape: tuple[int, ...] | None = None, *, dtype: str | None, relative_byte_offset: int
) -> Any:
    target = data.dtype if dtype is None else namespace_dtype(xp, dtype)
    sizes = tuple(data.shape) if shape is None else tuple(shape)
    flat = xp.reshape(xp.asarray(data, copy=True), (-1,))
    uint8 = namespace_dtype(xp, "uint8")
    if is_jax_namespace(xp):
        convert = import_module("jax.lax").bitcast_convert_type
        width = xp.zeros((1,), dtype=target).itemsize
        data_bytes = xp.reshape(convert(flat, uint8), (-1,))
        taken = data_bytes[relative_byte_offset : relative_byte_offset + prod(sizes) * width]
        return xp.reshape(convert(xp.reshape(taken, (-1, width)) if width > 1 else taken, target), sizes)
    width = xp.zeros((1,), dtype=target).itemsize
    taken = flat.view(uint8)[relative_byte_offset : relative_byte_offset + prod(sizes) * width]
    taken = taken.clone() if is_torch_namespace(xp) else taken.copy()
    return xp.reshape(taken.view(target), sizes)


VIEW = primitive(
    "relax.memory.view",
    ("data", "shape?"),
    {"dtype": None, "relative_byte_offset": 0},
    infer=_view_type,
    reference=_view,
    traits=(Trait.STOPS_GRADIENT,),
)


def _missing(value: Any) -> bool:
    """True for an omitted argument: None, an empty tuple, or a value of type object that is not a dtype."""
    if value is None or (isinstance(value, Tuple) and not value.fields):
        return True
    return isinstance(value, Expr) and isinstance(value.ty, ObjectType) and not isinstance(value, DataTypeImm)


def view(data: Expr, shape: Any = None, dtype: Any = None, relative_byte_offset: Any = None) -> Call:
    """The bytes of ``data`` from an offset on, read in another shape, another dtype, or both.

    Operands: ``data``, any tensor; ``shape``, that of the result (by default that of ``data``). Attributes: ``dtype``,
    by default that of ``data``; ``relative_byte_offset``, the offset of the result, by default 0. Result: a copy of the
    elements. Raises `OpTypeError` if it reads more bytes than ``data`` has.
    """
    name = VIEW.name
    sizes = () if _missing(shape) else (as_shape_expr(shape, name),)
    offset = 0 if _missing(relative_byte_offset) else _as_index(relative_byte_offset, name, "relative_byte_offset")
    return VIEW(
        data, *sizes, dtype=None if _missing(dtype) else _as_dtype(dtype, name, "dtype"), relative_byte_offset=offset
    )


def _same(xp: Any, data: Any) -> Any:
    return xp.asarray(data, copy=True)


@declares("relax.memory.ensure_zero_offset", infer=same_type, reference=_same, traits=(Trait.STOPS_GRADIENT,))
def ensure_zero_offset(data: Expr) -> Call:
    """A copy of ``data``, which begins at offset 0 of its memory, as all tensors do here."""
    ...


# --- the machine's own functions


def _builtin_type(call: Call) -> Type:
    check_arguments(call)
    return stated_type(call)


CALL_BUILTIN_WITH_CTX = primitive(
    "relax.call_builtin_with_ctx", ("func", "args"), infer=_builtin_type, traits=(Trait.IMPURE,)
)


def call_builtin_with_ctx(
    func: Callee, args: Any, *, ty_args: Types | None = None, sinfo_args: Types | None = None
) -> Call:
    """A call of an external function to which Relax's machine passes itself first; here it only gets ``args``.

    Operands: ``func``, its registered name; ``args``, a tuple. ``ty_args``: the type of the result, by default any. The
    call is impure.
    """
    stated = ty_args is not None or sinfo_args is not None
    types = one_of(CALL_BUILTIN_WITH_CTX.name, ty_args, sinfo_args) if stated else (OBJECT,)
    return Call(CALL_BUILTIN_WITH_CTX, (as_callee(func), as_packed_arguments(args)), None, types)
