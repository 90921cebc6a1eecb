"""The forward part of an adjoint: a copy of a function's bindings over new variables."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.expr import Expr, Var
from ..ir.mutator import NewVariables
from ..ir.program import Function


class ForwardCopy(NewVariables):
    """The parameters, blocks and result of a function over new variables.

    ``leaves`` maps each variable of the function to its replacement.
    """

    def __init__(self, function: Function, around: Mapping[Var, Expr] | None = None) -> None:
        """``around``: the replacements of variables from outside the function."""
        super().__init__()
        for var, leaf in (around or {}).items():
            self.remap(var, leaf)
        copy = self.mutate(function)
        self.params, self.blocks, self.result = copy.params, copy.body.blocks, copy.body.body
        self.leaves = self._remap
