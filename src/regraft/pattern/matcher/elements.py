"""Matching the elements of a repeat: one after the other, with every way to match them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...ir.expr import Expr
from ..pattern import DFPattern
from .machine import TRACER, Code, Registers, Tracer, solutions, succeeds


class ElementCode:
    """The code for one element of a repeat: where its value goes in, and which registers are its own.

    ``gathered`` are the registers of the patterns ``own``; ``shared`` are the others, and a match of one element binds
    those that are ``certain``. ``is_raw``: ``entry`` is to hold the value as it is written.
    """

    __slots__ = ("certain", "code", "entry", "gathered", "is_raw", "own", "shared")

    def __init__(
        self,
        code: Code,
        entry: int,
        gathered: list[int],
        own: set[DFPattern],
        shared: set[DFPattern],
        certain: set[DFPattern],
        *,
        is_raw: bool,
    ) -> None:
        self.code = code
        self.entry = entry
        self.gathered = gathered
        self.own = own
        self.shared = shared
        self.certain = certain
        self.is_raw = is_raw


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
