"""From a pattern to the steps of the machine.

Each pattern has two registers: the resolved leaf it stands for, and the expression that a rewriter is shown. Where a
pattern stands twice, the second place checks for the same value; which place is second is known here, except across
the alternatives of ``|`` and the elements of a repeat, where the registers are asked (`_once`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from ...ir.dims import SymVar
from ...ir.expr import TupleGetItem
from ...ir.op import Call
from ...ir.program import Function, VarBinding
from ...ir.steps import Steps, run_steps
from .. import reasons
from ..pattern import (
    AndPattern,
    AttrPattern,
    CallPattern,
    DataTypePattern,
    DFPattern,
    Extent,
    FunctionPattern,
    NotPattern,
    OrPattern,
    PatternError,
    PrimArrPattern,
    RepeatPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    UnorderedTuplePattern,
    all_patterns,
)
from .conditions import size_variables
from .elements import ElementCode, element_rows
from .emit import Routine, StepWriter, TooManySteps
from .machine import DEFINITIONS, TRACER, UNSET, Code, Registers, succeeds
from .parts import bindable, fixed_op, reached, shared_throughout, standing_in_several_places, written_projections
from .view import as_written, definition, projections, resolve, same_value


def in_two_repeats(part: DFPattern) -> PatternError:
    """The error for a pattern that would have to stand for two runs."""
    return PatternError(
        f"{part!r} stands in two repeats, so it would have to stand for two runs; give the second a "
        "pattern of its own (dup()), or list it in `shared` if it is one value"
    )


def _sizes_and_extents(part: DFPattern) -> list[SymVar | Extent]:
    extent = [part.extent] if isinstance(part, RepeatPattern) and part.extent is not None else []
    return [*size_variables(part), *extent]


MANY_STEPS: Final = 1024
"""So many steps a pattern gets before its parts are shared; `explain` then names only one of the places of each."""

_Made = TypeVar("_Made")


def briefly(make: Callable[[int | None], _Made]) -> _Made:
    """What ``make`` compiles with a limit to the steps, or, if it cannot keep to that, without one."""
    try:
        return make(MANY_STEPS)
    except TooManySteps:
        return make(None)


class Compiler(StepWriter):
    """Turns patterns into `Code`; one compiler for all patterns that share registers.

    A pattern that stands in several alternatives is compiled in each. Where that makes more than ``most`` steps,
    `TooManySteps` is raised; a compiler without that limit makes one routine of such a pattern instead, for all places
    where it means the same. Cost without the limit: the patterns times the parts of each.
    """

    def __init__(self, roots: Sequence[DFPattern], most: int | None = None) -> None:
        super().__init__(most)
        self._routines: dict[Any, Routine] = {}
        self._rejections: dict[Any, tuple[Code, int]] = {}
        self._in_several_places: set[DFPattern] = set()
        if most is None:
            self._in_several_places = standing_in_several_places(roots)
        self.standing: set[DFPattern] = {part for root in roots for part in bindable(root)}
        self.standing_sizes = {size for part in self.standing for size in _sizes_and_extents(part)}
        self._deferred: dict[NotPattern, int] = {}
        self._noted: dict[NotPattern, int] = {}
        self._written = written_projections(roots)
        self._parts: dict[DFPattern, frozenset[DFPattern]] = {}
        self.maybe: set[DFPattern] = set()
        self.repeated: set[DFPattern] = set()
        self.outside_repeats = shared_throughout(roots)

    def compile(self, pattern: DFPattern, source: int) -> None:
        """Steps that match the value in register ``source``, a resolved leaf, against ``pattern``."""
        run_steps(self._compile(pattern, source))

    def finish(self) -> None:
        """Steps for what can be decided only when all else is known; to be called once, at the end."""
        run_steps(self._reject_deferred())

    def entry(self, pattern: DFPattern) -> int:
        """A register for the value that ``pattern`` is to match: as it is written, where that matters to it."""
        return self._operand_register(pattern in self._written)

    def _operand_register(self, is_raw: bool) -> int:
        register = self.register()
        if is_raw:
            self.raw.add(register)
        return register

    def _compile(self, pattern: DFPattern, source: int) -> Steps[None]:
        if source in self.raw:
            source = self._resolved(source, pattern)
        outer = self.place
        self.place = outer.enter(pattern, source)
        if pattern in self.bound:
            self._same(pattern, source)
        elif pattern in self.maybe:
            yield self._once(pattern, source)
        else:
            yield self._structure(pattern, source)
        self.bound.add(pattern)
        self.place = outer

    def _resolved(self, raw: int, pattern: DFPattern) -> int:
        """A register with the leaf of the operand in register ``raw``."""
        register = self._resolve(raw, pattern)
        if pattern in self._written:
            self._as_written[register] = raw
        return register

    def _once(self, pattern: DFPattern, source: int) -> Steps[None]:
        """Match the structure if no earlier place has, else check that the value is the same."""
        slot = self.slot(pattern)
        end = [0]
        begin = len(self.code.steps) + 1

        def run(r: Registers) -> Iterator[int]:
            if r[slot] is not UNSET:
                if same_value(r[DEFINITIONS], r[source], r[slot]):
                    yield end[0]
                return
            yield begin
            r[slot] = r[slot + 1] = UNSET

        def why(r: Registers) -> tuple[str, str]:
            return reasons.shared_value(pattern, r[slot], r[source])

        self.code.add_choice(run, pattern, why)
        yield self._structure(pattern, source)
        end[0] = len(self.code.steps)

    def _structure(self, pattern: DFPattern, source: int) -> Steps[None]:
        """Steps for the first place of ``pattern`` on a way through the alternatives."""
        if pattern not in self._in_several_places:
            yield self._own_structure(pattern, source)
            return
        key = (pattern, self.code, source in self._as_written, *self._known_of(pattern))
        found = self._routines.get(key)
        if found is None:
            made = Routine(self.register(), self.register(), self.register())
            if source in self._as_written:
                self._as_written[made.entry] = made.operand
            before = set(self.bound), set(self.maybe), set(self.repeated)
            end = self._enter_routine(made, pattern, source)
            yield self._own_structure(pattern, made.entry)
            self._leave_routine(made, pattern)
            end[0] = len(self.code.steps)
            made.learnt = (self.bound - before[0], self.maybe - before[1], self.repeated - before[2])
            self._routines[key] = made
            return
        end = self._enter_routine(found, pattern, source)
        end[0] = len(self.code.steps)
        for known, learnt in zip((self.bound, self.maybe, self.repeated), found.learnt, strict=True):
            known |= learnt

    def _known_of(self, pattern: DFPattern) -> tuple[frozenset[DFPattern], ...]:
        """What is known of the parts of ``pattern``: where two places agree in that, they have the same steps."""
        parts = self._parts_of(pattern)
        return tuple(frozenset(parts & known) for known in (self.bound, self.maybe, self.repeated))

    def _parts_of(self, pattern: DFPattern) -> frozenset[DFPattern]:
        found = self._parts.get(pattern)
        if found is None:
            found = self._parts[pattern] = frozenset(all_patterns(pattern))
        return found

    def _own_structure(self, pattern: DFPattern, source: int) -> Steps[None]:
        match pattern:
            case CallPattern():
                yield self._call(pattern, source)
            case TuplePattern():
                yield self._tuple(pattern, source)
            case UnorderedTuplePattern():
                yield self._unordered(pattern, source)
            case TupleGetItemPattern():
                yield self._projection(pattern, source)
            case OrPattern():
                yield self._or(pattern, source)
            case AndPattern():
                yield self._compile(pattern.left, source)
                yield self._compile(pattern.right, source)
                self._copy(pattern, pattern.left)
            case NotPattern():
                yield self._not(pattern, source)
            case TypePattern() | DataTypePattern() | ShapePattern() | AttrPattern():
                yield self._compile(pattern.pattern, source)
                self._copy(pattern, pattern.pattern)
                self._condition(pattern)
            case FunctionPattern():
                yield self._function(pattern, source)
            case PrimArrPattern():
                self._shape_literal(pattern, source)
            case RepeatPattern():
                raise PatternError(
                    f"{pattern!r} stands where one value is wanted; a repeat stands among the fields of a tuple, "
                    "among the arguments of a call, or by itself in a PatternContext"
                )
            case _:
                self._leaf(pattern, source)

    def _call(self, pattern: CallPattern, source: int) -> Steps[None]:
        slot, after = self.slot(pattern), len(self.code.steps) + 1
        op = fixed_op(pattern.op)
        op_register, args_register = self.register(), self.register()
        raw = self._reads_as_written(pattern.args)
        look = as_written if raw else resolve
        count, at_least = len(pattern.args), pattern.varg_default_wildcard
        elastic = any(isinstance(arg, RepeatPattern) for arg in pattern.args)
        may_commute = count > 0 and (op is None or op.is_commutative)
        listed = elastic or (at_least and may_commute)
        registers = () if listed else tuple(self._operand_register(raw) for _ in pattern.args)

        def run(r: Registers) -> int:
            leaf = r[source]
            definitions = r[DEFINITIONS]
            call = definitions.get(leaf, leaf)
            if type(call) is not Call or (op is not None and call.op is not op):
                return -1
            args = call.args
            if len(args) != count and not elastic and not (at_least and len(args) > count):
                return -1
            r[slot] = leaf
            r[slot + 1] = call
            r[op_register] = call.op
            for register, arg in zip(registers, args, strict=False):
                r[register] = look(definitions, arg)
            if listed:
                r[args_register] = [look(definitions, arg) for arg in args]
            return after

        def why(r: Registers) -> tuple[str, str]:
            return reasons.wrong_call(pattern, r[source], r[DEFINITIONS])

        self.code.add_test(run, pattern, why)
        yield self._compile(pattern.op, op_register)
        if listed:
            if may_commute:
                self._commute_list(pattern, slot, args_register)
            yield self._run_of(pattern, pattern.args, args_register, allow_rest=at_least, raw=raw)
            return
        if count == 2 and may_commute and pattern.args[0] is not pattern.args[1]:
            self._commute(pattern, slot, registers)
        for arg, register in zip(pattern.args, registers, strict=True):
            yield self._compile(arg, register)

    def _reads_as_written(self, parts: Iterable[DFPattern]) -> bool:
        """Whether any of ``parts`` has to see how its operand is written; the others resolve it themselves then."""
        return any(part in self._written for part in parts)

    def _tuple(self, pattern: TuplePattern, source: int) -> Steps[None]:
        fields, raw = self.register(), self._reads_as_written(pattern.fields)
        self._fields(pattern, source, fields, raw=raw)
        yield self._run_of(pattern, pattern.fields, fields, allow_rest=False, raw=raw)

    def _run_of(
        self, owner: DFPattern, parts: Sequence[DFPattern], elements: int, *, allow_rest: bool, raw: bool
    ) -> Steps[None]:
        """Match the list in register ``elements`` against ``parts``, of which repeats take runs.

        ``raw``: the list holds operands as they are written.
        """
        registers = tuple(self._operand_register(raw) for _ in parts)
        bodies: list[ElementCode] = []
        if raw:
            self.raw.add(elements)
        after = len(self.code.steps) + 1
        if not any(isinstance(part, RepeatPattern) for part in parts):
            count = len(parts)

            def run(r: Registers) -> int:
                values = r[elements]
                if len(values) != count and not (allow_rest and len(values) > count):
                    return -1
                for register, value in zip(registers, values, strict=False):
                    r[register] = value
                return after

            slot = self.slot(owner)
            self.code.add_test(run, owner, lambda r: reasons.wrong_length(owner, r[slot], len(r[elements]), parts))
        else:
            self._split(owner, parts, elements, registers, bodies, allow_rest=allow_rest)
        for part, register in zip(parts, registers, strict=True):
            if isinstance(part, RepeatPattern):
                bodies.append((yield self._repeat(part, register)))
            else:
                yield self._compile(part, register)

    def _repeat(self, pattern: RepeatPattern, elements: int) -> Steps[ElementCode]:
        """Match each value of the list in register ``elements``; what the parts stand for is gathered in lists.

        Gives the code for one of them.
        """
        outer = self.place
        self.place = outer.enter(pattern, elements)
        first_here = [p for p in all_patterns(pattern.pattern) if p not in self.bound and p not in self.maybe]
        callees = [self.slot(p) for p in first_here if fixed_op(p) is not None]
        body = yield self._element_code(pattern.pattern, pattern.shared, self.outside_repeats, as_written=True)
        slot, after = self.slot(pattern), len(self.code.steps) + 1
        is_raw = elements in self.raw
        gathered = body.gathered
        undone = (slot, *gathered, *callees)

        def run(r: Registers) -> Iterator[int]:
            values: list[Any] = r[elements]
            leaves = [resolve(r[DEFINITIONS], value) for value in values] if is_raw else values
            for rows in element_rows(body, values if body.is_raw else leaves, r):
                r[slot] = r[slot + 1] = leaves
                for index, register in enumerate(gathered):
                    r[register] = [row[index][0] for row in rows]
                    r[register + 1] = [row[index][1] for row in rows]
                yield after
                # A shorter run may be tried next, or another alternative.
                for register in undone:
                    r[register] = r[register + 1] = UNSET
            for register in undone:
                r[register] = r[register + 1] = UNSET

        self.code.add_choice(run, pattern, reasons.never)
        self.place = outer
        self.bound |= body.own
        self.bound.add(pattern)
        self.maybe |= body.shared - self.bound
        self.repeated |= body.own
        return body

    def element_code(
        self, pattern: DFPattern, agreed: Iterable[DFPattern], outside: Container[DFPattern]
    ) -> ElementCode:
        """The code for one element of a repeat of ``pattern``, over the same registers.

        All elements agree on the patterns ``agreed``, and on those that stand ``outside`` of the repeat as well.
        """
        return run_steps(self._element_code(pattern, agreed, outside))

    def _element_code(
        self,
        pattern: DFPattern,
        agreed: Iterable[DFPattern],
        outside: Container[DFPattern],
        *,
        as_written: bool = False,
    ) -> Steps[ElementCode]:
        inside = [p for p in all_patterns(pattern) if fixed_op(p) is None]
        shared = {p for p in inside if p in outside or (p in self.bound and p not in self.repeated)}
        for one in agreed:
            shared.update(p for p in all_patterns(one) if fixed_op(p) is None)
        own = [p for p in inside if p not in shared]
        for part in own:
            if part in self.repeated and part in self.bound:
                raise in_two_repeats(part)
        # An operator means the same in all elements; only alternatives can forget one that another element has met.
        ops = {p for p in all_patterns(pattern) if fixed_op(p) is not None}
        of_alternatives = ops - set(reached(pattern, OrPattern))
        outer = self.code, self.bound, self.maybe, self._deferred
        self.code, self.bound, self._deferred = self._new_code(), set(self.bound), {}
        self.maybe = (self.maybe - set(own)) | ((shared | of_alternatives) - self.bound)
        entry = self.entry(pattern) if as_written else self.register()
        yield self._compile(pattern, entry)
        self._refuse_rejections_by_what_follows(own)
        yield self._reject_deferred()
        code, certain, met = self.code, self.bound, self.bound | self.maybe
        self.code, self.bound, self.maybe, self._deferred = outer
        kept = [self.slot(p) for p in own if p in met]
        return ElementCode(code, entry, kept, set(own), shared | ops, certain, is_raw=entry in self.raw)

    def _unordered(self, pattern: UnorderedTuplePattern, source: int) -> Steps[None]:
        parts = pattern.fields
        fields, raw = self.register(), self._reads_as_written(parts)
        self._fields(pattern, source, fields, raw=raw)
        used = self.register()
        after = len(self.code.steps) + 1

        def begin(r: Registers) -> int:
            r[used] = frozenset[int]()
            return after if len(r[fields]) == len(parts) else -1

        slot = self.slot(pattern)
        self.code.add_test(begin, pattern, lambda r: reasons.wrong_length(pattern, r[slot], len(r[fields]), parts))
        for part in parts:
            yield self._pick(part, fields, used, raw=raw)

    def _pick(self, part: DFPattern, fields: int, used: int, *, raw: bool) -> Steps[None]:
        """One pattern of an unordered tuple takes any field that is left."""
        register, after = self._operand_register(raw), len(self.code.steps) + 1

        def run(r: Registers) -> Iterator[int]:
            taken: frozenset[int] = r[used]
            for index, value in enumerate(r[fields]):
                if index not in taken:
                    r[register] = value
                    r[used] = taken | {index}
                    yield after
            r[used] = taken

        self.code.add_choice(run, part, reasons.never)
        yield self._compile(part, register)

    def _projection(self, pattern: TupleGetItemPattern, source: int) -> Steps[None]:
        slot, inner, after = self.slot(pattern), self.entry(pattern.tuple), len(self.code.steps) + 1
        index, operand = pattern.index, self._as_written.get(source)
        look = as_written if inner in self.raw else resolve

        def run(r: Registers) -> int:
            definitions = r[DEFINITIONS]
            item = definitions.get(r[source], r[source])
            if type(item) is not TupleGetItem or (index is not None and item.index != index):
                return -1
            r[slot], r[slot + 1] = r[source], item
            r[inner] = look(definitions, item.tuple_value)
            return after

        def through(r: Registers) -> Iterator[int]:
            definitions = r[DEFINITIONS]
            for item in projections(definitions, r[source if operand is None else operand]):
                if index is None or item.index == index:
                    r[slot], r[slot + 1] = r[source], item
                    r[inner] = look(definitions, item.tuple_value)
                    yield after

        def why(r: Registers) -> tuple[str, str]:
            return reasons.wrong_projection(pattern, r[source], r[DEFINITIONS])

        if operand is None:
            self.code.add_test(run, pattern, why)
        else:
            self.code.add_choice(through, pattern, why)
        yield self._compile(pattern.tuple, inner)

    def _or(self, pattern: OrPattern, source: int) -> Steps[None]:
        starts: list[int] = []
        before = set(self.bound)
        inside = [p for p in all_patterns(pattern) if p not in before and p is not pattern]
        resets = tuple(self.slot(p) for p in inside if p not in self.maybe)

        def run(r: Registers) -> Iterator[int]:
            for start in starts:
                for register in resets:
                    r[register] = r[register + 1] = UNSET
                yield start
            for register in resets:
                r[register] = r[register + 1] = UNSET

        self.code.add_choice(run, pattern, reasons.never)
        jumps: list[list[int]] = []
        outcomes: list[set[DFPattern]] = []
        for side in (pattern.left, pattern.right):
            starts.append(len(self.code.steps))
            self.bound = set(before)
            yield self._compile(side, source)
            jumps.append(self._copy_and_jump(pattern, side))
            outcomes.append(self.bound)
        for jump in jumps:
            jump[0] = len(self.code.steps)
        self.bound = outcomes[0] & outcomes[1]
        self.maybe |= (outcomes[0] | outcomes[1]) - self.bound

    def _not(self, pattern: NotPattern, source: int) -> Steps[None]:
        """Reject at once if all that the rejected pattern shares with the rest is known, else at the end."""
        if self._unknown_to(pattern):
            slot, after = self.slot(pattern), len(self.code.steps) + 1
            definitions = self._noted.get(pattern)
            if definitions is None:
                definitions = self._noted[pattern] = self.register()
                self._as_written[slot] = self.register()
            self._deferred[pattern] = definitions
            operand, kept = self._as_written.get(source, source), self._as_written[slot]

            def note(r: Registers) -> int:
                r[slot] = r[slot + 1] = r[source]
                r[definitions], r[kept] = r[DEFINITIONS], r[operand]
                return after

            self.code.add_test(note, pattern, reasons.never)
        else:
            yield self._reject(pattern, source, DEFINITIONS)

    def _unknown_to(self, pattern: NotPattern) -> list[DFPattern | SymVar | Extent]:
        """What ``pattern`` rejects by and the rest of the match may yet decide."""
        inside = all_patterns(pattern.reject)
        unknown: list[DFPattern | SymVar | Extent] = [
            p for p in inside if p in self.standing and p not in self.bound and fixed_op(p) is None
        ]
        return unknown + [size for p in inside for size in _sizes_and_extents(p) if size in self.standing_sizes]

    def _refuse_rejections_by_what_follows(self, own: Sequence[DFPattern]) -> None:
        for pattern in self._deferred:
            later = [part for part in self._unknown_to(pattern) if part not in own]
            if later:
                raise PatternError(
                    f"{pattern!r} stands in a repeat and rejects by {later[0]!r}, which may be known only after the "
                    "repeat; write what decides it in front of the repeat, or check it in the rewriter"
                )

    def _reject_deferred(self) -> Steps[None]:
        for pattern, definitions in self._deferred.items():
            yield self._reject(pattern, self.slot(pattern), definitions)
        self._deferred = {}

    def _reject(self, pattern: NotPattern, source: int, definitions: int) -> Steps[None]:
        key = (pattern, source in self._as_written, *self._known_of(pattern))
        found = self._rejections.get(key)
        if found is None:
            entry = self.register()
            if source in self._as_written:
                self._as_written[entry] = self.register()
            outer = self.code, self.bound, self.maybe, self._deferred, self.standing
            self.code, self.bound, self.maybe, self._deferred = self._new_code(), set(self.bound), set(self.maybe), {}
            self.standing = {*self.standing, *bindable(pattern.reject)}
            yield self._compile(pattern.reject, entry)
            yield self._reject_deferred()
            found = self._rejections[key] = self.code, entry
            self.code, self.bound, self.maybe, self._deferred, self.standing = outer
        rejected, entry = found
        slot, after = self.slot(pattern), len(self.code.steps) + 1
        written, operand = self._as_written.get(source, source), self._as_written.get(entry, entry)

        def run(r: Registers) -> int:
            if r[source] is UNSET or r[definitions] is UNSET:
                return after
            trial = list(r)
            trial[TRACER] = None
            trial[DEFINITIONS] = r[definitions]
            trial[operand], trial[entry] = r[written], r[source]
            if succeeds(rejected, trial):
                return -1
            r[slot] = r[slot + 1] = r[source]
            return after

        self.code.add_test(run, pattern, lambda r: reasons.rejected(pattern, r[source]))

    def _function(self, pattern: FunctionPattern, source: int) -> Steps[None]:
        slot, after = self.slot(pattern), len(self.code.steps) + 1
        params = tuple(self.register() for _ in pattern.params)
        body, restore = self.entry(pattern.body), self.register()
        look = as_written if body in self.raw else resolve

        def enter(r: Registers) -> Iterator[int]:
            function = definition(r[DEFINITIONS], r[source])
            if not isinstance(function, Function) or len(function.params) != len(params):
                return
            outer = r[DEFINITIONS]
            bindings = [b for block in function.body.blocks for b in block]
            inner = {**outer, **{b.var: b.value for b in bindings if isinstance(b, VarBinding)}}
            r[slot], r[slot + 1] = r[source], function
            for register, param in zip(params, function.params, strict=True):
                r[register] = param
            r[body] = look(inner, function.body.body)
            r[DEFINITIONS], r[restore] = inner, outer
            yield after
            r[DEFINITIONS] = outer

        def leave(r: Registers) -> Iterator[int]:
            inner = r[DEFINITIONS]
            r[DEFINITIONS] = r[restore]
            yield done
            r[DEFINITIONS] = inner

        self.code.add_choice(enter, pattern, lambda r: reasons.wrong_leaf(pattern, r[source], r[DEFINITIONS]))
        for part, register in zip((*pattern.params, pattern.body), (*params, body), strict=True):
            yield self._compile(part, register)
        done = len(self.code.steps) + 1
        self.code.add_choice(leave, pattern, reasons.never)
