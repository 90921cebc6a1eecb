"""Operators, and calls of them.

An `Op` is one declaration: the names of its operands and attributes, its type rule, its reference semantics, its
gradient and its algebraic traits. The matcher, the passes and the engines read these; none of them lists op names.
A `Call` applies an operator, a function of the module, or a function that lives outside, and has its type at once:
a wrong call fails where it is written. The declarations themselves are in the vocabulary (`regraft.op`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, final

import numpy as np

from .dims import Dim, SymVar
from .dtypes import is_bool, is_integer
from .errors import IRError, OpTypeError
from .expr import Constant, Expr, ExternFunc, Var, as_expr, const
from .node import Node, init_field
from .types import (
    OBJECT,
    FuncType,
    ObjectType,
    TensorType,
    Type,
    bind_type,
    erase_unbound,
    substitute_type,
    type_symvars,
)


class Trait(Enum):
    """Algebraic facts about an operator, each true of every call of it."""

    COMMUTATIVE = "the order of its two operands does not matter"
    ASSOCIATIVE = "op(op(a, b), c) and op(a, op(b, c)) are the same, up to rounding"
    ELEMENTWISE = "each element of the result depends on the elements at the same place only, after broadcasting"
    IDEMPOTENT = "op(op(a)) is op(a); for two operands, op(a, a) is a"
    INVOLUTIVE = "op(op(a)) is a"
    VIEW = "the result holds the same elements as the first operand, in another arrangement"
    MOVES = "each element of the result is one of an operand, or a constant: nothing is computed"
    REDUCTION = "folds whole axes of its operand"
    IMPURE = "has effects or is random: a call is never moved, copied, shared or dropped"
    STOPS_GRADIENT = "its result carries no gradient to its operands"


class Precision(Enum):
    """How well an operator bears operands of a narrow dtype, such as float16."""

    LEADS = "sums products: narrow operands do little harm where the sums are wide"
    FOLLOWS = "gives elements of its operands, or numbers one rounding away from them: it is as precise as they are"
    KEEPS = "loses more than one rounding in a narrow dtype, or overflows early: its operands stay in float32"


class _Required(Enum):
    REQUIRED = "required"

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required.REQUIRED
"""The default of an attribute that every call must give."""


class Attrs(Mapping[str, Any]):
    """The attributes of a call: an immutable mapping whose values also read as ``call.attrs.axes``.

    Values are ints, floats, bools, strings, None, dims, and tuples of these.
    """

    __slots__ = ("_hash", "_values")
    _values: dict[str, Any]

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        object.__setattr__(self, "_values", {} if values is None else dict(values))

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            known = ", ".join(self._values) or "none"
            raise AttributeError(f"no attribute {name!r} here; there are: {known}") from None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"attributes are immutable: cannot set {name!r}; build a new call instead")

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Attrs) and self._key() == other._key()

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            value = hash(self._key())
            object.__setattr__(self, "_hash", value)
            return value

    def _key(self) -> tuple[object, ...]:
        return tuple((name, *attribute_key(value)) for name, value in sorted(self._values.items()))

    def __reduce__(self) -> tuple[object, ...]:
        return Attrs, (self._values,)

    def __repr__(self) -> str:
        return f"Attrs({self._values!r})"


def attribute_key(value: object) -> tuple[str, object]:
    """What makes two attribute values the same: type and value, so that 1, 1.0 and True differ, and NaN is NaN."""
    if isinstance(value, tuple):
        items: tuple[object, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return ("tuple", tuple(attribute_key(v) for v in items))
    if isinstance(value, float):
        return ("float", value.hex())
    return (type(value).__name__, value)


NO_ATTRS: Final = Attrs()


class Operand(NamedTuple):
    """One operand of an operator: its name, and whether a call may leave it out (only at the end)."""

    name: str
    optional: bool = False


class TypeRule(Protocol):
    """From a call (its ``op``, ``args``, ``attrs`` and ``ty_args``; not yet its ``ty``) to the type of its result."""

    def __call__(self, call: Call, /) -> Type:
        """The type of the result; raises `OpTypeError` for a wrong call."""
        ...


Reference: TypeAlias = Callable[..., Any]
"""``reference(xp, *operands, **attributes)``: the meaning of an operator over an array API namespace ``xp``.

Operands come as arrays of ``xp``, tuples of them, tuples of ints (shapes), Python scalars (prim values), or None
where an optional operand is left out. The result is an array, a tuple of arrays, or a tuple of ints for a shape.
"""

GradientRule: TypeAlias = Callable[["Call", Expr, Expr], Sequence[Expr | None]]
"""``gradient(call, output, adjoint)``: for each operand, its share of the adjoint, or None where there is none.

``output`` is the variable bound to the call, ``adjoint`` the gradient of the target with respect to it.
"""

CostRule: TypeAlias = "Callable[[Call], Dim | None]"
"""``cost(call)``: how many operations of arithmetic a call takes; None where the sizes do not tell."""

_registry: dict[str, Op] = {}


@final
class Op(Expr):
    """An operator, declared once and looked up by name: ``Op.get("relax.add")``.

    ``operands`` are the names of the arguments, in order (``"x?"`` may be left out; ``"*args"`` takes any number).
    ``attributes`` maps each attribute's name to its default, or to `REQUIRED`. A ``primitive`` operator has a row of
    its own with every consumer of programs: the engines, the writers of files, the gradient. Any other one is a
    composite: a consumer without a row for it takes the program that its reference semantics are
    (`regraft.op.decompose`).

    ``precision`` says how it bears narrow dtypes (by default it keeps float32, unless it only moves elements), ``cost``
    counts its operations (by default what `regraft.analysis.call_cost` says), and ``finite``, held as
    ``keeps_finite``, whether finite operands give a finite result unless it overflows (by default if it only moves
    elements).
    """

    __slots__ = (
        "attributes",
        "cost",
        "gradient",
        "infer",
        "is_commutative",
        "is_primitive",
        "is_pure",
        "keeps_finite",
        "name",
        "operands",
        "precision",
        "reference",
        "traits",
        "variadic",
        "_defaults",
    )
    name: str
    operands: tuple[Operand, ...]
    attributes: Mapping[str, Any]
    infer: TypeRule
    reference: Reference | None
    gradient: GradientRule | None
    traits: frozenset[Trait]
    variadic: bool
    is_commutative: bool
    is_pure: bool
    is_primitive: bool
    precision: Precision
    cost: CostRule | None
    keeps_finite: bool
    _defaults: Attrs | None

    def __init__(
        self,
        name: str,
        operands: Iterable[str],
        attributes: Mapping[str, Any] | None = None,
        *,
        infer: TypeRule,
        reference: Reference | None = None,
        traits: Iterable[Trait] = (),
        primitive: bool = False,
        precision: Precision | None = None,
        cost: CostRule | None = None,
        finite: bool | None = None,
    ) -> None:
        if name in _registry:
            raise IRError(f"operator {name!r} is declared twice")
        names = tuple(operands)
        schema = dict(attributes or {})
        traits = frozenset(traits)
        complete = REQUIRED not in schema.values()
        moves = Trait.VIEW in traits or Trait.MOVES in traits
        init_field(self, "ty", OBJECT)
        init_field(self, "name", name)
        init_field(self, "operands", tuple(Operand(n.rstrip("?").lstrip("*"), n.endswith("?")) for n in names))
        init_field(self, "variadic", any(n.startswith("*") for n in names))
        init_field(self, "attributes", schema)
        init_field(self, "infer", infer)
        init_field(self, "reference", reference)
        init_field(self, "gradient", None)
        init_field(self, "traits", traits)
        init_field(self, "is_commutative", Trait.COMMUTATIVE in traits)
        init_field(self, "is_pure", Trait.IMPURE not in traits)
        init_field(self, "is_primitive", primitive)
        init_field(self, "precision", precision or (Precision.FOLLOWS if moves else Precision.KEEPS))
        init_field(self, "cost", cost)
        init_field(self, "keeps_finite", moves if finite is None else finite)
        init_field(self, "_defaults", (Attrs(schema) if schema else NO_ATTRS) if complete else None)
        _registry[name] = self

    def __reduce__(self) -> tuple[object, ...]:
        return _named, (self.name,)

    @staticmethod
    def get(name: str) -> Op:
        """The operator of that name (``"relax."`` may be left out); raises `IRError` with near names."""
        found = _registry.get(name)
        if found is None:
            found = _registry.get(f"relax.{name}")
        if found is not None:
            return found
        from difflib import get_close_matches

        stems = {known.removeprefix("relax."): known for known in _registry}
        near = [stems[stem] for stem in get_close_matches(name.removeprefix("relax."), stems, n=3)]
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise IRError(f"there is no operator {name!r}{hint}")

    @staticmethod
    def all() -> tuple[Op, ...]:
        """Every declared operator, by name."""
        return tuple(_registry[name] for name in sorted(_registry))

    def define_gradient(self, rule: GradientRule) -> GradientRule:
        """Declare how an adjoint passes through this operator; used as a decorator beside the declaration."""
        init_field(self, "gradient", rule)
        return rule

    def __call__(self, *operands: object, **attributes: Any) -> Call:
        """A call of this operator. Numbers become constants of the dtype of the tensor beside them.

        Attribute values must already be in canonical form (ints, strings, tuples); the public functions of the
        vocabulary take care of that. Raises `OpTypeError` for a wrong operand or attribute.
        """
        for operand in operands:
            if not isinstance(operand, Expr):
                operands = self._coerce(operands)
                break
        if not attributes:
            attrs = self._defaults
            if attrs is None:
                attrs = self.complete_attrs({})
        else:
            attrs = self.complete_attrs(attributes)
        return Call(self, operands, attrs)  # pyright: ignore[reportArgumentType]

    def complete_attrs(self, given: Mapping[str, Any]) -> Attrs:
        """The attributes of a call that gives ``given``, with defaults filled in, in declared order."""
        schema = self.attributes
        for name in given:
            if name not in schema:
                known = ", ".join(schema) or "none"
                raise OpTypeError(f"{self.name} has no attribute {name!r}; its attributes are: {known}")
        values: dict[str, Any] = {}
        for name, default in schema.items():
            value = given.get(name, default)
            if value is REQUIRED:
                raise OpTypeError(f"{self.name} needs its attribute {name!r}")
            values[name] = value
        return Attrs(values)

    def _coerce(self, operands: tuple[object, ...]) -> tuple[Expr, ...]:
        values = list(operands)
        while values and values[-1] is None:
            values.pop()
        dtype = next((v.ty.dtype for v in values if isinstance(v, Expr) and isinstance(v.ty, TensorType)), None)
        return tuple([self.coerce_operand(i, v, dtype) for i, v in enumerate(values)])

    def coerce_operand(self, index: int, value: object, dtype: str | None) -> Expr:
        """``value`` as operand ``index``: numbers become constants of ``dtype``, which must hold them exactly.

        Without ``dtype`` they take their own, as `const` does. Raises `OpTypeError` for what is no operand.
        """
        if isinstance(value, Expr):
            return value
        if isinstance(value, bool | int | float) and dtype is not None:
            return self._constant_beside(value, dtype)
        try:
            return as_expr(value)
        except IRError as error:
            raise OpTypeError(f"{self.name}: argument {self.operand_name(index)}: {error}") from None

    def _constant_beside(self, value: float, dtype: str) -> Expr:
        """``value`` in the dtype of the tensor beside it: exactly, but for floats that round as floats do."""
        whole = is_integer(dtype) or is_bool(dtype)
        if whole and isinstance(value, float) and math.isfinite(value) and value % 1:
            raise OpTypeError(
                f"{self.name}: the number {value!r} would lose its fraction in the {dtype} of the tensor beside "
                f'it; convert the tensor first: R.astype(x, "float32")'
            )
        converted: Constant | None = None
        fits = False
        try:
            with np.errstate(over="ignore"):
                converted = const(value, dtype)
            held = converted.data.numpy()[()]
            number = int(held) if whole else complex(held)
            rounded = isinstance(value, float) and not whole and np.isfinite(held)
            fits = number == value or value != value or bool(rounded)
        except (OverflowError, ValueError):
            pass  # NumPy's, for integers out of range, and for NaN or infinity as an integer
        if converted is None or not fits:
            raise OpTypeError(
                f"{self.name}: {value!r} does not fit the dtype {dtype} of the tensor beside it; "
                f"convert the tensor first, with R.astype"
            )
        return converted

    def operand_name(self, index: int) -> str:
        """The name of operand ``index``, for messages."""
        if index < len(self.operands):
            name = self.operands[index].name
            return f"{name}[{index}]" if self.variadic and index >= len(self.operands) - 1 else name
        return f"{self.operands[-1].name}[{index}]" if self.variadic else f"#{index}"

    def check_arity(self, count: int) -> None:
        """Raise `OpTypeError` unless a call may have ``count`` arguments."""
        most = None if self.variadic else len(self.operands)
        least = sum(not operand.optional for operand in self.operands) - self.variadic
        if count < least or (most is not None and count > most):
            names = ", ".join(f"{o.name}?" if o.optional else o.name for o in self.operands)
            raise OpTypeError(f"{self.name} takes ({names}), but the call gives {count} arguments")


def _named(name: str) -> Op:
    return Op.get(name)


def wrong_operand(call: Call, index: int, expected: str) -> OpTypeError:
    """The error that a type rule raises about operand ``index``: op, operand, its type, and what was expected."""
    op = call.op
    assert isinstance(op, Op)
    got = repr(call.args[index].ty) if index < len(call.args) else "missing"
    return OpTypeError(f"{op.name}: argument {op.operand_name(index)} is {got}; expected {expected}")


def wrong_attribute(call: Call, name: str, expected: str) -> OpTypeError:
    """The error that a type rule raises about the attribute ``name``."""
    op = call.op
    assert isinstance(op, Op)
    return OpTypeError(f"{op.name}: {name}={call.attrs.get(name)!r}; expected {expected}")


@final
class Call(Expr):
    """``op`` applied to ``args`` with ``attrs``; ``ty_args`` are the types that calls to outside functions state.

    The type is inferred here, so a call that exists is well typed. ``Call(op, args)`` fills in the operator's
    default attributes. Raises `OpTypeError` otherwise. Cost: that of the operator's type rule.
    """

    __slots__ = ("args", "attrs", "op", "ty_args")
    op: Expr
    args: tuple[Expr, ...]
    attrs: Attrs
    ty_args: tuple[Type, ...]

    def __init__(
        self,
        op: Expr,
        args: Iterable[Expr],
        attrs: Attrs | Mapping[str, Any] | None = None,
        ty_args: Iterable[Type] = (),
    ) -> None:
        init_field(self, "op", op)
        init_field(self, "args", args if type(args) is tuple else tuple(args))
        init_field(self, "ty_args", ty_args if type(ty_args) is tuple else tuple(ty_args))
        if type(op) is Op:
            if type(attrs) is not Attrs:
                attrs = op.complete_attrs(attrs or {})
            init_field(self, "attrs", attrs)
            if op.variadic or len(self.args) != len(op.operands):
                op.check_arity(len(self.args))
            init_field(self, "ty", op.infer(self))
        else:
            init_field(self, "attrs", attrs if type(attrs) is Attrs else Attrs(attrs) if attrs else NO_ATTRS)
            init_field(self, "ty", _called_type(self))

    def with_args(self, args: Sequence[Expr]) -> Call:
        """The same call of other arguments, typed anew unless variables only took the place of others of their type."""
        if len(args) == len(self.args):
            for new, old in zip(args, self.args, strict=True):
                if new is not old and not (new.ty is old.ty and isinstance(new, Var) and isinstance(old, Var)):
                    break
            else:
                copy = Call.__new__(Call)
                init_field(copy, "op", self.op)
                init_field(copy, "args", tuple(args))
                init_field(copy, "attrs", self.attrs)
                init_field(copy, "ty_args", self.ty_args)
                init_field(copy, "ty", self.ty)
                return copy
        return Call(self.op, tuple(args), self.attrs, self.ty_args)

    @property
    def is_pure(self) -> bool:
        """Whether the call has no effects, as far as its operator or the function's type says."""
        op = self.op
        if type(op) is Op:
            return op.is_pure
        return isinstance(op.ty, FuncType) and op.ty.purity


def _called_type(call: Call) -> Type:
    """The type of a call of a function of the module, a function value, or a function that lives outside."""
    callee = call.op
    if isinstance(callee, ExternFunc):
        if len(call.ty_args) > 1:
            raise OpTypeError(
                f'call of ExternFunc "{callee.global_symbol}": one result type at most, got {call.ty_args}'
            )
        return call.ty_args[0] if call.ty_args else OBJECT
    ty = callee.ty
    if isinstance(ty, ObjectType):
        return call.ty_args[0] if call.ty_args else OBJECT
    if not isinstance(ty, FuncType):
        raise OpTypeError(f"cannot call {callee!r}: it is {ty!r}, which is no function")
    if ty.params is None:
        return ty.ret
    if len(ty.params) != len(call.args):
        raise OpTypeError(f"{callee!r} takes {len(ty.params)} arguments, but the call gives {len(call.args)}")
    sizes: dict[SymVar, Dim] = {}
    for i, (param, arg) in enumerate(zip(ty.params, call.args, strict=True)):
        if bind_type(param, arg.ty, sizes) is False:
            raise OpTypeError(f"call of {callee!r}: argument {i} is {arg.ty!r}; expected {param!r}")
    own = {v for param in ty.params for v in type_symvars(param)}
    unbound = own - sizes.keys()
    return substitute_type(erase_unbound(ty.ret, lambda v: v not in unbound), sizes)


def is_call_of(expr: Node | None, name: str) -> bool:
    """Whether ``expr`` is a call of the operator ``name``."""
    return type(expr) is Call and type(expr.op) is Op and expr.op.name == name


def _call_function(callee: Expr, args: Iterable[Any]) -> Call:
    return Call(callee, [as_expr(arg) for arg in args])


Expr.define_operators({"call": _call_function})
