"""Short texts of values, for messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..analysis.values import Definitions, definition
from ..ir.expr import Expr, Tuple, TupleGetItem, Var
from ..ir.op import Call, Op

Reason: TypeAlias = "tuple[str, str]"
"""A kind of reason (`reasons.KINDS`), for programs, and a sentence, for people."""


def show(expr: Any) -> str:
    """The text of a value: a variable by its name, a call with its operands."""
    if isinstance(expr, Var):
        return expr.name_hint
    if isinstance(expr, Op):
        return expr.name.removeprefix("relax.")
    if isinstance(expr, Call):
        return f"{show(expr.op)}({', '.join(show(arg) for arg in expr.args)})"
    if isinstance(expr, Tuple):
        return f"({', '.join(first_few(expr.fields))})"
    if isinstance(expr, TupleGetItem):
        return f"{show(expr.tuple_value)}[{expr.index}]"
    text = repr(expr)
    return text if len(text) <= 80 else text[:77] + "..."


def first_few(values: Sequence[Expr], text: Callable[[Expr], str] = show) -> list[str]:
    """The texts of up to four of ``values``, and dots for more."""
    return [*map(text, values[:4]), *["..."] * (len(values) > 4)]


def show_bound(leaf: Expr, definitions: Definitions) -> str:
    """The text of a leaf and, for a bound variable, of its value."""
    value = definition(definitions, leaf)
    return show(leaf) if value is leaf else f"{show(leaf)} = {show(value)}"


def counted(count: int, noun: str) -> str:
    """``count`` and ``noun``, in the plural unless the count is 1."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
