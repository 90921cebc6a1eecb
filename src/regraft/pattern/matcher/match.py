"""Matches of a single pattern, which is compiled once and can be tried at any value."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from ...analysis.values import BlockView, Definitions
from ...ir.expr import Expr, Var
from ..constrained_patterns import UsersPattern
from ..matchings import Matchings
from ..parts import depth, link_tests, root_ops
from ..pattern import DFPattern, all_patterns
from .goals import CompiledPatterns
from .machine import MatchState, Remembered, Tracer


class CompiledPattern:
    """A compiled pattern. ``ops`` are the operators whose calls may match its root (None: any value may match).

    ``most_users`` is the largest number of users in a condition of the pattern; -1 if it has no such condition.
    """

    __slots__ = ("depth", "links", "most_users", "ops", "step")

    def __init__(self, pattern: DFPattern) -> None:
        self.step = CompiledPatterns([pattern]).root(pattern)
        self.ops = root_ops(pattern)
        self.depth = depth(pattern)
        self.links = link_tests(pattern)
        counts = [part.count for part in all_patterns(pattern) if isinstance(part, UsersPattern)]
        self.most_users = max((sys.maxsize if count is None else count for count in counts), default=-1)

    def searches(
        self,
        definitions: Definitions,
        value: Expr,
        tracer: Tracer | None = None,
        view: BlockView | None = None,
        remembered: Remembered | None = None,
    ) -> Iterator[MatchState]:
        """Yield the state of the search once for each way in which ``value`` matches.

        Users are counted in the block ``view``. Without it, ``definitions`` count as a block without outputs.
        Searches in the same block may share ``remembered``; the caller removes entries that an edit makes invalid.
        """
        if view is None and self.most_users >= 0:
            view = BlockView(None)
            for var, bound in definitions.items():
                view.position[var] = len(view.position)
                view.define(var, bound)
        search = MatchState(definitions, view, tracer, remembered=remembered)
        for _ in search.solutions((self.step, value, None, None, 0)):
            yield search


def compiled(pattern: DFPattern) -> CompiledPattern:
    """The compiled form of ``pattern``. It is made on first use and kept with the pattern."""
    found: CompiledPattern | None = pattern.compiled_form
    if found is None:
        found = pattern.compiled_form = CompiledPattern(pattern)
    return found


def match_expr(pattern: DFPattern, expr: Expr, var2val: Mapping[Var, Expr]) -> Matchings | None:
    """The first match of ``expr``, whose variables are defined by ``var2val``; None if there is none."""
    found = next(compiled(pattern).searches(var2val, expr), None)
    return None if found is None else Matchings(found.shown(), expr, var2val)
