"""Values in words, for messages: on one line and not too long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..analysis.values import Definitions, definition
from ..ir.expr import Expr, Tuple, TupleGetItem, Var
from ..ir.op import Call, Op

Reason: TypeAlias = "tuple[str, str]"
"""A kind of reason, which programs can test for (`reasons.KINDS`), and a sentence for people."""


def show(expr: Any) -> str:
    """A value as it is written."""
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
    """A value with what it is bound to."""
    value = definition(definitions, leaf)
    return show(leaf) if value is leaf else f"{show(leaf)} = {show(value)}"


def counted(count: int, noun: str) -> str:
    """``count`` things, of which one is a ``noun``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
