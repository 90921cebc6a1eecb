"""Expressions: variables, constants, shapes, scalars, tuples.

Calls and operators are in `op`; bindings, blocks and functions are in `program`. Each expression has its type as soon
as it is built. Python's operators on expressions (``x + y``, ``-x``, ``t[0]``) build calls; `Expr.operators`
says which, since the language does not know the names of operators.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, cast, final

import numpy as np

from .dims import Dim, KnownSize, SymExpr, SymVar, compare
from .dims import floordiv as dim_floordiv
from .dims import floormod as dim_floormod
from .dtypes import as_dtype
from .errors import FieldIndexError, IRError
from .node import Definite, Node, init_field, init_span
from .origin import Origins
from .tensor_data import TensorData, as_array
from .types import (
    OBJECT,
    STRING,
    UNSTATED,
    FuncType,
    ObjectType,
    PrimType,
    Shape,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    as_dim,
)


def _operation(operator: str, owner: Expr, *others: object, reflected: bool = False) -> Expr:
    """The result of Python's ``operator`` for ``owner``: a call, or a size if all operands are sizes."""
    operands = (*others, owner) if reflected else (owner, *others)
    if type(owner.ty) is PrimType and (sizes := _sizes(operands)) is not None:
        compute = _SIZE_ARITHMETIC.get(operator)
        if compute is not None:
            return PrimValue(compute(*sizes))
    return Expr.operators[operator](*operands)


def _binary(sign: str) -> Callable[[Expr, object], Expr]:
    return lambda self, other: _operation(sign, self, other)


def _reflected(sign: str) -> Callable[[Expr, object], Expr]:
    return lambda self, other: _operation(sign, self, other, reflected=True)


class Expr(Node):
    """Base of all expressions. ``ty`` is the type (``struct_info`` is a second name for it)."""

    __slots__ = ("ty",)
    ty: Type

    operators: ClassVar[Mapping[str, Callable[..., Expr]]]
    """The functions that build the calls for Python's operators; the top module sets them from the vocabulary."""

    @property
    def struct_info(self) -> Type:
        """The type, under Relax's older name."""
        return self.ty

    def as_size(self) -> Dim | None:
        """The size that a scalar of the program stands for; None for other expressions."""
        return None

    __add__, __radd__ = _binary("+"), _reflected("+")
    __sub__, __rsub__ = _binary("-"), _reflected("-")
    __mul__, __rmul__ = _binary("*"), _reflected("*")
    __truediv__, __rtruediv__ = _binary("/"), _reflected("/")
    __floordiv__, __rfloordiv__ = _binary("//"), _reflected("//")
    __mod__, __rmod__ = _binary("%"), _reflected("%")
    __pow__, __rpow__ = _binary("**"), _reflected("**")
    __matmul__ = _binary("@")
    __lt__, __le__, __gt__, __ge__ = _binary("<"), _binary("<="), _binary(">"), _binary(">=")

    def __neg__(self) -> Expr:
        return _operation("neg", self)

    def __abs__(self) -> Expr:
        return _operation("abs", self)

    def __call__(self, *args: object) -> Expr:
        """A call of this expression, which is a function."""
        from .op import call_function  # a call is an expression itself

        return call_function(self, args)

    def __bool__(self) -> bool:
        raise IRError(
            "an expression has no truth value while the program is being written; "
            "use R.where, an `if` in the script, or `is` to compare identities"
        )

    def __getitem__(self, index: int) -> Expr:
        return TupleGetItem(self, index)

    def __iter__(self) -> Iterator[Expr]:
        if not isinstance(self.ty, TupleType):
            raise TypeError(f"only an expression of tuple type can be unpacked, this one is {self.ty!r}")
        return (self[i] for i in range(len(self.ty.fields)))

    def astype(self, dtype: str) -> Expr:
        """This tensor with its elements converted to ``dtype``."""
        return _operation("astype", self, dtype)


class Var(Expr):
    """A name for a value, bound once. Two variables are the same only if they are the same object.

    ``name_hint`` is for people. ``origins`` are the nodes of a source model that the value came from.
    """

    __slots__ = ("name_hint", "origins")
    name_hint: str
    origins: Origins

    def __init__(
        self,
        name_hint: str = "",
        ty: Type | None = None,
        origins: Origins = (),
        *,
        name: str | None = None,
        span: Any = None,
    ) -> None:
        if ty is None:
            ty = UNSTATED
        elif not isinstance(ty, Type):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise IRError(f"the type of {name_hint or name!r} is {ty!r}; give a type, such as R.Tensor((2, 3))")
        init_field(self, "name_hint", name_hint if name is None else name)
        init_field(self, "ty", ty)
        init_field(self, "origins", origins)
        if span is not None:
            init_span(self, span)

    @property
    def name(self) -> str:
        """The same as ``name_hint``."""
        return self.name_hint

    def as_size(self) -> Dim | None:
        """The value of an integer or boolean scalar as a size; None for anything else.

        If the value is unknown, the first call puts a size variable of this name into the variable's type.
        """
        ty = self.ty
        if type(ty) is not PrimType or ty.dtype.startswith(("float", "bfloat")):
            return None
        if ty.value is None:
            init_field(self, "ty", PrimType(ty.dtype, SymVar(self.name_hint, ty.dtype, least=None)))
            return self.as_size()
        return ty.value if isinstance(ty.value, int | SymExpr) else None


@final
class DataflowVar(Var):
    """A variable that is only visible inside the dataflow block that binds it."""

    __slots__ = ()


@final
class GlobalVar(Definite, Expr):
    """The name of a function of a module."""

    __slots__ = ("name_hint",)
    name_hint: str

    def __init__(self, name_hint: str, ty: Type | None = None) -> None:
        init_field(self, "name_hint", name_hint)
        init_field(self, "ty", OBJECT if ty is None else ty)

    @property
    def name(self) -> str:
        """The same as ``name_hint``."""
        return self.name_hint


_SCALAR_TYPES: dict[str, TensorType] = {}


def scalar_type(dtype: str) -> TensorType:
    """The type of a rank-0 tensor of ``dtype``, one object per dtype."""
    found = _SCALAR_TYPES.get(dtype)
    if found is None:
        found = _SCALAR_TYPES[dtype] = TensorType((), dtype)
    return found


@final
class Constant(Expr):
    """A tensor of known values; ``data`` is the handle of its numbers (``data.numpy()`` does not copy)."""

    __slots__ = ("data",)
    data: TensorData

    def __init__(self, data: TensorData | np.ndarray, ty: TensorType | None = None) -> None:
        handle = data if isinstance(data, TensorData) else TensorData(data)
        if ty is None:
            ty = scalar_type(handle.dtype) if not handle.shape else TensorType(handle.shape, handle.dtype)
        init_field(self, "data", handle)
        init_field(self, "ty", ty)

    @property
    def value(self) -> TensorData:
        """The same as ``data``."""
        return self.data


_SCALARS: dict[tuple[type, object, str | None], Constant] = {}
_MOST_SCALARS = 4096


def const(value: object, dtype: str | None = None) -> Constant:
    """A constant from a number, nested lists, an array or an object with ``__array__``.

    Without ``dtype``, arrays keep their dtype, Python floats become float32, ints int32 and bools bool, as in Relax.
    The memory of an array is shared, not copied.
    """
    kind = type(value)
    if (kind is float or kind is int) and value and value == value:  # zeros have signs, and NaN equals nothing
        key = (kind, value, dtype)
        known = _SCALARS.get(key)
        if known is None:
            if len(_SCALARS) >= _MOST_SCALARS:
                _SCALARS.clear()
            known = _SCALARS[key] = _make_const(value, dtype)
        return known
    return _make_const(value, dtype)


def _make_const(value: object, dtype: str | None) -> Constant:
    if isinstance(value, Constant):
        value = value.data
    return Constant(TensorData(as_array(value, None if dtype is None else as_dtype(dtype))))


@final
class ShapeExpr(Definite, Expr):
    """A shape written out: a sequence of dims."""

    __slots__ = ("values",)
    values: tuple[Dim, ...]

    def __init__(self, values: Iterable[object], span: Any = None) -> None:
        dims = tuple([as_dim(v, "R.shape") for v in values])
        init_field(self, "values", dims)
        init_field(self, "ty", ShapeType(dims))
        init_span(self, span)

    def __getitem__(self, index: int) -> Dim:  # pyright: ignore[reportIncompatibleMethodOverride]
        try:
            return self.values[index]
        except IndexError:
            raise FieldIndexError(f"ShapeExpr index out of range: {index} of {len(self.values)} sizes") from None

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is Shape and self.values == other)

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __iter__(self) -> Iterator[Dim]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)


@final
class PrimValue(Expr):
    """A scalar that is not a tensor: an int, a float, a bool, or a symbolic size."""

    __slots__ = ("value",)
    value: Dim | float | bool

    def __init__(self, value: Dim | float | bool, dtype: str | None = None) -> None:
        if not isinstance(value, int | float | SymExpr):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise IRError(f"a PrimValue holds an int, float, bool or symbolic size, not {value!r}")
        if isinstance(value, KnownSize):
            value = value.value
        init_field(self, "value", value)
        init_field(self, "ty", PrimType(dtype, value))

    def as_size(self) -> Dim | None:
        """The value, if it is an int or a symbolic size."""
        return None if isinstance(self.value, float) else self.value

    def __int__(self) -> int:
        """The value as a Python int. Raises `IRError` for a symbolic size, whose value only a run knows."""
        return int(self._number())

    def __float__(self) -> float:
        """The value as a Python float. Raises `IRError` for a symbolic size, whose value only a run knows."""
        return float(self._number())

    def _number(self) -> float:
        if isinstance(self.value, SymExpr):
            raise IRError(f"the size {self.value} has no number before a run")
        return self.value


@final
class StringImm(Expr):
    """A string as an argument of a call."""

    __slots__ = ("value",)
    value: str

    def __init__(self, value: str) -> None:
        init_field(self, "value", value)
        init_field(self, "ty", STRING)


@final
class DataTypeImm(Expr):
    """A dtype as an argument of a call."""

    __slots__ = ("value",)
    value: str

    def __init__(self, value: str) -> None:
        init_field(self, "value", as_dtype(value))
        init_field(self, "ty", OBJECT)


@final
class ExternFunc(Definite, Expr):
    """An external function, known by its registered name."""

    __slots__ = ("global_symbol",)
    global_symbol: str

    def __init__(self, global_symbol: str, ty: Type | None = None, span: Any = None) -> None:
        init_field(self, "global_symbol", global_symbol)
        init_field(self, "ty", FuncType.opaque_func() if ty is None else ty)
        init_span(self, span)


@final
class Tuple(Expr):
    """A tuple of values."""

    __slots__ = ("fields",)
    fields: tuple[Expr, ...]

    def __init__(self, fields: Iterable[Expr], span: Any = None) -> None:
        values = as_operands(fields)
        for i, field in enumerate(values):
            if not isinstance(field, Expr):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise IRError(f"field {i} of a tuple is {field!r}, not an expression")
        init_field(self, "fields", values)
        init_field(self, "ty", TupleType([field.ty for field in values]))
        if span is not None:
            init_span(self, span)

    def __getitem__(self, index: int) -> Expr:
        try:
            return self.fields[index]
        except IndexError:
            raise FieldIndexError(f"Tuple index out of range: {index} of {len(self.fields)} fields") from None

    def __len__(self) -> int:
        return len(self.fields)


@final
class TupleGetItem(Expr):
    """Field ``index`` of a tuple, counted from 0. A negative index counts from the end, as in Python."""

    __slots__ = ("index", "tuple_value")
    tuple_value: Expr
    index: int

    def __init__(self, tuple_value: Expr, index: int, span: Any = None) -> None:
        ty = tuple_value.ty
        if isinstance(ty, TupleType):
            count = len(ty.fields)
            if not -count <= index < count:
                raise FieldIndexError(f"index {index} is out of range for a tuple of {count} fields: {ty!r}")
            index %= count
            field_type: Type = ty.fields[index]
        elif isinstance(ty, ObjectType):
            if index < 0:
                raise IRError(f"index {index}: the length of this tuple is not known, so count from 0")
            field_type = OBJECT
        else:
            raise IRError(f"cannot take field {index} of a value that is no tuple: {ty!r}")
        if span is not None:
            init_span(self, span)
        init_field(self, "tuple_value", tuple_value)
        init_field(self, "index", index)
        init_field(self, "ty", field_type)


_SIZE_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": dim_floordiv,
    "%": dim_floormod,
    "neg": operator.neg,
    "<": partial(compare, "<"),
    "<=": partial(compare, "<="),
    ">": partial(compare, ">"),
    ">=": partial(compare, ">="),
}
"""The meaning of Python's operators between integer scalars of a program."""


def _sizes(operands: Iterable[object]) -> list[Dim] | None:
    """The operands as sizes; None unless each is an int or an integer scalar."""
    found: list[Dim] = []
    for operand in operands:
        size = operand.as_size() if isinstance(operand, Expr) else operand
        if not isinstance(size, int | SymExpr) or isinstance(size, bool):
            return None
        found.append(size)
    return found


def as_expr(value: Any) -> Expr:
    """``value`` as an expression: tuples and lists become `Tuple`, numbers and arrays `Constant`.

    A tensor's shape becomes a `ShapeExpr`. Raises `IRError` for anything else.
    """
    if type(value) is Shape:
        return ShapeExpr(value)
    if isinstance(value, Expr):
        return value
    if isinstance(value, tuple | list):
        return Tuple([as_expr(v) for v in cast("Iterable[Any]", value)])
    if isinstance(value, bool | int | float | np.ndarray | np.generic | TensorData):
        return const(cast("object", value))
    if isinstance(value, SymExpr):
        return PrimValue(value)
    if hasattr(value, "__array__"):
        return const(np.asarray(value))
    raise IRError(f"{value!r} is not an expression, and cannot be made one")


def as_operands(given: Iterable[Expr]) -> tuple[Expr, ...]:
    """Operands as a tuple. A `Shape` among them (the shape of a tensor's type) becomes a `ShapeExpr`."""
    operands: tuple[Any, ...] = given if type(given) is tuple else tuple(given)  # pyright: ignore[reportUnknownVariableType]
    for operand in operands:
        if type(operand) is Shape:
            return tuple([ShapeExpr(each) if type(each) is Shape else each for each in operands])
    return operands


def prim_value(value: Dim | float | bool | Expr, dtype: str | None = None) -> Expr:
    """A scalar that is not a tensor: a number or size as a `PrimValue`; an expression is returned unchanged."""
    return value if isinstance(value, Expr) else PrimValue(value, dtype)


def number_of(value: Expr) -> float | None:
    """The number in a constant of one element or in a `PrimValue`; None for anything else."""
    if isinstance(value, Constant) and value.data.size == 1:
        return float(value.data.numpy().reshape(())[()])
    if isinstance(value, PrimValue) and isinstance(value.value, int | float):
        return float(value.value)
    return None


def extern(name: str, ty: Type | None = None) -> ExternFunc:
    """The external function that is registered under ``name``."""
    return ExternFunc(name, ty)


def convert_to_expr(value: Any) -> Expr:
    """``value`` as an expression, by Relax's rules for arguments of functions.

    Tuples and lists become `Tuple`, numbers and sizes `PrimValue`, strings `StringImm`, arrays `Constant`.
    """
    if isinstance(value, bool | int | float | SymExpr):
        return PrimValue(value)
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, tuple | list) and type(cast(object, value)) is not Shape:
        return Tuple([convert_to_expr(item) for item in cast("Iterable[Any]", value)])
    return as_expr(value)
