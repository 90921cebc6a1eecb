"""Calls of `loop` in the text of engines that run Python.

The body is a function of the text. What the function's types say goes along: the shapes of what is stacked, for a loop
that makes no step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..ir.dims import Dim
from ..ir.op import Call
from ..ir.types import UNKNOWN_NDIM, TensorType
from ..op.primitive.loop import LOOP, loop_types

if TYPE_CHECKING:
    from .function_writer import FunctionWriter


def write_loop(writer: FunctionWriter, call: Call) -> str:
    """The text of a call of `loop`, by the helper of that name."""
    arguments = writer.operands(call.args)
    arguments += ["None"] * (len(LOOP.operands) - len(arguments))
    types = loop_types(call)
    if types.rows:
        arguments.append(f"rows=({', '.join([_row(writer, row) for row in types.rows])},)")
    return f"loop({', '.join(arguments)})"


def _row(writer: FunctionWriter, row: TensorType) -> str:
    rank = 0 if row.ndim == UNKNOWN_NDIM else row.ndim
    shape: tuple[Dim, ...] = (0,) * rank if row.shape is None else row.shape
    return f"({writer.shape(shape)}, {row.dtype or 'float32'!r})"


def loop_over(xp: Any) -> Callable[..., Any]:
    """The helper ``loop`` by the reference semantics, over the namespace ``xp``."""
    assert LOOP.reference is not None
    return partial(LOOP.reference, xp)
