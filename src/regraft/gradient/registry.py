"""Operators with a gradient, and gradients that users declare, for their own operators or to replace a rule."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.op import GradientRule, Op, Trait
from ..op.primitive.loop import LOOP


def has_gradient(op: Op) -> bool:
    """True if a gradient passes through ``op``, by its own rule or by the rules of its decomposition.

    A gradient passes through a loop by the rules of its body.
    """
    if op.gradient is not None or op is LOOP:
        return True
    return Trait.STOPS_GRADIENT not in op.traits and not op.is_primitive and op.reference is not None


def register_gradient(op_name: str) -> Callable[[GradientRule], GradientRule]:
    """A decorator that makes a function the gradient rule of the operator ``op_name`` (``"relax."`` may be omitted).

    The rule is ``rule(call, output, adjoint)``: ``call`` is the call, ``output`` the variable bound to it, and
    ``adjoint`` the gradient of the target with respect to ``output``, with the type of ``output``. It returns a
    sequence with one entry for each of ``call.args``: an expression of the operand's type (for a tuple operand, a
    `Tuple` of expressions), or None if the operand gets no gradient. A rule that is written with differentiable
    operators can be differentiated again. It replaces the operator's previous rule. Raises `IRError`, naming similar
    ones, if there is no such operator.

    >>> @register_gradient("relax.floor")
    ... def straight_through(call, output, adjoint):
    ...     return [adjoint]
    """
    return Op.get(op_name).define_gradient
