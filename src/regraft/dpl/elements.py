"""Matching the elements of a repeat: one after the other, with every way to match them all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..ir.expr import Expr
from .machine import TRACER, Code, Registers, Tracer, solutions, succeeds
from .pattern import DFPattern, RepeatPattern


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


def share_out(
    repeats: Sequence[RepeatPattern], extents: Sequence[int | None], total: int, known: dict[int, int]
) -> Iterator[tuple[int, ...]]:
    """The lengths that repeats in a row may have to fill ``total`` places; longer runs come first, leftmost first."""
    lengths: list[int] = []
    given: list[dict[int, int]] = [known]

    def options(index: int, left: int) -> Iterable[int]:
        repeat, extent = repeats[index], extents[index]
        most = left if repeat.max is None else min(left, repeat.max)
        if extent is not None and extent in given[-1]:
            length = given[-1][extent]
            return (length,) if repeat.min <= length <= most else ()
        if index == len(repeats) - 1:
            return (left,) if repeat.min <= left <= most else ()
        return range(most, repeat.min - 1, -1)

    if total < 0:
        return
    stack = [iter(options(0, total))]
    while stack:
        length = next(stack[-1], None)
        if length is None:
            stack.pop()
            if lengths:
                lengths.pop()
                given.pop()
            continue
        lengths.append(length)
        extent = extents[len(lengths) - 1]
        given.append(given[-1] if extent is None else {**given[-1], extent: length})
        left = total - sum(lengths)
        if len(lengths) < len(repeats):
            stack.append(iter(options(len(lengths), left)))
            continue
        if left == 0:
            yield tuple(lengths)
        lengths.pop()
        given.pop()
