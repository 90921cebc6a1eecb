"""The check that a pass keeps values: each function is run before and after it, on the same random inputs."""

from __future__ import annotations

from ..ir.errors import RegraftError
from ..ir.module import IRModule
from ..ir.program import Function
from ..reference import programs
from ..reference.trials import ValueDifference, difference, random_arguments
from .context import PassError


class PassValueError(PassError, ValueError):
    """A pass changed what a function computes."""


def check_same_values(name: str, before: Function | IRModule, after: Function | IRModule) -> None:
    """Raise `PassValueError` if ``after`` computes other values than ``before``; ``name`` is the name of the pass.

    Compared are the public functions that exist in both with the same parameter types. Cost: one run of each.
    """
    found = changed_value(before, after)
    if found is not None:
        raise PassValueError(f"{name} changed what {found[0]} computes: {found[1]}")


def changed_value(before: Function | IRModule, after: Function | IRModule) -> tuple[str, ValueDifference] | None:
    """The first function that computes other values in ``after``, with the difference; None if all agree.

    Functions that cannot run on random inputs in ``before`` are skipped.
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
            expected = programs.run(old, name, inputs)
        except RegraftError:
            continue
        try:
            found = difference(expected, programs.run(new, name, inputs))
        except RegraftError as error:
            found = ValueDifference("", f"it fails: {error}")
        if found is not None:
            return name, found
    return None


def _as_module(program: Function | IRModule) -> IRModule:
    if isinstance(program, IRModule):
        return program
    name = program.name or "main"
    return IRModule({name: program.with_attr("global_symbol", name)})
