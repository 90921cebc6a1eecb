"""Types as a script writes them: ``R.Tensor((2, "n"), "float32")``, ``R.Tuple(...)``, ``R.Shape``, ``T.int64`` ...

Each is a value that returns a type when called, and stands for its least precise type otherwise. While a program is
being read, names of sizes are the variables of that function. Elsewhere every call makes new variables, so that Python
can evaluate annotations before the program is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self, cast, final

from ..ir.dims import Dim
from ..ir.errors import IRError
from ..ir.expr import Expr, PrimValue, ShapeExpr
from ..ir.types import OBJECT, STRING, UNKNOWN_NDIM, FuncType, PrimType, ShapeType, TensorType, TupleType, Type
from ..ir.vdevice import VDevice
from .sizes import SizeScope


class TypeConstructor:
    """A name for a kind of type; ``within(sizes)`` is the same name inside one function."""

    __slots__ = ("_sizes",)
    name: ClassVar[str]

    def __init__(self, sizes: SizeScope | None = None) -> None:
        self._sizes = sizes

    def within(self, sizes: SizeScope) -> Self:
        """The same constructor, with named sizes from ``sizes``."""
        return type(self)(sizes)

    @property
    def sizes(self) -> SizeScope:
        """The scope of the names of sizes; a new one for each call outside a function."""
        return self._sizes or SizeScope()

    def default(self) -> Type:
        """The type that the bare name stands for."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.name


def as_type(value: object, where: str = "a type") -> Type:
    """``value`` as a type: a type, the bare name of a kind of type, or None for the type of the empty tuple.

    Raises `IRError` for anything else.
    """
    if value is None:
        return TupleType(())
    if isinstance(value, Type):
        return value
    if isinstance(value, TypeConstructor):
        return value.default()
    raise IRError(f'{where} is {value!r}; expected a type such as R.Tensor((2, 3), "float32")')


def _dims_of(shape: Any, sizes: SizeScope) -> tuple[Dim, ...]:
    if isinstance(shape, Iterable) and not isinstance(shape, str | Expr):
        values = cast("Iterable[object]", shape)
        return tuple([sizes.resolve(value) for value in values])
    raise IRError(f'{shape!r} is not a shape; give a sequence of sizes: (2, "n")')


@final
class TensorConstructor(TypeConstructor):
    """``R.Tensor``: a tensor, with the known parts of its shape, dtype and rank."""

    __slots__ = ()
    name = "R.Tensor"

    def default(self) -> Type:
        """A tensor of which nothing is known."""
        return TensorType(dtype=None)

    def __call__(
        self,
        shape: Sequence[object] | Expr | str | None = None,
        dtype: str | None = None,
        ndim: int | VDevice | str = UNKNOWN_NDIM,
        vdevice: VDevice | str | int | None = None,
    ) -> TensorType:
        """A tensor type. ``shape`` is a sequence of sizes, or a variable that holds a shape.

        ``vdevice`` is the device of the tensor, such as ``"cuda:0:global"``; ``vdevice`` and ``ndim`` may be swapped.
        """
        if isinstance(shape, str):
            if dtype is not None:
                raise IRError(f'R.Tensor: {shape!r} is not a shape; give a sequence of sizes: (2, "n")')
            shape, dtype = None, shape
        if isinstance(shape, ShapeExpr):
            return TensorType(shape.values, dtype, ndim, vdevice)
        if isinstance(shape, Expr):
            if not isinstance(shape.ty, ShapeType):
                raise IRError(f"R.Tensor: the shape is a value of type {shape.ty!r}; expected a shape")
            shape, ndim = shape.ty.values, shape.ty.ndim if vdevice is None and isinstance(ndim, int) else ndim
        return TensorType(None if shape is None else _dims_of(shape, self.sizes), dtype, ndim, vdevice)


@final
class ShapeConstructor(TypeConstructor):
    """``R.Shape``: a shape value, with its known parts."""

    __slots__ = ()
    name = "R.Shape"

    def default(self) -> Type:
        """A shape of which nothing is known."""
        return ShapeType()

    def __call__(self, values: Sequence[object] | None = None, ndim: int = UNKNOWN_NDIM) -> ShapeType:
        """A shape type of known ``values``, or of known length ``ndim``."""
        return ShapeType(None if values is None else _dims_of(values, self.sizes), ndim)


@final
class TupleConstructor(TypeConstructor):
    """``R.Tuple``: a tuple of values of the given types."""

    __slots__ = ()
    name = "R.Tuple"

    def default(self) -> Type:
        """The empty tuple."""
        return TupleType(())

    def __call__(self, *fields: object) -> TupleType:
        """A tuple type; the fields are given one by one or as one list."""
        if len(fields) == 1 and isinstance(fields[0], list | tuple):
            fields = tuple(cast("Sequence[object]", fields[0]))
        return TupleType([as_type(field, f"field {i} of R.Tuple") for i, field in enumerate(fields)])


@final
class PrimConstructor(TypeConstructor):
    """``R.Prim``: a scalar that is not a tensor."""

    __slots__ = ()
    name = "R.Prim"

    def default(self) -> Type:
        """Raise `IRError`: a scalar's dtype is always known, so there is no default."""
        raise IRError('R.Prim needs a dtype: R.Prim("int64")')

    def __call__(self, dtype: str | None = None, value: object = None) -> PrimType:
        """A scalar type of ``dtype``, or of a known ``value``: a number or a size."""
        if isinstance(value, PrimValue) and not isinstance(value.value, int):
            value = value.value
        if value is None or isinstance(value, bool | float):
            return PrimType(dtype, value)
        return PrimType(dtype, self.sizes.resolve(value))


class ObjectConstructor(TypeConstructor):
    """``R.Any`` (and ``R.Object``, its older name): any value."""

    __slots__ = ()
    name = "R.Any"
    type: ClassVar[Type] = OBJECT

    def default(self) -> Type:
        """The only type of this kind."""
        return self.type

    __call__ = default


@final
class StringConstructor(ObjectConstructor):
    """``I.StringType``: a string."""

    __slots__ = ()
    name = "I.StringType"
    type = STRING


@final
class CallableConstructor(TypeConstructor):
    """``R.Callable``: a function value."""

    __slots__ = ()
    name = "R.Callable"

    def default(self) -> Type:
        """A function of which nothing is known; it may have effects."""
        return FuncType(None, OBJECT, False)

    def __call__(self, params: object = None, ret: object = None, purity: bool | None = None) -> FuncType:
        """A function type: the types of its parameters (None for any), the type of its result, and its purity.

        Without ``purity`` a function of known parameters is pure, as in Relax.
        """
        types: list[Type] | None = None
        if params is not None:
            listed = cast("Sequence[object]", params) if isinstance(params, list | tuple) else (params,)
            types = [as_type(param, f"parameter {i} of R.Callable") for i, param in enumerate(listed)]
        result = OBJECT if ret is None else as_type(ret, "the result of R.Callable")
        return FuncType(types, result, types is not None if purity is None else purity)
