"""The tuple that an imported function returns, in the form of Relax's importers."""

from __future__ import annotations

from ..ir.builder import NameSupply
from ..ir.expr import Constant, DataflowVar, Expr, Tuple, Var
from ..ir.mutator import NewDefinitions
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, SeqExpr, VarBinding
from ..ir.types import TupleType
from ..ir.visitor import iter_bindings, walk


def returning_a_tuple(function: Function, *, bound: bool) -> Function:
    """``function`` with a tuple of its results as its result. ``bound`` binds the tuple to a variable."""
    result = function.body.body
    fields: Expr = result if isinstance(result.ty, TupleType) else Tuple([result])
    if not bound or isinstance(fields, Var):
        return function.with_body(SeqExpr(function.body.blocks, fields), fields.ty)
    *blocks, last = function.body.blocks or (BindingBlock([]),)
    bindings, fields = _without_names_for_results(last, fields)
    names = NameSupply(binding.var.name_hint for binding in iter_bindings(function))
    whole = Var(names.fresh("gv"), fields.ty)
    kind = DataflowBlock if isinstance(last, DataflowBlock) or not last.bindings else BindingBlock
    body = SeqExpr([*blocks, kind([*bindings, VarBinding(whole, fields)])], whole)
    if kind is DataflowBlock:
        outputs = [binding.var for binding in bindings if not isinstance(binding.var, DataflowVar)]
        body = NewDefinitions({var: DataflowVar(var.name_hint, var.ty, var.origins) for var in outputs}).mutate(body)
    return function.with_body(body, fields.ty)


def _without_names_for_results(block: BindingBlock, results: Expr) -> tuple[list[Binding], Expr]:
    """The bindings of a block and the results, without variables that only rename another variable or a constant."""
    if not isinstance(results, Tuple):
        return list(block.bindings), results
    read = {part for binding in block.bindings for part in walk(binding.value)}
    named = {
        binding.var: binding.value
        for binding in block.bindings
        if isinstance(binding, VarBinding) and isinstance(binding.value, Var | Constant) and binding.var not in read
    }
    fields = [named.get(field, field) if isinstance(field, Var) else field for field in results.fields]
    return [binding for binding in block.bindings if binding.var not in named], Tuple(fields)
