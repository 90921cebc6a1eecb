"""The values of a program: the expression that each variable is bound to, and its users.

Aliases are resolved. A variable is an alias if it is bound to another variable, to a leaf, or to a field of a tuple
that is written out. `resolve` returns the single leaf that stands for the value of an operand. Two operands are the
same value if their resolved leaves are (`same_value`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import numpy as np

from ..ir.builder import operands_of
from ..ir.dtypes import is_float
from ..ir.equality import same_tensor, structural_equal
from ..ir.errors import RegraftError
from ..ir.expr import Constant, DataflowVar, Expr, ExternFunc, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var
from ..ir.op import Call, Op, Trait, attribute_key
from ..ir.program import BindingBlock, DataflowBlock, Function, If, SeqExpr, VarBinding
from ..ir.types import TensorType, Type
from ..ir.walks import reached
from .variables import free_vars

Definitions: TypeAlias = Mapping[Var, Expr]

_OPAQUE = frozenset({Call, Tuple, If, SeqExpr, Function})


def resolve(definitions: Definitions, expr: Expr) -> Expr:
    """The leaf that stands for the value of ``expr``: the leaf that it is an alias of, or ``expr`` itself."""
    while True:
        kind = type(expr)
        if kind is not DataflowVar and kind is not Var:
            return expr
        value = definitions.get(expr)  # pyright: ignore[reportArgumentType]
        if value is None:
            return expr
        kind = type(value)
        if kind in _OPAQUE:
            return expr
        if kind is TupleGetItem:
            field = _projected(definitions, value)  # pyright: ignore[reportArgumentType]
            if field is None:
                return expr
            expr = field
        else:
            expr = value


def _projected(definitions: Definitions, item: TupleGetItem) -> Expr | None:
    whole = definition(definitions, resolve(definitions, item.tuple_value))
    return whole.fields[item.index] if type(whole) is Tuple else None


def projections(definitions: Definitions, operand: Expr) -> Iterator[TupleGetItem]:
    """The projections through which ``operand`` is resolved to its leaf, the nearest first."""
    while True:
        if type(operand) is TupleGetItem:
            yield operand
            field = _projected(definitions, operand)
            if field is None:
                return
            operand = field
            continue
        value = definitions.get(operand) if isinstance(operand, Var) else None
        if value is None or type(value) in _OPAQUE:
            return
        operand = value


def definition(definitions: Definitions, leaf: Expr) -> Expr:
    """The value that a resolved leaf is bound to; a parameter, or a leaf that is not a variable, stands for itself."""
    if type(leaf) is DataflowVar or type(leaf) is Var:
        return definitions.get(leaf, leaf)
    return leaf


def call_of(definitions: Definitions, var: Var) -> Call:
    """The call that ``var`` is bound to; the caller knows that it is one, since a pattern of a call matched it."""
    value = definitions[var]
    assert isinstance(value, Call)
    return value


def arguments_of(definitions: Definitions, user: Expr) -> Sequence[Expr]:
    """The operands of the value of ``user``; if they are packed for an outside function, the packed operands."""
    operands = operands_of(definition(definitions, user))
    if len(operands) == 2 and type(operands[0]) is ExternFunc:
        packed = definition(definitions, resolve(definitions, operands[1]))
        return packed.fields if type(packed) is Tuple else operands
    return operands


def same_value(definitions: Definitions, left: Expr, right: Expr) -> bool:
    """True if two resolved leaves are certainly the same value: variables by identity, others by content."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    match left, right:
        case Constant(), Constant():
            return same_constant(left, right)
        case ShapeExpr(), ShapeExpr():
            return left.values == right.values
        case PrimValue(), PrimValue():
            return left.ty == right.ty and attribute_key(left.value) == attribute_key(right.value)
        case Tuple(), Tuple():
            if len(left.fields) != len(right.fields):
                return False
            pairs = zip(left.fields, right.fields, strict=True)
            return all(same_value(definitions, resolve(definitions, a), resolve(definitions, b)) for a, b in pairs)
        case Var(), Var():
            return False
        case _:
            return structural_equal(left, right)


def held(definitions: Definitions, operands: Sequence[Expr], beside: Expr | None = None) -> Iterator[Expr]:
    """The leaves of ``operands`` and of written-out tuples among them, each once; the leaf ``beside`` is skipped."""

    def leaves(exprs: Sequence[Expr]) -> list[Expr]:
        return [resolve(definitions, expr) for expr in reversed(exprs)]

    def inside(leaf: Expr) -> Sequence[Expr]:
        whole = definition(definitions, leaf)
        return leaves(whole.fields) if type(whole) is Tuple else ()

    return reached(leaves(operands), inside, () if beside is None else (beside,))


def same_constant(left: Constant, right: Constant) -> bool:
    """True if two constants agree in dtype, shape and every bit (so NaN equals NaN, and -0.0 does not equal 0.0)."""
    return same_tensor(left.data, right.data)


def same_attribute(call: Call | Function, name: str, wanted: Any) -> bool:
    """True if an attribute has the value ``wanted``, or one with the same meaning in this call.

    Axes count from either end, and those of a reduction are in any order. One stride stands for all. A default stands
    for the value that it means. These rules apply only if the rank, size or dtype is known.
    """
    if name not in call.attrs:
        return False
    held = call.attrs[name]
    if attribute_key(held) == attribute_key(wanted):
        return True
    if type(call) is not Call or type(call.op) is not Op:
        return False
    return attribute_key(_written_out(call, call.op, name, held)) == attribute_key(
        _written_out(call, call.op, name, wanted)
    )


def _written_out(call: Call, op: Op, name: str, value: Any) -> Any:
    """The full form of a value of an attribute of ``call``."""
    if name.endswith("dtype") and value is None and op.attributes.get(name, value) is None:
        return _default_dtype(call, op, name)
    counted = call.ty if op.axes_of < 0 else call.args[op.axes_of].ty if op.axes_of < len(call.args) else None
    rank = counted.ndim if isinstance(counted, TensorType) else -1
    if attribute_key(value) == attribute_key(op.attributes.get(name)):
        if op.written_out is not None:
            value = op.written_out(call).get(name, value)
        elif value is None and name == "axis" and rank == 1:
            return (0,)
    if name in _WINDOWS:
        return _for_each_axis(value, call.attrs[name])
    if not name.endswith("axis") and name != "axes":
        return value
    axes = _numbers(value)
    if not all(type(axis) is int and -rank <= axis < rank for axis in axes):
        return value
    found = [axis % rank for axis in axes]
    return tuple(sorted(found) if name == "axis" and not op.traits.isdisjoint(_SETS_OF_AXES) else found)


_SETS_OF_AXES: Final = (Trait.REDUCTION, Trait.VIEW)
"""The attribute ``axis`` of operators with these traits is a set: the order of axes has no meaning."""


_WINDOWS: Final = frozenset({"strides", "dilation", "padding", "output_padding", "pool_size"})
"""Attributes with a number for each axis that a window moves along; a single number stands for all axes."""


def _numbers(value: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)


def _for_each_axis(value: Any, held: Any) -> Any:
    """``value`` with as many numbers as ``held``; it may have one number, or one for each axis instead of each end."""
    numbers, many = _numbers(value), len(_numbers(held))
    is_short = (value is not numbers or len(numbers) > 1) and len(numbers) in (1, many // 2)
    is_short = is_short and all(type(number) is int for number in numbers)
    return numbers * (many // len(numbers)) if is_short else numbers


def _default_dtype(call: Call, op: Op, name: str) -> str | None:
    """The dtype of the result of ``call`` without an attribute that sets it; None if it is not known."""
    ty = call.ty
    if call.attrs[name] is not None:
        try:
            ty = Call(op, call.args, {**call.attrs, name: None}).ty
        except RegraftError:
            return None
    return ty.dtype if isinstance(ty, TensorType) else None


def is_number(constant: Constant, value: float, rtol: float) -> bool:
    """True if a constant is the number ``value`` in its dtype or, with ``rtol``, within this relative distance."""
    data = constant.data
    if data.size != 1 or data.dtype.startswith("complex"):
        return False
    held = data.numpy().reshape(())
    if rtol:
        return abs(float(held) - value) <= rtol * abs(value)
    if not is_float(data.dtype):
        return int(held) == value
    with np.errstate(over="ignore"):
        return held.tobytes() == np.asarray(value).astype(held.dtype).tobytes()


def is_single(ty: Type) -> bool:
    """True if a value of that type is certainly a tensor with one element."""
    return isinstance(ty, TensorType) and (ty.ndim == 0 or (ty.shape is not None and all(d == 1 for d in ty.shape)))


def leaves_of(value: Expr) -> Sequence[Expr]:
    """The leaves in a bound value: its operands with tuples flattened, or the free variables of a branch or function.

    If the value is a variable, this is its only leaf.
    """
    operands: Sequence[Expr]
    if type(value) is Call and type(value.op) is Op:
        operands = value.args
    elif type(value) is If or type(value) is Function or type(value) is SeqExpr:
        return free_vars(value)
    else:
        operands = operands_of(value)
        if not operands:
            return (value,) if isinstance(value, Var) else ()
    for operand in operands:
        if type(operand) is Tuple:
            break
    else:
        return operands
    found: list[Expr] = []
    stack = list(reversed(operands))
    while stack:
        operand = stack.pop()
        if type(operand) is Tuple:
            stack.extend(reversed(operand.fields))
        else:
            found.append(operand)
    return found


class BlockView:
    """One block as values: ``definitions``, ordered ``users``, an index ``by_op``, and each value's ``position``.

    ``outer`` holds definitions from before the block, which are resolved as well; the view adds its own definitions to
    them until it is released. ``outputs`` are the variables that are visible after the block. Cost to build: linear in
    the block.
    """

    __slots__ = ("by_op", "definitions", "outputs", "position", "users")

    def __init__(self, block: BindingBlock | None, outer: dict[Var, Expr] | None = None) -> None:
        self.definitions: dict[Var, Expr] = {} if outer is None else outer
        self.users: dict[Var, dict[Var, None]] = {}
        self.by_op: dict[Expr, dict[Var, None]] = {}
        self.position: dict[Var, float] = {}
        self.outputs: dict[Var, None] = {}
        is_dataflow = isinstance(block, DataflowBlock)
        position, outputs = self.position, self.outputs
        for index, binding in enumerate(block or ()):
            var = binding.var
            position[var] = index
            if not is_dataflow or type(var) is not DataflowVar:
                outputs[var] = None
            if type(binding) is VarBinding:
                self.define(var, binding.value)
            else:
                self.add_uses(var, leaves_of(binding.value) or (binding.value,))

    def release(self) -> None:
        """Remove the block's own definitions from the table that it shares with other blocks."""
        for var in self.position:
            self.definitions.pop(var, None)

    def define(self, var: Var, value: Expr) -> None:
        """Record that ``var`` is bound to ``value``."""
        self.definitions[var] = value
        if type(value) is Call:
            self.by_op.setdefault(value.op, {})[var] = None
            self.add_uses(var, value.args)
        else:
            self.add_uses(var, leaves_of(value))

    def add_uses(self, user: Var, operands: Iterable[Expr]) -> None:
        """Record that the binding of ``user`` mentions ``operands``."""
        users = self.users
        for operand in operands:
            kind = type(operand)
            if kind is DataflowVar or kind is Var:
                entry = users.get(operand)  # pyright: ignore[reportArgumentType]
                if entry is None:
                    users[operand] = {user: None}  # pyright: ignore[reportArgumentType]
                else:
                    entry[user] = None
            elif type(operand) is Tuple:
                self.add_uses(user, operand.fields)

    def users_of(self, leaf: Expr) -> tuple[Var, ...]:
        """The variables whose bindings use the value of ``leaf``, also through aliases and tuples, in order."""
        if not isinstance(leaf, Var):
            return ()
        found: dict[Var, None] = {}
        pending = [leaf]
        while pending:
            for user in self.users.get(pending.pop(), ()):
                if user not in found:
                    found[user] = None
                    if self._passes_on(user):
                        pending.append(user)
        return tuple(sorted(found, key=self.rank))

    def consumers(self, source: Expr, user: Expr | None = None) -> tuple[list[Var], bool]:
        """The bindings other than ``user`` that compute with ``source``, in order, and its visibility after the block.

        The second result is True if it is visible after the block; being a part of ``user`` does not count. Aliases,
        and tuples that contain it, are not uses by themselves. Cost: linear in the users of its names.
        """
        definitions = self.definitions
        others: dict[Var, None] = {}
        is_output = False
        names: dict[Var, None] = {source: None} if isinstance(source, Var) else {}
        pending = list(names)
        while pending:
            name = pending.pop()
            # A projection of `user`, a tuple, may be the source again, so names of `user` are followed, too.
            is_source = any(leaf is source for leaf in held(definitions, [name], beside=user))
            is_output = is_output or (is_source and name in self.outputs)
            for other in self.users.get(name, ()):
                is_name = resolve(definitions, other) is not other or type(definitions.get(other)) is Tuple
                if is_name and other not in names:
                    names[other] = None
                    pending.append(other)
                elif is_source and not is_name and other is not user:
                    others[other] = None
        return sorted(others, key=self.rank), is_output

    def _passes_on(self, var: Var) -> bool:
        """True if ``var`` is only another name for the values it contains: an alias, a tuple, or a field of one."""
        value = self.definitions.get(var)
        return value is not None and isinstance(value, Tuple | Var | TupleGetItem)

    def rank(self, var: Var) -> float:
        """The position of ``var`` in the block; values from before the block come first."""
        return self.position.get(var, -1)

    def candidates(self, ops: Iterable[Op] | None) -> list[Var]:
        """The bindings whose callee is one of ``ops`` (all bindings, if None), in order."""
        if ops is None:
            return sorted((v for v in self.position if v in self.definitions), key=self.rank)
        found: dict[Var, None] = {}
        for op in ops:
            found.update(self.by_op.get(op, {}))
        return sorted(found, key=self.rank)
