"""Steps that look at one value, and the registers that they use; `compile` strings them together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...ir.expr import ShapeExpr, Tuple
from ...ir.op import Op
from ...ir.types import ShapeType, bind_type
from .. import reasons
from ..pattern import (
    CallPattern,
    DataTypePattern,
    DFPattern,
    Extent,
    PrimArrPattern,
    RepeatPattern,
    ShapePattern,
    TypePattern,
)
from .conditions import anything, attr_check, certainly_of_type, dtype_check, leaf_check
from .elements import ElementCode
from .machine import DEFINITIONS, FIRST_FREE, SIZES, TRACER, UNSET, Code, Place, Registers
from .splits import Splits
from .view import as_written, definition, resolve, same_value


class TooManySteps(Exception):
    """More steps than a `StepWriter` was to make."""


class Routine:
    """Steps that several places run: ``entry`` and ``operand`` are the registers of the value, ``back`` of the return.

    ``learnt``: what the patterns inside are afterwards that they were not before (see `Compiler`).
    """

    __slots__ = ("back", "entry", "learnt", "operand", "start")

    def __init__(self, entry: int, operand: int, back: int) -> None:
        self.entry = entry
        self.operand = operand
        self.back = back
        self.start = -1
        self.learnt: tuple[set[DFPattern], ...] = ()


class StepWriter:
    """Appends steps to `code`. Each pattern has two registers: its leaf, and after it what a rewriter is shown."""

    def __init__(self, most: int | None = None) -> None:
        self.place = Place()
        self._steps_left = most
        self.code = self._new_code()
        self.slots: dict[DFPattern, int] = {}
        self.register_count = FIRST_FREE
        self.bound: set[DFPattern] = set()
        self.raw: set[int] = set()
        """The registers that hold operands as they are written, or lists of these; all others hold leaves."""
        self._as_written: dict[int, int] = {}
        """For a register with a leaf, the one with the operand as it is written, where that is needed."""
        self._extents: dict[Extent, int] = {}

    def _new_code(self) -> Code:
        return Code(self._here)

    def _here(self) -> tuple[Place, int]:
        """What is known of a step that is being added."""
        if self._steps_left is not None:
            self._steps_left -= 1
            if self._steps_left < 0:
                raise TooManySteps
        return self.place, len(self.bound)

    def register(self) -> int:
        """A register for an operand."""
        self.register_count += 1
        return self.register_count - 1

    def slot(self, pattern: DFPattern) -> int:
        """The first of the two registers of ``pattern``: its leaf, and after it what a rewriter is shown."""
        found = self.slots.get(pattern)
        if found is None:
            found = self.slots[pattern] = self.register_count
            self.register_count += 2
        return found

    def extent_register(self, extent: Extent | None) -> int | None:
        """The register that holds the length that ``extent`` has in this match."""
        if extent is None:
            return None
        if extent not in self._extents:
            self._extents[extent] = self.register()
        return self._extents[extent]

    def fresh_registers(self, template: dict[int, Any]) -> Registers:
        """Registers for one run, with those of ``template`` set."""
        r: Registers = [UNSET] * self.register_count
        r[TRACER] = None
        r[SIZES] = {}
        for index, value in template.items():
            r[index] = value
        return r

    def _resolve(self, raw: int, pattern: DFPattern) -> int:
        """A register with the leaf of the operand in register ``raw``, for ``pattern`` to match."""
        register, after = self.register(), len(self.code.steps) + 1

        def run(r: Registers) -> int:
            r[register] = resolve(r[DEFINITIONS], r[raw])
            return after

        self.code.add_test(run, pattern, reasons.never)
        return register

    def _enter_routine(self, routine: Routine, pattern: DFPattern, source: int) -> list[int]:
        """A step into ``routine`` for the value in register ``source``; the result is to hold where it comes back."""
        start, back = len(self.code.steps) + 1 if routine.start < 0 else routine.start, [0]
        routine.start = start
        entry, operand, place = routine.entry, routine.operand, routine.back
        written = self._as_written.get(source, source)

        def run(r: Registers) -> Iterator[int]:
            # What is open inside the routine comes back here when it is resumed, even after the routine was run again.
            before = r[entry], r[operand], r[place]
            r[entry], r[operand], r[place] = r[source], r[written], back[0]
            yield start
            r[entry], r[operand], r[place] = before

        self.code.add_choice(run, pattern, reasons.never)
        return back

    def _leave_routine(self, routine: Routine, pattern: DFPattern) -> None:
        place = routine.back

        def run(r: Registers) -> int:
            back: int = r[place]
            return back

        self.code.add_test(run, pattern, reasons.never)

    def _same(self, pattern: DFPattern, source: int) -> None:
        slot, after = self.slot(pattern), len(self.code.steps) + 1

        def run(r: Registers) -> int:
            have, want = r[source], r[slot]
            return after if have is want or same_value(r[DEFINITIONS], have, want) else -1

        def why(r: Registers) -> tuple[str, str]:
            return reasons.shared_value(pattern, r[slot], r[source])

        self.code.add_test(run, pattern, why)

    def _leaf(self, pattern: DFPattern, source: int) -> None:
        slot, after = self.slot(pattern), len(self.code.steps) + 1
        accepts = leaf_check(pattern)

        def bind(r: Registers) -> int:
            r[slot] = r[slot + 1] = r[source]
            return after

        def run(r: Registers) -> int:
            leaf = r[source]
            if not accepts(r, leaf):
                return -1
            r[slot] = r[slot + 1] = leaf
            return after

        def why(r: Registers) -> tuple[str, str]:
            return reasons.wrong_leaf(pattern, r[source], r[DEFINITIONS])

        self.code.add_test(bind if accepts is anything else run, pattern, why)

    def _shape_literal(self, pattern: PrimArrPattern, source: int) -> None:
        slot, after = self.slot(pattern), len(self.code.steps) + 1
        expected = ShapeType(pattern.fields)

        def run(r: Registers) -> Iterator[int]:
            leaf, before = r[source], r[SIZES]
            sizes = dict(before)
            if isinstance(leaf, ShapeExpr) and bind_type(expected, leaf.ty, sizes) is True:
                r[slot] = r[slot + 1] = leaf
                r[SIZES] = sizes
                yield after
                r[SIZES] = before

        self.code.add_choice(run, pattern, lambda r: reasons.wrong_leaf(pattern, r[source], r[DEFINITIONS]))

    def _condition(self, pattern: DFPattern) -> None:
        """The condition of a constrained pattern, once its inner pattern has matched."""
        slot, after = self.slot(pattern), len(self.code.steps) + 1

        def why(r: Registers) -> tuple[str, str]:
            return reasons.condition(pattern, r[slot], definition(r[DEFINITIONS], r[slot]), r[SIZES])

        if isinstance(pattern, TypePattern | ShapePattern):
            ty = pattern.ty if isinstance(pattern, TypePattern) else None
            shape = pattern.shape if isinstance(pattern, ShapePattern) else None

            def bind(r: Registers) -> Iterator[int]:
                before = r[SIZES]
                sizes = dict(before)
                if certainly_of_type(r[slot].ty, ty, shape, sizes):
                    r[SIZES] = sizes
                    yield after
                    r[SIZES] = before

            self.code.add_choice(bind, pattern, why)
            return
        holds = dtype_check(pattern) if isinstance(pattern, DataTypePattern) else attr_check(pattern)

        def run(r: Registers) -> int:
            return after if holds(r[slot], definition(r[DEFINITIONS], r[slot])) else -1

        self.code.add_test(run, pattern, why)

    def _copy(self, outer: DFPattern, inner: DFPattern) -> None:
        """``outer`` stands for what ``inner`` stands for."""
        slot, other, after = self.slot(outer), self.slot(inner), len(self.code.steps) + 1

        def run(r: Registers) -> int:
            r[slot], r[slot + 1] = r[other], r[other + 1]
            return after

        self.code.add_test(run, outer, reasons.never)

    def _copy_and_jump(self, outer: DFPattern, inner: DFPattern) -> list[int]:
        slot, other = self.slot(outer), self.slot(inner)
        target = [0]

        def run(r: Registers) -> int:
            r[slot], r[slot + 1] = r[other], r[other + 1]
            return target[0]

        self.code.add_test(run, outer, reasons.never)
        return target

    def _fields(self, pattern: DFPattern, source: int, fields: int, *, raw: bool) -> None:
        slot, after = self.slot(pattern), len(self.code.steps) + 1
        look = as_written if raw else resolve

        def run(r: Registers) -> int:
            definitions = r[DEFINITIONS]
            whole = definitions.get(r[source], r[source])
            if type(whole) is not Tuple:
                return -1
            r[slot], r[slot + 1] = r[source], whole
            r[fields] = [look(definitions, field) for field in whole.fields]
            return after

        def why(r: Registers) -> tuple[str, str]:
            return reasons.not_a_tuple(pattern, r[source], r[DEFINITIONS])

        self.code.add_test(run, pattern, why)

    def _split(
        self,
        owner: DFPattern,
        parts: Sequence[DFPattern],
        elements: int,
        registers: Sequence[int],
        bodies: Sequence[ElementCode],
        *,
        allow_rest: bool,
    ) -> None:
        """Share the list in register ``elements`` out between repeats, whose code will be in ``bodies``."""
        slot, after = self.slot(owner), len(self.code.steps) + 1
        extents = [self.extent_register(part.extent) for part in parts if isinstance(part, RepeatPattern)]
        splits = Splits(parts, elements, registers, extents, bodies, allow_rest=allow_rest, is_raw=elements in self.raw)

        def run(r: Registers) -> Iterator[int]:
            for _ in splits.ways(r):
                yield after

        def why(r: Registers) -> tuple[str, str]:
            return reasons.wrong_run(owner, r[slot], len(r[elements]), parts, [e and r[e] for e in extents])

        self.code.add_choice(run, owner, why)

    def _commute(self, pattern: CallPattern, slot: int, registers: tuple[int, ...]) -> None:
        first, second = registers
        after = len(self.code.steps) + 1

        def run(r: Registers) -> Iterator[int]:
            a, b = r[first], r[second]
            yield after
            op = r[slot + 1].op
            if type(op) is Op and op.is_commutative and a is not b:
                r[first], r[second] = b, a
                yield after
                r[first], r[second] = a, b

        self.code.add_choice(run, pattern, reasons.never)

    def _commute_list(self, pattern: CallPattern, slot: int, arguments: int) -> None:
        after = len(self.code.steps) + 1

        def run(r: Registers) -> Iterator[int]:
            values = r[arguments]
            yield after
            op = r[slot + 1].op
            if type(op) is Op and op.is_commutative and len(values) == 2 and values[0] is not values[1]:
                r[arguments] = values[::-1]
                yield after
                r[arguments] = values

        self.code.add_choice(run, pattern, reasons.never)
