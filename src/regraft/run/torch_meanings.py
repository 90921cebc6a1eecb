"""User-defined operators on PyTorch: their meanings as calls of the vocabulary, which has kernels here.

Meanings follow the array API standard, and PyTorch's tensors do not follow all of it: slices cannot run backwards, and
numbers without a dtype are float32. A meaning that is written out as expressions is the same on every engine.
"""

from __future__ import annotations

from ..ir.expr import Expr
from ..ir.module import IRModule
from ..ir.op import Call, Op
from ..ir.visitor import walk
from ..op.decompose import decompose, legalized


def with_meanings(module: IRModule) -> IRModule:
    """``module`` with such calls written out, if sizes and dtypes are known and PyTorch has no operator for them.

    All others run by their reference semantics over PyTorch's own functions. Cost: linear in the bindings.
    """
    functions = {
        name: legalized(function, lambda call: not _has_meaning_alone(call) or not _is_program(call))
        for name, function in module.items()
        if any(_has_meaning_alone(expr) for expr in walk(function))
    }
    return module.with_functions(functions) if functions else module


def _has_meaning_alone(expr: Expr) -> bool:
    """True if ``expr`` calls a user-defined operator for which PyTorch has only the reference semantics."""
    if not isinstance(expr, Call) or not isinstance(expr.op, Op):
        return False
    op = expr.op
    return op.is_open and op.reference is not None and op.torch is None and "torch" not in op.kernels


def _is_program(call: Call) -> bool:
    """True if the meaning of a call can be written out; sizes that are known only at run time may prevent it."""
    try:
        decompose(call)
    except ValueError:
        return False
    return True
