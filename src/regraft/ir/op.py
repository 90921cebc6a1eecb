"""Operators, and calls of them.

An `Op` is one declaration: the names of its operands and attributes, its type rule, its reference semantics, its
gradient and its algebraic traits. The matcher, the passes and the engines read these; none of them lists op names.
A `Call` applies an operator, a function of the module, or an external function. Its type is inferred when it is built,
so a wrong call fails where it is written. The declarations themselves are in the vocabulary (`regraft.op`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard, final

import numpy as np

from .attribute_kinds import UNSTATED, no_type, refused_type, stated_types
from .attrs import NO_ATTRS as NO_ATTRS
from .attrs import REQUIRED as REQUIRED
from .attrs import Attrs as Attrs
from .attrs import attribute_key as attribute_key
from .attrs import held_attribute
from .dims import Dim, SymVar
from .dtypes import is_exact
from .errors import IRError, OpTypeError
from .expr import Constant, Expr, ExternFunc, Tuple, Var, as_expr, as_operands, const
from .near_names import meant
from .node import Node, init_field
from .onnx_name import OnnxName as OnnxName
from .op_attributes import OpAttributes
from .placement import placed_result
from .redeclaration import difference
from .traits import Precision as Precision
from .traits import Trait as Trait
from .traits import check_declared, check_engine
from .types import (
    OBJECT,
    FuncType,
    ObjectType,
    TensorType,
    TupleType,
    Type,
    bind_type,
    erase_unbound,
    substitute_type,
    type_symvars,
)
from .vdevice import VDevice


class Operand(NamedTuple):
    """One operand of an operator: its name, and whether a call may omit it (only at the end)."""

    name: str
    optional: bool = False


class TypeRule(Protocol):
    """A function that computes the type of a call from its ``op``, ``args``, ``attrs`` and ``ty_args``."""

    def __call__(self, call: Call, /) -> Type:
        """The type of the result. ``call.ty`` is not set yet. Raises `OpTypeError` for a wrong call."""
        ...


Reference: TypeAlias = Callable[..., Any]
"""``reference(xp, *operands, **attributes)``: the meaning of an operator over an array API namespace ``xp``.

Operands are arrays of ``xp``, tuples of them, tuples of ints (shapes), Python scalars (prim values), or None
for an omitted operand. The result is an array, a tuple of arrays, or a tuple of ints for a shape.
"""

GradientRule: TypeAlias = Callable[["Call", Expr, Expr], Sequence[Expr | None]]
"""``gradient(call, output, adjoint)``: for each operand, its share of the adjoint, or None if it has no gradient.

``output`` is the variable bound to the call, ``adjoint`` the gradient of the target with respect to it.
"""

WrittenOut: TypeAlias = "Callable[[Call], Mapping[str, Any]]"
"""``written_out(call)``: the explicit values that default attributes stand for in a call, as far as they are known."""

CostRule: TypeAlias = "Callable[[Call], Dim | None]"
"""``cost(call)``: the number of arithmetic operations of a call; None if the sizes do not determine it."""


_registry: dict[str, Op] = {}
_families: dict[str, str] = {}
_foreign: dict[tuple[object, ...], Op] = {}
_by_onnx: dict[tuple[str, str], Op] = {}


@final
class Op(OpAttributes, Expr):
    """An operator, declared once and looked up by name: ``Op.get("relax.add")``.

    ``operands`` are the names of the arguments, in order (``"x?"`` is optional; ``"*args"`` takes any number).
    ``attributes`` maps each attribute's name to its default, or to `REQUIRED`. Every consumer of programs (the
    engines, the writers of files, the gradient) has a row for each ``primitive`` operator. Any other operator is a
    composite: a consumer without a row for it uses the program of its reference semantics
    (`regraft.op.decompose`).

    ``precision`` is its behaviour in narrow dtypes (by default FOLLOWS for elementwise primitives and for operators
    that only move elements, KEEPS for others). ``cost`` counts its operations (by default, `regraft.analysis.call_cost`
    decides). ``finite``, stored as ``keeps_finite``, says if finite operands give a finite result unless it overflows
    (by default only for operators that move elements).

    Attributes whose names end in ``axis`` or are ``axes`` count axes of operand ``axes_of`` (-1: of the result), from
    either end; ``axis`` of a reduction or a view is a set. ``written_out`` returns the explicit values that defaults
    (except dtypes) stand for.

    ``onnx`` (``"domain::Name"``, with its ``version``) and ``torch`` (``"namespace::name"``) are its names in ONNX and
    PyTorch. ``kernels`` holds, by engine, the functions that compute it there instead of its reference semantics; see
    `define_kernel`.

    Repeating a declaration, as in a notebook, returns the existing operator. A different declaration of
    the same name raises `IRError`, which says what differs.
    """

    __slots__ = (
        "attributes",
        "axes_of",
        "cost",
        "gradient",
        "infer",
        "is_commutative",
        "is_foreign",
        "is_primitive",
        "is_pure",
        "keeps_finite",
        "kernels",
        "name",
        "onnx",
        "operands",
        "precision",
        "reference",
        "torch",
        "traits",
        "variadic",
        "written_out",
        "_defaults",
    )
    name: str
    operands: tuple[Operand, ...]
    attributes: Mapping[str, Any]
    infer: TypeRule
    reference: Reference | None
    gradient: GradientRule | None
    traits: frozenset[Trait]
    onnx: OnnxName | None
    torch: str | None
    kernels: dict[str, Callable[..., Any]]
    variadic: bool
    is_commutative: bool
    is_foreign: bool
    """True if the operator is not declared: a model calls it by name, and each call states the type of its result."""
    is_pure: bool
    is_primitive: bool
    precision: Precision
    cost: CostRule | None
    keeps_finite: bool
    axes_of: int
    written_out: WrittenOut | None
    _defaults: Attrs | None

    def __new__(cls, name: str, *_declared: Any, **_options: Any) -> Op:
        """The operator called ``name``, if there is one; ``__init__`` then compares the two declarations."""
        found = _registry.get(name)
        return found if found is not None else super().__new__(cls)

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
        axes_of: int = 0,
        written_out: WrittenOut | None = None,
        onnx: str | None = None,
        version: int = 1,
        torch: str | None = None,
    ) -> None:
        names, traits = tuple(operands), tuple(traits)
        check_declared(name, traits, torch, onnx)
        schema = {key: held_attribute(name, key, default) for key, default in (attributes or {}).items()}
        complete = REQUIRED not in schema.values()
        declared: dict[str, Any] = {
            "operands": tuple(Operand(n.rstrip("?").lstrip("*"), n.endswith("?")) for n in names),
            "variadic": any(n.startswith("*") for n in names),
            "attributes": schema,
            "infer": infer,
            "reference": reference,
            "traits": frozenset(traits),
            "onnx": None if onnx is None else OnnxName.of(onnx, version),
            "torch": torch,
            "is_primitive": primitive,
        }
        if name in _registry:
            differs = next((key for key, new in declared.items() if difference(getattr(self, key), new)), None)
            if differs is None:
                return
            raise IRError(
                f"operator {name!r} is declared already, with another value of {differs}; choose another name, or "
                "restart Python to change the operator: programs may hold calls of the old one"
            )
        if not all(part.isidentifier() for part in name.split(".")):
            raise IRError(f"operator {name!r}: a name consists of identifiers joined by dots, such as acme.scaled_add")
        moves = not declared["traits"].isdisjoint((Trait.VIEW, Trait.MOVES))
        follows = moves or (primitive and Trait.ELEMENTWISE in declared["traits"])
        self._fill(
            **declared,
            name=name,
            precision=precision or (Precision.FOLLOWS if follows else Precision.KEEPS),
            cost=cost,
            keeps_finite=moves if finite is None else finite,
            axes_of=axes_of,
            written_out=written_out,
            is_foreign=False,
            _defaults=(Attrs(schema) if schema else NO_ATTRS) if complete else None,
        )
        _registry[name] = self
        _by_onnx.setdefault(self.onnx_name[:2], self)

    def _fill(self, *, traits: frozenset[Trait], **fields: Any) -> None:
        """Set all fields, including those derived from ``traits`` and those that are empty at first."""
        known = {"is_commutative": Trait.COMMUTATIVE in traits, "is_pure": Trait.IMPURE not in traits}
        fields |= {"traits": traits, **known, "ty": OBJECT, "gradient": None, "kernels": {}}
        for field, value in fields.items():
            init_field(self, field, value)

    def __reduce__(self) -> tuple[object, ...]:
        if not self.is_foreign:
            return (Op.get, (self.name,))
        if self.onnx is None:
            return (Op.foreign, (self.torch, "torch", 1, self.is_pure))
        return (Op.foreign, (str(self.onnx), "onnx", self.onnx.version, self.is_pure))

    @staticmethod
    def foreign(name: str, source: str = "onnx", version: int = 1, pure: bool = False) -> Op:
        """The undeclared operator ``"domain::Name"`` of a model; the same object each time.

        Its calls take any operands and attributes and state the types of their results (``ty_args``). ``source`` is
        the format that defines it, ``"onnx"`` or ``"torch"``. Unless it is ``pure``, its calls are never moved.
        """
        if source not in ("onnx", "torch"):
            raise IRError(f"a foreign operator is one of 'onnx' or of 'torch', not of {source!r}")
        key = (name, source, version, pure)
        found = _foreign.get(key)
        if found is None:
            found = _foreign[key] = Expr.__new__(Op)
            found._fill(
                name=name,
                operands=(Operand("operands"),),
                variadic=True,
                attributes={},
                infer=stated_type,
                reference=None,
                traits=frozenset(() if pure else (Trait.IMPURE,)),
                onnx=OnnxName.of(name, version) if source == "onnx" else None,
                torch=name if source == "torch" else None,
                is_primitive=False,
                precision=Precision.KEEPS,
                cost=None,
                keeps_finite=False,
                axes_of=0,
                written_out=None,
                is_foreign=True,
                _defaults=None,
            )
        return found

    @property
    def is_open(self) -> bool:
        """True for operators outside the vocabulary: operators that users declare, and undeclared ones."""
        return not self.name.startswith("relax.")

    @property
    def onnx_name(self) -> OnnxName:
        """The operator's name in ONNX: the declared one, or its own name, split into a domain and the last part."""
        domain, _, op_type = self.name.rpartition(".")
        return OnnxName(domain or "regraft", op_type) if self.onnx is None else self.onnx

    @staticmethod
    def of_onnx(domain: str, op_type: str) -> Op | None:
        """The declared operator with this name in ONNX; None if there is none."""
        known = Op.find(f"{domain}.{op_type}") if domain else None
        found = known if known is not None else _by_onnx.get((domain, op_type))
        return found if found is not None and _registry.get(found.name) is found else None

    @staticmethod
    def provide(family: str, module: str) -> None:
        """Register ``module`` as the one that declares the operators whose names begin with ``family`` and a dot.

        It is imported when one of them is first looked up.
        """
        _families[family] = module

    @staticmethod
    def find(name: str) -> Op | None:
        """The operator with exactly this name, declared or of a provided family; None if there is none."""
        found = _registry.get(name)
        if found is None:
            for family in [family for family in _families if name.startswith(f"{family}.")]:
                import_module(_families.pop(family))
            found = _registry.get(name)
        return found

    @staticmethod
    def has_prefix(prefix: str) -> bool:
        """True if an operator or a family is called ``prefix``, or has a name that begins with it and a dot."""
        start = f"{prefix}."
        return any(name.startswith(start) or name == prefix for name in (*_registry, *_families))

    @staticmethod
    def get(name: str) -> Op:
        """The operator called ``name`` (``"relax."`` may be omitted). Raises `IRError` with similar names."""
        found = Op.find(name)
        if found is None:
            found = _registry.get(f"relax.{name}")
        if found is not None:
            return found
        stems = {known.removeprefix("relax."): known for known in _registry}
        near = meant(name.removeprefix("relax."), stems, 3, stems.__getitem__)
        raise IRError(f"there is no operator {name!r}; {near or 'declare your own operators first, by rx.operator'}")

    @staticmethod
    def all() -> tuple[Op, ...]:
        """All declared operators, sorted by name."""
        return tuple(map(_registry.__getitem__, Op.list_op_names()))

    @staticmethod
    def list_op_names() -> tuple[str, ...]:
        """The names of all declared operators, sorted."""
        return tuple(sorted(_registry))

    def define_gradient(self, rule: GradientRule) -> GradientRule:
        """Declare the gradient rule of this operator. Used as a decorator beside the declaration."""
        init_field(self, "gradient", rule)
        return rule

    def define_kernel(self, engine: str) -> Callable[[Reference], Reference]:
        """Declare the function that computes this operator on an engine (``"numpy"``, ``"torch"``, ``"xla"``).

        It replaces the reference there. Used as a decorator of ``kernel(*operands, **attributes)`` over the engine's
        own arrays; an omitted operand is None. Programs that are already built do not change. Raises `IRError` for an
        engine without such kernels.
        """
        check_engine(self.name, engine)

        def enter(kernel: Reference) -> Reference:
            self.kernels[engine] = kernel
            return kernel

        return enter

    def __call__(self, /, *operands: object, ty_args: Any = (), **attributes: Any) -> Call:
        """A call of this operator. Numbers become constants of the dtype of the tensor beside them.

        ``ty_args`` are the types of the results of a foreign operator. Attribute values must already be in canonical
        form (ints, strings, tuples); the public functions of the vocabulary convert them. Raises `OpTypeError` for
        a wrong operand or attribute.
        """
        defaults = self._defaults
        attrs = self.complete_attrs(attributes) if attributes or defaults is None else defaults
        return self.call_of(operands, attrs, ty_args)

    def call_of(self, operands: tuple[object, ...], attrs: Attrs, ty_args: Any = ()) -> Call:
        """A call with the attributes that `complete_attrs` returns; numbers become constants as in `__call__`."""
        for operand in operands:
            if not isinstance(operand, Expr):
                operands = self._coerce(operands)
                break
        return Call(self, operands, attrs, stated_types(self.name, ty_args) if ty_args else ())  # pyright: ignore[reportArgumentType]

    def complete_attrs(self, given: Mapping[str, Any]) -> Attrs:
        """The attributes of a call: ``given``, with defaults filled in, in declared order."""
        if self.is_foreign:
            return Attrs({name: held_attribute(self.name, name, value) for name, value in given.items()})
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
            values[name] = held_attribute(self.name, name, value)
        return Attrs(values)

    def _coerce(self, operands: tuple[object, ...]) -> tuple[Expr, ...]:
        values = list(operands)
        while values and values[-1] is None:
            values.pop()
        for index in range(len(values)):
            may_miss = self.is_foreign or (index < len(self.operands) and self.operands[index].optional)
            if values[index] is None and may_miss:
                values[index] = Tuple(())  # an empty tuple stands for an omitted operand before others
        dtype = next((v.ty.dtype for v in values if isinstance(v, Expr) and isinstance(v.ty, TensorType)), None)
        return tuple([self.coerce_operand(i, v, dtype) for i, v in enumerate(values)])

    def coerce_operand(self, index: int, value: object, dtype: str | None) -> Expr:
        """``value`` as operand ``index``: numbers become constants of ``dtype``, which must hold them exactly.

        Floats may round in a floating dtype. Without ``dtype``, numbers get the default dtypes of `const`. Raises
        `OpTypeError` for a value that cannot be an operand.
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
        """``value`` in the dtype of the tensor beside it: exact, except that floats may round in a floating dtype."""
        whole = is_exact(dtype)
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
            pass  # NumPy raises them for integers out of range, and for NaN or infinity as an integer
        if converted is None or not fits:
            raise OpTypeError(
                f"{self.name}: {value!r} does not fit the dtype {dtype} of the tensor beside it; convert with R.astype"
            )
        return converted

    def operand_name(self, index: int) -> str:
        """The name of operand ``index``, for messages."""
        if index < len(self.operands):
            name = self.operands[index].name
            return f"{name}[{index}]" if self.variadic and index >= len(self.operands) - 1 else name
        return f"{self.operands[-1].name}[{index}]" if self.variadic else f"#{index}"

    @property
    def arity(self) -> tuple[int, int | None]:
        """The least and the greatest number of arguments of a call; the greatest is None if there is no limit."""
        each = self.operands[:-1] if self.variadic else self.operands
        least = max((index + 1 for index, operand in enumerate(each) if not operand.optional), default=0)
        return least, None if self.variadic else len(self.operands)

    def check_arity(self, count: int) -> None:
        """Raise `OpTypeError` if a call may not have ``count`` arguments."""
        least, most = self.arity
        if count < least or (most is not None and count > most):
            names = ", ".join(f"{o.name}?" if o.optional else o.name for o in self.operands)
            raise OpTypeError(f"{self.name} takes ({names}), but the call gives {count} arguments")


def joined_type(types: tuple[Type, ...]) -> Type:
    """The type of a result with the stated ``types``: `OBJECT` for none, the type itself for one, else their tuple."""
    if not types:
        return OBJECT
    return types[0] if len(types) == 1 else TupleType(types)


def stated_type(call: Call) -> Type:
    """The type that a call states for its result."""
    return joined_type(call.ty_args)


def wrong_operand(call: Call, index: int, expected: str) -> OpTypeError:
    """The error of a type rule about operand ``index``; it names the op, the operand, its type and ``expected``."""
    op = call.op
    assert isinstance(op, Op)
    got = repr(call.args[index].ty) if index < len(call.args) else "missing"
    unstated = UNSTATED if got == repr(OBJECT) else ""
    return OpTypeError(f"{op.name}: argument {op.operand_name(index)} is {got}; expected {expected}{unstated}", index)


def wrong_attribute(call: Call, name: str, expected: str) -> OpTypeError:
    """The error of a type rule about the attribute ``name``."""
    op = call.op
    assert isinstance(op, Op)
    return OpTypeError(f"{op.name}: {name}={call.attrs.get(name)!r}; expected {expected}", name)


@final
class Call(Expr):
    """``op`` applied to ``args`` with ``attrs``; ``ty_args`` are the types that calls of external functions state.

    The type is inferred here, so a call that exists is well typed; raises `OpTypeError` for a wrong call.
    ``Call(op, args)`` fills in the operator's default attributes. Cost: that of the operator's type rule.
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
        span: Any = None,
    ) -> None:
        if span is not None:
            init_field(self, "_span", span)
        init_field(self, "op", op)
        init_field(self, "args", as_operands(args))
        init_field(self, "ty_args", ty_args if type(ty_args) is tuple else tuple(ty_args))
        if type(op) is Op:
            if type(attrs) is not Attrs:
                attrs = op.complete_attrs(attrs or {})
            init_field(self, "attrs", attrs)
            if op.variadic or len(self.args) != len(op.operands):
                op.check_arity(len(self.args))
            try:
                ty = op.infer(self)
                if not isinstance(ty, Type):  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise no_type(op, ty)
                init_field(self, "ty", placed_result(self, ty) if VDevice.named else ty)
            except (TypeError, ValueError, IndexError, AttributeError) as error:
                init_field(self, "ty", refused_type(op, self, error))
        else:
            init_field(self, "attrs", attrs if type(attrs) is Attrs else Attrs(attrs) if attrs else NO_ATTRS)
            init_field(self, "ty", _called_type(self))

    def with_args(self, args: Sequence[Expr]) -> Call:
        """The same call with other arguments.

        Its type is inferred again, unless each new argument is a variable in place of a variable of the same type.
        """
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
        """True if the operator, or the type of the called function, says that the call has no effects."""
        op = self.op
        if type(op) is Op:
            return op.is_pure
        return isinstance(op.ty, FuncType) and op.ty.purity


def _called_type(call: Call) -> Type:
    """The type of a call of a function of the module, a function value, or an external function."""
    callee = call.op
    ty = callee.ty
    if isinstance(callee, ExternFunc) or isinstance(ty, ObjectType):
        return stated_type(call)
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


def is_call_of(expr: Node | None, *names: str) -> TypeGuard[Call]:
    """True if ``expr`` is a call of one of the operators ``names``."""
    return type(expr) is Call and type(expr.op) is Op and expr.op.name in names


def call_function(callee: Expr, args: Iterable[Any]) -> Call:
    """A call of ``callee``: a function of the module, a function value, or an external function."""
    return Call(callee, [as_expr(arg) for arg in args])
