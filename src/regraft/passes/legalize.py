"""Legalize: composite operators as programs of those that a target has rows for.

What a composite computes is a function over an array namespace, told once; `regraft.op.decompose` runs it over
expressions. Whoever consumes programs and has no row for a composite takes the decomposition instead: the writer of
ONNX files call by call, the gradient and whoever asks for this pass in a whole function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from ..ir.builder import BlockBuilder
from ..ir.expr import Expr
from ..ir.expr_functor import PyExprMutator
from ..ir.module import IRModule
from ..ir.op import Call, Op
from ..ir.program import Function
from ..op.decompose import Takes, legalized
from ..op.program_xp import DecomposeError
from .context import PassContext, PassError
from .passes import FunctionPass, Pass


def _of_names(names: Iterable[str]) -> Takes:
    known = {Op.get(name) for name in names}
    return lambda call: call.op in known


def Legalize(keep: Takes | Iterable[str] = ()) -> Pass:
    """Write composite operators as programs of primitives, or of those that a target has.

    ``keep`` says what to leave as it is: names of operators, or a function from a call to whether it stays. Primitives
    always stay, and so does what has no reference semantics: calls of outside functions. Nothing else does by default.

    Needs: known ranks and dtypes of the operands of what it decomposes, and known sizes where the meaning of an
    operator depends on them. Guarantees: the same values but for rounding, the same types, and origins as before.
    Raises `PassError` where a decomposition needs what is not known. Cost: linear in the bindings that it writes.
    """
    takes = keep if callable(keep) else _of_names(keep)

    def transform(function: Function, _module: IRModule, _context: PassContext) -> Function:
        try:
            return legalized(function, takes)
        except DecomposeError as error:
            raise PassError(f"Legalize: {error}") from error

    return FunctionPass(transform, "Legalize")


LegalizeFunction: TypeAlias = Callable[[BlockBuilder, Call], Expr]
"""A replacement of a call: a function of the builder of the program around it, and of the call."""


class _CallLegalizer(PyExprMutator):
    """Puts for calls of operators what the function for each gives."""

    def __init__(self, lowerings: Mapping[str, LegalizeFunction]) -> None:
        super().__init__()
        self._lowerings = lowerings

    def visit_call_(self, op: Call) -> Expr:
        call = self.visit_expr_post_order(op)
        if not isinstance(call, Call) or not isinstance(call.op, Op) or call.op.name not in self._lowerings:
            return call
        return self._lowerings[call.op.name](self.builder_, call)


def LegalizeOps(
    customize_legalize_map: Mapping[str, LegalizeFunction] | None = None,
    skip_ops: Iterable[str] | None = None,
    enable_warning: bool = False,
) -> Pass:
    """Lower operators by functions of your own; all others stay, since each engine lowers them when it compiles.

    ``customize_legalize_map`` has, by names of operators, functions of a `BlockBuilder` and the call, which give what
    stands for it. ``skip_ops`` names operators that stay. ``enable_warning`` is Relax's and has no effect, since no
    operator is left without a lowering. See `Legalize` for composites as programs of primitives.

    Guarantees: the same values as far as the functions give them. Cost: linear.
    """
    del enable_warning
    skipped = frozenset(skip_ops or ())
    lowerings = {name: how for name, how in (customize_legalize_map or {}).items() if name not in skipped}

    def transform(function: Function, _module: IRModule, _context: PassContext) -> Function:
        if not lowerings:
            return function
        lowered = _CallLegalizer(lowerings).visit_expr(function)
        assert isinstance(lowered, Function)
        return lowered

    return FunctionPass(transform, "LegalizeOps")
