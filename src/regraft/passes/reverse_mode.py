"""The gradient as a pass, for use in a sequence; the package `regraft.gradient` computes it."""

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
    """Add ``<func_name>_adjoint``: a function that returns the result and the gradients of one scalar of it.

    Arguments, errors and cost are those of `regraft.gradient.Gradient`, which this pass calls. As a pass, it is timed,
    printed and reported like others. Needs well-formed input, guarantees well-formed output, and keeps the values of
    the existing functions.
    """
    made = gradient.Gradient(func_name, require_grads, target_index)

    def run(module: IRModule, _context: PassContext) -> IRModule:
        return made(module)

    return ModulePass(run, "Gradient")
