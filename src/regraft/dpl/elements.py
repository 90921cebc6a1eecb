"""Matching the elements of a repeat: one after the other, with every way to match them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..ir.expr import Expr
from ..ir.op import Call
from .machine import TRACER, Code, Registers, Tracer, solutions, succeeds
from .parts import Ops
from .pattern import DFPattern, RepeatPattern
from .view import Definitions, definition


class ElementCode:
    """The code for one element of a repeat: where its value goes in, and which registers are its own.

    ``gathered`` are the registers of the patterns ``own``; ``shared`` are the others, and a match of one element binds
    those that are ``certain``.
    """

    __slots__ = ("certain", "code", "entry", "gathered", "own", "shared")

    def __init__(
        self,
        code: Code,
        entry: int,
        gathered: list[int],
        own: set[DFPattern],
        shared: set[DFPattern],
        certain: set[DFPattern],
    ) -> None:
        self.code = code
        self.entry = entry
        self.gathered = gathered
        self.own = own
        self.shared = shared
        self.certain = certain


def undisturbed(code: Code, r: Registers) -> Iterator[None]:
    """`solutions`, for a caller that uses the element's own registers before it asks for the next one."""
    for _ in solutions(code, r):
        left_behind = r.copy()
        yield
        r[:] = left_behind


def first_row(body: ElementCode, leaf: Expr, registers: Sequence[int], r: Registers) -> list[tuple[Any, Any]] | None:
    """What the first way in which ``leaf`` matches puts into ``registers``, or None; nothing else is changed."""
    before = r.copy() if body.code.has_choices else None
    r[body.entry] = leaf
    row = [(r[g], r[g + 1]) for g in registers] if succeeds(body.code, r) else None
    if before is not None:
        r[:] = before
    return row


def element_rows(body: ElementCode, values: Sequence[Expr], r: Registers) -> Iterator[list[list[tuple[Any, Any]]]]:
    """Each way in which all ``values`` match: for each value, what each of the element's own patterns stands for.

    Elements that can match in one way only cost one run each; else the youngest open element is resumed first.
    """
    gathered = body.gathered
    rows: list[list[tuple[Any, Any]]] = []
    tracer: Tracer | None = r[TRACER]
    if not body.code.has_choices:
        for index, value in enumerate(values):
            r[body.entry] = value
            if tracer is not None:
                tracer.element = index
            if not succeeds(body.code, r):
                _leave(tracer)
                return
            rows.append([(r[g], r[g + 1]) for g in gathered])
        _leave(tracer)
        yield rows
        return
    open_elements: list[Iterator[None]] = []
    while True:
        if len(rows) == len(values):
            _leave(tracer)
            yield rows
        else:
            r[body.entry] = values[len(rows)]
            open_elements.append(undisturbed(body.code, r))
        while open_elements:
            if len(rows) == len(open_elements):
                rows.pop()
            if tracer is not None:
                tracer.element = len(open_elements) - 1
            if next(open_elements[-1], True) is None:
                rows.append([(r[g], r[g + 1]) for g in gathered])
                break
            open_elements.pop()
        else:
            _leave(tracer)
            return


def _leave(tracer: Tracer | None) -> None:
    if tracer is not None:
        tracer.element = -1


def callees(ops: Ops, leaves: Sequence[Expr], definitions: Definitions) -> list[bool]:
    """Which of ``leaves`` are calls of one of ``ops``; all, if that is None."""
    if ops is None:
        return [True] * len(leaves)
    values = [definition(definitions, leaf) for leaf in leaves]
    return [isinstance(value, Call) and value.op in ops for value in values]


def run_lengths(takes: Sequence[bool]) -> list[int]:
    """For each place, and the end, how many True values in a row begin there."""
    ahead = [0] * (len(takes) + 1)
    for at in range(len(takes) - 1, -1, -1):
        ahead[at] = ahead[at + 1] + 1 if takes[at] else 0
    return ahead


def share_out(
    repeats: Sequence[RepeatPattern],
    extents: Sequence[int | None],
    places: Sequence[int],
    total: int,
    known: dict[int, int],
    reaches: Sequence[list[int] | None],
    between: Sequence[Sequence[tuple[int, list[bool]]]],
) -> Iterator[tuple[int, ...]]:
    """The lengths that repeats in a row may have to take ``total`` elements; longer runs come first, leftmost first.

    ``places``: how many other elements stand before each; ``reaches``: how long its run may be from each place;
    ``between``: the other elements before each, and those at the end, each with the places where it may be.
    Cost: repeats * total, and what is given: nothing is begun that cannot be completed, extents aside.
    """
    if total < 0:
        return
    rows = zip(repeats, places, reaches, strict=True)
    bounds = [_bounds(repeat, place, reach, total) for repeat, place, reach in rows]
    fits = _completable(repeats, bounds, between, total)
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
