"""The forward part of an adjoint: the bindings of a function again, over variables of their own."""

from __future__ import annotations

from collections.abc import Mapping

from ..analysis import free_vars
from ..ir.builder import operands_of, with_operands
from ..ir.expr import DataflowVar, Expr, Var
from ..ir.mutator import NewVariables
from ..ir.op import Call
from ..ir.program import Binding, BindingBlock, Function, If, MatchCast, VarBinding
from .checkpoint import is_marker


class ForwardCopy:
    """The blocks of a function over new variables, without checkpoint markers.

    ``leaves`` takes each variable of the function's own body to what stands for it.
    """

    def __init__(self, function: Function, around: Mapping[Var, Expr] | None = None) -> None:
        """``around``: what stands for variables from outside of the function."""
        self.leaves: dict[Var, Expr] = dict(around or {})
        self.params = tuple([self._renewed(param) for param in function.params])
        self.blocks: list[BindingBlock] = []
        for block in function.body.blocks:
            bindings = [new for binding in block.bindings if (new := self._binding(binding)) is not None]
            if bindings:
                self.blocks.append(type(block)(bindings))
        self.result = self._copied(function.body.body)

    def _renewed(self, var: Var) -> Var:
        new = type(var)(var.name_hint, var.ty, var.origins)
        self.leaves[var] = new
        return new

    def _binding(self, binding: Binding) -> Binding | None:
        value = self._copied(binding.value)
        if isinstance(binding, MatchCast):
            return MatchCast(self._renewed(binding.var), value, binding.ty)
        if isinstance(value, Call) and is_marker(value):
            value = value.args[0]
            if type(binding.var) is DataflowVar:
                self.leaves[binding.var] = value
                return None
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
