"""Values of a program split into arrays, which XLA computes with, and the rest, which is compiled in.

Sizes, scalars, strings and functions are known when a program is compiled; tensors are not. `dissect` and `assemble`
convert nested tuples of both into a list of arrays and a template, and back.
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
    """The placeholder of an array in a template."""

    def __repr__(self) -> str:
        return "array"


ARRAY: Final = _Array()


class CompiledValue(NamedTuple):
    """A value that is compiled in; with its type, because ``1 == True == 1.0``."""

    kind: type[Any]
    value: Any


def is_array(value: object) -> bool:
    """True if ``value`` is an array, traced or concrete."""
    return isinstance(value, jax.Array | np.ndarray | np.generic)


def array_dtype(value: Any) -> str | None:
    """The Relax name of the dtype of an array; None for anything else."""
    return dtype_name(value) if is_array(value) else None


def dissect(value: Any, arrays: list[Any]) -> Any:
    """The template of ``value``; its arrays are appended to ``arrays``."""
    if is_array(value):
        arrays.append(value)
        return ARRAY
    if isinstance(value, _TUPLE):
        return tuple([dissect(item, arrays) for item in value])
    return CompiledValue(type(value), value)


def assemble(template: Any, arrays: Iterator[Any]) -> Any:
    """The value for ``template``, with the next of ``arrays`` in its places."""
    if template is ARRAY:
        return next(arrays)
    if isinstance(template, CompiledValue):
        return template.value
    return tuple([assemble(item, arrays) for item in template])


def take_tensor(value: Any, ty: TensorType, place: str) -> Any:
    """A tensor argument in the engine's form: JAX arrays stay, others become NumPy arrays."""
    return value if isinstance(value, jax.Array) else take_array(value, ty, place)
