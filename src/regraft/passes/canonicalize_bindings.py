"""CanonicalizeBindings: one name for one value, and one name for one size."""

from __future__ import annotations

from typing import Final

from ..ir.binding_values import bind_sizes
from ..ir.dims import Dim, SymVar, dims_equal, substitute
from ..ir.module import IRModule
from ..ir.program import Function, MatchCast
from ..ir.reading import defining_symvars
from ..ir.types import bind_type, type_symvars
from ..ir.visitor import iter_bindings
from ..rewrite.one_name import with_one_name
from .context import PassContext, PassError
from .passes import FunctionPass, Pass


def _sizes_known_by_casts(function: Function) -> dict[SymVar, Dim]:
    """The meaning of the size variables that casts define, by the types of the values that are cast.

    Raises `PassError` where two casts, or two dimensions of one, give one variable values that differ.
    """
    stated = {size for param in function.params for size in type_symvars(param.ty)}
    known: dict[SymVar, Dim] = {}
    for binding in iter_bindings(function):
        if not isinstance(binding, MatchCast):
            continue
        own = [size for size in defining_symvars(binding.ty) if size not in stated]
        found: dict[SymVar, Dim] = {}
        bind_type(binding.ty, binding.value.ty, found)
        for size in dict.fromkeys(own):
            if size not in found:
                stated.add(size)
                continue
            value = substitute(found[size], known)
            if value is size:
                continue
            if dims_equal(known.get(size, value), value) is False:
                raise PassError(
                    f"CanonicalizeBindings: the size {size} is {known[size]} by one match_cast and {value} by that "
                    f"of {binding.var.name_hint}"
                )
            known[size] = value
    return known


PARTS_LEVEL: Final = 1
"""The level from which on Relax runs the parts of `CanonicalizeBindings` and of `LiftTransformParams`."""


def CanonicalizeBindings() -> Pass:
    """Use one name for one value: no aliases, no fields of tuples that are written out, no casts that cannot fail.

    Where a value of a dataflow block has the name of an output, too, that name stays. Scalars and constants stand where
    they are used. A size that a cast defines and that the value's type tells is put as that everywhere. An output that
    nothing outside of its block uses becomes a variable of the block. A tuple that puts all fields of a parameter
    together again is that parameter. Bindings that nothing uses any more stay, for `DeadCodeElimination`.

    Needs: nothing. Guarantees: the same values to the bit; no casts that check anything are dropped. Raises `PassError`
    for casts that contradict each other. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        return canonical(function) if context.opt_level >= PARTS_LEVEL else function

    return FunctionPass(transform, "CanonicalizeBindings")


def canonical(function: Function) -> Function:
    """``function`` with one name for one value and one for one size; see `CanonicalizeBindings`."""
    return with_one_name(bind_sizes(function, _sizes_known_by_casts(function)))
