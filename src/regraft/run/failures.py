"""The place of a failed run: from the traceback of an error to the binding, its line of text and its operands.

Nothing is recorded for this while a program runs; the cost arises only if there is an error.
"""

from __future__ import annotations

import sys
from traceback import walk_tb
from typing import Any, Final

from ..analysis.uses import variables_of
from ..ir.expr import Expr, ExternFunc
from ..ir.op import Call, Op
from ..op.semantics import dtype_name
from .errors import AssertionFailedError, ExecutionError
from .python_source import PythonModule

_MOST_OPERANDS: Final = 8
_MOST_TEXT: Final = 160
_TUPLE: Final[type[Any]] = tuple


def located(program: PythonModule, entry: str, error: Exception) -> ExecutionError:
    """``error``, raised in function ``entry``, with the operator, binding and operands of the place where it was
    raised.
    """
    if isinstance(error, RecursionError):
        limit = sys.getrecursionlimit()
        return ExecutionError(
            f"{entry}: the functions call each other deeper than Python's limit of {limit} frames; "
            f"sys.setrecursionlimit raises it"
        )
    where = None
    for frame, line in walk_tb(error.__traceback__):
        if frame.f_code.co_filename == program.filename and line in program.places:
            where = frame, line
    if where is None:
        return ExecutionError(f"{entry}: {_reason(error)}")
    frame, line = where
    place = program.places[line]
    text = program.source.splitlines()[line - 1].strip()
    lines = [f"{place.function}: {_what(place.value)} failed: {_reason(error)}", f"  at: {_shortened(text)}"]
    operands = [
        f"{name}: {describe_value(frame.f_locals[name])}"
        for name in (place.names[var] for var in variables_of(place.value) if var in place.names)
        if name in frame.f_locals
    ]
    if operands:
        more = f", and {len(operands) - _MOST_OPERANDS} more" if len(operands) > _MOST_OPERANDS else ""
        lines.append(f"  operands: {', '.join(operands[:_MOST_OPERANDS])}{more}")
    if place.var is not None and place.var.origins:
        lines.append(f"  from: {', '.join(map(str, place.var.origins))}")
    kind = AssertionFailedError if isinstance(error, AssertionFailedError) else ExecutionError
    return kind("\n".join(lines))


def describe_value(value: Any) -> str:
    """A value for messages: dtype and shape of an array, the fields of a tuple, any other value as it is."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{dtype_name(value.dtype)} {tuple(value.shape)}"
    if isinstance(value, _TUPLE):
        texts = [describe_value(field) for field in value[:_MOST_OPERANDS]]
        return f"({', '.join(texts)}{', ...' if len(value) > _MOST_OPERANDS else ''})"
    return _shortened(repr(value))


def _what(value: Expr) -> str:
    if not isinstance(value, Call):
        return "running"
    if isinstance(value.op, Op):
        inner = value.args[0] if value.args else None
        return f"{value.op.name} of {inner.global_symbol!r}" if isinstance(inner, ExternFunc) else value.op.name
    if isinstance(value.op, ExternFunc):
        return f"call_packed of {value.op.global_symbol!r}"
    return "a call"


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, ExecutionError) else f"{type(error).__name__}: {error}"


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 4]} ..."
