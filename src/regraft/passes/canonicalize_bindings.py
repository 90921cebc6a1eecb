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
    """The values of the size variables that casts define, found in the types of the cast values.

    Raises `PassError` if two casts, or two dimensions of one cast, give one variable different values.
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
"""The optimization level from which on Relax runs the parts of `CanonicalizeBindings` and `LiftTransformParams`."""


def CanonicalizeBindings() -> Pass:
    """Use one name for one value: remove aliases, projections of known tuples, and casts that cannot fail.

    If a value of a dataflow block also has the name of an output, this name stays. Scalars and constants are written
    where they are used. A size that a cast defines is replaced everywhere if the type of the cast value already states
    it. An output that nothing outside its block uses becomes a variable of the block. A tuple that collects all fields
    of a parameter in order is replaced by the parameter. Bindings that are no longer used stay, for
    `DeadCodeElimination`.

    Needs: nothing. Guarantees: the same values to the bit; no cast that checks anything is dropped. Raises `PassError`
    for casts that contradict each other. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        return canonical(function) if context.opt_level >= PARTS_LEVEL else function

    return FunctionPass(transform, "CanonicalizeBindings")


def canonical(function: Function) -> Function:
    """``function`` with one name for one value and one for one size; see `CanonicalizeBindings`."""
    return with_one_name(bind_sizes(function, _sizes_known_by_casts(function)))
