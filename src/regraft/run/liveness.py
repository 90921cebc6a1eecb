"""Liveness: the variables that a piece of a program reads, and the last reader of each in a body."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..analysis.uses import variables_of
from ..ir.builder import flatten
from ..ir.expr import Expr, Var
from ..ir.program import MatchCast, SeqExpr
from ..ir.types import Type


class Statement(NamedTuple):
    """One step of a body in A-normal form: ``var = value``, checked to be of ``cast`` for a ``match_cast``."""

    var: Var
    value: Expr
    cast: Type | None


def statements_of(body: SeqExpr) -> tuple[list[Statement], Expr]:
    """The steps of a body, inner calls bound to variables of their own, and the leaf that it leads to."""
    statements: list[Statement] = []

    def bind(value: Expr) -> Var:
        var = Var("lv", value.ty)
        statements.append(Statement(var, value, None))
        return var

    for block in body.blocks:
        for binding in block.bindings:
            if isinstance(binding, MatchCast):
                statements.append(Statement(binding.var, flatten(binding.value, bind, keep_root=False), binding.ty))
            else:
                statements.append(Statement(binding.var, flatten(binding.value, bind), None))
    return statements, flatten(body.body, bind, keep_root=False)


def last_reads(
    statements: Sequence[Statement],
    outcome: Expr,
    owned: Iterable[Var],
    kept: set[Var],
    *,
    keep_outcome: bool,
) -> list[list[Var]]:
    """For each step, counted from 1, the variables that nothing reads after it; at 0 those that nothing reads
    at all.

    Looked at are the variables of ``owned`` and those that the steps bind, except the ``kept``. The outcome
    counts as one more step, and its variables go with it unless ``keep_outcome``. Cost: linear.
    """
    last: dict[Var, int] = dict.fromkeys(owned, 0)
    for step, statement in enumerate(statements, 1):
        for var in variables_of(statement.value):
            if var in last:
                last[var] = step
        last[statement.var] = step
    end = len(statements) + 1
    for var in variables_of(outcome):
        if var in last:
            last[var] = end
    dead: list[list[Var]] = [[] for _ in range(end + 1)]
    for var, step in last.items():
        if var not in kept and not (keep_outcome and step == end):
            dead[step].append(var)
    return dead
