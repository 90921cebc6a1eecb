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
    """One step of a body in A-normal form: ``var = value``, checked against the type ``cast`` for a ``match_cast``."""

    var: Var
    value: Expr
    cast: Type | None


def statements_of(body: SeqExpr) -> tuple[list[Statement], Expr]:
    """The steps of a body, with inner calls bound to new variables, and the leaf that is its result."""
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
    """The variables that nothing reads after each step, counted from 1; at 0 those of ``owned`` that are never read.

    Considered are the variables in ``owned`` and those that the steps bind, except ``kept``. A variable that is never
    read belongs to the step that binds it. The outcome counts as one more step; its variables are left out if
    ``keep_outcome``. Cost: linear.
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
