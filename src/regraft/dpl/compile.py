"""From a pattern to the steps of the machine.

Each pattern has two registers: the resolved leaf it stands for, and the expression that a rewriter is shown. Where a
pattern stands twice, the second place checks for the same value; which place is second is known here, except across
the alternatives of ``|`` and the elements of a repeat, where the registers are asked (`_once`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any

from ..ir.dims import SymVar
from ..ir.expr import (
    Constant,
    DataflowVar,
    Expr,
    ExternFunc,
    GlobalVar,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from ..ir.op import Call, Op, attribute_key
from ..ir.program import Function, VarBinding
from ..ir.types import ShapeType, TensorType, Type, bind_type
from . import reasons
from .machine import DEFINITIONS, FIRST_FREE, SIZES, TRACER, UNSET, Code, Registers, solutions, succeeds
from .pattern import (
    AndPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataflowVarPattern,
    DataTypePattern,
    DFPattern,
    ExprPattern,
    Extent,
    ExternFuncPattern,
    FunctionPattern,
    GlobalVarPattern,
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
    VarPattern,
    WildcardPattern,
    all_patterns,
)
from .view import definition, resolve, same_value


def fixed_op(pattern: DFPattern) -> Op | None:
    """The operator that ``pattern`` stands for, if it is one."""
    return pattern.expr if isinstance(pattern, ExprPattern) and isinstance(pattern.expr, Op) else None


class Compiler:
    """Turns patterns into `Code`; one compiler for all patterns that share registers."""

    def __init__(self) -> None:
        self.code = Code()
        self.slots: dict[DFPattern, int] = {}
        self.register_count = FIRST_FREE
        self.bound: set[DFPattern] = set()
        self.maybe: set[DFPattern] = set()
        self.repeated: set[DFPattern] = set()
        self.outside_repeats: set[DFPattern] = set()
        self._extents: dict[Extent, int] = {}

    # --- registers

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

    def fresh_registers(self, template: dict[int, Any]) -> Registers:
        """Registers for one run, with those of ``template`` set."""
        r: Registers = [UNSET] * self.register_count
        r[TRACER] = None
        r[SIZES] = {}
        for index, value in template.items():
            r[index] = value
        return r

    # --- patterns

    def compile(self, pattern: DFPattern, source: int) -> None:
        """Steps that match the value in register ``source``, a resolved leaf, against ``pattern``."""
        if pattern in self.bound:
            self._same(pattern, source)
            return
        if pattern in self.maybe:
            self._once(pattern, source)
        else:
            self._structure(pattern, source)
        self.bound.add(pattern)

    def _same(self, pattern: DFPattern, source: int) -> None:
        slot, after = self.slot(pattern), len(self.code.steps) + 1

        def run(r: Registers) -> int:
            have, want = r[source], r[slot]
            return after if have is want or same_value(r[DEFINITIONS], have, want) else -1

        def why(r: Registers) -> tuple[str, str]:
            return reasons.shared_value(pattern, r[slot], r[source])

        self.code.add_test(run, pattern, why)

    def _once(self, pattern: DFPattern, source: int) -> None:
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
        self._structure(pattern, source)
        end[0] = len(self.code.steps)

    def _structure(self, pattern: DFPattern, source: int) -> None:
        match pattern:
            case CallPattern():
                self._call(pattern, source)
            case TuplePattern():
                self._tuple(pattern, source)
            case UnorderedTuplePattern():
                self._unordered(pattern, source)
            case TupleGetItemPattern():
                self._projection(pattern, source)
            case OrPattern():
                self._or(pattern, source)
            case AndPattern():
                self.compile(pattern.left, source)
                self.compile(pattern.right, source)
                self._copy(pattern, pattern.left)
            case NotPattern():
                self._not(pattern, source)
            case TypePattern() | DataTypePattern() | ShapePattern() | AttrPattern():
                self.compile(pattern.pattern, source)
                self._copy(pattern, pattern.pattern)
                self._condition(pattern)
            case FunctionPattern():
                self._function(pattern, source)
            case PrimArrPattern():
                self._shape_literal(pattern, source)
            case RepeatPattern():
                raise PatternError(
                    f"{pattern!r} stands where one value is wanted; a repeat stands among the fields of a tuple, "
                    "among the arguments of a call, or by itself in a PatternContext"
                )
            case _:
                self._leaf(pattern, source)

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

        self.code.add_test(bind if accepts is _anything else run, pattern, why)

    def _copy(self, outer: DFPattern, inner: DFPattern) -> None:
        """``outer`` stands for what ``inner`` stands for."""
        slot, other, after = self.slot(outer), self.slot(inner), len(self.code.steps) + 1

        def run(r: Registers) -> int:
            r[slot], r[slot + 1] = r[other], r[other + 1]
            return after

        self.code.add_test(run, outer, reasons.never)

    def _call(self, pattern: CallPattern, source: int) -> None:
        slot, after = self.slot(pattern), len(self.code.steps) + 1
        op = fixed_op(pattern.op)
        op_register, args_register = self.register(), self.register()
        elastic = any(isinstance(arg, RepeatPattern) for arg in pattern.args)
        registers = () if elastic else tuple(self.register() for _ in pattern.args)
        count, at_least = len(pattern.args), pattern.varg_default_wildcard

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
                r[register] = resolve(definitions, arg)
            if elastic:
                r[args_register] = [resolve(definitions, arg) for arg in args]
            return after

        def why(r: Registers) -> tuple[str, str]:
            return reasons.wrong_call(pattern, r[source], r[DEFINITIONS])

        self.code.add_test(run, pattern, why)
        self.compile(pattern.op, op_register)
        if elastic:
            self._run_of(pattern, pattern.args, args_register, allow_rest=at_least)
            return
        if count == 2 and not at_least and pattern.args[0] is not pattern.args[1] and (op is None or op.is_commutative):
            self._commute(pattern, slot, registers)
        for arg, register in zip(pattern.args, registers, strict=True):
            self.compile(arg, register)

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

    def _tuple(self, pattern: TuplePattern, source: int) -> None:
        fields = self.register()
        self._fields(pattern, source, fields)
        self._run_of(pattern, pattern.fields, fields, allow_rest=False)

    def _fields(self, pattern: DFPattern, source: int, fields: int) -> None:
        slot, after = self.slot(pattern), len(self.code.steps) + 1

        def run(r: Registers) -> int:
            definitions = r[DEFINITIONS]
            whole = definitions.get(r[source], r[source])
            if type(whole) is not Tuple:
                return -1
            r[slot], r[slot + 1] = r[source], whole
            r[fields] = [resolve(definitions, field) for field in whole.fields]
            return after

        def why(r: Registers) -> tuple[str, str]:
            return reasons.not_a_tuple(pattern, r[source], r[DEFINITIONS])

        self.code.add_test(run, pattern, why)

    def _run_of(self, owner: DFPattern, parts: Sequence[DFPattern], elements: int, *, allow_rest: bool) -> None:
        """Match the list in register ``elements`` against ``parts``, of which repeats take runs."""
        registers = tuple(self.register() for _ in parts)
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

            self.code.add_test(run, owner, lambda r: reasons.wrong_length(owner, len(r[elements]), parts))
        else:
            self._elastic_split(owner, parts, elements, registers, allow_rest=allow_rest)
        for part, register in zip(parts, registers, strict=True):
            if isinstance(part, RepeatPattern):
                self.compile_repeat(part, register)
            else:
                self.compile(part, register)

    def _elastic_split(
        self,
        owner: DFPattern,
        parts: Sequence[DFPattern],
        elements: int,
        registers: tuple[int, ...],
        *,
        allow_rest: bool,
    ) -> None:
        after = len(self.code.steps) + 1
        repeats = [part for part in parts if isinstance(part, RepeatPattern)]
        extents = [self.extent_register(part.extent) for part in repeats]
        fixed = len(parts) - len(repeats)

        def run(r: Registers) -> Iterator[int]:
            values: list[Any] = r[elements]
            known = {e: r[e] for e in extents if e is not None and r[e] is not UNSET}
            totals = range(len(values) - fixed, -1, -1) if allow_rest else (len(values) - fixed,)
            for total in totals:
                for lengths in _splits(repeats, extents, total, known):
                    assigned = iter(lengths)
                    at = 0
                    for part, register in zip(parts, registers, strict=True):
                        if isinstance(part, RepeatPattern):
                            length = next(assigned)
                            r[register] = values[at : at + length]
                            at += length
                        else:
                            r[register] = values[at]
                            at += 1
                    for extent, length in zip(extents, lengths, strict=True):
                        if extent is not None:
                            r[extent] = length
                    yield after
            for extent in extents:
                if extent is not None and extent not in known:
                    r[extent] = UNSET

        def why(r: Registers) -> tuple[str, str]:
            return reasons.wrong_run(owner, len(r[elements]), parts, [e and r[e] for e in extents])

        self.code.add_choice(run, owner, why)

    def extent_register(self, extent: Extent | None) -> int | None:
        """The register that holds the length that ``extent`` has in this match."""
        if extent is None:
            return None
        if extent not in self._extents:
            self._extents[extent] = self.register()
        return self._extents[extent]

    def compile_repeat(self, pattern: RepeatPattern, elements: int) -> None:
        """Match each value of the list in register ``elements``; what the parts stand for is gathered in lists."""
        body = self.element_code(pattern, self.outside_repeats)
        slot, after = self.slot(pattern), len(self.code.steps) + 1
        gathered = body.gathered

        def run(r: Registers) -> Iterator[int]:
            values: list[Any] = r[elements]
            for rows in element_rows(body, values, r):
                r[slot] = r[slot + 1] = values
                for index, register in enumerate(gathered):
                    r[register] = [row[index][0] for row in rows]
                    r[register + 1] = [row[index][1] for row in rows]
                yield after
                r[slot] = r[slot + 1] = UNSET

        self.code.add_choice(run, pattern, lambda r: reasons.run_element(pattern, len(r[elements])))
        self.bound |= body.own
        self.bound.add(pattern)
        self.maybe |= body.shared - self.bound
        self.repeated |= body.own

    def element_code(self, pattern: RepeatPattern, outside: Container[DFPattern]) -> ElementCode:
        """The code for one element of a repeat, over the same registers; ``outside`` also stand outside of it."""
        inside = all_patterns(pattern.pattern)
        shared = {p for p in inside if p in self.bound or p in outside}
        for one in pattern.shared:
            shared.update(all_patterns(one))
        own = [p for p in inside if p not in shared]
        outer_code, outer_bound, outer_maybe = self.code, self.bound, self.maybe
        self.code, self.bound = Code(), set(outer_bound)
        self.maybe = outer_maybe | (shared - outer_bound)
        entry = self.register()
        self.compile(pattern.pattern, entry)
        code, self.code, self.bound, self.maybe = self.code, outer_code, outer_bound, outer_maybe
        kept = [self.slot(p) for p in own if p in self.slots]
        return ElementCode(code, entry, kept, set(own), shared, self.slot(pattern.pattern))

    def _unordered(self, pattern: UnorderedTuplePattern, source: int) -> None:
        fields = self.register()
        self._fields(pattern, source, fields)
        parts = pattern.fields
        used = self.register()
        after = len(self.code.steps) + 1

        def begin(r: Registers) -> int:
            r[used] = frozenset[int]()
            return after if len(r[fields]) == len(parts) else -1

        self.code.add_test(begin, pattern, lambda r: reasons.wrong_length(pattern, len(r[fields]), parts))
        for part in parts:
            self._pick(part, fields, used)

    def _pick(self, part: DFPattern, fields: int, used: int) -> None:
        """One pattern of an unordered tuple takes any field that is left."""
        register, after = self.register(), len(self.code.steps) + 1

        def run(r: Registers) -> Iterator[int]:
            taken: frozenset[int] = r[used]
            for index, value in enumerate(r[fields]):
                if index not in taken:
                    r[register] = value
                    r[used] = taken | {index}
                    yield after
            r[used] = taken

        self.code.add_choice(run, part, reasons.never)
        self.compile(part, register)

    def _projection(self, pattern: TupleGetItemPattern, source: int) -> None:
        slot, inner, after = self.slot(pattern), self.register(), len(self.code.steps) + 1
        index = pattern.index

        def run(r: Registers) -> int:
            definitions = r[DEFINITIONS]
            item = definitions.get(r[source], r[source])
            if type(item) is not TupleGetItem or (index is not None and item.index != index):
                return -1
            r[slot], r[slot + 1] = r[source], item
            r[inner] = resolve(definitions, item.tuple_value)
            return after

        def why(r: Registers) -> tuple[str, str]:
            return reasons.wrong_projection(pattern, r[source], r[DEFINITIONS])

        self.code.add_test(run, pattern, why)
        self.compile(pattern.tuple, inner)

    def _or(self, pattern: OrPattern, source: int) -> None:
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
            self.compile(side, source)
            jumps.append(self._copy_and_jump(pattern, side))
            outcomes.append(self.bound)
        for jump in jumps:
            jump[0] = len(self.code.steps)
        self.bound = outcomes[0] & outcomes[1]
        self.maybe |= (outcomes[0] | outcomes[1]) - self.bound

    def _copy_and_jump(self, outer: DFPattern, inner: DFPattern) -> list[int]:
        slot, other = self.slot(outer), self.slot(inner)
        target = [0]

        def run(r: Registers) -> int:
            r[slot], r[slot + 1] = r[other], r[other + 1]
            return target[0]

        self.code.add_test(run, outer, reasons.never)
        return target

    def _not(self, pattern: NotPattern, source: int) -> None:
        outer_code, outer_bound = self.code, self.bound
        self.code, self.bound = Code(), set(outer_bound)
        self.compile(pattern.reject, source)
        rejected, self.code, self.bound = self.code, outer_code, outer_bound
        slot, after = self.slot(pattern), len(outer_code.steps) + 1

        def run(r: Registers) -> int:
            trial = list(r)
            trial[TRACER] = None
            if succeeds(rejected, trial):
                return -1
            r[slot] = r[slot + 1] = r[source]
            return after

        self.code.add_test(run, pattern, lambda r: reasons.rejected(pattern, r[source]))

    def _condition(self, pattern: DFPattern) -> None:
        """The condition of a constrained pattern, once its inner pattern has matched."""
        slot, after = self.slot(pattern), len(self.code.steps) + 1

        def why(r: Registers) -> tuple[str, str]:
            return reasons.condition(pattern, r[slot], r[slot + 1], r[SIZES])

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
        holds = _dtype_check(pattern) if isinstance(pattern, DataTypePattern) else _attr_check(pattern)

        def run(r: Registers) -> int:
            return after if holds(r[slot], r[slot + 1]) else -1

        self.code.add_test(run, pattern, why)

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

    def _function(self, pattern: FunctionPattern, source: int) -> None:
        slot, after = self.slot(pattern), len(self.code.steps) + 1
        params = tuple(self.register() for _ in pattern.params)
        body, restore = self.register(), self.register()

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
            r[body] = resolve(inner, function.body.body)
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
            self.compile(part, register)
        done = len(self.code.steps) + 1
        self.code.add_choice(leave, pattern, reasons.never)


# --- leaves and conditions


def _anything(_r: Registers, _leaf: Expr) -> bool:
    return True


def leaf_check(pattern: DFPattern) -> Callable[[Registers, Expr], bool]:
    """The check that a leaf pattern makes of a resolved leaf."""
    match pattern:
        case WildcardPattern():
            return _anything
        case ConstantPattern():
            return lambda _r, leaf: type(leaf) is Constant
        case DataflowVarPattern(name=name):
            return lambda _r, leaf: type(leaf) is DataflowVar and (not name or leaf.name_hint == name)
        case VarPattern(name=name):
            return lambda _r, leaf: isinstance(leaf, Var) and (not name or leaf.name_hint == name)
        case GlobalVarPattern(name=name):
            return lambda _r, leaf: isinstance(leaf, GlobalVar) and (not name or leaf.name_hint == name)
        case ExternFuncPattern(global_symbol=name):
            return lambda _r, leaf: isinstance(leaf, ExternFunc) and (not name or leaf.global_symbol == name)
        case ExprPattern(expr=Op() as op):
            return lambda _r, leaf: leaf is op
        case ExprPattern(expr=expr):
            return lambda r, leaf: same_value(r[DEFINITIONS], definition(r[DEFINITIONS], leaf), expr) or same_value(
                r[DEFINITIONS], leaf, resolve(r[DEFINITIONS], expr)
            )
        case _:
            raise PatternError(f"{type(pattern).__name__} is a kind of pattern that the matcher does not know")


def certainly_of_type(
    actual: Type, ty: Type | None, shape: Sequence[Any] | None, sizes: dict[SymVar, Any]
) -> bool:
    """Whether ``actual`` is certainly of type ``ty``, or a tensor of ``shape``; binds the pattern's size variables."""
    if ty is not None:
        return bind_type(ty, actual, sizes) is True
    if not isinstance(actual, TensorType) or actual.shape is None or shape is None:
        return False
    return bind_type(ShapeType(shape), ShapeType(actual.shape), sizes) is True


def _dtype_check(pattern: DataTypePattern) -> Callable[[Expr, Expr], bool]:
    dtype = pattern.dtype
    return lambda leaf, _expr: isinstance(leaf.ty, TensorType) and leaf.ty.dtype == dtype


def _attr_check(pattern: DFPattern) -> Callable[[Expr, Expr], bool]:
    assert isinstance(pattern, AttrPattern)
    wanted = [(name, attribute_key(value)) for name, value in pattern.attrs.items()]

    def holds(_leaf: Expr, expr: Expr) -> bool:
        if not isinstance(expr, Call | Function):
            return False
        attrs = expr.attrs
        return all(name in attrs and attribute_key(attrs[name]) == key for name, key in wanted)

    return holds


# --- repeats


class ElementCode:
    """The code for one element of a repeat: where its value goes in, and which registers are its own."""

    __slots__ = ("code", "entry", "gathered", "own", "root", "shared")

    def __init__(
        self, code: Code, entry: int, gathered: list[int], own: set[DFPattern], shared: set[DFPattern], root: int
    ) -> None:
        self.code = code
        self.entry = entry
        self.gathered = gathered
        self.own = own
        self.shared = shared
        self.root = root


def element_rows(body: ElementCode, values: Sequence[Expr], r: Registers) -> Iterator[list[list[tuple[Any, Any]]]]:
    """Each way in which all ``values`` match: for each value, what each of the element's own patterns stands for.

    Elements that can match in one way only cost one run each; else the youngest open element is resumed first.
    """
    gathered = body.gathered
    rows: list[list[tuple[Any, Any]]] = []
    if not body.code.has_choices:
        for value in values:
            r[body.entry] = value
            if not succeeds(body.code, r):
                return
            rows.append([(r[g], r[g + 1]) for g in gathered])
        yield rows
        return
    open_elements: list[Iterator[None]] = []
    while True:
        if len(rows) == len(values):
            yield rows
        else:
            r[body.entry] = values[len(rows)]
            open_elements.append(solutions(body.code, r))
        while open_elements:
            if len(rows) == len(open_elements):
                rows.pop()
            if next(open_elements[-1], True) is None:
                rows.append([(r[g], r[g + 1]) for g in gathered])
                break
            open_elements.pop()
        else:
            return


def _splits(
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

