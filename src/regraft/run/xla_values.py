"""Values of a program taken apart into arrays, which XLA computes with, and the rest, which it compiles in.

Sizes, scalars, strings and functions are known when a program is compiled; tensors are not. `dissect` and `assemble`
turn nested tuples of both into a list of arrays and a template, and back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, final

import numpy as np

from ..ir.types import TensorType
from .arrays import dtype_name, take_array
from .xla_library import jax

_TUPLE: Final[type[Any]] = tuple


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
    return dtype_name(value) if is_array(value) else None


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


def take_tensor(value: Any, ty: TensorType, place: str) -> Any:
    """A tensor argument as the engine takes it: arrays of JAX stay, others become NumPy's."""
    return value if isinstance(value, jax.Array) else take_array(value, ty, place)
