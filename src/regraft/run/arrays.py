"""Values that enter and leave an executable: objects with ``__array__`` or DLPack come in, NumPy arrays go out.

Nothing is converted from one dtype to another here, with one exception: Python numbers and lists of them, which have no
dtype, get the dtype of their parameter if it can hold them. Arrays are shared with the caller, not copied, if the other
library allows it. This module uses the language's types; it imports no framework.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np

from ..ir.dtypes import as_dtype, numpy_dtype
from ..ir.errors import IRError
from ..ir.expr import Constant, Var
from ..ir.module import IRModule
from ..ir.tensor_data import as_array
from ..ir.types import FuncType, PrimType, ShapeType, TensorType, TupleType, Type
from .errors import BuildError, ExecutionError, TypeCheckError, kind_of

BYTES_FOR_BITS: Final = {
    **dict.fromkeys(("int2", "int4"), "int8"),
    **dict.fromkeys(("uint2", "uint4"), "uint8"),
}
"""The dtypes that represent integers narrower than a byte in libraries without such tensors."""

_KINDS: Final = "biufc"


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray | np.generic)


def is_sequence(value: object) -> bool:
    """True if ``value`` represents a tuple of the language."""
    return isinstance(value, tuple | list)


def array_dtype(value: Any) -> str | None:
    """The Relax name of the dtype of a NumPy array or scalar; None for anything else."""
    return dtype_name(value) if _is_array(value) else None


def dtype_name(array: Any) -> str:
    """The Relax name of an array's dtype; the dtype's own name if Relax has no name for it."""
    try:
        return as_dtype(array.dtype)
    except IRError:
        return str(array.dtype)


TakeTensor: TypeAlias = Callable[[Any, TensorType, str], Any]
"""``take(value, ty, place)``: a tensor argument in the engine's form; raises `TypeCheckError`, which names ``place``.

It does not check shapes and dtypes of arrays.
"""


def take_array(value: Any, ty: TensorType, place: str) -> np.ndarray:
    """A tensor argument as a NumPy array: see `TakeTensor`."""
    return value if type(value) is np.ndarray else _as_tensor(value, ty.dtype, place)


def check_donated(donated: Collection[str], module: IRModule) -> None:
    """Raise `BuildError` for a name in ``donated`` that is not the name of a parameter in ``module``."""
    known = {param.name_hint for function in module.functions.values() for param in function.params}
    for given in donated:
        if given not in known:
            raise BuildError(f"donate: there is no parameter {given!r}; there are: {', '.join(sorted(known))}")


class Signature:
    """The parameters of a function of an executable: their number, their names and their types."""

    __slots__ = ("_params", "_take", "_text")

    def __init__(self, name: str, params: Sequence[Var], take: TakeTensor = take_array) -> None:
        self._params: Final = [(param.ty, f"{name}: parameter {param.name_hint}") for param in params]
        self._take: Final = take
        self._text: Final = f"{name}({', '.join([param.name_hint for param in params])})"

    def values(self, arguments: Sequence[Any]) -> list[Any]:
        """The arguments of a call in the engine's form.

        Raises `ExecutionError` for a wrong number of arguments, and the errors of `as_argument`.
        """
        if len(arguments) != len(self._params):
            raise ExecutionError(f"{self._text} takes {len(self._params)} arguments, but got {len(arguments)}")
        pairs = zip(arguments, self._params, strict=True)
        return [as_argument(value, ty, place, self._take) for value, (ty, place) in pairs]


def as_argument(value: Any, ty: Type, place: str, take: TakeTensor = take_array) -> Any:
    """``value`` in the form of an engine that takes tensors by ``take``, for a parameter of type ``ty``.

    Tuples become tuples, shapes tuples of ints, scalars Python numbers; for an ``Object`` the value stays unchanged.
    Raises `TypeCheckError`, which names ``place``.
    """
    match ty:
        case TensorType():
            return take(value, ty, place)
        case TupleType():
            if not is_sequence(value):
                raise TypeCheckError(
                    f"{place} is {kind_of(value)}; expected a tuple or list of {len(ty.fields)} fields"
                )
            if len(value) != len(ty.fields):
                raise TypeCheckError(f"{place} has {len(value)} fields; expected {len(ty.fields)}")
            pairs = enumerate(zip(value, ty.fields, strict=True))
            return tuple([as_argument(field, expected, f"{place}[{i}]", take) for i, (field, expected) in pairs])
        case ShapeType():
            return _as_shape(value, place)
        case PrimType():
            return _as_scalar(value, ty, place)
        case FuncType():
            if not callable(value):
                raise TypeCheckError(f"{place} is {kind_of(value)}; expected a function")
            return value
        case _:
            return value


def as_result(value: Any) -> Any:
    """A value of a NumPy engine as the caller receives it: arrays (also of rank 0), tuples, and Python numbers."""
    if _is_array(value):
        return np.asarray(value)
    if is_sequence(value):
        return tuple([as_result(field) for field in value])
    return value


def _as_tensor(value: Any, dtype: str | None, place: str) -> np.ndarray:
    if isinstance(value, np.ma.MaskedArray):
        raise TypeCheckError(f"{place} is a masked array, and its mask would be lost; fill it first: x.filled(0)")
    if _is_array(value):
        return np.asarray(value)
    if isinstance(value, Constant):
        return value.data.numpy()
    if isinstance(value, bool | int | float | complex | list | tuple):
        return _from_numbers(value, dtype, place)
    torch = sys.modules.get("torch")
    try:
        if torch is not None and isinstance(value, torch.Tensor):
            return _from_torch(value)
        if hasattr(value, "__array__"):
            return np.asarray(value)
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
    except Exception as error:
        raise TypeCheckError(f"{place}: {kind_of(value)} gives no NumPy array: {error}") from error
    raise TypeCheckError(f"{place} is {kind_of(value)}; expected an array (NumPy, __array__ or DLPack) or numbers")


def _from_torch(value: Any) -> np.ndarray:
    # The converter imports PyTorch, which is loaded already if there is such a tensor.
    from ..formats.torch.tensors import to_numpy

    if value.device.type != "cpu":
        raise TypeError(f"it is on {value.device}; move it first: x.cpu()")
    return to_numpy(value, "it")


def _from_numbers(value: Any, dtype: str | None, place: str) -> np.ndarray:
    try:
        natural = np.asarray(value)
    except ValueError as error:
        raise TypeCheckError(f"{place}: these lists form no tensor: {error}") from None
    if natural.dtype.kind not in _KINDS:
        raise TypeCheckError(f"{place} is {value!r}; expected numbers")
    if dtype is None:
        return as_array(value)
    target = numpy_dtype(dtype)
    if natural.size == 0:
        return natural.astype(target)
    if not _holds(natural, dtype):
        raise TypeCheckError(f"{place} is {value!r}, which {dtype} cannot hold; convert it first")
    return natural.astype(target)


def _holds(natural: np.ndarray, dtype: str) -> bool:
    """True if Python numbers fit ``dtype``: bools only bool, ints a numeric dtype that holds them, floats a floating
    or complex one, complex numbers a complex one.
    """
    kind = natural.dtype.kind
    if dtype == "bool" or kind == "b":
        return kind == "b" and dtype == "bool"
    if dtype.startswith("complex"):
        return True
    if "float" in dtype:
        return kind in "iuf"
    if kind not in "iu":
        return False
    limits: Any = ml_dtypes.iinfo(numpy_dtype(dtype)) if dtype.endswith(("int2", "int4")) else np.iinfo(dtype)
    return limits.min <= natural.min() and natural.max() <= limits.max


def _as_shape(value: Any, place: str) -> tuple[int, ...]:
    try:
        sizes = tuple([operator.index(size) for size in value])
    except TypeError:
        raise TypeCheckError(f"{place} is {value!r}; expected a shape, a sequence of ints") from None
    if any(size < 0 for size in sizes):
        raise TypeCheckError(f"{place} is {sizes}; expected sizes that are 0 or more")
    return sizes


def _as_scalar(value: Any, ty: PrimType, place: str) -> int | float | bool:
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if ty.dtype == "bool" and isinstance(value, bool):
        return value
    if "float" in ty.dtype and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if "int" in ty.dtype and hasattr(value, "__index__") and not isinstance(value, bool):
        return operator.index(value)
    raise TypeCheckError(f"{place} is {value!r}; expected a Python number of {ty.dtype}")
