"""The limits of a pattern of a call: a number of operands and names of attributes that its operator has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from ..ir.errors import IRError
from ..ir.op import Op


class PatternError(IRError):
    """A pattern that cannot mean anything: a wrong field, a constraint outside of a context, a bad repeat."""


def check_count(operators: Sequence[Op] | None, given: int, *, more: bool) -> None:
    """Raise `PatternError` where no call of ``operators`` has ``given`` operands, or with ``more`` at least as many."""
    for op in operators or ():
        least, most = op.arity
        if (most is None or given <= most) and (more or given >= least):
            return
    if not operators:
        return
    first = operators[0]
    least, most = first.arity
    wanted = f"{least}" if least == most else f"{least} or more" if most is None else f"{least} to {most}"
    names = ", ".join(f"{operand.name}?" if operand.optional else operand.name for operand in first.operands)
    hint = "; varg_default_wildcard=True lets there be more" if given < least else ""
    plural = "" if most == 1 else "s"
    raise PatternError(f"{first.name} takes {wanted} operand{plural} ({names}), and the pattern has {given}{hint}")


def check_names(operators: Sequence[Op] | None, names: Iterable[str]) -> None:
    """Raise `PatternError` for a name of an attribute that no call of ``operators`` has."""
    if not operators or any(op.is_foreign for op in operators):
        return
    known = list(dict.fromkeys(name for op in operators for name in op.attributes))
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(known) or 'none'}"
            raise PatternError(f"has_attr: {operators[0].name} has no attribute {name!r}; {hint}")
