"""The types of the language, and the relations between two types.

Every expression has a type: a tensor with its shape and dtype as far as they are known, a tuple, a shape,
a scalar (`PrimType`), a function, or any object. Types with an unknown shape, rank or dtype are ordinary types.
This module uses dims and dtypes, but no expressions.

Types are compared by value: they are equal if their contents are equal, with the same size variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Final, final

from .dims import (
    Condition,
    Dim,
    KnownSize,
    SymExpr,
    SymVar,
    dims_equal,
    free_symvars,
    known_size,
    match_dim,
    substitute,
)
from .dtypes import as_optional_dtype
from .errors import IRError
from .node import Node, init_field
from .vdevice import VDevice

UNKNOWN_NDIM: Final = -1
"""The ``ndim`` of a tensor or shape whose rank is not known."""
MOST_NESTED: Final = 50
"""The greatest depth of tuples and functions in a type.

Each binding prints its type, so the text of nested tuples grows with the square of the depth.
"""


class Type(Node):
    """Base of all types. Equality is by content, with size variables compared by identity."""

    __slots__ = ("_hash",)
    _hash: int
    _contents: ClassVar[Callable[[Any], tuple[object, ...]]]

    def is_missing(self) -> bool:
        """True for the type of a variable that was made without a type."""
        return self is UNSTATED

    @property
    def contents(self) -> tuple[object, ...]:
        """All fields of the type; two types of one class are equal if their contents are."""
        return type(self)._contents(self)

    def is_base_of(self, derived: Type) -> bool:
        """True if every value of ``derived`` is known to be a value of this type."""
        return is_subtype(derived, self) is True

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Type) or type(self) is not type(other):
            return False
        return hash(self) == hash(other) and self.contents == other.contents

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            value = hash((type(self).__name__, *self.contents))
            init_field(self, "_hash", value)
            return value


def as_dim(value: object, where: str = "shape") -> Dim:
    """``value`` as a dim: a `KnownSize` for a non-negative int (or NumPy int), or a symbolic expression."""
    if type(value) is KnownSize or isinstance(value, SymExpr):
        return value
    if type(value) is int:
        dim = value
    elif (size := getattr(value, "as_size", lambda: None)()) is not None:
        return as_dim(size, where)
    elif hasattr(value, "__index__") and not isinstance(value, bool):
        dim = int(value.__index__())  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
    else:
        raise IRError(f"{where}: {value!r} is not a size; give an int or a symbolic size such as T.int64()")
    if dim < 0:
        raise IRError(f"{where}: a size cannot be negative, got {dim}")
    return known_size(dim)


class Shape(tuple[Dim, ...]):
    """The sizes of a tensor: a tuple of dims that can also be used as Relax's shape expression, ``shape.values``.

    Each dim is a `KnownSize` or a symbolic expression.
    """

    __slots__ = ()

    @property
    def values(self) -> tuple[Dim, ...]:
        """The dims."""
        return tuple(self)

    @property
    def ty(self) -> ShapeType:
        """The type of the shape as a value."""
        return ShapeType(self)

    def same_as(self, other: object) -> bool:
        """True if ``other`` is the same object."""
        return self is other

    def __reduce__(self) -> tuple[object, ...]:
        return (Shape, (tuple(self),))

    def script(self, **_options: object) -> str:
        """The text of the shape as an expression."""
        return str(self)

    def __str__(self) -> str:
        return f"R.shape([{', '.join(map(str, self))}])"

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        """`ShapeExpr`, for programs that ask ``isinstance(x.ty.shape, ShapeExpr)``; ``type(shape)`` is `Shape`."""
        from .expr import ShapeExpr

        return ShapeExpr


_SIZES: Final = frozenset({Shape, tuple, list, type(None)})
"""The usual classes of a given shape; an object of another class may be an expression that is a shape."""


class TensorType(Type):
    """A tensor: ``shape`` (a `Shape` of dims) if known, ``ndim`` (-1 if unknown), ``dtype`` (None if unknown).

    The shape may also be given as an expression of shape type; its known values, or its length, are kept. The default
    dtype is float32, as in Relax; ``dtype=None`` or ``""`` means an unknown dtype. ``vdevice`` is the virtual device of
    the tensor, if it has one; it may be given before ``ndim``, as in Relax.
    """

    __slots__ = ("dtype", "ndim", "shape", "vdevice")
    shape: Shape | None
    dtype: str | None
    ndim: int
    vdevice: VDevice | None
    _contents = attrgetter("shape", "dtype", "ndim", "vdevice")

    def __init__(
        self,
        shape: Iterable[Dim] | None = None,
        dtype: str | None = "float32",
        ndim: int | VDevice | str | None = UNKNOWN_NDIM,
        vdevice: VDevice | str | int | None = None,
    ) -> None:
        if vdevice is not None or type(ndim) is not int:
            ndim, vdevice = _rank_and_device(ndim, vdevice)
        if type(shape) not in _SIZES and isinstance(known := getattr(shape, "ty", None), ShapeType):
            shape, ndim = known.values, known.ndim
        if shape is None:
            if ndim < UNKNOWN_NDIM:
                raise IRError(f"a tensor's ndim is -1 (unknown) or more, got {ndim}")
            dims = None
        else:
            dims = shape if type(shape) is Shape else Shape([d if type(d) is KnownSize else as_dim(d) for d in shape])
            if ndim not in (UNKNOWN_NDIM, len(dims)):
                raise IRError(f"a tensor of shape {dims} has ndim {len(dims)}, not {ndim}")
            ndim = len(dims)
        init_field(self, "shape", dims)
        init_field(self, "dtype", as_optional_dtype(dtype))
        init_field(self, "ndim", ndim)
        init_field(self, "vdevice", vdevice)

    @property
    def is_scalar(self) -> bool:
        """True if the rank is known to be 0."""
        return self.ndim == 0

    def with_dtype(self, dtype: str | None) -> TensorType:
        """The same shape with another dtype."""
        return TensorType(self.shape, dtype, self.ndim, self.vdevice)


def _rank_and_device(ndim: object, vdevice: object) -> tuple[int, VDevice | None]:
    """The rank and the device of a tensor type, given in either order."""
    if not isinstance(ndim, int) and (vdevice is None or isinstance(vdevice, int)):
        ndim, vdevice = UNKNOWN_NDIM if vdevice is None else vdevice, ndim
    if not isinstance(ndim, int):
        raise IRError(f"a tensor's ndim is an int, got {ndim!r}")
    return ndim, None if vdevice is None else VDevice.of(vdevice)


def _nesting(parts: Iterable[Type]) -> int:
    """The depth of a type with these parts. Raises `IRError` if it is more than `MOST_NESTED`."""
    depth = 0
    for part in parts:
        if not isinstance(part, Type):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise IRError(f"a type is made of types, not of {part!r}")
        if isinstance(part, TupleType | FuncType) and part.nesting > depth:
            depth = part.nesting
    if depth >= MOST_NESTED:
        raise IRError(f"a type nests more than {MOST_NESTED} tuples deep; put the values into one flat tuple")
    return depth + 1


class TupleType(Type):
    """A tuple of values of the types ``fields``. ``nesting`` is its depth, at most `MOST_NESTED`."""

    __slots__ = ("fields", "nesting")
    fields: tuple[Type, ...]
    nesting: int
    _contents = attrgetter("fields")

    def __init__(self, fields: Iterable[Type]) -> None:
        parts = tuple(fields)
        init_field(self, "fields", parts)
        init_field(self, "nesting", _nesting(parts))


class ShapeType(Type):
    """A shape value: its ``values`` if known, and its length ``ndim`` (-1 if unknown)."""

    __slots__ = ("ndim", "values")
    values: tuple[Dim, ...] | None
    ndim: int
    _contents = attrgetter("values", "ndim")

    def __init__(self, values: Iterable[Dim] | None = None, ndim: int = UNKNOWN_NDIM) -> None:
        dims = None if values is None else tuple([as_dim(d) for d in values])
        if dims is not None:
            if ndim not in (UNKNOWN_NDIM, len(dims)):
                raise IRError(f"a shape of {len(dims)} values has ndim {len(dims)}, not {ndim}")
            ndim = len(dims)
        init_field(self, "values", dims)
        init_field(self, "ndim", ndim)


class PrimType(Type):
    """A scalar that is not a tensor: its ``dtype``, and its ``value`` if known (a number, or a symbolic size)."""

    __slots__ = ("dtype", "value")
    dtype: str
    value: Dim | float | bool | None

    def __init__(self, dtype: str | None = None, value: Dim | float | bool | None = None) -> None:
        if dtype is None:
            if value is None:
                raise IRError("a PrimType needs a dtype or a value")
            dtype = (
                "bool" if isinstance(value, bool | Condition) else "float64" if isinstance(value, float) else "int64"
            )
        known = as_optional_dtype(dtype)
        if known is None:
            raise IRError("a PrimType needs a dtype")
        init_field(self, "dtype", known)
        init_field(self, "value", value.value if isinstance(value, KnownSize) else value)

    def __str__(self) -> str:
        return repr(self) if isinstance(self.value, SymExpr) else self.dtype

    @staticmethod
    def _contents(ty: PrimType) -> tuple[object, ...]:
        value = ty.value.hex() if isinstance(ty.value, float) else ty.value
        return (ty.dtype, type(ty.value).__name__, value)


class ObjectType(Type):
    """Any value."""

    __slots__ = ()

    @staticmethod
    def _contents(_ty: ObjectType) -> tuple[object, ...]:
        return ()


class FuncType(Type):
    """A function: the types of its ``params`` (None: any), its return type ``ret``, and whether it is pure."""

    __slots__ = ("nesting", "params", "purity", "ret")
    params: tuple[Type, ...] | None
    ret: Type
    purity: bool
    nesting: int
    _contents = attrgetter("params", "ret", "purity")

    def __init__(self, params: Iterable[Type] | None, ret: Type, purity: bool = True) -> None:
        parts = None if params is None else tuple(params)
        init_field(self, "params", parts)
        init_field(self, "nesting", _nesting((*(parts or ()), ret)))
        init_field(self, "ret", ret)
        init_field(self, "purity", bool(purity))

    @property
    def derive_func(self) -> None:
        """Always None: the result's type is stated, not derived by a function."""
        return None

    @staticmethod
    def opaque_func(*, ret: Type | None = None, purity: bool = False) -> FuncType:
        """The type of a function of which only the result's type and the purity are known."""
        return FuncType(None, OBJECT if ret is None else ret, purity)


@final
class StringType(ObjectType):
    """A string."""

    __slots__ = ()


AnyType = ObjectType
"""The newer name of `ObjectType`."""

STRING: Final = StringType()
OBJECT: Final = ObjectType()
"""The shared `ObjectType`, which type rules return."""
UNSTATED: Final = ObjectType()
"""The type of a variable that was made without a type; it may hold anything."""


# --- size variables in types ---------------------------------------------------------------------------


def dims_of(leaf: Type) -> tuple[Dim, ...]:
    """The sizes in a leaf type: those of a tensor or shape, or the value of a symbolic scalar; else none."""
    match leaf:
        case TensorType():
            return leaf.shape or ()
        case ShapeType():
            return leaf.values or ()
        case PrimType() if isinstance(leaf.value, SymExpr):
            return (leaf.value,)
        case _:
            return ()


def leaves_in(*types: Type, in_functions: bool = True) -> Iterator[Type]:
    """The leaf types in ``types``, in order. Function types are taken apart too, unless ``in_functions`` is False.

    Cost: linear. Does not recurse.
    """
    stack = list(reversed(types))
    while stack:
        current = stack.pop()
        if isinstance(current, TupleType):
            stack.extend(reversed(current.fields))
        elif isinstance(current, FuncType) and in_functions:
            stack.extend((current.ret, *reversed(current.params or ())))
        else:
            yield current


def type_symvars(ty: Type) -> tuple[SymVar, ...]:
    """The size variables that ``ty`` mentions, in order of first appearance."""
    found: dict[SymVar, None] = {}
    for leaf in leaves_in(ty):
        for dim in dims_of(leaf):
            if not isinstance(dim, int):
                found.update(dict.fromkeys(free_symvars(dim)))
    return tuple(found)


def map_type(ty: Type, change: Callable[[Type], Type]) -> Type:
    """``ty`` with ``change`` applied to each leaf type (not a tuple or function). Unchanged tuples are shared."""
    match ty:
        case TupleType():
            fields = tuple(map_type(f, change) for f in ty.fields)
            same = all(a is b for a, b in zip(fields, ty.fields, strict=True))
            return ty if same else TupleType(fields)
        case FuncType():
            params = None if ty.params is None else tuple(map_type(p, change) for p in ty.params)
            ret = map_type(ty.ret, change)
            return FuncType(params, ret, ty.purity)
        case _:
            return change(ty)


def substitute_type(ty: Type, mapping: Mapping[SymVar, Dim]) -> Type:
    """``ty`` with size variables replaced, simultaneously."""
    return map_sizes(ty, lambda size: substitute(size, mapping)) if mapping else ty


def map_sizes(ty: Type, change: Callable[[SymExpr], Dim]) -> Type:
    """``ty`` with ``change`` applied to each symbolic size. Leaf types without symbolic sizes are shared."""

    def changed(dims: Sequence[Dim]) -> list[Dim]:
        return [change(dim) if isinstance(dim, SymExpr) else dim for dim in dims]

    def of_leaf(leaf: Type) -> Type:
        if not type_symvars(leaf):
            return leaf
        match leaf:
            case TensorType(shape=tuple(dims)):
                return TensorType(changed(dims), leaf.dtype, len(dims), leaf.vdevice)
            case ShapeType(values=tuple(dims)):
                return ShapeType(changed(dims))
            case PrimType(value=SymExpr() as size):
                return PrimType(leaf.dtype, change(size))
            case _:
                return leaf

    return map_type(ty, of_leaf)


def without_sizes(leaf: Type) -> Type:
    """A leaf type (not a tuple or function) without its sizes; rank and dtype stay."""
    match leaf:
        case TensorType():
            return TensorType(None, leaf.dtype, leaf.ndim, leaf.vdevice)
        case ShapeType():
            return ShapeType(None, leaf.ndim)
        case PrimType():
            return PrimType(leaf.dtype)
        case _:
            return leaf


def without_numbers(ty: Type) -> Type:
    """``ty`` without the values of its scalars."""
    return map_type(ty, lambda leaf: PrimType(leaf.dtype) if isinstance(leaf, PrimType) else leaf)


def erase_unbound(ty: Type, known: Callable[[SymVar], bool]) -> Type:
    """``ty`` without the shapes that mention a size variable for which ``known`` is False; ranks and dtypes stay."""
    return map_type(ty, lambda leaf: leaf if all(known(v) for v in type_symvars(leaf)) else without_sizes(leaf))


# --- relations between two types ----------------------------------------------------------------------------------


def _all(answers: Iterable[bool | None]) -> bool | None:
    verdict: bool | None = True
    for answer in answers:
        if answer is False:
            return False
        if answer is None:
            verdict = None
    return verdict


def shapes_equal(left: Sequence[Dim], right: Sequence[Dim]) -> bool | None:
    """The equality of two shapes: True, False, or None if the sizes do not determine it."""
    if len(left) != len(right):
        return False
    return _all(dims_equal(a, b) for a, b in zip(left, right, strict=True))


def is_subtype(derived: Type, base: Type) -> bool | None:
    """True if every value of ``derived`` is a value of ``base``.

    True: always. False: some values are not, whatever the unknown sizes, ranks and dtypes are.
    None: it depends on an unknown rank, dtype or size, so a check at run time can decide.
    """
    if derived is base:
        return True
    if isinstance(base, StringType) and not isinstance(derived, StringType):
        return None if isinstance(derived, ObjectType) else False
    if isinstance(base, ObjectType):
        return True
    if isinstance(derived, ObjectType):
        return None
    if isinstance(derived, TensorType) and isinstance(base, TensorType):
        return _all((*_dtype_and_device_below(derived, base), _dims_below(derived, base)))
    if isinstance(derived, ShapeType) and isinstance(base, ShapeType):
        return _dims_below(derived, base)
    if isinstance(derived, TupleType) and isinstance(base, TupleType):
        if len(derived.fields) != len(base.fields):
            return False
        return _all(is_subtype(a, b) for a, b in zip(derived.fields, base.fields, strict=True))
    if isinstance(derived, PrimType) and isinstance(base, PrimType):
        return _prim_below(derived, base)
    if isinstance(derived, FuncType) and isinstance(base, FuncType):
        return _func_below(derived, base)
    return False


def _dtype_and_device_below(derived: TensorType, base: TensorType) -> tuple[bool | None, bool | None]:
    """Verdicts on the dtype and on the virtual device: True if ``derived`` has the one that ``base`` asks for."""
    return _known_below(derived.dtype, base.dtype), _known_below(derived.vdevice, base.vdevice)


def _known_below(derived: object, base: object) -> bool | None:
    if base is None or derived == base:
        return True
    return None if derived is None else False


def _dims_below(derived: TensorType | ShapeType, base: TensorType | ShapeType) -> bool | None:
    have, want = _known_dims(derived), _known_dims(base)
    if have is not None and want is not None:
        return shapes_equal(have, want)
    if UNKNOWN_NDIM not in (derived.ndim, base.ndim) and derived.ndim != base.ndim:
        return False
    if want is None:
        return True if base.ndim in (UNKNOWN_NDIM, derived.ndim) else None
    return None


def _known_dims(ty: TensorType | ShapeType) -> tuple[Dim, ...] | None:
    return ty.shape if isinstance(ty, TensorType) else ty.values


def _prim_below(derived: PrimType, base: PrimType) -> bool | None:
    if derived.dtype != base.dtype:
        return False
    if base.value is None or derived == base:
        return True
    if derived.value is None:
        return None
    if isinstance(derived.value, float) or isinstance(base.value, float):
        return False
    return dims_equal(derived.value, base.value)


def _func_below(derived: FuncType, base: FuncType) -> bool | None:
    if base.purity and not derived.purity:
        return False
    answers: list[bool | None] = [is_subtype(derived.ret, base.ret)]
    if base.params is not None:
        if derived.params is None:
            answers.append(None)
        elif len(derived.params) != len(base.params):
            return False
        else:
            answers.extend(is_subtype(b, d) for d, b in zip(derived.params, base.params, strict=True))
    return _all(answers)


def common_supertype(left: Type, right: Type) -> Type:
    """The most precise type that holds for the values of both types: the type of an `If` over them."""
    if left == right:
        return left
    if isinstance(left, TensorType) and isinstance(right, TensorType):
        dtype = left.dtype if left.dtype == right.dtype else None
        device = left.vdevice if left.vdevice == right.vdevice else None
        if left.shape is not None and right.shape is not None and shapes_equal(left.shape, right.shape) is True:
            return TensorType(left.shape, dtype, left.ndim, device)
        return TensorType(None, dtype, left.ndim if left.ndim == right.ndim else UNKNOWN_NDIM, device)
    if isinstance(left, TupleType) and isinstance(right, TupleType) and len(left.fields) == len(right.fields):
        return TupleType(common_supertype(a, b) for a, b in zip(left.fields, right.fields, strict=True))
    if isinstance(left, ShapeType) and isinstance(right, ShapeType):
        return ShapeType(None, left.ndim if left.ndim == right.ndim else UNKNOWN_NDIM)
    if isinstance(left, PrimType) and isinstance(right, PrimType) and left.dtype == right.dtype:
        return PrimType(left.dtype)
    return OBJECT


def bind_type(pattern: Type, actual: Type, sizes: dict[SymVar, Dim]) -> bool | None:
    """Match a parameter's type against an argument's; ``sizes`` gets the values of the parameter's size variables.

    True: it fits. False: it cannot fit. None: it may fit, which has to be checked at run time.
    """
    if isinstance(pattern, TupleType) and isinstance(actual, TupleType):
        if len(pattern.fields) != len(actual.fields):
            return False
        return _all([bind_type(p, a, sizes) for p, a in zip(pattern.fields, actual.fields, strict=True)])
    want = _known_dims(pattern) if isinstance(pattern, TensorType | ShapeType) else None
    have = _known_dims(actual) if isinstance(actual, TensorType | ShapeType) else None
    if want is not None and have is not None and type(pattern) is type(actual):
        if len(want) != len(have):
            return False
        fits = _all([match_dim(p, a, sizes) for p, a in zip(want, have, strict=True)])
        if isinstance(pattern, TensorType) and isinstance(actual, TensorType):
            return _all((fits, *_dtype_and_device_below(actual, pattern)))
        return fits
    if isinstance(pattern, PrimType) and isinstance(actual, PrimType) and isinstance(pattern.value, SymExpr):
        if actual.value is None or isinstance(actual.value, float):
            return None if pattern.dtype == actual.dtype else False
        return match_dim(pattern.value, actual.value, sizes)
    return is_subtype(actual, pattern)
