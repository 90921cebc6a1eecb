"""The results of a traced model in the model's own form: nested tuples, and whole results of operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch.export.graph_signature import ConstantArgument, OutputKind

from ..analysis import get_var2val, remove_all_unused
from ..ir.builder import NameSupply
from ..ir.expr import DataflowVar, Expr, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var, const
from ..ir.op import Call
from ..ir.program import BindingBlock, DataflowBlock, Function, SeqExpr, VarBinding
from ..ir.types import TensorType, TupleType
from ..ir.visitor import iter_bindings
from ..op import null_value


def with_all_results(function: Function, program: torch.export.ExportedProgram, *, nested: bool) -> Function:
    """``function``, which returns only the tensors of ``program``, with all results of the program.

    The results are nested as in the program, or without ``nested`` in one tuple. A size becomes a scalar, a whole shape
    a shape, and None a null value. If results are ``nested``, a tuple of all fields of an operator's result, in order,
    becomes that result.
    """
    result = function.body.body
    tensors = list(result.fields) if isinstance(result, Tuple) else [result]
    results = [spec.arg for spec in program.graph_signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
    if len(tensors) != sum(not isinstance(one, ConstantArgument) for one in results):
        return function
    names = NameSupply(binding.var.name_hint for binding in iter_bindings(function))
    values = get_var2val(function)
    left = iter([_first_name(tensor, values) for tensor in tensors])
    nulls: list[VarBinding] = []
    flat: list[Expr] = []
    for one in results:
        value = _plain(one.value) if isinstance(one, ConstantArgument) else next(left)
        if isinstance(value, Call):  # fields of a result are variables
            nulls.append(VarBinding(DataflowVar(names.fresh("lv"), value.ty), value))
            value = nulls[-1].var
        flat.append(value)
    whole = _in_form(cast(Any, program).call_spec.out_spec, iter(flat), values) if nested else Tuple(flat)
    if len(flat) == len(tensors) and _is_flat(whole):
        return remove_all_unused(function)
    more = list(nulls)
    if not isinstance(whole, Tuple) or isinstance(whole.ty, TupleType):
        more.append(VarBinding(Var(names.fresh("gv"), whole.ty), whole))
        whole = more[-1].var
    return remove_all_unused(function.with_body(SeqExpr(_with_bindings(function, more), whole), whole.ty))


def _is_flat(whole: Expr) -> bool:
    """True for a tensor, and for a tuple without tuples inside."""
    if isinstance(whole, Tuple):
        return not any(isinstance(field.ty, TupleType) for field in whole.fields)
    return isinstance(whole.ty, TensorType)


def _with_bindings(function: Function, more: list[VarBinding]) -> list[BindingBlock]:
    """The blocks of ``function`` with ``more`` bindings at the end of the last one."""
    if not more:
        return list(function.body.blocks)
    *blocks, last = function.body.blocks or (DataflowBlock([]),)
    return [*blocks, type(last)([*last.bindings, *more])]


def _plain(value: Any) -> Expr:
    """The expression for a result that is not a tensor."""
    if value is None:
        return null_value()
    return const(value, "bool") if isinstance(value, bool) else PrimValue(value)


def _first_name(expr: Expr, values: dict[Var, Expr]) -> Expr:
    while isinstance(expr, Var) and isinstance(value := values.get(expr), Var):
        expr = value
    return expr


def _in_form(structure: Any, flat: Iterator[Expr], values: dict[Var, Expr]) -> Expr:
    if structure.is_leaf():
        return next(flat)
    fields = [_in_form(child, flat, values) for child in structure.children()]
    if structure.type is torch.Size:
        return ShapeExpr([cast(Any, field).value for field in fields])
    whole = _taken_apart(fields, values)
    return Tuple(fields) if whole is None else whole


def _taken_apart(fields: list[Expr], values: dict[Var, Expr]) -> Expr | None:
    """The tuple of which ``fields`` are all fields, in order; None if there is none."""
    taken = [values.get(field) if isinstance(field, Var) else None for field in fields]
    first = taken[0] if taken else None
    if not isinstance(first, TupleGetItem) or not isinstance(first.tuple_value.ty, TupleType):
        return None
    in_order = all(
        isinstance(value, TupleGetItem) and value.tuple_value is first.tuple_value and value.index == index
        for index, value in enumerate(taken)
    )
    return first.tuple_value if in_order and len(first.tuple_value.ty.fields) == len(fields) else None
