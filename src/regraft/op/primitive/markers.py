"""Markers that passes read: where the gradient stops, what it recomputes, where the preparation of weights ends.

Everything else treats them as identities.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ...ir.expr import Expr
from ...ir.op import Call, Trait
from ..public_function import declares

__all__ = ["end_checkpoint", "no_grad", "start_checkpoint", "stop_lift_params"]


def _unchanged(xp: Any, input: Any) -> Any:
    del xp
    return input


_marks: Final = partial(declares, primitive=True, infer=lambda call: call.args[0].ty, reference=_unchanged)
_passes: Final = partial(_marks, gradient=lambda call, output, adjoint: [adjoint])


@_marks("relax.grad.no_grad", traits=(Trait.VIEW, Trait.IDEMPOTENT, Trait.STOPS_GRADIENT))
def no_grad(input: Expr) -> Call:
    """``input``, with no gradient passing through it, as with ``torch.Tensor.detach``.

    Operands: ``input``, a value of any type. Result: the same value.
    """
    ...


@_passes("relax.grad.start_checkpoint", traits=(Trait.VIEW,))
def start_checkpoint(input: Expr) -> Call:
    """``input``, marked as the beginning of a checkpointed part of the program.

    The gradient keeps this value, and recomputes the values from here up to `end_checkpoint` instead of keeping
    them. Operands: ``input``, a value of any type. Result: the same value.
    """
    ...


@_passes("relax.grad.end_checkpoint", traits=(Trait.VIEW,))
def end_checkpoint(input: Expr) -> Call:
    """``input``, marked as the end of a checkpointed part of the program; see `start_checkpoint`.

    Operands: ``input``, a value of any type. Result: the same value.
    """
    ...


@_passes("relax.builtin.stop_lift_params", traits=(Trait.VIEW, Trait.IDEMPOTENT))
def stop_lift_params(x: Expr) -> Call:
    """``x``, marked so that values computed from it are not moved to the function that prepares weights.

    `regraft.transform.LiftTransformParams` reads and removes the marker. Operands: ``x``, a tensor. Result: the same.
    """
    ...
