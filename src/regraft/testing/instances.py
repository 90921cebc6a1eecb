"""Random programs that contain a match of a pattern, built from the pattern itself.

Each call pattern becomes a call. Each wildcard becomes a parameter, a value computed from a parameter, or an existing
value. The operand types are found by search: small shapes are tried until the call's type rule accepts them. Whatever
the pattern leaves open (an attribute, an alternative, the length of a repeat) is drawn at random. A mutation breaks
one thing on purpose. The program is not guaranteed to match: only the matcher decides that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from enum import Enum
from random import Random
from typing import Any, Final

import numpy as np

from ..ir.builder import BlockBuilder
from ..ir.dims import Dim, SymVar, free_symvars, substitute
from ..ir.errors import RegraftError
from ..ir.expr import Constant, DataflowVar, Expr, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var, const
from ..ir.op import Call, Op
from ..ir.program import Function, If
from ..ir.types import PrimType, TensorType, TupleType, Type, bind_type, substitute_type, type_symvars
from ..op.rules import require_kinds
from ..pattern.chain_pattern import ChainPattern
from ..pattern.constrained_patterns import AttrPattern, DataTypePattern, ShapePattern, TypePattern
from ..pattern.context import PatternContext
from ..pattern.derived import duplicate
from ..pattern.leaf_patterns import (
    ConstantPattern,
    DataflowVarPattern,
    ExprPattern,
    OpPattern,
    PrimArrPattern,
    ScalarPattern,
    VarPattern,
    WildcardPattern,
)
from ..pattern.parts import shared_throughout
from ..pattern.pattern import (
    AndPattern,
    CallPattern,
    ConstrainedPattern,
    DFPattern,
    Extent,
    IfPattern,
    NotPattern,
    OrPattern,
    RepeatPattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
    all_patterns,
)
from ..reference.trials import random_array
from .call_search import CallSearch, draw_any_operand
from .open_choices import (
    NoInstanceError,
    draw_attributes,
    draw_operand,
    draw_tensor_type,
    draw_unusual_operand,
    is_known,
    is_simple,
    of_likely_size,
    single,
    something_of,
    without_elements,
)
from .open_operands import Fields, Hole, OpenOperand, OpenShape, known_type
from .rule_facts import core, dtypes_of, is_operator

_TRIES: Final = 150
_GUIDED_TRIES: Final = 800
"""Further tries, in which only the part that the type rule refused is drawn anew, from all kinds of operands."""

_LONGEST_REPEAT: Final = 3
_EMPTY: Final = 0.04
"""The fraction of tensors that have an axis of size 0."""


class Mutation(Enum):
    """The one thing in which a near miss differs from the pattern."""

    OPERATOR = "another operator"
    ATTRIBUTE = "another attribute"
    CONSTANT = "another constant"
    DTYPE = "another dtype"
    EXTRA_USER = "an extra user"


class UnsupportedPatternError(RegraftError):
    """The pattern has a part for which no program can be generated here."""


class Instance:
    """Writes one program that contains a match of a pattern or of a context. Each instance can be used once.

    With ``plain``, nothing is written around the match: no second match, no further users, no computed operands. With
    the same ``seed``, the match is the same with and without ``plain``. ``numbers`` are the numbers in the rule's own
    code: open constants often take one of them, and sizes sometimes. With ``any_dtype``, operands have any dtype,
    including those in ``named_dtypes``, which the rule's code names; otherwise they are mostly float32. This is for
    rules about a few dtypes. With ``guided``, the search for operands is longer, and uses the type rule's reports of
    the part that is wrong.
    """

    def __init__(
        self,
        seed: int,
        mutation: Mutation | None = None,
        *,
        plain: bool = False,
        numbers: Sequence[float] = (),
        named_dtypes: Sequence[str] = (),
        any_dtype: bool = False,
        guided: bool = False,
    ) -> None:
        self.random = Random(seed)
        self.around = Random(seed + 1)
        self.sizing = Random(seed + 2)
        self.emptying = Random(seed + 3)
        self.any_dtype, self.mutation, self.plain = any_dtype, mutation, plain
        self.numbers = tuple(numbers)
        self.likely_sizes = [int(number) for number in self.numbers if number in range(1, 9)]
        self.builder = BlockBuilder()
        self.params: list[Var] = []
        self.values: list[Var] = []
        self.outputs: list[Var] = []
        self.memo: dict[DFPattern, OpenOperand] = {}
        self.sizes: dict[SymVar, Dim] = {}
        self.extents: dict[Extent, int] = {}
        self.outside: set[DFPattern] = set()
        self.extra_arguments: dict[DFPattern, list[tuple[int, DFPattern]]] = {}
        self.sources: dict[DFPattern, bool] = {}
        self.attributes: dict[Op, dict[str, Any]] = {}
        self.victim: DFPattern | None = None
        self.tries = _TRIES + (_GUIDED_TRIES if guided else 0)
        self.is_guided = False
        self.dtypes = ("float32", "float32", "float64", "float16", "int64", "int32", "uint8", "bool", *named_dtypes)
        self.dtype = "float32"

    def write(self, pattern: DFPattern | PatternContext) -> Function:
        """A function ``main`` that contains one match, or two. Raises `NoInstanceError` if the draw fails."""
        asked = dtypes_of(pattern)
        if self.mutation is Mutation.DTYPE or self.any_dtype:
            self.dtype = self.random.choice(self.dtypes)
        elif asked and self.random.random() < 0.8:
            self.dtype = self.random.choice(asked)
        roots = [pattern] if isinstance(pattern, DFPattern) else pattern.roots()
        branches = any(isinstance(part, IfPattern) for root in roots for part in all_patterns(root))
        in_dataflow = not branches and (self.plain or self.around.random() < 0.75)
        with self.builder.function("main"):
            with self.builder.dataflow() if in_dataflow else nullcontext():
                self._matches(pattern)
            self.builder.emit_func_output(self.outputs, params=self.params)
        return self.builder.get()["main"]

    def _matches(self, pattern: DFPattern | PatternContext) -> None:
        for _ in range(2 if self._chance(0.2) else 1):
            self.memo, self.sizes, self.extents = {}, {}, {}
            roots = self._roots(pattern)
            self._choose_victim(roots)
            for root in roots:
                value = self._filled(self._operand(root))
                if root not in self.sources or (not self.sources[root] and self._chance(0.3)):
                    self._finish(value)
        users = [value for value in self.values if self._chance(0.15)]
        if self.mutation is Mutation.EXTRA_USER:
            users = [self.around.choice(self.values), *users]
        for value in users:
            self._use(value)
        if not self.outputs:
            self._use(self.values[-1])

    def _chance(self, rate: float) -> bool:
        """True with probability ``rate``, unless the instance is plain. It decides on additions around the match."""
        return not self.plain and self.around.random() < rate

    # --- roots

    def _roots(self, pattern: DFPattern | PatternContext) -> list[DFPattern]:
        if isinstance(pattern, DFPattern):
            self.outside = shared_throughout([pattern])
            return [pattern]
        roots = pattern.roots()
        self.outside = shared_throughout(roots)
        for use in pattern.uses:
            self.sources[use.source] = self.sources.get(use.source, False) or use.only
            user = core(use.user)
            inside = {part for arg in user.children() for part in all_patterns(arg)}
            if use.source not in inside:
                self.extra_arguments.setdefault(user, []).append((use.index, use.source))
        found = self._parts(roots)
        if self._chance(0.5):
            self.around.shuffle(found)
        return found

    def _parts(self, parts: Sequence[DFPattern]) -> list[DFPattern]:
        """``parts`` with each repeat replaced by a number of copies of its pattern, which share the shared parts."""
        found: list[DFPattern] = []
        for part in parts:
            is_repeat = isinstance(part, RepeatPattern)
            found += [self._copy(part, {}) for _ in range(self._length(part))] if is_repeat else [part]
        return found

    def _copy(self, pattern: RepeatPattern, known: Mapping[DFPattern, DFPattern]) -> DFPattern:
        shared = {part for one in pattern.shared for part in all_patterns(one)} | self.outside
        return duplicate(pattern.pattern, {**{part: part for part in shared}, **known})

    def _length(self, pattern: RepeatPattern) -> int:
        count = self.extents.get(pattern.extent) if pattern.extent is not None else None
        if count is None:
            most = max(pattern.min, min(pattern.max or _LONGEST_REPEAT, pattern.min + _LONGEST_REPEAT))
            count = self.random.randint(max(pattern.min, 1) if self.random.random() < 0.9 else pattern.min, most)
        if pattern.extent is not None:
            self.extents[pattern.extent] = count
        return count

    def _choose_victim(self, roots: Sequence[DFPattern]) -> None:
        kinds: tuple[type[DFPattern], ...] = (CallPattern,)
        if self.mutation is Mutation.CONSTANT:
            kinds = (ExprPattern, ConstantPattern)
        parts = [p for root in roots for p in all_patterns(root) if isinstance(p, kinds) and not is_operator(p)]
        self.victim = self.random.choice(parts) if parts and self.mutation is not None else None

    def _is_victim(self, pattern: DFPattern, mutation: Mutation) -> bool:
        return pattern is self.victim and self.mutation is mutation

    # --- from patterns to operands

    def _operand(self, pattern: DFPattern, attrs: Mapping[str, Any] | None = None) -> OpenOperand:
        known = self.memo.get(pattern)
        if known is None:
            known = self._new_operand(pattern, attrs or {})
            self.memo[pattern] = known
        return known

    def _new_operand(self, pattern: DFPattern, attrs: Mapping[str, Any]) -> OpenOperand:
        match pattern:
            case VarPattern():
                return Hole(variable=pattern)
            case WildcardPattern() | NotPattern():
                return Hole()
            case ConstantPattern():
                return Hole(is_constant=True, number=pattern.value)
            case ScalarPattern():
                return Hole(is_single=True)
            case ExprPattern():
                return self._exact(pattern)
            case CallPattern():
                return self._call(pattern, attrs)
            case TuplePattern():
                return Fields([self._operand(part) for part in self._parts(pattern.fields)])
            case UnorderedTuplePattern():
                fields = self.random.sample(pattern.fields, len(pattern.fields))
                return Fields([self._operand(part) for part in fields])
            case TupleGetItemPattern():
                return self._projection(pattern)
            case OrPattern():
                return self._operand(self.random.choice((pattern.left, pattern.right)), attrs)
            case ChainPattern():
                return self._operand(self._unrolled(pattern), attrs)
            case AndPattern():
                one, other = self.random.sample((pattern.left, pattern.right), 2)
                if isinstance(core(one), WildcardPattern | NotPattern):
                    one, other = other, one
                found = self._operand(one, attrs)
                if isinstance(found, Hole) and isinstance(core(other), ConstantPattern | ScalarPattern):
                    found.take(self._operand(other))
                return found
            case AttrPattern():
                return self._operand(pattern.pattern, {**attrs, **pattern.attrs})
            case ConstrainedPattern():
                inner = self._operand(pattern.pattern, attrs)
                if isinstance(inner, Hole) and inner.value is None:
                    inner.conditions.append(pattern)
                return inner
            case PrimArrPattern():
                return OpenShape(pattern.fields)
            case IfPattern():
                return self._branch(pattern)
            case _:
                raise UnsupportedPatternError(f"no program can be made for {pattern!r}")

    def _unrolled(self, pattern: ChainPattern) -> DFPattern:
        """A chain of random length, as nested copies of its link."""
        found = pattern.until
        for _ in range(self._length(pattern.links)):
            found = self._copy(pattern.links, {pattern.hole: found})
        return found

    def _exact(self, pattern: ExprPattern) -> Expr:
        expr = pattern.expr
        if isinstance(expr, Var):
            raise UnsupportedPatternError(f"{pattern!r} stands for a variable of one program")
        if isinstance(expr, Constant) and self._is_victim(pattern, Mutation.CONSTANT):
            array = expr.data.numpy()
            return Constant(~array if array.dtype == np.bool_ else array + np.ones((), array.dtype))
        return expr

    def _branch(self, pattern: IfPattern) -> Expr:
        """An `If` between two existing values of the same type."""
        cond, then, otherwise = (self._operand(part) for part in pattern.children())
        if isinstance(cond, Hole) and cond.value is None:
            cond.value = self._parameter(TensorType((), "bool"))
        first = self._filled(then)
        if isinstance(otherwise, Hole) and otherwise.is_open:
            otherwise.value = self._settled(Var("candidate", first.ty), otherwise.variable)
        second, holds = self._filled(otherwise), self._filled(cond)
        if second.ty != first.ty or holds.ty != TensorType((), "bool"):
            raise NoInstanceError("branches of two types, or no condition")
        return self._emit(If(holds, first, second))

    def _projection(self, pattern: TupleGetItemPattern) -> Expr:
        whole = self._operand(pattern.tuple)
        if isinstance(whole, Hole) and whole.value is None:
            ty = TupleType([draw_tensor_type(self.random, [], self.dtype) for _ in range((pattern.index or 0) + 2)])
            whole.value = self._parameter(ty)
        value = self._filled(whole)
        if not isinstance(value.ty, TupleType) or not value.ty.fields:
            raise NoInstanceError("not a tuple")
        count = len(value.ty.fields)
        index = self.random.randrange(count) if pattern.index is None else pattern.index
        if index >= count:
            raise NoInstanceError("too short a tuple")
        return self._emit(TupleGetItem(value if isinstance(value, Var) else self._emit(value), index))

    # --- calls

    def _call(self, pattern: CallPattern, attrs: Mapping[str, Any]) -> Expr:
        op = self._callee(pattern)
        extra = list(self.extra_arguments.get(pattern, ()))
        args = [self._place_source(index, part, extra) for index, part in enumerate(self._parts(pattern.args))]
        if pattern.varg_default_wildcard:
            args.extend(self._operand(source) for _, source in extra)
            least = sum(not operand.optional for operand in op.operands) - op.variadic
            args.extend(Hole() for _ in range(least - len(args)))
        return self._emit(self._fit(pattern, op, args, attrs))

    def _place_source(self, index: int, part: DFPattern, extra: list[tuple[int, DFPattern]]) -> OpenOperand:
        """The operand for one argument. A value that a use constraint requires here takes the place of a wildcard."""
        for entry in extra:
            if entry[0] in (-1, index) and isinstance(part, WildcardPattern) and part not in self.memo:
                extra.remove(entry)
                self.memo[part] = self._operand(entry[1])
                break
        return self._operand(part)

    def _callee(self, pattern: CallPattern) -> Op:
        choice = pattern.op
        while isinstance(choice, OrPattern):
            choice = self.random.choice((choice.left, choice.right))
        if isinstance(choice, ExprPattern) and isinstance(choice.expr, Op):
            op = choice.expr
            if op.reference is None or not op.is_pure:
                lack = "has no reference, so nothing can run it" if op.is_pure else "has effects"
                raise UnsupportedPatternError(f"{op.name} {lack}")
            if not self._is_victim(pattern, Mutation.OPERATOR):
                return op
        elif isinstance(choice, WildcardPattern | NotPattern | OpPattern):
            op = None
        else:
            raise UnsupportedPatternError(f"no program can be made for a call of {choice!r}")
        count = len(pattern.args)
        others = [o for o in Op.all() if o.name.startswith("relax.") and o.reference is not None and o.is_pure]
        fits = [o for o in others if o is not op and not o.variadic and len(o.operands) == count]
        if isinstance(choice, OpPattern):
            fits = [o for o in fits if choice.accepts(o)]
        if not fits:
            raise UnsupportedPatternError(f"no operator of {count} operands is {choice!r}")
        return self.random.choice(fits)

    def _fit(self, pattern: CallPattern, op: Op, args: list[OpenOperand], attrs: Mapping[str, Any]) -> Call:
        """The call, with values for its open operands and attributes that its type rule accepts."""
        wanted = {} if self._is_victim(pattern, Mutation.OPERATOR) else dict(attrs)
        break_attribute = self._is_victim(pattern, Mutation.ATTRIBUTE)
        if break_attribute and wanted:
            wanted.pop(self.random.choice(list(wanted)))
        search = CallSearch(args, wanted, self.sizes)
        for attempt in range(self.tries):
            self.is_guided = attempt >= _TRIES
            search.begin(keep=self.is_guided)
            try:
                filled = self._tried_operands(op, args, search)
                search.change_attribute(self.random, op, filled)
                if search.attributes is None:
                    search.attributes = self._attributes(op, filled, wanted, break_attribute)
                call = Call(op, filled, search.attributes)
                require_kinds(call)
            except (RegraftError, ValueError, TypeError, IndexError, ZeroDivisionError) as error:
                search.refuse(error)  # these types do not go together; others may
                continue
            if is_known(call.ty, of_any_shape=self.is_guided):
                self.sizes = search.sizes
                for hole, value in search.trial.items():
                    hole.value = self._settled(value, hole.variable)
                self.attributes[op] = search.attributes
                return Call(op, [self._filled(arg) for arg in args], search.attributes)
            search.refuse(RegraftError(f"its result is {call.ty!r}"))
        raise NoInstanceError(f"no operands were found for {op.name}; the last ones: {search.refusal}")

    def _tried_operands(self, op: Op, args: Sequence[OpenOperand], search: CallSearch) -> list[Expr]:
        filled: list[Expr] = []
        for index, arg in enumerate(args):
            if isinstance(arg, Hole) and arg.is_open and arg not in search.trial:
                drawn = draw_operand(self.random, op, index, filled)
                if drawn is not None and self.random.random() < 0.8:
                    search.trial[arg] = drawn
            filled.append(self._tried(arg, search, args))
        return filled

    def _attributes(
        self, op: Op, operands: Sequence[Expr], wanted: Mapping[str, Any], break_attribute: bool
    ) -> dict[str, Any]:
        if op in self.attributes and not break_attribute and self.random.random() < 0.4:
            return {**self.attributes[op], **wanted}
        return draw_attributes(self.random, op, operands, wanted, open_rate=0.9 if break_attribute else 0.4)

    def _tried(self, operand: OpenOperand, search: CallSearch, beside: Sequence[OpenOperand]) -> Expr:
        match operand:
            case Hole(value=None):
                if operand not in search.trial:
                    search.trial[operand] = self._candidate(operand, search, beside)
                return search.trial[operand]
            case Hole():
                return self._filled(operand)
            case Fields():
                return Tuple([self._tried(item, search, (*beside, *operand.fields)) for item in operand.fields])
            case OpenShape():
                return ShapeExpr([self._size(dim, search.sizes) for dim in operand.dims])
            case _:
                return operand

    def _candidate(self, hole: Hole, search: CallSearch, beside: Sequence[OpenOperand]) -> Expr:
        """A stand-in for an open value, of a type that may fit the known operands of the call."""
        known = [t for t in (known_type(item, search.trial) for item in beside) if t is not None]
        if not known and self.params and self.random.random() < 0.6:
            # Similar parts of a pattern fit together more often if their operands have the same type.
            ty = self.random.choice(self.params).ty
            known = [ty] if isinstance(ty, TensorType) else []
        wanted = [c for c in hole.conditions if isinstance(c, TypePattern)]
        if self.is_guided and not wanted:
            found = draw_any_operand(self.random, known, self.dtype, tensor=hole.is_constant or hole.is_single)
            if not isinstance(found.ty, TensorType):
                return found
            known, drawn = [found.ty], found.ty
        else:
            if not hole.is_constant and not hole.is_single and not wanted and self.random.random() < 0.15:
                return draw_unusual_operand(self.random, known, self.dtype)
            drawn = draw_tensor_type(self.random, known, self.dtype)
        if not known:
            drawn = of_likely_size(self.sizing, drawn, self.likely_sizes)
            drawn = without_elements(drawn) if self.emptying.random() < _EMPTY else drawn
        return self._stand_in(hole, drawn, search.sizes)

    def _stand_in(self, hole: Hole, ty: Type, sizes: dict[SymVar, Dim]) -> Expr:
        """A stand-in for an open value, of type ``ty`` changed to satisfy the pattern's conditions."""
        for condition in hole.conditions:
            ty = self._constrained(ty, condition, sizes)
        if isinstance(ty, PrimType):
            return PrimValue(self._size(ty.value, sizes) if ty.value is not None else 1, ty.dtype)  # pyright: ignore[reportArgumentType]
        ty = single(ty) if hole.is_single else ty
        return self._constant(ty, hole.number) if hole.is_constant else Var("candidate", ty)

    def _constrained(self, drawn: Type, condition: ConstrainedPattern, sizes: dict[SymVar, Dim]) -> Type:
        """``drawn``, changed to satisfy ``condition``."""
        shape = drawn.shape if isinstance(drawn, TensorType) else None
        dtype = drawn.dtype if isinstance(drawn, TensorType) else None
        match condition:
            case DataTypePattern():
                return TensorType(shape, condition.dtype)
            case ShapePattern():
                return TensorType([self._size(dim, sizes) for dim in condition.shape], dtype)
            case TypePattern(ty=TensorType() as ty):
                if ty.shape is not None:
                    shape = tuple([self._size(dim, sizes) for dim in ty.shape])
                changed = TensorType(shape, ty.dtype or dtype)
                if bind_type(ty, changed, dict(sizes)) is not True:
                    raise NoInstanceError("another rank")
                return changed
            case TypePattern():
                for symvar in type_symvars(condition.ty):
                    self._size(symvar, sizes)
                return substitute_type(condition.ty, sizes)
            case _:
                return drawn

    def _size(self, dim: Dim, sizes: dict[SymVar, Dim]) -> Dim:
        for symvar in free_symvars(dim):
            if symvar not in sizes:
                sizes[symvar] = self.random.choice((2, 3, 4, 5, 6, 7))
        return substitute(dim, sizes)

    # --- values

    def _settled(self, candidate: Expr, variable: VarPattern | None) -> Expr:
        """A value of the program for a stand-in: an existing value, a new parameter, or a value computed from one."""
        if not isinstance(candidate, Var):
            return candidate
        if isinstance(variable, DataflowVarPattern):
            return self.builder.emit(something_of(self.around, self._parameter(candidate.ty)), variable.name)
        if variable is not None:
            return self._parameter(candidate.ty, variable.name)
        alike = [value for value in (*self.params, *self.values) if value.ty == candidate.ty]
        if alike and self._chance(0.2):
            return self.around.choice(alike)
        param = self._parameter(candidate.ty)
        if isinstance(param.ty, TensorType) and self._chance(0.25):
            return self._emit(something_of(self.around, param))
        return param

    def _parameter(self, ty: Type, name: str = "") -> Var:
        if not is_simple(ty):
            raise NoInstanceError("a parameter whose sizes follow from others")
        param = Var(name or f"x{len(self.params)}", ty)
        self.params.append(param)
        return param

    def _constant(self, ty: Type, number: float | None) -> Constant:
        if not isinstance(ty, TensorType) or ty.dtype is None:
            raise NoInstanceError("no tensor")
        if number is not None:
            try:
                return const(number, ty.dtype)
            except (OverflowError, ValueError) as error:
                raise NoInstanceError("another dtype") from error
        shape = [dim for dim in ty.shape or () if isinstance(dim, int)]
        if len(shape) != ty.ndim or self.random.random() < 0.5:
            shape = []
        values = random_array(shape, ty.dtype, np.random.default_rng(self.random.getrandbits(32)))
        if self.random.random() < 0.5:
            special: Any = self.random.choice((0, 1, 2, 0.5, -1, *self.numbers))
            values = np.full(shape, special).astype(values.dtype)
        return Constant(values)

    def _filled(self, operand: OpenOperand) -> Expr:
        match operand:
            case Hole(value=None):
                drawn = draw_tensor_type(self.random, [], self.dtype)
                operand.value = self._settled(self._stand_in(operand, drawn, self.sizes), operand.variable)
                return operand.value
            case Hole(value=Expr() as value):
                return value
            case Fields():
                whole = Tuple([self._filled(item) for item in operand.fields])
                return self._emit(whole) if self._chance(0.2) else whole
            case OpenShape():
                return ShapeExpr([self._size(dim, self.sizes) for dim in operand.dims])
            case Expr():
                return operand
            case _:
                raise NoInstanceError("an open operand")

    def _emit(self, value: Expr) -> Var:
        """Bind ``value``, sometimes as an output of the block."""
        if self._chance(0.12) and self.builder.current_block_is_dataflow():
            var = self.builder.emit_output(value)
            self.outputs.append(var)
        else:
            var = self.builder.emit(value)
        self.values.append(var)
        return var

    def _finish(self, root: Expr) -> None:
        """Make the value of the match an output, or an operand of an output."""
        value = root if isinstance(root, Var) else self._emit(root)
        if self.plain or self.around.random() < 0.4 or not isinstance(value.ty, TensorType):
            self._output(value)
        else:
            self._use(value)

    def _use(self, value: Var) -> None:
        self._output(something_of(self.around, value) if isinstance(value.ty, TensorType) else value)

    def _output(self, value: Expr) -> None:
        if not isinstance(value, Var) or isinstance(value, DataflowVar):
            in_dataflow = self.builder.current_block_is_dataflow()
            value = self.builder.emit_output(value) if in_dataflow else self.builder.emit(value)
        if value not in self.outputs:
            self.outputs.append(value)
