"""Common parts of type rules: reading operands, broadcasting, axes, dtypes.

A type rule reads a call's operands with `tensor_operand` and similar functions, which raise the operator's error
for an operand of another kind. It returns a type that is as precise as the operands allow: unknown operands give
an unknown result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

from ..ir.dims import Dim, Min, SymExpr, dim_at_least, dims_equal
from ..ir.dtypes import as_dtype, is_bool, is_float, is_integer
from ..ir.errors import IRError, OpTypeError
from ..ir.expr import Expr, PrimValue, ShapeExpr, Tuple
from ..ir.op import Call, Op, TypeRule, wrong_attribute, wrong_operand
from ..ir.types import UNKNOWN_NDIM, PrimType, Shape, ShapeType, TensorType, TupleType, Type

_COMPLEX: Final = frozenset({"complex64", "complex128"})

# --- reading operands


def tensor_operand(call: Call, index: int) -> TensorType:
    """The type of operand ``index``, which must be a tensor."""
    ty = call.args[index].ty
    if type(ty) is not TensorType:
        raise wrong_operand(call, index, "a tensor")
    return ty


def array_operand(call: Call, index: int) -> TensorType:
    """The type of operand ``index``, a tensor or a scalar; a scalar counts as a tensor of rank 0."""
    ty = call.args[index].ty
    if type(ty) is TensorType:
        return ty
    if isinstance(ty, PrimType):
        return TensorType((), ty.dtype)
    raise wrong_operand(call, index, "a tensor, or a scalar")


def tensor_fields(call: Call, index: int) -> tuple[TensorType, ...]:
    """The types of the fields of operand ``index``, which must be a tuple of tensors."""
    ty = call.args[index].ty
    if not isinstance(ty, TupleType):
        raise wrong_operand(call, index, "a tuple of tensors")
    fields: list[TensorType] = []
    for field in ty.fields:
        if not isinstance(field, TensorType):
            raise wrong_operand(call, index, "a tuple of tensors only")
        fields.append(field)
    return tuple(fields)


def shape_operand(call: Call, index: int) -> ShapeType:
    """The type of operand ``index``, which must be a shape."""
    ty = call.args[index].ty
    if not isinstance(ty, ShapeType):
        raise wrong_operand(call, index, "a shape, such as R.shape([2, 3])")
    return ty


def scalar_operand(call: Call, index: int) -> PrimType:
    """The type of operand ``index``, which must be a scalar, not a tensor."""
    ty = call.args[index].ty
    if not isinstance(ty, PrimType):
        raise wrong_operand(call, index, "a number, or R.prim_value of one")
    return ty


def integer_operand(call: Call, index: int) -> Dim | None:
    """The value of operand ``index``, which must be an integer scalar, not a tensor; None if it is not known."""
    ty = scalar_operand(call, index)
    if not is_integer(ty.dtype):
        raise wrong_operand(call, index, "an integer")
    value = ty.value
    return value if isinstance(value, SymExpr) else None if value is None else int(value)


def tensor_of_shape(shape: ShapeType, dtype: str | None) -> TensorType:
    """The type of a tensor whose shape is a shape value of type ``shape``."""
    return TensorType(shape.values, dtype, shape.ndim)


# --- dtypes


def shaped(dims: Iterable[Dim | None], dtype: str | None) -> TensorType:
    """The type of a tensor with the sizes ``dims``; if one of them is None, only the rank is known."""
    sizes = tuple(dims)
    known = [size for size in sizes if size is not None]
    return TensorType(known if len(known) == len(sizes) else None, dtype, len(sizes))


def common_dtype(
    call: Call, indices: Iterable[int] | None = None, read: Callable[[Call, int], TensorType] = tensor_operand
) -> str | None:
    """The common dtype of the tensor operands (all, or those at ``indices``); None if one is not known.

    Raises `OpTypeError` if two known dtypes differ.
    """
    known: str | None = None
    first = 0
    unknown = False
    for index in range(len(call.args)) if indices is None else indices:
        dtype = read(call, index).dtype
        if dtype is None:
            unknown = True
        elif known is None:
            known, first = dtype, index
        elif dtype != known:
            assert isinstance(call.op, Op)
            raise wrong_operand(
                call, index, f"the dtype of {call.op.operand_name(first)}, {known}; convert one with R.astype"
            )
    return None if unknown else known


def require_kind(
    call: Call,
    index: int,
    accepts: Callable[[str], bool],
    expected: str,
    read: Callable[[Call, int], TensorType] = tensor_operand,
) -> TensorType:
    """The type of operand ``index``. Raises `OpTypeError` with ``expected`` if its dtype is known and not accepted."""
    ty = read(call, index)
    if ty.dtype is not None and not accepts(ty.dtype):
        raise wrong_operand(call, index, expected)
    return ty


def require_float(call: Call, index: int) -> TensorType:
    """The type of operand ``index``, a tensor of floating (or unknown) dtype."""
    return require_kind(call, index, is_float, 'a floating dtype; convert it first: R.astype(x, "float32")')


def require_numbers(call: Call, index: int, expected: str = "numbers, not bool") -> TensorType:
    """The type of operand ``index``, a tensor whose dtype is not bool."""
    return require_kind(call, index, lambda dtype: not is_bool(dtype), expected)


def require_rank(call: Call, index: int, expected: str, *ranks: int, integers: bool = False) -> TensorType:
    """The type of operand ``index``, a tensor of one of ``ranks`` (or of unknown rank); with ``integers``, of integers.

    Raises `OpTypeError` with the text ``expected`` for any other tensor.
    """
    ty = tensor_operand(call, index)
    is_other = integers and ty.dtype is not None and not is_integer(ty.dtype)
    if is_other or ty.ndim not in (UNKNOWN_NDIM, *ranks):
        raise wrong_operand(call, index, expected)
    return ty


def require_ordered(call: Call, index: int) -> TensorType:
    """The type of operand ``index``, a tensor of real numbers or bool (or of unknown dtype)."""
    return require_kind(call, index, has_order, "real numbers or bool: complex numbers have no order")


def has_order(dtype: str | None) -> bool:
    """True if elements of ``dtype`` have an order: for real numbers and bool."""
    return is_real(dtype) or is_bool(dtype)


def is_real(dtype: str | None) -> bool:
    """True for floats and integers."""
    return is_float(dtype) or is_integer(dtype)


def required_dtype(call: Call) -> str:
    """The attribute ``dtype``. Raises `OpTypeError` if it is None."""
    dtype: str | None = call.attrs.dtype
    if dtype is None:
        raise wrong_attribute(call, "dtype", 'a dtype, such as "float32"')
    return dtype


# --- shapes


def broadcast_dims(left: Sequence[Dim], right: Sequence[Dim]) -> tuple[Dim, ...] | bool | None:
    """NumPy's broadcast of two shapes; None if the sizes do not determine it, False if they never broadcast."""
    if len(left) < len(right):
        left, right = right, left
    dims = list(left[: len(left) - len(right)])
    known = True
    for a, b in zip(left[len(dims) :], right, strict=True):
        if a is b or a == b or b == 1:
            dims.append(a)
        elif a == 1:
            dims.append(b)
        elif dims_equal(a, b) is False and dims_equal(a, 1) is False and dims_equal(b, 1) is False:
            return False
        elif isinstance(a, SymExpr) and isinstance(b, SymExpr) and dims_equal(a, b) is False:
            known = False  # such as n and n + 2: they only fit if one is 1, and Relax leaves the result unknown
        elif _outlasts(a, b):
            dims.append(a)
        elif _outlasts(b, a):
            dims.append(b)
        else:
            known = False
    return tuple(dims) if known else None


def _outlasts(size: Dim, other: Dim) -> bool:
    """True if the broadcast of two sizes is always ``size``, if they broadcast at all."""
    if dims_equal(size, 1) is False:
        return True
    if not isinstance(other, Min) or not any(operand in (size, 1) for operand in other.operands):
        return False
    # If ``size`` is 1, a minimum such as min(size, 512) or min(size + n, 1) is 1 too.
    return all(operand == size or _is_some(operand, size) for operand in other.operands)


def _is_some(operand: Dim, size: Dim) -> bool:
    """True if ``operand`` is 1 or more whenever ``size`` is."""
    return dim_at_least(operand, 1) is True or dim_at_least(operand - size, 0) is True


def broadcast_types(
    call: Call, indices: Iterable[int] | None = None, read: Callable[[Call, int], TensorType] = tensor_operand
) -> tuple[tuple[Dim, ...] | None, int]:
    """Shape and ndim of the broadcast of the tensor operands (all, or those at ``indices``)."""
    places = range(len(call.args)) if indices is None else [*indices]

    def wrong(place: int, dims: str) -> OpTypeError:
        return wrong_operand(call, places[place], f"a shape that broadcasts with {dims}")

    return broadcast_of((read(call, index) for index in places), wrong)


def broadcast_of(
    types: Iterable[TensorType], wrong: Callable[[int, str], OpTypeError]
) -> tuple[tuple[Dim, ...] | None, int]:
    """Shape and ndim of the broadcast of ``types``. Raises ``wrong(place, dims)`` for a type that does not fit."""
    dims: tuple[Dim, ...] | None = ()
    ndim = 0
    for place, ty in enumerate(types):
        ndim = UNKNOWN_NDIM if UNKNOWN_NDIM in (ndim, ty.ndim) else max(ndim, ty.ndim)
        if dims is None or ty.shape is None:
            dims = None
            continue
        joined = broadcast_dims(dims, ty.shape)
        if joined is False:
            raise wrong(place, format_dims(dims))
        assert not isinstance(joined, bool)
        dims = joined
    return dims, ndim


def format_dims(dims: Sequence[Dim]) -> str:
    """A shape for messages: ``(2, n)``."""
    return f"({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})"


def normalize_axis(call: Call, name: str, axis: int, ndim: int) -> int:
    """``axis``, the attribute ``name``, as an axis from 0 up to ``ndim`` (known); negative axes count from the end."""
    if not -ndim <= axis < ndim:
        raise wrong_attribute(call, name, f"an axis of a tensor of {ndim} dimensions: {-ndim} to {ndim - 1}")
    return axis % ndim


def normalize_axes(call: Call, name: str, axes: Iterable[int], ndim: int) -> tuple[int, ...]:
    """``axes``, the attribute ``name``, as axes from 0 up to ``ndim`` (known), each at most once."""
    found = tuple([axis if 0 <= axis < ndim else normalize_axis(call, name, axis, ndim) for axis in axes])
    if len(set(found)) != len(found):
        raise wrong_attribute(call, name, "axes that are all different")
    return found


# --- explicit values of defaults


def all_axes(call: Call) -> dict[str, Any]:
    """The explicit value of ``axis=None``: all axes of the first operand, if its rank is known."""
    ndim = tensor_operand(call, 0).ndim
    return {} if ndim == UNKNOWN_NDIM else {"axis": tuple(range(ndim))}


# --- whole rules


def same_type(call: Call) -> Type:
    """The type of the first operand, for unary operators that keep shape and dtype."""
    return tensor_operand(call, 0)


def same_float_type(call: Call) -> Type:
    """The type of the first operand, whose dtype must be floating."""
    return require_float(call, 0)


def broadcast_rule(call: Call) -> Type:
    """The type for operands of one dtype that broadcast: a scalar if all are scalars, else a tensor."""
    first = call.args[0].ty
    if len(call.args) == 2 and type(first) is TensorType:
        second = call.args[1].ty
        if first is second:
            return first
        if type(second) is TensorType and first.dtype is not None and first.dtype == second.dtype:
            if second.ndim == 0:
                return first
            if first.ndim == 0:
                return second
            if first.shape is not None and first.shape == second.shape:
                return first
            dims, ndim = broadcast_types(call)
            return TensorType(dims, first.dtype, ndim)
    dtype = _arithmetic_dtype(call)
    if all(isinstance(arg.ty, PrimType) for arg in call.args):
        return PrimType(dtype)
    dims, ndim = broadcast_types(call, read=array_operand)
    return TensorType(dims, dtype, ndim)


def _arithmetic_dtype(call: Call) -> str | None:
    """The common dtype of the operands; bool operands beside numbers count as 0 or 1 in the numbers' dtype."""
    numbers = [index for index in range(len(call.args)) if array_operand(call, index).dtype != "bool"]
    return common_dtype(call, numbers or None, read=array_operand)


def verdict_rule(call: Call) -> Type:
    """The type for operands of any dtypes that broadcast: bool; only scalars give a scalar."""
    first, second = call.args[0].ty, call.args[1].ty
    if type(first) is TensorType and type(second) is TensorType and (first is second or second.ndim == 0):
        return first.with_dtype("bool")
    if all(isinstance(arg.ty, PrimType) for arg in call.args):
        return PrimType("bool")
    dims, ndim = broadcast_types(call, read=array_operand)
    return TensorType(dims, "bool", ndim)


def boolean_result(rule: TypeRule) -> TypeRule:
    """``rule`` with the result's dtype changed to bool."""

    def infer(call: Call) -> Type:
        ty = rule(call)
        assert isinstance(ty, TensorType)
        return ty.with_dtype("bool")

    return infer


@final
@dataclass(frozen=True, slots=True, eq=False)
class OfKinds:
    """``rule`` for an operator that computes with certain dtypes only; ``expected`` names them in the error.

    As in Relax, calls with other dtypes have a type, but no value. `require_kinds` raises an error for them before a
    program runs, and calls ``more``, which may raise further errors. Complex numbers, which Relax does not have, raise
    an error at once.
    """

    rule: TypeRule
    accepts: Callable[[str | None], bool]
    expected: str
    more: Callable[[Call], None] | None = None

    def __call__(self, call: Call, /) -> Type:
        """The type of the result, from ``rule``."""
        for arg in call.args:
            dtype = getattr(arg.ty, "dtype", None)
            if dtype in _COMPLEX and not self.accepts(dtype):
                self.require(call)
        return self.rule(call)

    def require(self, call: Call) -> None:
        """Raise `OpTypeError` if the operator cannot compute with the dtypes of the call."""
        dtypes = [array_operand(call, index).dtype for index in range(len(call.args))]
        beside_numbers = any(dtype not in (None, "bool") for dtype in dtypes)
        for index, dtype in enumerate(dtypes):
            if dtype is None or (beside_numbers and is_bool(dtype)):
                continue  # bool operands beside numbers count as numbers
            if not self.accepts(dtype):
                raise wrong_operand(call, index, self.expected)
        if self.more is not None:
            self.more(call)


def require_kinds(call: Call) -> None:
    """Raise `OpTypeError` if the call has a type but its operator computes no value for these dtypes."""
    rule = call.op.infer if isinstance(call.op, Op) else None
    if isinstance(rule, OfKinds):
        rule.require(call)


# --- arguments of the public functions

Form: TypeAlias = Callable[[Any, str, str], Any]
"""``form(value, op_name, name)``: an argument in canonical form; raises `OpTypeError` if it has none."""


def optional(form: Form) -> Form:
    """``form``, except that None stays None."""
    return lambda value, op_name, name: None if value is None else form(value, op_name, name)


def as_shape_expr(shape: Any, op_name: str) -> Expr:
    """A shape argument as an expression: sizes become a `ShapeExpr`, expressions stay unchanged."""
    if type(shape) is Shape:
        return ShapeExpr(shape)
    if isinstance(shape, Tuple):
        raise OpTypeError(f"{op_name}: the shape is a tuple of expressions; write the sizes: R.shape([2, 3])")
    if isinstance(shape, Expr):
        return shape
    if isinstance(shape, Iterable):
        values: Iterable[object] = shape  # pyright: ignore[reportUnknownVariableType]
        return ShapeExpr(values)
    raise OpTypeError(f"{op_name}: shape={shape!r} is no shape; write all sizes: ({shape!r},)")


def as_prim_value(value: Any) -> Any:
    """A number or symbolic size as a `PrimValue`; anything else unchanged, for the type rule to check."""
    return PrimValue(value) if isinstance(value, int | float | SymExpr) else value


def as_scalars(values: Any, op_name: str, name: str) -> Expr:
    """Numbers or sizes as a tuple of `PrimValue`; an expression is returned unchanged."""
    if isinstance(values, Expr):
        return values
    if not isinstance(values, Iterable):
        raise OpTypeError(f"{op_name}: {name}={values!r}; expected a sequence of ints or sizes")
    items: Iterable[Any] = values  # pyright: ignore[reportUnknownVariableType]
    return Tuple([as_prim_value(item) for item in items])


def as_dtype_attribute(value: Any, op_name: str) -> str | None:
    """The attribute ``dtype`` as its Relax name; None stays None, a `PrimType` becomes its dtype."""
    if value is None:
        return None
    try:
        return as_dtype(value.dtype if isinstance(value, PrimType) else value)
    except IRError as error:
        raise OpTypeError(f"{op_name}: dtype={value!r}: {error}") from None


def as_int(value: Any, op_name: str, name: str) -> int:
    """``value``, an attribute, as an int."""
    try:
        return _as_int(value)
    except TypeError:
        raise OpTypeError(f"{op_name}: {name}={value!r}; expected an int") from None


def as_float(value: Any, op_name: str, name: str) -> float:
    """``value``, an attribute, as a float."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise OpTypeError(f"{op_name}: {name}={value!r}; expected a number") from None


def as_int_tuple(value: Any, op_name: str, name: str) -> tuple[int, ...]:
    """``value``, an attribute that is an int or a sequence of ints, as a tuple."""
    try:
        return (_as_int(value),) if isinstance(value, int) else tuple([_as_int(v) for v in value])
    except TypeError:
        raise OpTypeError(f"{op_name}: {name}={value!r}; expected an int or a sequence of ints") from None


def _as_int(value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError
    return int(value.__index__())
