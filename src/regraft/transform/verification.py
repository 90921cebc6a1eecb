"""Whether a pass kept the values: each function before and after it, on the same random inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.dims import Dim, SymVar, evaluate
from ..ir.errors import RegraftError
from ..ir.module import IRModule
from ..ir.program import Function
from ..ir.types import TensorType, TupleType, Type, type_symvars
from ..ops.evaluate import run_program
from ..ops.trials import Difference, Sizes, difference, random_value
from .context import PassError


class PassValueError(PassError, ValueError):
    """A pass changed what a function computes."""


def check_same_values(name: str, before: Function | IRModule, after: Function | IRModule) -> None:
    """Raise `PassValueError` if ``after`` computes other values than ``before``; ``name`` is the pass's.

    Compared are the public functions that are in both with parameters of the same types. Cost: one run of each.
    """
    found = changed_value(before, after)
    if found is not None:
        raise PassValueError(f"{name} changed what {found[0]} computes: {found[1]}")


def changed_value(before: Function | IRModule, after: Function | IRModule) -> tuple[str, Difference] | None:
    """The first function that computes other values in ``after``, and how they differ; None if all agree.

    Functions that cannot run on random inputs before are left out.
    """
    old, new = _as_module(before), _as_module(after)
    for name, function in old.items():
        if name not in new or (new[name] is function and old is new):
            continue
        other = new[name]
        if function.is_private or [p.ty for p in function.params] != [p.ty for p in other.params]:
            continue
        try:
            inputs = random_arguments(function)
            expected = run_program(old, name, inputs)
        except RegraftError:
            continue
        try:
            found = difference(expected, run_program(new, name, inputs))
        except RegraftError as error:
            found = Difference("", f"it fails: {error}")
        if found is not None:
            return name, found
    return None


def _as_module(program: Function | IRModule) -> IRModule:
    if isinstance(program, IRModule):
        return program
    name = program.name or "main"
    return IRModule({name: program.with_attr("global_symbol", name)})


def random_arguments(function: Function, seed: int = 0) -> list[Any]:
    """Random values for the parameters of ``function``, with all symbolic sizes different from all fixed ones.

    Raises `NoValueError` where a parameter's type does not say enough.
    """
    taken = [size for param in function.params for size in _fixed_sizes(param.ty)]
    sizes = Sizes(taken, seed)
    known: dict[SymVar, int] = {}

    def size(dim: Dim) -> int:
        return evaluate(dim, known)

    for param in function.params:
        for symvar in type_symvars(param.ty):
            if symvar not in known:
                known[symvar] = sizes.draw(symvar)
    random = np.random.default_rng(seed)
    return [random_value(param.ty, size, random) for param in function.params]


def _fixed_sizes(ty: Type) -> list[int]:
    if isinstance(ty, TupleType):
        return [size for field in ty.fields for size in _fixed_sizes(field)]
    if isinstance(ty, TensorType):
        return [dim for dim in ty.shape or () if isinstance(dim, int)]
    return []
