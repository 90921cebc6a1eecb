"""The gradient as a pass among others, to stand in a sequence; what it does is the room `regraft.gradient`."""

from __future__ import annotations

from collections.abc import Sequence

from .. import gradient
from ..ir.expr import Var
from ..ir.module import IRModule
from .context import PassContext
from .passes import ModulePass, Pass


def Gradient(
    func_name: str, require_grads: Var | str | Sequence[Var | str] | None = None, target_index: int | None = None
) -> Pass:
    """Adds ``<func_name>_adjoint``: the function's result, and the gradients of one scalar of it.

    Arguments, errors and cost are those of `regraft.gradient.Gradient`, which this calls; as a pass, it is timed,
    printed and reported as the others are. Needs well-formed input, guarantees well-formed output, and keeps the
    values of the functions that there were.
    """
    made = gradient.Gradient(func_name, require_grads, target_index)

    def run(module: IRModule, _context: PassContext) -> IRModule:
        return made(module)

    return ModulePass(run, "Gradient")
