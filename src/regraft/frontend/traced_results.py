"""The results of a traced model as it returns them: tuples in tuples, and what an operator gives as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..analysis import remove_all_unused
from ..ir.builder import NameSupply
from ..ir.expr import Expr, Tuple, TupleGetItem, Var
from ..ir.program import DataflowBlock, Function, SeqExpr, VarBinding
from ..ir.types import TupleType
from ..ir.visitor import iter_bindings


def with_results_as_traced(function: Function, structure: Any) -> Function:
    """``function``, whose results are flat, with results in the form of ``structure``, a `TreeSpec` of PyTorch's.

    A tuple of all that an operator gives, in order, is that operator's result.
    """
    result = function.body.body
    flat = list(result.fields) if isinstance(result, Tuple) else [result]
    if structure.num_leaves != len(flat):
        return function
    values = {binding.var: binding.value for binding in iter_bindings(function) if isinstance(binding, VarBinding)}
    whole = _in_form(structure, iter([_first_name(field, values) for field in flat]), values)
    if not isinstance(whole, Var) or not isinstance(whole.ty, TupleType) or not function.body.blocks:
        if not isinstance(whole, Tuple) or all(not isinstance(field, Tuple) for field in whole.fields):
            return function
        return remove_all_unused(function.with_body(SeqExpr(function.body.blocks, whole), whole.ty))
    names = NameSupply(binding.var.name_hint for binding in iter_bindings(function))
    named = Var(names.fresh("gv"), whole.ty)
    *blocks, last = function.body.blocks
    kind = DataflowBlock if isinstance(last, DataflowBlock) else type(last)
    body = SeqExpr([*blocks, kind([*last.bindings, VarBinding(named, whole)])], named)
    return remove_all_unused(function.with_body(body, named.ty))


def _first_name(expr: Expr, values: dict[Var, Expr]) -> Expr:
    while isinstance(expr, Var) and isinstance(value := values.get(expr), Var):
        expr = value
    return expr


def _in_form(structure: Any, flat: Iterator[Expr], values: dict[Var, Expr]) -> Expr:
    if structure.is_leaf():
        return next(flat)
    fields = [_in_form(child, flat, values) for child in structure.children()]
    whole = _taken_apart(fields, values)
    return Tuple(fields) if whole is None else whole


def _taken_apart(fields: list[Expr], values: dict[Var, Expr]) -> Expr | None:
    """The tuple whose fields, all and in order, the expressions are; None if there is none."""
    taken = [values.get(field) if isinstance(field, Var) else None for field in fields]
    first = taken[0] if taken else None
    if not isinstance(first, TupleGetItem) or not isinstance(first.tuple_value.ty, TupleType):
        return None
    in_order = all(
        isinstance(value, TupleGetItem) and value.tuple_value is first.tuple_value and value.index == index
        for index, value in enumerate(taken)
    )
    return first.tuple_value if in_order and len(first.tuple_value.ty.fields) == len(fields) else None
