"""Random small blocks, and patterns derived from them: most match somewhere, the rest nearly do.

A pattern is made from a value by abstraction: the value's own call, tuple or constant is kept or forgotten at each
level, with alternatives, rejections, conditions and repeats put around it. Values that the pattern has met already
often get the same pattern again, so that patterns stand in several places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from regraft import op
from regraft.analysis.values import definition, projections, resolve
from regraft.dpl import (
    AndPattern,
    CallPattern,
    DFPattern,
    Extent,
    OrPattern,
    PatternContext,
    RepeatPattern,
    UnorderedTuplePattern,
    UseConstraint,
    below,
    chain,
    elementwise,
    has_trait,
    is_const,
    is_dfv,
    is_expr,
    is_op,
    is_scalar,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    repeat,
    wildcard,
)
from regraft.ir import (
    BlockBuilder,
    Call,
    Constant,
    DataflowBlock,
    Expr,
    Op,
    ShapeExpr,
    SymVar,
    TensorType,
    Trait,
    Tuple,
    TupleGetItem,
    TupleType,
    Var,
    VarBinding,
    const,
)
from regraft.ir.builder import operands_of
from regraft.pattern.context import SameShapeConstraint
from regraft.pattern.derived import duplicate
from regraft.pattern.parts import fixed_op, inner_first
from regraft.pattern.pattern import all_patterns

BINARY = (op.add, op.multiply, op.subtract, op.maximum)
UNARY = (op.exp, op.negative, op.nn.relu)
BINARY_NAMES = ("relax.add", "relax.multiply", "relax.subtract", "relax.maximum")
UNARY_NAMES = ("relax.exp", "relax.negative", "relax.nn.relu")


class RandomBlock:
    """One dataflow block of about ``size`` bindings over few operands, so that values meet again and again."""

    def __init__(self, random: Random, size: int) -> None:
        self.random = random
        symbolic = SymVar("n")
        shapes: list[Any] = [(2, 3), (2, 3), (symbolic, 3)]
        self.params = [Var(name, TensorType(shape, "float32")) for name, shape in zip("xyz", shapes, strict=True)]
        self.visible: list[Expr] = [*self.params, const(1.0), const(2.0)]
        builder = BlockBuilder()
        with builder.function("main", self.params):
            with builder.dataflow():
                for _ in range(size):
                    value = self._value()
                    is_output = random.random() < 0.2
                    self.visible.append(builder.emit_output(value) if is_output else builder.emit(value))
                last = builder.emit_output(self._value())
            builder.emit_func_output(last)
        block = builder.get()["main"].body.blocks[0]
        assert isinstance(block, DataflowBlock)
        self.block = block
        self.definitions: dict[Var, Expr] = {b.var: b.value for b in block if isinstance(b, VarBinding)}

    def values(self) -> list[Var]:
        """The values that are bound, each under one name."""
        return [var for var in self.definitions if resolve(self.definitions, var) is var] or list(self.definitions)

    def _tensor(self, like: Expr | None = None) -> Expr:
        pool = [v for v in self.visible if isinstance(v.ty, TensorType) and (like is None or v.ty == like.ty)]
        return self.random.choice(pool[-4:] if self.random.random() < 0.6 else pool)

    def _value(self) -> Expr:
        random = self.random
        x = self._tensor()
        match random.randrange(10):
            case 0 | 1 | 2 | 3:
                pair = (x, self._tensor(like=x) if random.random() < 0.8 else self.random.choice(self.visible[3:5]))
                return random.choice(BINARY)(*(pair if random.random() < 0.5 else pair[::-1]))
            case 4 | 5:
                return random.choice(UNARY)(x)
            case 6 | 7:
                return Tuple([self._tensor(like=x) for _ in range(random.randint(1, 4))])
            case 8:
                tuples = [v for v in self.visible if isinstance(v.ty, TupleType)]
                if not tuples:
                    return x
                whole = random.choice(tuples)
                assert isinstance(whole.ty, TupleType)
                if all(isinstance(field, TensorType) and field.ndim == 2 for field in whole.ty.fields):
                    choice = random.randrange(2)
                    return op.concat(whole, axis=1) if choice else whole[random.randrange(len(whole.ty.fields))]
                return whole[random.randrange(len(whole.ty.fields))]
            case _:
                if isinstance(x.ty, TensorType) and x.ty.shape == (2, 3):
                    return random.choice(
                        [
                            lambda: op.reshape(x, (3, 2)),
                            lambda: op.split(x, 3, axis=1),
                            lambda: op.concat([x, self._tensor(like=x), x], axis=1),
                            lambda: x,
                        ]
                    )()
                return op.nn.softmax(x, axis=-1) if x.ty.ndim else x  # type: ignore[attr-defined]


class PatternWriter:
    """Patterns for the values of one block."""

    def __init__(
        self, random: Random, definitions: Mapping[Var, Expr], *, repeats: bool = True, chains: bool = False
    ) -> None:
        self.random = random
        self.definitions = definitions
        self.repeats = repeats
        self.chains = chains
        self.met: dict[Expr, DFPattern] = {}
        self.extents = [Extent("first"), Extent("second")]
        self.size = SymVar("m")

    def happens(self, chance: float) -> bool:
        return self.random.random() < chance

    def pattern(self, value: Expr, depth: int) -> DFPattern:
        """A pattern that stands for ``value``, most of the time."""
        leaf = resolve(self.definitions, value)
        known = self.met.get(leaf)
        if known is not None and self.happens(0.6):
            return known
        if self.happens(0.04) and self.definitions:
            leaf = self.random.choice(list(self.definitions))
        written = list(projections(self.definitions, value))
        if written and depth > 0 and self.happens(0.5):
            item = self.random.choice(written)
            index = item.index if self.happens(0.7) else None
            inner: DFPattern = is_tuple_get_item(self.pattern(item.tuple_value, depth - 1), index)
        else:
            inner = self._structure(leaf, depth)
        made = self._around(leaf, inner, depth)
        self.met[leaf] = made
        return made

    def _structure(self, leaf: Expr, depth: int) -> DFPattern:
        bound = definition(self.definitions, leaf)
        if depth > 0 and self.happens(0.85):
            match bound:
                case Call() if self.chains and self.happens(0.2):
                    return self._chain(bound, depth)
                case Call():
                    return self._call(bound, depth)
                case Tuple(fields=fields) if self.happens(0.3) and len(fields) > 1:
                    parts = [self.pattern(field, depth - 1) for field in fields]
                    self.random.shuffle(parts)
                    return is_tuple(parts, unordered=True)
                case Tuple(fields=fields):
                    return is_tuple(self._row(fields, depth - 1))
                case TupleGetItem():
                    index = bound.index if self.happens(0.7) else None
                    return is_tuple_get_item(self.pattern(bound.tuple_value, depth - 1), index)
                case _:
                    pass
        match leaf:
            case Constant():
                exact = is_const(float(leaf.data.numpy())) if leaf.data.size == 1 else is_const()
                other = self.random.choice([is_const(3.0), is_const(2.0, rtol=0.6), is_scalar()])
                return self.random.choice([is_const(), exact, other, is_expr(const(leaf.data)), wildcard()])
            case Var():
                return self.random.choice(
                    [
                        *(wildcard() for _ in range(3)),
                        is_var(),
                        is_dfv(),
                        is_var(leaf.name_hint),
                        is_expr(leaf),
                        is_scalar(),
                    ]
                )
            case ShapeExpr():
                return self.random.choice([wildcard(), is_shape(leaf.values), is_shape([self.size, 2])])
            case _:
                return wildcard()

    def _chain(self, call: Call, depth: int) -> DFPattern:
        """A chain from a call down to some value below it."""
        assert isinstance(call.op, Op)
        value: Expr = call
        for _ in range(self.random.randint(0, 3)):
            operands = [arg for arg in operands_of(definition(self.definitions, value)) if isinstance(arg, Var)]
            value = self.random.choice(operands) if operands else value
        end = wildcard() if value is call else self.pattern(value, depth - 1)
        name, side = is_op(call.op.name), self._other(1)
        beside = {"varg_default_wildcard": True}
        sizes = [self.size, 3]
        here = below()
        links: list[Any] = [
            elementwise(),
            elementwise() | is_op("relax.concat"),
            is_op(self.random.choice(BINARY_NAMES))(wildcard(), self._other(1)) | is_op("relax.exp")(wildcard()),
            elementwise()(here, self._other(1)) | elementwise()(self._other(1), here) | is_op("relax.exp")(here),
            lambda inner: name(inner, **beside),
            lambda inner: elementwise()(inner, side) | elementwise()(side, inner) | is_op("relax.exp")(inner),
            lambda inner: elementwise()(inner, **beside) & ~is_op("relax.exp")(side),
            lambda inner: elementwise()(wildcard() & inner, **beside).only_used_by(),
            lambda inner: elementwise()(inner, **beside).users(1) | is_op("relax.add")(is_const(), wildcard()),
            lambda inner: elementwise()(inner.has_shape(sizes), **beside),
            lambda inner: is_tuple_get_item(is_tuple([inner, repeat(wildcard(), min=0)]) | inner),
            lambda inner: elementwise()(chain(is_op("relax.exp"), inner, max=2), **beside),
            lambda inner: elementwise()(inner, inner) | name(inner, **beside),
        ]
        least = self.random.choice([0, 0, 0, 1, 2])
        most = self.random.choice([None, None, None, least, least + 2])
        return chain(self.random.choice(links), until=end, min=least, max=most)

    def _call(self, call: Call, depth: int) -> DFPattern:
        assert isinstance(call.op, Op)
        callee: DFPattern = is_op(call.op.name)
        if self.happens(0.15):
            other = is_op(self.random.choice(BINARY_NAMES if len(call.args) == 2 else UNARY_NAMES))
            callee = callee | other if self.happens(0.5) else other | callee
        if self.happens(0.1):
            callee = self.random.choice([elementwise(), has_trait(Trait.COMMUTATIVE), is_op(lambda op: op.is_pure)])
        args = list(call.args)
        if len(args) == 2 and self.happens(0.5):
            args.reverse()
        if self.happens(0.1):
            kept = self.random.randint(0, len(args))
            return callee(*self._row(args[:kept], depth - 1), varg_default_wildcard=True)
        made: DFPattern = callee(*self._row(args, depth - 1))
        if call.attrs and self.happens(0.3):
            name = self.random.choice(list(call.attrs))
            made = made.has_attr({name: call.attrs[name] if self.happens(0.8) else 77})
        return made

    def _row(self, values: list[Expr] | tuple[Expr, ...], depth: int) -> list[DFPattern]:
        """Patterns for values in a row, of which a run may be a repeat."""
        parts: list[DFPattern] = []
        at = 0
        while at < len(values):
            if self.repeats and self.happens(0.25):
                length = self.random.randint(1, len(values) - at)
                parts.append(self._repeat(values[at : at + length], depth))
                at += length
            else:
                parts.append(self.pattern(values[at], depth))
                at += 1
        if self.repeats and self.happens(0.03):
            parts.append(self._repeat(values[:1], depth)) if values else None
        return parts

    def _repeat(self, run: list[Expr] | tuple[Expr, ...], depth: int) -> DFPattern:
        known = self.met
        single = {v: p for v, p in known.items() if not any(isinstance(q, RepeatPattern) for q in all_patterns(p))}
        self.met, self.repeats = single if self.happens(0.5) else {}, False
        inner = self.pattern(self.random.choice(list(run)), depth)
        new = [p for p in self.met.values() if p not in known.values() and p is not inner]
        self.met, self.repeats = known, True
        return self.around_repeat(inner, new, len(run))

    def around_repeat(self, inner: DFPattern, parts: list[DFPattern], length: int) -> RepeatPattern:
        """A repeat of ``inner`` that about ``length`` values match, sharing some of ``parts``."""
        inside = [p for p in parts if p in all_patterns(inner)]
        shared = [p for p in inside if self.happens(0.4)]
        minimum = self.random.choice([0, 1, 1, length, length + 1] if self.happens(0.3) else [0, 1])
        maximum = self.random.choice([None, None, None, max(minimum, length), max(minimum, length - 1)])
        extent = self.random.choice([None, None, *self.extents])
        return repeat(inner, min=minimum, max=maximum, shared=shared, extent=extent)

    def _around(self, leaf: Expr, made: DFPattern, depth: int) -> DFPattern:
        """Alternatives, rejections and conditions around ``made``; most still hold for ``leaf``."""
        if depth > 0 and self.happens(0.2):
            other = self._other(depth)
            made = made | other if self.happens(0.5) else other | made
        if self.happens(0.08):
            made = made & wildcard() if self.happens(0.5) else wildcard() & made
        if depth > 0 and self.happens(0.12):
            rejected = ~self._other(depth - 1)
            made = made & rejected if self.happens(0.5) else rejected & made
        if self.happens(0.06):
            count = self.random.choice([0, 1, 1, 2, None, None])
            made = made.only_used_by() if count is None else made.users(count)
        if isinstance(leaf.ty, TensorType) and self.happens(0.15):
            shape = leaf.ty.shape or ()
            sizes = [self.size, *shape[1:]] if shape else []
            made = self.random.choice(
                [
                    lambda: made.has_dtype("float32" if self.happens(0.9) else "int32"),
                    lambda: made.has_shape(shape),
                    lambda: made.has_shape(sizes),
                    lambda: made.has_ty(TensorType(sizes, "float32")),
                ]
            )()
        return made

    def _other(self, depth: int) -> DFPattern:
        """A pattern for some value: the same one as elsewhere in the pattern, or one for another value."""
        if self.met and self.happens(0.5):
            return self.random.choice(list(self.met.values()))
        values = list(self.definitions)
        return self.pattern(self.random.choice(values), depth - 1)


def random_context(random: Random, block: RandomBlock) -> PatternContext:
    """Up to four roots for values of ``block``, with alike ones, repeats and constraints among them."""
    writer = PatternWriter(random, block.definitions, repeats=random.random() < 0.3)
    context = PatternContext()
    values = block.values()
    stands_for: list[tuple[DFPattern, Var]] = []
    for _ in range(random.randint(1, 3)):
        value = random.choice(values)
        root = writer.pattern(value, random.randint(1, 2))
        if random.random() < 0.2:
            inner = writer.met
            writer.met = {**inner}
            root = writer.around_repeat(root, list(inner.values()), 2)
        else:
            stands_for.append((root, value))
        context.note(root)
        for copy in _alike(random, root):
            context.note(copy)
    for use in _uses(random, block, stands_for):
        context.add_use(use)
    if len(stands_for) > 1 and random.random() < 0.1:
        context.add_same_shape(SameShapeConstraint([stands_for[0][0], stands_for[1][0]]))
    return context


def _alike(random: Random, root: DFPattern) -> Iterator[DFPattern]:
    """Copies of ``root`` that share some of its arguments, as patterns for parallel branches do."""
    if isinstance(root, CallPattern) and random.random() < 0.4:
        kept = [random.random() < 0.6 for _ in root.args]
        for _ in range(random.randint(1, 2)):
            args = [arg if keep else arg.dup() for arg, keep in zip(root.args, kept, strict=True)]
            if not any(isinstance(arg, RepeatPattern) for arg in args):
                yield CallPattern(root.op, args, root.varg_default_wildcard)


def _uses(random: Random, block: RandomBlock, stands_for: list[tuple[DFPattern, Var]]) -> Iterator[UseConstraint]:
    """Constraints of which most are true of the values that the patterns were made from."""
    for source, value in stands_for:
        for user, using in stands_for:
            operands = [resolve(block.definitions, o) for o in operands_of(block.definitions[using])]
            if source is user or random.random() < (0.3 if value in operands else 0.9):
                continue
            index = operands.index(value) if value in operands and random.random() < 0.5 else random.choice([-1, -1, 0])
            yield UseConstraint(source, user, index, random.random() < 0.4)


def reordered(random: Random, pattern: DFPattern) -> DFPattern:
    """``pattern`` again, with alternatives, commuted arguments and unordered fields written in another order."""
    done: dict[DFPattern, DFPattern] = {}
    for part in inner_first(pattern):
        swapped = random.random() < 0.7
        match part:
            case OrPattern() if swapped:
                done[part] = done[part.right] | done[part.left]
            case AndPattern() if swapped:
                done[part] = done[part.right] & done[part.left]
            case UnorderedTuplePattern():
                fields = [done[field] for field in part.fields]
                random.shuffle(fields)
                done[part] = is_tuple(fields, unordered=True)
            case CallPattern() if swapped and _commutes(part):
                done[part] = done[part.op](done[part.args[1]], done[part.args[0]])
            case _:
                duplicate(part, done)
    return done[pattern]


def _commutes(call: CallPattern) -> bool:
    op = fixed_op(call.op)
    is_plain = not call.varg_default_wildcard and not any(isinstance(arg, RepeatPattern) for arg in call.args)
    return op is not None and op.is_commutative and len(call.args) == 2 and is_plain
