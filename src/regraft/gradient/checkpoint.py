"""Values between checkpoint markers, which the gradient computes again instead of keeping them.

`start_checkpoint` marks the values that a stage starts from, `end_checkpoint` the values that it ends with, as in Chen
et al., "Training Deep Nets with Sublinear Memory Cost" (2016). Values computed from the starts, up to and including the
ends, are not kept for the backward part. They are computed again there, once, just before they are first needed. The
values that a stage starts from are kept, including the end of the stage before it. Stages may be nested; the inner
stage is then computed again together with the outer one.
"""

from __future__ import annotations

from typing import Final

from ..analysis.values import leaves_of
from ..ir.expr import DataflowVar, Expr, Var
from ..ir.mutator import ExprMutator
from ..ir.op import Call, is_call_of
from ..ir.program import Binding, BindingBlock, Function, If, MatchCast, SeqExpr, VarBinding

START: Final = "relax.grad.start_checkpoint"
END: Final = "relax.grad.end_checkpoint"


def without_markers(function: Function) -> tuple[Function, dict[Var, None]]:
    """``function`` without checkpoint markers, and its variables inside checkpointed stages.

    Uses of a marker become uses of the marked value; the name of a marker is kept if it is visible outside its block.
    Values that cannot be computed again (calls with effects, branches, inner functions) are kept. Cost: linear.
    """
    values = [binding.value for block in function.body.blocks for binding in block]
    if not any(map(_is_marker, values)):
        return function, {}
    stages = _Stages()
    blocks: list[BindingBlock] = []
    for block in function.body.blocks:
        bindings = [new for binding in block if (new := stages.without(binding)) is not None]
        if bindings:
            blocks.append(type(block)(bindings))
    return function.with_body(SeqExpr(blocks, stages.replaced(function.body.body))), stages.inside


def _is_marker(value: Expr) -> bool:
    """True if ``value`` marks the start or end of a stage; otherwise a marker is just its operand."""
    return is_call_of(value, START) or is_call_of(value, END)


class _Stages:
    """Walks the bindings of a function in order; ``inside`` holds the variables to be computed again."""

    def __init__(self) -> None:
        self.inside: dict[Var, None] = {}
        self._names = ExprMutator()
        self._depth: dict[Expr, int] = {}

    def without(self, binding: Binding) -> Binding | None:
        """The binding with markers replaced by marked values; None for a marker not visible outside its block."""
        var, value = binding.var, binding.value
        if isinstance(value, Call) and _is_marker(value):
            (marked,) = value.args
            around, own = self._depth.get(marked, 0), self.replaced(marked)
            self._depth[var] = around + 1 if is_call_of(value, START) else max(around - 1, 0)
            if is_call_of(value, START) and not around and isinstance(own, Var):
                self.inside.pop(own, None)
            if type(var) is not DataflowVar:
                return VarBinding(var, own)
            self._names.remap(var, own)
            return None
        self._depth[var] = max([self._depth.get(leaf, 0) for leaf in leaves_of(value)], default=0)
        if self._depth[var] and _can_run_again(value):
            self.inside[var] = None
        value = self.replaced(value)
        return MatchCast(var, value, binding.ty) if isinstance(binding, MatchCast) else VarBinding(var, value)

    def replaced(self, value: Expr) -> Expr:
        """``value`` with markers replaced by marked values."""
        return self._names.mutate(value)


def _can_run_again(value: Expr) -> bool:
    return not isinstance(value, If | Function) and not (isinstance(value, Call) and not value.is_pure)
