"""Calls of composite operators without a gradient rule, decomposed before the backward part is written.

A composite means a program of primitives (`regraft.op.decompose`), each of which has a rule. So a new operator is
differentiated by its meaning. A composite has a rule of its own only for fewer operations or more accurate values.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..analysis.values import leaves_of
from ..ir.builder import NameSupply
from ..ir.expr import DataflowVar, Expr, Var
from ..ir.op import Call, Op
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, MatchCast, SeqExpr, VarBinding
from ..ir.types import is_subtype
from ..op.decompose import BindingRecorder, record
from ..op.program_xp import DecomposeError
from .reverse import active_values, refuse_operator, stops_gradient


def with_rules(function: Function, required: Iterable[Var], target: Expr) -> Function:
    """``function`` with calls between ``required`` and ``target`` decomposed until each operator has a gradient rule.

    The function must be in normal form. It is returned unchanged if all operators have rules. Raises `GradientError`
    for a call that cannot be decomposed. Cost: linear.
    """
    wanted = _on_the_way(function, required, target)
    if not wanted:
        return function
    names = NameSupply.beside(function)
    blocks: list[BindingBlock] = []
    for block in function.body.blocks:
        writer = _DecompositionWriter(names, DataflowVar if isinstance(block, DataflowBlock) else Var)
        for binding in block.bindings:
            if binding.var in wanted:
                writer.decompose(binding)
            else:
                writer.bindings.append(binding)
        blocks.append(type(block)(writer.bindings))
    return Function(
        function.params, SeqExpr(blocks, function.body.body), function.ret_ty, function.is_pure, function.attrs
    )


def _on_the_way(function: Function, required: Iterable[Var], target: Expr) -> set[Var]:
    """The variables bound to calls without a rule through which a gradient of ``target`` passes to ``required``."""
    active = active_values(function, required)
    needed = {leaf for leaf in leaves_of(target) if leaf in active}
    found: set[Var] = set()
    for block in reversed(function.body.blocks):
        for binding in reversed(block.bindings):
            if binding.var in needed:
                needed.update(leaf for leaf in leaves_of(binding.value) if leaf in active)
                if _lacks_rule(binding.value):
                    found.add(binding.var)
    return found


def _lacks_rule(value: Expr) -> bool:
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return False
    op = value.op
    return op.gradient is None and not op.is_primitive and op.reference is not None and not stops_gradient(op)


class _DecompositionWriter(BindingRecorder):
    """Writes the bindings of one block, including decompositions."""

    def decompose(self, binding: Binding) -> None:
        """Write the call of ``binding`` as other calls; the last one is bound to its variable."""
        var, call = binding.var, binding.value
        self.origins = var.origins
        assert isinstance(call, Call)
        assert isinstance(call.op, Op)
        try:
            value = record(call, self)
        except DecomposeError as error:
            refuse_operator(binding, call.op, f" and its definition has no gradient ({error})")
        if is_subtype(value.ty, var.ty) is not True:
            self.bindings.append(MatchCast(var, value, var.ty))
        else:
            self.bindings.append(VarBinding(var, value))

    def emit(self, value: Expr) -> Expr:
        """A variable bound to ``value``, or to the result of its decomposition."""
        if _lacks_rule(value):
            assert isinstance(value, Call)
            value = record(value, self)
        return super().emit(value)
