"""Patterns that add a condition to another pattern: on type, shape, dtype, attributes or users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast, final

from ..analysis.values import Definitions, definition, same_attribute
from ..ir.dims import Dim, SymVar
from ..ir.dtypes import as_dtype
from ..ir.expr import Expr
from ..ir.op import Call, attribute_key
from ..ir.program import Function
from ..ir.types import ShapeType, TensorType, Type, as_dim, bind_type, type_symvars
from .pattern import ConstrainedPattern, DFPattern, PatternError
from .words import Reason, counted, show


@final
class TypePattern(ConstrainedPattern):
    """``pattern``, on a value that is certainly of type ``ty``."""

    __slots__ = ("ty",)

    def __init__(self, pattern: DFPattern, ty: Type) -> None:
        super().__init__(pattern)
        if not isinstance(ty, Type):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PatternError(f'has_ty needs a type such as R.Tensor((2, 3), "float32"), got {ty!r}')
        self.ty = ty

    def size_variables(self) -> Sequence[SymVar]:
        return type_symvars(self.ty)

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"{parts[self.pattern]}: {self.ty!r}"

    def holds(self, leaf: Expr, definitions: Definitions, sizes: dict[SymVar, Any]) -> bool:
        return bind_type(self.ty, leaf.ty, sizes) is True

    def mismatch(self, leaf: Expr, definitions: Definitions, sizes: Mapping[SymVar, Any]) -> Reason:
        certain = " for certain" if bind_type(self.ty, leaf.ty, dict(sizes)) is None else ""
        return "type", f"type {self.ty!r} is wanted{certain}, but {show(leaf)} is {leaf.ty!r}"


@final
class DataTypePattern(ConstrainedPattern):
    """``pattern``, on a tensor of ``dtype``."""

    __slots__ = ("dtype",)

    def __init__(self, pattern: DFPattern, dtype: str) -> None:
        super().__init__(pattern)
        self.dtype = as_dtype(dtype)

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"{parts[self.pattern]}: {self.dtype}"

    def holds(self, leaf: Expr, definitions: Definitions, sizes: dict[SymVar, Any]) -> bool:
        return isinstance(leaf.ty, TensorType) and leaf.ty.dtype == self.dtype

    def mismatch(self, leaf: Expr, definitions: Definitions, sizes: Mapping[SymVar, Any]) -> Reason:
        dtype = leaf.ty.dtype if isinstance(leaf.ty, TensorType) else None
        return "dtype", f"dtype {self.dtype} is wanted, but {show(leaf)} has {dtype or repr(leaf.ty)}"


@final
class ShapePattern(ConstrainedPattern):
    """``pattern``, on a tensor that certainly has ``shape``."""

    __slots__ = ("shape",)

    def __init__(self, pattern: DFPattern, shape: Sequence[Dim]) -> None:
        super().__init__(pattern)
        if not isinstance(shape, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PatternError(f"has_shape needs a sequence of sizes, got {shape!r}")
        self.shape = tuple(as_dim(d, "has_shape") for d in shape)

    def size_variables(self) -> Sequence[SymVar]:
        return type_symvars(ShapeType(self.shape))

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"{parts[self.pattern]}: ({', '.join(map(str, self.shape))})"

    def holds(self, leaf: Expr, definitions: Definitions, sizes: dict[SymVar, Any]) -> bool:
        if not isinstance(leaf.ty, TensorType) or leaf.ty.shape is None:
            return False
        found = ShapeType(leaf.ty.shape)
        own = type_symvars(found)
        for variable in self.size_variables():
            if variable in own:  # The program's own size variable stands for itself.
                sizes.setdefault(variable, variable)
        return bind_type(ShapeType(self.shape), found, sizes) is True

    def mismatch(self, leaf: Expr, definitions: Definitions, sizes: Mapping[SymVar, Any]) -> Reason:
        certain, ty = "", leaf.ty
        if isinstance(ty, TensorType):
            known = None if ty.shape is None else bind_type(ShapeType(self.shape), ShapeType(ty.shape), dict(sizes))
            certain = " for certain" if known is None else ""
        wanted = f"({', '.join(map(str, self.shape))})"
        return "shape", f"shape {wanted} is wanted{certain}, but {show(leaf)} is {ty!r}"


@final
class AttrPattern(ConstrainedPattern):
    """``pattern``, on a call or function with these attributes."""

    __slots__ = ("_wanted", "attrs")

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, Any]) -> None:
        super().__init__(pattern)
        self.attrs = {name: _canonical(value) for name, value in attrs.items()}
        self._wanted = tuple((name, value, attribute_key(value)) for name, value in self.attrs.items())

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"{parts[self.pattern]}{{{', '.join(f'{name}={value!r}' for name, value in self.attrs.items())}}}"

    def holds(self, leaf: Expr, definitions: Definitions, sizes: dict[SymVar, Any]) -> bool:
        expr = definition(definitions, leaf)
        return isinstance(expr, Call | Function) and all(
            name in expr.attrs and (attribute_key(expr.attrs[name]) == key or same_attribute(expr, name, value))
            for name, value, key in self._wanted
        )

    def mismatch(self, leaf: Expr, definitions: Definitions, sizes: Mapping[SymVar, Any]) -> Reason:
        expr = definition(definitions, leaf)
        if not isinstance(expr, Call | Function):
            return "attribute", f"a call with attributes {self.attrs} is wanted, but here is {show(expr)}"
        for name, value in self.attrs.items():
            wanted = f"{name}={value!r} is wanted, but {show(expr)} has"
            if name not in expr.attrs:
                known = ", ".join(expr.attrs) or "none"
                return "attribute", f"{wanted} no attribute {name!r} (it has: {known})"
            if not same_attribute(expr, name, value):
                return "attribute", f"{wanted} {name}={expr.attrs[name]!r}"
        raise AssertionError("an attribute pattern failed on a call that has all its attributes")


def _canonical(value: Any) -> Any:
    if isinstance(value, list | tuple):
        items = cast("Iterable[Any]", value)
        return tuple(_canonical(item) for item in items)
    return value


@final
class UsersPattern(ConstrainedPattern):
    """``pattern``, on a value with ``count`` users in the block. An output of the block has one user more.

    Without a count, every user must be a call, branch, function or field that the match describes, and the value must
    be no output. An alias of the value, or a tuple that contains it, is not a user. A value that the block does not
    bind never matches, because its users are not known.
    """

    __slots__ = ("count",)

    def __init__(self, pattern: DFPattern, count: int | None) -> None:
        super().__init__(pattern)
        self.count = count

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"{parts[self.pattern]}: {'used only here' if self.count is None else counted(self.count, 'user')}"
