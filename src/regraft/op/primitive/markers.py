"""Markers that passes read: where the gradient stops, what it computes again, where preparing weights ends.

To everything else they are identities.
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
    """``input`` as it is, and no gradient goes through: ``torch.Tensor.detach``.

    Operands: ``input``, a value of any type. Result: the same value.
    """
    ...


@_passes("relax.grad.start_checkpoint", traits=(Trait.VIEW,))
def start_checkpoint(input: Expr) -> Call:
    """``input`` as it is, where a checkpointed part of the program begins.

    The gradient keeps this value and computes what follows, up to `end_checkpoint`, again, rather than keep
    it. Operands: ``input``, a value of any type. Result: the same value.
    """
    ...


@_passes("relax.grad.end_checkpoint", traits=(Trait.VIEW,))
def end_checkpoint(input: Expr) -> Call:
    """``input`` as it is, where a checkpointed part of the program ends; see `start_checkpoint`.

    Operands: ``input``, a value of any type. Result: the same value.
    """
    ...


@_passes("relax.builtin.stop_lift_params", traits=(Trait.VIEW, Trait.IDEMPOTENT))
def stop_lift_params(x: Expr) -> Call:
    """``x`` as it is, and nothing that is made of it is moved to the function that prepares weights.

    `regraft.transform.LiftTransformParams` reads it, and takes it out. Operands: ``x``, a tensor. Result: the same.
    """
    ...
