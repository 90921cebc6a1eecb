"""Descriptions of the initial states of an optimizer: attributes of a module, from which arrays and programs are made.

A description is small for tensors of any size, and can be printed and parsed. It lets an engine create the states on
the device where they stay.
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
from ..ir.types import TensorType
from ..run.relax_values import Tensor


class FirstState(NamedTuple):
    """A state: its dtype, its sizes, and either the one number that fills it or all of its numbers in order."""

    dtype: str
    shape: tuple[int, ...]
    fill: float | tuple[float, ...] = 0.0

    @property
    def ty(self) -> TensorType:
        """The type of the state."""
        return TensorType(self.shape, self.dtype)

    def numpy(self) -> np.ndarray:
        """A new array with the values of the state."""
        dtype = numpy_dtype(self.dtype)
        if isinstance(self.fill, tuple):
            return np.array(self.fill).astype(dtype).reshape(self.shape)
        return np.full(self.shape, self.fill, dtype) if self.fill else np.zeros(self.shape, dtype)

    def expr(self) -> Expr:
        """The values of the state as an expression."""
        if isinstance(self.fill, tuple):
            return const(self.numpy())
        return ops.full(ShapeExpr(self.shape), const(self.fill, self.dtype))


def sizes_of(ty: TensorType) -> tuple[int, ...]:
    """The shape of a tensor of known sizes."""
    return tuple([dim for dim in ty.shape or () if isinstance(dim, int)])


def states_of(arrays: Iterable[Any]) -> tuple[FirstState, ...]:
    """The descriptions of arrays. Each is a NumPy array or has a method ``numpy``."""
    found: list[FirstState] = []
    for value in arrays:
        array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
        numbers = tuple(array.astype(array.dtype if array.dtype.kind in "biu" else "float64").ravel().tolist())
        fill = numbers[0] if numbers and len(set(numbers)) == 1 else numbers
        found.append(FirstState(as_dtype(array.dtype), array.shape, fill))
    return tuple(found)


def arrays_of(states: Sequence[FirstState]) -> tuple[Tensor, ...]:
    """New arrays with the values of the states."""
    return tuple([FirstState(*state).numpy().view(Tensor) for state in states])


def state_function(name: str, states: Sequence[FirstState]) -> Function:
    """A program ``name`` without parameters that returns the states as a tuple. It runs on any engine."""
    builder = BlockBuilder()
    with builder.function(name, []):
        with builder.dataflow():
            values = [builder.emit(FirstState(*state).expr()) for state in states]
            result = builder.emit_output(Tuple(values))
        builder.emit_func_output(result)
    return builder.get()[name]
