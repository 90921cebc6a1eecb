"""A repeat as a root of a context: the largest set of bindings that match and agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from ...ir.expr import Expr, Var
from .. import reasons
from ..pattern import RepeatPattern, all_patterns
from .compile import Compiler
from .conditions import size_variables
from .elements import ElementCode, first_row, undisturbed
from .links import Link, heights_above, taken_by
from .machine import SEEN, SIZES, TRACER, UNSET, VIEW, Choice, Registers, Step, Tracer
from .parts import fixed_op
from .view import BlockView

Row = Sequence[tuple[Any, Any]]


class RepeatRoot:
    """Finds the sets of bindings that ``root`` can stand for, and puts them into its registers.

    Each way to fix the shared patterns gives one set: all bindings that match then, but for those in the registers
    ``others``. Cost of a set: one run per candidate near the shared value that has the fewest users.
    """

    def __init__(
        self, root: RepeatPattern, body: ElementCode, link: Link, others: Sequence[int], compiler: Compiler
    ) -> None:
        shared = [p for p in all_patterns(root.pattern) if p in body.shared and fixed_op(p) is None]
        heights = [(p, heights_above(root.pattern, p)) for p in shared]
        self.root = root
        self.body = body
        self.link = link
        self.others = others
        self.slot = compiler.slot(root)
        self.extent = compiler.extent_register(root.extent)
        self.keys = [compiler.slot(p) for p in shared]
        self.near = [(compiler.slot(p), Link(compiler.slot(p), above, link.ops)) for p, above in heights if above]
        self.binds_sizes = any(size_variables(p) for p in all_patterns(root.pattern))
        self.place, self.matched = compiler.place, len(compiler.bound)

    def of_anchor(self, entry: int, after: int) -> Choice:
        """The choice between the sets that the binding in register ``entry`` belongs to, each once in a sweep."""

        def run(r: Registers) -> Iterator[int]:
            view: BlockView = r[VIEW]
            if r[entry] not in view.position:
                return
            r[self.body.entry] = r[entry]
            for key in self._agreements(r):
                if key in r[SEEN]:
                    if r[TRACER] is not None:
                        r[TRACER].seen_before()
                    continue
                r[SEEN].add(key)
                yield from self._gather(r, self._nearest(r), after)

        return run

    def of_block(self, after: int) -> Choice:
        """The choice between all the sets that agree with what is matched so far."""

        def run(r: Registers) -> Iterator[int]:
            if all(r[key] is not UNSET for key in self.keys) and not self.binds_sizes:
                yield from self._gather(r, self.link, after)
                return
            view: BlockView = r[VIEW]
            seen: set[Any] = set()
            taken = taken_by(r, self.others)
            for candidate in self.link.candidates(r):
                if candidate in taken or candidate not in view.position:
                    continue
                r[self.body.entry] = candidate
                for key in self._agreements(r):
                    if key not in seen:
                        seen.add(key)
                        yield from self._gather(r, self._nearest(r), after)
            if not seen:
                yield from self._settle(r, [], [], after)

        return run

    def _agreements(self, r: Registers) -> Iterator[Any]:
        """For each way in which the entry's value matches: what it fixes for all the others."""
        for _ in undisturbed(self.body.code, r):
            yield (id(self.root), *(_identity(r[key]) for key in self.keys), *r[SIZES].items())

    def _nearest(self, r: Registers) -> Link:
        view: BlockView = r[VIEW]
        near = [(slot, link) for slot, link in self.near if isinstance(r[slot], Var)]
        if not near:
            return Link(None, frozenset(), self.link.ops)
        return min(near, key=lambda one: len(view.users.get(r[one[0]], ())))[1]

    def _gather(self, r: Registers, around: Link, after: int) -> Iterator[int]:
        view: BlockView = r[VIEW]
        taken = taken_by(r, self.others)
        leaves: list[Expr] = []
        rows: list[Row] = []
        for candidate in around.candidates(r):
            if candidate in taken or candidate not in view.position or len(rows) == self.root.max:
                continue
            row = first_row(self.body, candidate, self.body.gathered, r)
            if row is not None:
                leaves.append(candidate)
                rows.append(row)
        yield from self._settle(r, leaves, rows, after)

    def _settle(self, r: Registers, leaves: list[Expr], rows: list[Row], after: int) -> Iterator[int]:
        extent = self.extent
        wanted = UNSET if extent is None else r[extent]
        if len(rows) < self.root.min or wanted not in (UNSET, len(rows)):
            self._tell(r, len(rows), wanted)
            return
        for index, register in enumerate(self.body.gathered):
            r[register] = [row[index][0] for row in rows]
            r[register + 1] = [row[index][1] for row in rows]
        r[self.slot] = r[self.slot + 1] = leaves
        if extent is not None:
            r[extent] = len(rows)
        yield after
        if extent is not None:
            r[extent] = wanted
        for register in (self.slot, *self.body.gathered):
            r[register] = r[register + 1] = UNSET

    def _tell(self, r: Registers, found: int, wanted: Any) -> None:
        tracer: Tracer | None = r[TRACER]
        if tracer is not None:
            # Where only the length is wrong, that counts as further than any value that did not match.
            further = 0 if found < self.root.min else len(self.body.own) + 1
            why = partial(_wrong_count, self.root, found, wanted)
            tracer.failed(Step(self.root, why, self.place, self.matched + further), r)


def _wrong_count(root: RepeatPattern, found: int, wanted: Any, _r: Registers) -> tuple[str, str]:
    return reasons.wrong_count(root, found, None if wanted is UNSET else wanted)


def _identity(leaf: Any) -> object:
    return leaf if isinstance(leaf, Expr) else id(leaf)
