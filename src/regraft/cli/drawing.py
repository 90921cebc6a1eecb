"""Small graphs as text: a tree of values, each with its operands below it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rich.text import Text
from rich.tree import Tree

from . import console

if TYPE_CHECKING:
    from ..ir.expr import Expr, Var
    from ..ir.module import IRModule
    from ..ir.program import Function
    from ..rewrite import Miss

SMALL: Final = 30
"""The largest number of bindings of a function that is drawn whole."""
_AROUND: Final = 3
_MOST_OPERANDS: Final = 12


def draw_function(function: Function) -> None:
    """Draw a function from its results down to its parameters; a value that is read twice is drawn once."""
    from ..ir.expr import Tuple

    values = _definitions(function)
    result = function.body.body
    tree = Tree(Text(f"{function.name or 'main'} gives", style="bold"))
    drawn: set[Var] = set()
    for field in result.fields if isinstance(result, Tuple) else (result,):
        _grow(tree, field, values, drawn, depth=len(values) + 1, marks={})
    console.print_tree(tree)


def draw_miss(program: Function | IRModule, miss: Miss) -> None:
    """Draw the values around a near miss, with the part that failed marked."""
    values = _definitions(program)
    marks = {miss.site.var: f"✕ {miss.kind} at {miss.place}"}
    if miss.tried is not None and miss.tried is not miss.site.var:
        marks[miss.tried] = "? came closest"
    tree = Tree(Text(f"  around the nearest miss, {miss.site.var.name_hint}", style="dim"))
    for var in marks:
        _grow(tree, var, values, set(), depth=_AROUND, marks=marks)
    console.print_tree(tree)


def _definitions(program: Function | IRModule) -> dict[Var, Expr]:
    from ..ir.visitor import iter_bindings

    return {binding.var: binding.value for binding in iter_bindings(program)}


def _grow(
    tree: Tree, value: Expr, values: Mapping[Var, Expr], drawn: set[Var], depth: int, marks: Mapping[Var, str]
) -> None:
    """Add ``value`` to ``tree``, and its operands below it, ``depth`` levels down."""
    from ..ir.expr import Var

    pending: list[tuple[Tree, Expr, int]] = [(tree, value, depth)]
    while pending:
        parent, current, left = pending.pop()
        label = _label(current, values, marks)
        if isinstance(current, Var) and current in drawn:
            label.append("  ↑ above", style="dim")
            parent.add(label)
            continue
        branch = parent.add(label)
        if not isinstance(current, Var) or current not in values:
            continue
        drawn.add(current)
        if left > 0:
            pending.extend((branch, operand, left - 1) for operand in reversed(_operands(values[current])))


def _label(value: Expr, values: Mapping[Var, Expr], marks: Mapping[Var, str]) -> Text:
    from ..ir.expr import Constant, TupleGetItem, Var
    from ..ir.op import Call, Op
    from ..model.models import type_text

    if isinstance(value, Constant) and value.data.size > 1:
        return Text(console.visible(f"{value.data.name or 'constant'}: {type_text(value.ty)}"), style="dim")
    if not isinstance(value, Var):
        return Text(repr(value)[:80], style="dim")
    bound = values.get(value)
    if bound is None:
        what = "parameter"
    elif isinstance(bound, Call):
        what = bound.op.name.removeprefix("relax.") if isinstance(bound.op, Op) else "call"
    elif isinstance(bound, Var):
        what = "="
    elif isinstance(bound, TupleGetItem):
        what = f"item {bound.index}"
    else:
        what = type(bound).__name__.lower()
    text = Text.assemble((what, "bold"), console.visible(f" {value.name_hint}: "), (type_text(value.ty), "cyan"))
    if value in marks:
        text.append(f"  {marks[value]}", style="bold red")
    return text


def _operands(value: Expr) -> list[Expr]:
    """The operands of a value, including tensors written in place; sizes and other attributes are left out."""
    from ..ir.expr import Constant, Tuple, Var
    from ..ir.visitor import parts_of

    found: list[Expr] = []
    pending: list[object] = [value] if isinstance(value, Var) else list(reversed(parts_of(value)))
    while pending and len(found) < _MOST_OPERANDS:
        part = pending.pop()
        if isinstance(part, Var | Constant):
            found.append(part)
        elif isinstance(part, Tuple):
            pending.extend(reversed(part.fields))
    return found
