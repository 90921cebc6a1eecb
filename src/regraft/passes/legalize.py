"""Legalize: composite operators as programs of primitives, or of operators that a target supports.

The meaning of a composite is defined once, as a function over an array namespace; `regraft.op.decompose` runs it over
expressions. A consumer of programs that does not support a composite uses the decomposition. The writer of ONNX files
decomposes single calls. The gradient, and users of this pass, decompose whole functions.
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
    """Write composite operators as programs of primitives, or of operators that a target supports.

    ``keep`` selects the operators to leave as they are: names of operators, or a function that returns True for calls
    that stay. By default none are kept. Primitives always stay, and so do calls without reference semantics: calls of
    outside functions.

    Needs: known ranks and dtypes of the operands of decomposed calls, and known sizes if the meaning of an operator
    depends on them. Guarantees: the same values up to rounding, the same types, and the same origins. Raises
    `PassError` if a decomposition needs something unknown. Cost: linear in the bindings that it writes.
    """
    takes = keep if callable(keep) else _of_names(keep)

    def transform(function: Function, _module: IRModule, _context: PassContext) -> Function:
        try:
            return legalized(function, takes)
        except DecomposeError as error:
            raise PassError(f"Legalize: {error}") from error

    return FunctionPass(transform, "Legalize")


LegalizeFunction: TypeAlias = Callable[[BlockBuilder, Call], Expr]
"""A function that replaces a call; it gets the builder of the program around the call, and the call."""


class _CallLegalizer(PyExprMutator):
    """Replaces calls of operators by the results of the operators' functions."""

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
    """Lower operators by functions of your own. All others stay, since each engine lowers them when it compiles.

    ``customize_legalize_map`` maps names of operators to functions of a `BlockBuilder` and the call, which return the
    replacement of the call. ``skip_ops`` names operators that stay. ``enable_warning`` is accepted as in Relax and has
    no effect, since no operator is left without a lowering. `Legalize` writes composites as programs of primitives.

    Guarantees: the same values, if the functions compute them. Cost: linear.
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
