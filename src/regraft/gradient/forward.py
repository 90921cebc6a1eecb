"""The forward part of an adjoint: a copy of a function's bindings over new variables."""

from __future__ import annotations

from collections.abc import Mapping

from ..analysis import free_vars
from ..ir.builder import operands_of, with_operands
from ..ir.expr import Expr, Var
from ..ir.mutator import NewVariables
from ..ir.program import Binding, BindingBlock, Function, If, MatchCast, VarBinding


class ForwardCopy:
    """The blocks of a function over new variables.

    ``leaves`` maps each variable of the function's own body to its replacement.
    """

    def __init__(self, function: Function, around: Mapping[Var, Expr] | None = None) -> None:
        """``around``: the replacements of variables from outside the function."""
        self.leaves: dict[Var, Expr] = dict(around or {})
        self.params = tuple([self._renewed(param) for param in function.params])
        self.blocks: list[BindingBlock] = []
        for block in function.body.blocks:
            self.blocks.append(type(block)([self._binding(binding) for binding in block.bindings]))
        self.result = self._copied(function.body.body)

    def _renewed(self, var: Var) -> Var:
        new = type(var)(var.name_hint, var.ty, var.origins)
        self.leaves[var] = new
        return new

    def _binding(self, binding: Binding) -> Binding:
        value = self._copied(binding.value)
        if isinstance(binding, MatchCast):
            return MatchCast(self._renewed(binding.var), value, binding.ty)
        return VarBinding(self._renewed(binding.var), value)

    def _copied(self, value: Expr) -> Expr:
        if isinstance(value, Var):
            return self.leaves.get(value, value)
        if isinstance(value, If | Function):
            mutator = NewVariables()
            for var in free_vars(value):
                mutator.remap(var, self.leaves.get(var, var))
            return mutator.mutate(value)
        return with_operands(value, [self._copied(operand) for operand in operands_of(value)])
