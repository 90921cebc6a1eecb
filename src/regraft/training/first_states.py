"""The states that an optimizer begins with, described: attributes of a module, from which arrays and programs are made.

A description is small whatever the sizes, can be printed and read back, and lets an engine make the states where they
are to stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import op as ops
from ..ir.builder import BlockBuilder
from ..ir.dtypes import as_dtype, numpy_dtype
from ..ir.expr import Expr, ShapeExpr, Tuple, const
from ..ir.program import Function
from ..run.relax_values import Tensor


class FirstState(NamedTuple):
    """A state: its dtype, its sizes, and the number that it holds throughout, or all of its numbers in order."""

    dtype: str
    shape: tuple[int, ...]
    fill: float | tuple[float, ...]

    def numpy(self) -> np.ndarray:
        """A new array of what the state holds."""
        return _array(*self)


def states_of(arrays: Iterable[Any]) -> tuple[FirstState, ...]:
    """The description of arrays, of NumPy or with a method ``numpy``."""
    found: list[FirstState] = []
    for value in arrays:
        array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
        numbers = tuple(array.astype(array.dtype if array.dtype.kind in "biu" else "float64").ravel().tolist())
        fill = numbers[0] if numbers and len(set(numbers)) == 1 else numbers
        found.append(FirstState(as_dtype(array.dtype), array.shape, fill))
    return tuple(found)


def arrays_of(states: Sequence[FirstState]) -> tuple[Tensor, ...]:
    """New arrays of what the states hold."""
    return tuple([_array(*state).view(Tensor) for state in states])


def state_function(name: str, states: Sequence[FirstState]) -> Function:
    """A program ``name`` without parameters that gives the states as a tuple, on any engine."""
    builder = BlockBuilder()
    with builder.function(name, []):
        with builder.dataflow():
            values = [builder.emit(_value(*state)) for state in states]
            result = builder.emit_output(Tuple(values))
        builder.emit_func_output(result)
    return builder.get()[name]


def _array(dtype: str, shape: Sequence[int], fill: float | tuple[float, ...]) -> np.ndarray:
    if isinstance(fill, tuple):
        return np.array(fill).astype(numpy_dtype(dtype)).reshape(tuple(shape))
    return np.full(tuple(shape), fill, numpy_dtype(dtype)) if fill else np.zeros(tuple(shape), numpy_dtype(dtype))


def _value(dtype: str, shape: Sequence[int], fill: float | tuple[float, ...]) -> Expr:
    if isinstance(fill, tuple):
        return const(_array(dtype, shape, fill))
    return ops.full(ShapeExpr(shape), const(fill, dtype))
