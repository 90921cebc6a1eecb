"""Which values the gradient computes again rather than keeps: those between checkpoint markers.

`start_checkpoint` marks values that a stage begins with, `end_checkpoint` values that it ends with, as in Chen et al.,
"Training Deep Nets with Sublinear Memory Cost" (2016). What the ends depend on, back to the starts, is not kept for the
backward part: it is computed again there, once, just before it is first needed. Stages may nest; the inner one is then
computed again together with the outer one.
"""

from __future__ import annotations

from ..analysis.values import leaves_of
from ..ir.expr import Expr, Var
from ..ir.op import Call, is_call_of
from ..ir.program import Function, If

START = "relax.grad.start_checkpoint"
END = "relax.grad.end_checkpoint"


def is_marker(value: Expr) -> bool:
    """True if ``value`` marks where a stage starts or ends: to all else it is its operand."""
    return is_call_of(value, START) or is_call_of(value, END)


def values_to_recompute(function: Function) -> dict[Var, None]:
    """The variables of ``function`` that lie inside checkpointed stages.

    Values that cannot be computed again (calls with effects, branches, inner functions) are kept instead. Cost: linear
    in the bindings, times how deep stages nest.
    """
    definitions = {binding.var: binding.value for block in function.body.blocks for binding in block.bindings}
    inside: dict[Var, None] = {}
    seen: set[tuple[Var, int]] = set()
    for value in definitions.values():
        if not is_call_of(value, END):
            continue
        pending = [(leaf, 0) for leaf in leaves_of(value) if isinstance(leaf, Var)]
        while pending:
            var, depth = pending.pop()
            definition = definitions.get(var)
            if definition is None or (var, depth) in seen:
                continue
            seen.add((var, depth))
            if is_call_of(definition, START):
                if depth == 0:
                    continue
                depth -= 1
            elif is_call_of(definition, END):
                depth += 1
            if _can_run_again(definition):
                inside[var] = None
            pending.extend((leaf, depth) for leaf in leaves_of(definition) if isinstance(leaf, Var))
    return inside


def _can_run_again(value: Expr) -> bool:
    return not isinstance(value, If | Function) and not (isinstance(value, Call) and not value.is_pure)
