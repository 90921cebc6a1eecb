"""Matching one pattern: compiled once, run at any value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, cast

from ...ir.expr import Expr, Var
from ..matchings import Matchings
from ..pattern import AndPattern, ConstrainedPattern, DFPattern, NotPattern, OrPattern, RepeatPattern
from .compile import Compiler, briefly
from .machine import DEFINITIONS, SIZES, TRACER, UNSET, Registers, Tracer, solutions, succeeds
from .parts import inner_first, root_ops
from .view import Definitions, resolve


def depth(pattern: DFPattern) -> int:
    """How many definitions below the root a match may read: what an edit there can change is no further up."""
    same_value = (OrPattern, AndPattern, NotPattern, ConstrainedPattern, RepeatPattern)
    levels: dict[DFPattern, int] = {}
    for part in inner_first(pattern):
        step = 0 if isinstance(part, same_value) else 1
        levels[part] = max((levels[child] + step for child in part.children()), default=0)
    return levels[pattern]


def matchings_in(r: Registers, names: Iterable[tuple[DFPattern, int]], *, shown: bool) -> dict[Any, Any]:
    """From each pattern to its leaf or, if ``shown``, to what a rewriter is shown for it.

    A pattern inside a repeat gives a list, with None for the elements that took an alternative without it.
    """
    found: dict[Any, Any] = {}
    for pattern, slot in names:
        value = r[slot + 1] if shown else r[slot]
        if isinstance(value, list):
            values = cast("list[Any]", value)
            value = UNSET if values and all(v is UNSET for v in values) else [None if v is UNSET else v for v in values]
        if value is not UNSET:
            found[pattern] = value
    return found


def _compiled_alone(pattern: DFPattern, most: int | None) -> tuple[Compiler, int]:
    compiler = Compiler([pattern], most)
    entry = compiler.entry(pattern)
    compiler.compile(pattern, entry)
    compiler.finish()
    return compiler, entry


class CompiledPattern:
    """A pattern ready to run. ``ops`` are the operators its root may call (None: any value may match)."""

    __slots__ = ("_code", "_entry", "_names", "_template", "depth", "ops", "pattern", "reads_as_written")

    def __init__(self, pattern: DFPattern) -> None:
        compiler, self._entry = briefly(partial(_compiled_alone, pattern))
        self.pattern = pattern
        self._code = compiler.code
        self._names = tuple(compiler.slots.items())
        self._template = compiler.fresh_registers({})
        self.reads_as_written = self._entry in compiler.raw
        self.ops = root_ops(pattern)
        self.depth = depth(pattern)

    def start(self, definitions: Definitions, leaf: Expr, tracer: Tracer | None = None) -> Registers:
        """Registers ready to match ``leaf``."""
        r = self._template.copy()
        r[DEFINITIONS] = definitions
        r[TRACER] = tracer
        r[self._entry] = leaf
        return r

    def matches(
        self, definitions: Definitions, leaf: Expr, tracer: Tracer | None = None
    ) -> Iterator[dict[DFPattern, Any]]:
        """Each way in which ``leaf`` matches: from each pattern to what a rewriter is shown for it.

        It is resolved, or, for a pattern of fields of tuples, as it is written.
        """
        r = self.start(definitions, leaf, tracer)
        if self._code.has_choices:
            for _ in solutions(self._code, r):
                yield self._matchings(r)
        elif succeeds(self._code, r):
            yield self._matchings(r)

    def _matchings(self, r: Registers) -> dict[Any, Any]:
        found = matchings_in(r, self._names, shown=True)
        if r[SIZES]:
            found.update(r[SIZES])
        return found


def compiled(pattern: DFPattern) -> CompiledPattern:
    """``pattern`` ready to run; compiled on first use and kept as long as the pattern lives."""
    found: CompiledPattern | None = pattern.compiled_form
    if found is None:
        found = pattern.compiled_form = CompiledPattern(pattern)
    return found


def match_expr(pattern: DFPattern, expr: Expr, var2val: Mapping[Var, Expr]) -> Matchings | None:
    """The first match of ``expr``, looking through ``var2val``; None if there is none."""
    form = compiled(pattern)
    found = next(form.matches(var2val, expr if form.reads_as_written else resolve(var2val, expr)), None)
    return None if found is None else Matchings(found, expr, var2val)
