"""Calls of `loop` in the text of engines that run Python.

The body is a function in the text. The call also passes known facts: the shapes of the rows to stack, for a loop of no
steps, and whether the body reads the number of the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..analysis import used_vars
from ..ir.dims import Dim
from ..ir.expr import Var
from ..ir.op import Call
from ..ir.types import UNKNOWN_NDIM, TensorType
from ..op.primitive.loop import LOOP, loop_types
from .python_source import called

if TYPE_CHECKING:
    from .function_writer import FunctionWriter


def write_loop(writer: FunctionWriter, call: Call) -> str:
    """The text of a call of `loop`, which calls the helper of that name."""
    arguments = writer.operands(call.args)
    arguments += ["None"] * (len(LOOP.operands) - len(arguments))
    types, body = loop_types(call), call.args[0]
    function = writer.inner.get(body) if isinstance(body, Var) else None
    if function is not None and function.params[0] not in used_vars(function):
        arguments.append("numbered=False")
    if types.rows:
        arguments.append(f"rows=({', '.join([_row(writer, row) for row in types.rows])},)")
    return called("loop", *arguments)


def _row(writer: FunctionWriter, row: TensorType) -> str:
    rank = 0 if row.ndim == UNKNOWN_NDIM else row.ndim
    shape: tuple[Dim, ...] = (0,) * rank if row.shape is None else row.shape
    return f"({writer.shape(shape)}, {row.dtype or 'float32'!r})"


def loop_over(xp: Any) -> Callable[..., Any]:
    """The helper ``loop`` by the reference semantics, over the namespace ``xp``."""
    reference = LOOP.reference
    assert reference is not None

    def loop(*operands: Any, rows: Any = (), numbered: bool = True) -> tuple[Any, ...]:
        return reference(xp, *operands, rows)

    return loop
