"""Sharing a row of elements out between repeats: which lengths their runs may have, in which order they are tried.

Longer runs come first, leftmost first. Of the splits only those are tried in which each element may stand where it
comes, by the operators of the patterns, and, where three or more runs leave much open, by trying each element with each
repeat once: rows that cannot be shared out are found to be so in time linear in their length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from ...ir.expr import Expr
from ...ir.op import Call
from ..pattern import (
    ConstantPattern,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    GlobalVarPattern,
    NotPattern,
    OpPattern,
    RepeatPattern,
    ScalarPattern,
    VarPattern,
    all_patterns,
)
from .conditions import leaf_check
from .elements import ElementCode, first_row
from .machine import DEFINITIONS, TRACER, UNSET, Registers
from .parts import Ops, root_ops
from .view import Definitions, definition, resolve

_LEAVES = (ConstantPattern, ExprPattern, VarPattern, GlobalVarPattern, ExternFuncPattern, OpPattern, ScalarPattern)

_MOST_TO_EXPLAIN: Final = 1000
"""So many splits that cannot match are tried to say why they do not."""


class _Limits(NamedTuple):
    """What elements allow: for each repeat the longest runs by place (None: any), and where single parts may stand."""

    reaches: Sequence[list[int] | None]
    between: Sequence[Sequence[tuple[int, list[bool]]]]


class Splits:
    """The ways to share the list in register ``elements`` out between ``parts``, and into ``registers``.

    ``extents`` are the registers of the lengths that repeats have together with others, or None; ``bodies``, filled
    by the time that this runs, the code of each repeat. ``is_raw``: the list holds operands as they are written.
    """

    __slots__ = (
        "_allow_rest", "_bodies", "_elements", "_extents", "_fixed", "_gaps", "_is_raw", "_ops", "_parts", "_places",
        "_plain", "_registers", "_repeats", "_tries_elements",
    )  # fmt: skip

    def __init__(
        self,
        parts: Sequence[DFPattern],
        elements: int,
        registers: Sequence[int],
        extents: Sequence[int | None],
        bodies: Sequence[ElementCode],
        *,
        allow_rest: bool,
        is_raw: bool,
    ) -> None:
        self._parts = parts
        self._elements = elements
        self._registers = registers
        self._extents = extents
        self._bodies = bodies
        self._allow_rest = allow_rest
        self._is_raw = is_raw
        self._repeats = [part for part in parts if isinstance(part, RepeatPattern)]
        self._fixed = len(parts) - len(self._repeats)
        self._places, self._gaps = _places(parts)
        self._ops = [root_ops(part) for part in self._repeats]
        self._tries_elements = len(self._repeats) + allow_rest > 2
        # Whether an element is rejected may be decided by a neighbour, so it cannot be tried alone.
        self._plain = [not any(isinstance(p, NotPattern) for p in all_patterns(part)) for part in self._repeats]

    def ways(self, r: Registers) -> Iterator[None]:
        """Each way, in the registers while the caller looks at it."""
        values: list[Any] = r[self._elements]
        known = {e: r[e] for e in self._extents if e is not None and r[e] is not UNSET}
        for lengths in self._lengths(values, known, r):
            assigned = iter(lengths)
            at = 0
            for part, register in zip(self._parts, self._registers, strict=True):
                if isinstance(part, RepeatPattern):
                    length = next(assigned)
                    r[register] = values[at : at + length]
                    at += length
                else:
                    r[register] = values[at]
                    at += 1
            for extent, length in zip(self._extents, lengths, strict=True):
                if extent is not None:
                    r[extent] = length
            yield
        for extent in self._extents:
            if extent is not None and extent not in known:
                r[extent] = UNSET

    def _lengths(self, values: Sequence[Any], known: dict[int, int], r: Registers) -> Iterator[tuple[int, ...]]:
        open_limits = _Limits([None] * len(self._repeats), [()] * len(self._gaps))
        if len(self._repeats) < 2 and not self._allow_rest:
            return self._shared_out(len(values), known, open_limits)
        if r[TRACER] is None:
            return self._shared_out(len(values), known, self._limits(values, r))
        # What cannot match is tried, too, to say why; not for ever, though.
        if len(values) ** (len(self._repeats) + self._allow_rest - 1) <= _MOST_TO_EXPLAIN:
            return self._shared_out(len(values), known, open_limits)
        limits = self._limits(values, r)
        if next(self._shared_out(len(values), known, limits), None) is not None:
            return self._shared_out(len(values), known, limits)
        return islice(self._shared_out(len(values), known, open_limits), _MOST_TO_EXPLAIN)

    def _shared_out(self, count: int, known: dict[int, int], limits: _Limits) -> Iterator[tuple[int, ...]]:
        total = count - self._fixed
        for taken in range(total, -1, -1) if self._allow_rest else (total,):
            yield from _share_out(self._repeats, self._extents, self._places, taken, known, limits)

    def _limits(self, values: Sequence[Any], r: Registers) -> _Limits:
        definitions = r[DEFINITIONS]
        leaves = [resolve(definitions, value) for value in values] if self._is_raw else values
        tracer, r[TRACER] = r[TRACER], None
        reaches = [self._reach_of(index, values, leaves, r) for index in range(len(self._repeats))]
        r[TRACER] = tracer
        between = [[(place, _may_be(part, leaves, r)) for place, part in gap] for gap in self._gaps]
        return _Limits(reaches, between)

    def _reach_of(self, index: int, values: Sequence[Expr], leaves: Sequence[Expr], r: Registers) -> list[int] | None:
        """For each place, how many elements in a row repeat ``index`` can have from there; None: any number."""
        is_tried = self._tries_elements and self._plain[index]
        if self._ops[index] is None and not is_tried:
            return None
        takes = _callees(self._ops[index], leaves, r[DEFINITIONS])
        if is_tried:
            body = self._bodies[index]
            tried = values if body.is_raw else leaves
            takes = [ok and first_row(body, one, (), r) is not None for ok, one in zip(takes, tried, strict=True)]
        return _run_lengths(takes)


def _places(parts: Sequence[DFPattern]) -> tuple[list[int], list[list[tuple[int, DFPattern]]]]:
    """How many single parts stand before each repeat; and the single parts between repeats, with that number too."""
    places: list[int] = []
    gaps: list[list[tuple[int, DFPattern]]] = [[]]
    single = 0
    for part in parts:
        if isinstance(part, RepeatPattern):
            places.append(single)
            gaps.append([])
        else:
            gaps[-1].append((single, part))
            single += 1
    return places, gaps


def _may_be(part: DFPattern, leaves: Sequence[Expr], r: Registers) -> list[bool]:
    """Which of ``leaves`` a single part may stand for, by what can be told at once."""
    if isinstance(part, _LEAVES):
        accepts = leaf_check(part)
        return [accepts(r, leaf) for leaf in leaves]
    return _callees(root_ops(part), leaves, r[DEFINITIONS])


def _callees(ops: Ops, leaves: Sequence[Expr], definitions: Definitions) -> list[bool]:
    """Which of ``leaves`` are calls of one of ``ops``; all, if that is None."""
    if ops is None:
        return [True] * len(leaves)
    values = [definition(definitions, leaf) for leaf in leaves]
    return [isinstance(value, Call) and value.op in ops for value in values]


def _run_lengths(takes: Sequence[bool]) -> list[int]:
    """For each place, and the end, how many True values in a row begin there."""
    ahead = [0] * (len(takes) + 1)
    for at in range(len(takes) - 1, -1, -1):
        ahead[at] = ahead[at + 1] + 1 if takes[at] else 0
    return ahead


def _share_out(
    repeats: Sequence[RepeatPattern],
    extents: Sequence[int | None],
    places: Sequence[int],
    total: int,
    known: dict[int, int],
    limits: _Limits,
) -> Iterator[tuple[int, ...]]:
    """The lengths that repeats in a row may have to take ``total`` elements; longer runs come first, leftmost first.

    ``places``: how many other elements stand before each.
    Cost: repeats * total, and what is given: nothing is begun that cannot be completed, extents aside.
    """
    if total < 0:
        return
    rows = zip(repeats, places, limits.reaches, strict=True)
    bounds = [_bounds(repeat, place, reach, total) for repeat, place, reach in rows]
    fits = _completable(repeats, bounds, limits.between, total)
    lengths: list[int] = []
    given: list[dict[int, int]] = [known]

    def options(index: int, taken: int) -> Iterator[int]:
        extent = extents[index]
        wanted = None if extent is None else given[-1].get(extent)
        for length in range(bounds[index][taken], repeats[index].min - 1, -1):
            if fits[index + 1][taken + length] and wanted in (None, length):
                yield length

    stack = [options(0, 0)] if fits[0][0] else []
    while stack:
        length = next(stack[-1], None)
        if length is None:
            stack.pop()
            if lengths:
                lengths.pop()
                given.pop()
            continue
        extent = extents[len(lengths)]
        lengths.append(length)
        given.append(given[-1] if extent is None else {**given[-1], extent: length})
        if len(lengths) < len(repeats):
            stack.append(options(len(lengths), sum(lengths)))
            continue
        yield tuple(lengths)
        lengths.pop()
        given.pop()


def _bounds(repeat: RepeatPattern, place: int, reach: list[int] | None, total: int) -> list[int]:
    """The longest run that ``repeat`` may have, by how many of the ``total`` elements those before it took."""
    most = total if repeat.max is None else repeat.max
    return [min(most, total - taken, total if reach is None else reach[place + taken]) for taken in range(total + 1)]


def _completable(
    repeats: Sequence[RepeatPattern],
    bounds: Sequence[list[int]],
    between: Sequence[Sequence[tuple[int, list[bool]]]],
    total: int,
) -> list[list[bool]]:
    """For each repeat, and the end: whether all from there on can take what is left, by what repeats took before."""

    def stand(index: int, taken: int) -> bool:
        return all(may_be[place + taken] for place, may_be in between[index])

    fits = [[taken == total and stand(len(repeats), taken) for taken in range(total + 1)]]
    for index in range(len(repeats) - 1, -1, -1):
        sums = [0]
        for fit in fits[-1]:
            sums.append(sums[-1] + fit)
        own: list[bool] = []
        for taken in range(total + 1):
            first, last = taken + repeats[index].min, taken + bounds[index][taken]
            own.append(first <= last and sums[last + 1] > sums[first] and stand(index, taken))
        fits.append(own)
    return fits[::-1]
