"""Operators with a gradient, and gradients that users declare: for their own operators, or in place of another rule."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.op import GradientRule, Op, Trait
from ..op.primitive.loop import LOOP


def has_gradient(op: Op) -> bool:
    """True if a gradient passes through ``op``: by a rule of its own, or by those of what it decomposes into.

    One passes through a loop by those of its body.
    """
    if op.gradient is not None or op is LOOP:
        return True
    return Trait.STOPS_GRADIENT not in op.traits and not op.is_primitive and op.reference is not None


def register_gradient(op_name: str) -> Callable[[GradientRule], GradientRule]:
    """A decorator that makes a function the gradient rule of the operator ``op_name`` (``"relax."`` may be left out).

    The rule is ``rule(call, output, adjoint)``: ``call`` is the call, ``output`` the variable bound to it, ``adjoint``
    the gradient of the target with respect to ``output``, of its type. It returns a sequence with one entry for each
    of ``call.args``: an expression of the operand's type (for an operand that is a tuple, a `Tuple` of them), or None
    where no gradient goes. Write it with differentiable operators and it can be differentiated again. It takes the
    place of the rule that the operator had. Raises `IRError`, naming near ones, when there is no such operator.

    >>> @register_gradient("relax.floor")
    ... def straight_through(call, output, adjoint):
    ...     return [adjoint]
    """
    return Op.get(op_name).define_gradient
