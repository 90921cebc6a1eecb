"""Values of a program taken apart into arrays, which XLA computes with, and the rest, which it compiles in.

Sizes, scalars, strings and functions are known when a program is compiled; tensors are not. `dissect` and `assemble`
turn nested tuples of both into a list of arrays and a template, and back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, final

import numpy as np

from ..ir.dtypes import as_dtype
from ..ir.errors import IRError
from ..ir.types import TensorType, TupleType, Type
from .arrays import as_argument as as_numpy_argument
from .xla_library import jax

_TUPLE: Final[type[Any]] = tuple
_SEQUENCE: Final[Any] = (tuple, list)


@final
class _Array:
    """The mark of an array's place in a template."""

    def __repr__(self) -> str:
        return "array"


ARRAY: Final = _Array()


class CompiledValue(NamedTuple):
    """A value that is compiled in; with its type, since ``1 == True == 1.0``."""

    kind: type[Any]
    value: Any


def is_array(value: object) -> bool:
    """True if ``value`` is an array, traced or with numbers."""
    return isinstance(value, jax.Array | np.ndarray | np.generic)


def array_dtype(value: Any) -> str | None:
    """The Relax name of the dtype of an array; None for anything else."""
    if not is_array(value):
        return None
    try:
        return as_dtype(value.dtype)
    except IRError:
        return str(value.dtype)


def dissect(value: Any, arrays: list[Any]) -> Any:
    """A template of ``value``, whose arrays go to the end of ``arrays``."""
    if is_array(value):
        arrays.append(value)
        return ARRAY
    if isinstance(value, _TUPLE):
        return tuple([dissect(item, arrays) for item in value])
    return CompiledValue(type(value), value)


def assemble(template: Any, arrays: Iterator[Any]) -> Any:
    """The value that ``template`` was made of, with the next of ``arrays`` in it."""
    if template is ARRAY:
        return next(arrays)
    if isinstance(template, CompiledValue):
        return template.value
    return tuple([assemble(item, arrays) for item in template])


def as_argument(value: Any, ty: Type, place: str) -> Any:
    """``value`` as the engine takes it for a parameter of type ``ty``: arrays of JAX stay, others become NumPy's.

    Shapes and dtypes are not looked at. Raises `TypeCheckError`, which names ``place``.
    """
    if isinstance(ty, TensorType) and isinstance(value, jax.Array):
        return value
    if isinstance(ty, TupleType) and isinstance(value, _SEQUENCE) and len(value) == len(ty.fields):
        pairs = enumerate(zip(value, ty.fields, strict=True))
        return tuple([as_argument(field, expected, f"{place}[{i}]") for i, (field, expected) in pairs])
    return as_numpy_argument(value, ty, place)
