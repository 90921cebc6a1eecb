"""Removing the bindings of a function that nothing needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..ir.expr import Var
from ..ir.mutator import ExprMutator
from ..ir.op import Call
from ..ir.program import Binding, Function, MatchCast, SeqExpr, VarBinding
from ..ir.walks import reached
from .uses import DirectUses, direct_uses


class _ReadBody(NamedTuple):
    """A body to read, with the bindings of the branch and of the inner function that contain it.

    Defining an inner function does not call it: effects inside it are needed only if the function is.
    """

    body: SeqExpr | Function
    owner: Binding | None
    closure: Binding | None


def live_bindings(func: Function) -> set[Binding]:
    """The bindings of ``func`` that its result or an effect depends on.

    Effects are impure calls and the checks of `MatchCast`; a branch that contains one is an effect. Cost: linear.
    """
    reads: dict[Binding, DirectUses] = {}
    definition: dict[Var, Binding] = {}
    enclosing: dict[Binding, Binding | None] = {}
    effects_of: dict[Binding | None, list[Binding]] = {None: []}
    outer = direct_uses(func)
    pending: list[_ReadBody] = [_ReadBody(body, None, None) for body in outer.bodies]
    while pending:
        body, owner, closure = pending.pop()
        seq = body.body if isinstance(body, Function) else body
        for binding in (binding for block in seq.blocks for binding in block.bindings):
            uses = reads[binding] = direct_uses(binding.value)
            definition[binding.var] = binding
            enclosing[binding] = owner
            for inner in uses.bodies:
                is_function = isinstance(inner, Function)
                pending.append(_ReadBody(inner, None, binding) if is_function else _ReadBody(inner, binding, closure))
            if _is_effect(binding):
                effects_of.setdefault(closure, []).append(binding)

    def needed_by(binding: Binding) -> Iterator[Binding]:
        owner = enclosing[binding]
        if owner is not None:
            yield owner
        yield from effects_of.get(binding, ())
        yield from (definition[var] for var in reads[binding].variables if var in definition)

    needed = [*effects_of[None], *(definition[var] for var in outer.variables if var in definition)]
    return set(reached(needed, needed_by))


def _is_effect(binding: Binding) -> bool:
    if isinstance(binding, MatchCast):
        return True
    return isinstance(binding.value, Call) and not binding.value.is_pure


class _Sweep(ExprMutator):
    def __init__(self, live: set[Var]) -> None:
        super().__init__()
        self._live = live

    def visit_var_binding_(self, binding: VarBinding) -> Binding | None:
        return binding if binding.var in self._live else None


def remove_all_unused(func: Function) -> Function:
    """``func`` without the bindings that neither its result nor an effect needs; itself if there are none.

    Impure calls stay, and so do the checks of `MatchCast`, in dataflow blocks and outside. A block that becomes empty
    is dropped. Cost: linear.
    """
    return _Sweep({binding.var for binding in live_bindings(func)}).mutate(func)
