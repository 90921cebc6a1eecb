"""Checks of values against types at run time, which also determine the values of size variables.

A `TypeCheck` is compiled once from types and called with values: the arguments of a function, the operand of a
``match_cast``, or the result of an external function. It works on any object with ``shape`` and ``dtype`` whose dtype
the engine can name. It raises `TypeCheckError`, which says what is wrong at which axis. The module uses the language
only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from ..ir.dims import Dim, SymExpr, SymVar, evaluate, free_symvars, match_dim, substitute
from ..ir.types import UNKNOWN_NDIM, FuncType, PrimType, ShapeType, TensorType, TupleType, Type, type_symvars
from .errors import TypeCheckError, kind_of

SizeValues: TypeAlias = dict[SymVar, int]
NameDtype: TypeAlias = Callable[[Any], str | None]
"""Returns the Relax name of the dtype of an engine's array; None for a value that is not an array."""


_TUPLE: Final[type[Any]] = tuple
_TRACED: Final = "SymInt"
"""The class of integers that PyTorch's tracer keeps symbolic."""


def _tensor_sizes(ty: TensorType, place: str, name_dtype: NameDtype, value: Any) -> Sequence[int]:
    dtype = name_dtype(value)
    if dtype is None:
        raise TypeCheckError(f"{place} is {kind_of(value)}; expected a tensor")
    if ty.dtype is not None and dtype != ty.dtype:
        raise TypeCheckError(f"{place} has dtype {dtype}; expected {ty.dtype}; convert it first")
    shape = value.shape
    if ty.ndim not in (UNKNOWN_NDIM, len(shape)):
        raise TypeCheckError(f"{place} has {len(shape)} dimensions, shape {tuple(shape)}; expected {ty.ndim}")
    return shape


def _shape_sizes(ty: ShapeType, place: str, _name_dtype: NameDtype, value: Any) -> Sequence[int]:
    if not isinstance(value, _TUPLE):
        raise TypeCheckError(f"{place} is {kind_of(value)}; expected a shape, a tuple of ints")
    if ty.ndim not in (UNKNOWN_NDIM, len(value)):
        raise TypeCheckError(f"{place} is {value!r}; expected {ty.ndim} sizes")
    return value


def _scalar_sizes(ty: PrimType, place: str, _name_dtype: NameDtype, value: Any) -> Sequence[int]:
    expected = bool if ty.dtype == "bool" else float if "float" in ty.dtype else int
    if expected is int and type(value).__name__ == _TRACED:
        return (value,)  # a comparison would fix its value
    if type(value) is not expected:
        raise TypeCheckError(f"{place} is {kind_of(value)} {value!r}; expected {ty.dtype}")
    known = ty.value
    if isinstance(known, SymExpr) and value < 0:
        raise TypeCheckError(f"{place} is {value!r}; expected a size, which is 0 or more")
    if known is not None and not isinstance(known, SymExpr) and known != value:
        raise TypeCheckError(f"{place} is {value!r}; expected {known!r}")
    return (value,) if isinstance(value, int) else ()


def _tuple_sizes(ty: TupleType, place: str, _name_dtype: NameDtype, value: Any) -> Sequence[int]:
    count = len(ty.fields)
    if not isinstance(value, _TUPLE):
        raise TypeCheckError(f"{place} is {kind_of(value)}; expected a tuple of {count} fields")
    if len(value) != count:
        raise TypeCheckError(f"{place} is a tuple of {len(value)} fields; expected {count}")
    return ()


def _function_sizes(_ty: FuncType, place: str, _name_dtype: NameDtype, value: Any) -> Sequence[int]:
    if not callable(value):
        raise TypeCheckError(f"{place} is {kind_of(value)}; expected a function")
    return ()


_SIZES_OF: Final[dict[type[Type], Callable[[Any, str, NameDtype, Any], Sequence[int]]]] = {
    TensorType: _tensor_sizes,
    ShapeType: _shape_sizes,
    PrimType: _scalar_sizes,
    FuncType: _function_sizes,
    TupleType: _tuple_sizes,
}
"""The check for each type: it raises unless the value has the right kind, dtype and rank, and returns the sizes.

Values of other types are not checked.
"""
_POSITIONS: Final[dict[type[Type], str]] = {ShapeType: "value", PrimType: ""}
"""The word in messages for the position of a size that is not an axis; empty if the value itself is the size."""


def _stated_sizes(ty: Type) -> Sequence[Dim]:
    match ty:
        case TensorType():
            return ty.shape or ()
        case ShapeType():
            return ty.values or ()
        case PrimType(value=SymExpr() as size):
            return (size,)
        case _:
            return ()


class _CheckedValue:
    """One value at one place: a root, or the field ``index`` of the value of the check ``parent``."""

    __slots__ = ("compound", "fixed", "index", "label", "parent", "place", "position", "sizes_of", "variables")

    def __init__(self, where: str, label: str, parent: int, index: int, ty: Type, name_dtype: NameDtype) -> None:
        self.place: Final = where + label
        self.label: Final = label
        self.parent: Final = parent
        self.index: Final = index
        self.position: Final = _POSITIONS.get(type(ty), "axis")
        self.sizes_of: Final = partial(_SIZES_OF[type(ty)], ty, self.place, name_dtype)
        dims = list(enumerate(_stated_sizes(ty)))
        self.fixed: Final = tuple([(i, int(d)) for i, d in dims if isinstance(d, int)])
        self.variables: Final = tuple([(i, d) for i, d in dims if isinstance(d, SymVar)])
        self.compound: Final = tuple([(i, d) for i, d in dims if not isinstance(d, int | SymVar)])

    def size_text(self, position: int, size: int) -> str:
        """The start of a message about the size at ``position``."""
        where = f": {self.position} {position}" if self.position else ""
        return f"{self.place}{where} is {size}"


class TypeCheck:
    """``check(*values, *known_sizes)`` raises unless the values have the types; returns the sizes in `defines`.

    Args:
        where: the start of each message, such as ``"main: "``.
        labels: the name of each value in messages, such as ``"parameter x"``.
        types: the type of each value.
        known: the size variables whose values the caller passes.
        name_dtype: returns the name of an array's dtype.

    A variable that is a dim by itself takes the first size seen. A variable in a larger expression (``n * 2``) is
    solved for, if the expression is linear in it and all other variables are known. Cost of a call: linear in the axes.
    """

    __slots__ = ("_checks", "_count", "_known", "defines")
    defines: tuple[SymVar, ...]

    def __init__(
        self,
        where: str,
        labels: Sequence[str],
        types: Sequence[Type],
        known: Iterable[SymVar],
        name_dtype: NameDtype,
    ) -> None:
        self._count: Final = len(types)
        self._known: Final = tuple(known)
        checks: list[_CheckedValue] = []
        stack = [(label, -1, i, ty) for i, (label, ty) in enumerate(zip(labels, types, strict=True))][::-1]
        while stack:
            label, parent, index, ty = stack.pop()
            if type(ty) in _SIZES_OF:
                checks.append(_CheckedValue(where, label, parent, index, ty, name_dtype))
            if isinstance(ty, TupleType):
                me = len(checks) - 1
                stack.extend((f"{label}[{i}]", me, i, f) for i, f in reversed([*enumerate(ty.fields)]))
        self._checks: Final = tuple(checks)
        self.defines = self._definable(types)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to check."""
        return not self._checks

    def _definable(self, types: Sequence[Type]) -> tuple[SymVar, ...]:
        """The variables that values of these types determine, in order of appearance."""
        found: dict[SymVar, Dim] = {v: v for v in self._known}
        found.update((v, v) for check in self._checks for _, v in check.variables)
        compound = [dim for check in self._checks for _, dim in check.compound]
        for _ in range(len(compound)):
            before = len(found)
            for dim in compound:
                match_dim(dim, dim, found)
            if len(found) == before:
                break
        known = set(self._known)
        return tuple(dict.fromkeys(v for ty in types for v in type_symvars(ty) if v in found and v not in known))

    def __call__(self, *arguments: Any) -> tuple[int, ...]:
        """Check the values; returns the sizes that they determine, in the order of `defines`."""
        sizes: SizeValues = dict(zip(self._known, arguments[self._count :], strict=True))
        seen: list[Any] = []
        pending: list[tuple[_CheckedValue, int, Dim, int]] = []
        for check in self._checks:
            value = arguments[check.index] if check.parent < 0 else seen[check.parent][check.index]
            seen.append(value)
            shape = check.sizes_of(value)
            for axis, expected in check.fixed:
                if shape[axis] != expected:
                    raise TypeCheckError(f"{check.size_text(axis, shape[axis])}; expected {expected}")
            for axis, variable in check.variables:
                size = shape[axis]
                if sizes.setdefault(variable, size) != size:
                    raise self._conflict(check, axis, variable, size, sizes[variable])
            pending.extend([(check, axis, dim, shape[axis]) for axis, dim in check.compound])
        if pending:
            self._solve(pending, sizes)
        return tuple([sizes[variable] for variable in self.defines])

    def _conflict(self, check: _CheckedValue, axis: int, variable: SymVar, size: int, have: int) -> TypeCheckError:
        first, i = next((c, i) for c in self._checks for i, v in c.variables if v is variable)
        source = "" if variable in self._known else f" ({first.position} {i} of {first.label})"
        return TypeCheckError(f"{check.size_text(axis, size)}; expected {variable} = {have}{source}")

    def _solve(self, pending: list[tuple[_CheckedValue, int, Dim, int]], sizes: SizeValues) -> None:
        """Check the expressions. Expressions with known variables come first; others are solved as far as possible."""
        while pending:
            waiting: list[tuple[_CheckedValue, int, Dim, int]] = []
            for item in pending:
                check, axis, dim, size = item
                if type(size) is not int:
                    _solve_traced(dim, size, sizes)
                    continue
                if all(variable in sizes for variable in free_symvars(dim)):
                    expected = _value_of(dim, sizes, check)
                    if expected != size:
                        given = ", ".join(f"{v} = {sizes[v]}" for v in free_symvars(dim))
                        raise TypeCheckError(
                            f"{check.size_text(axis, size)}; expected {dim} = {expected}, where {given}"
                        )
                    continue
                solved: dict[SymVar, Dim] = dict(sizes)
                if match_dim(dim, size, solved) is False:
                    raise TypeCheckError(f"{check.size_text(axis, size)}; expected {dim}, whatever its variables are")
                sizes.update({v: int(s) for v, s in solved.items() if isinstance(s, int)})
                waiting.append(item)
            if len(waiting) == len(pending) and not any(
                all(v in sizes for v in free_symvars(dim)) for _, _, dim, _ in waiting
            ):
                return
            pending = waiting


def _solve_traced(dim: Dim, size: Any, sizes: SizeValues) -> None:
    """Solve for a size that a tracer keeps symbolic. Nothing is compared, because that would fix its value."""
    unknown = [variable for variable in free_symvars(dim) if variable not in sizes]
    if len(unknown) == 1:
        rest = substitute(dim, {unknown[0]: 0})
        factor = substitute(dim, {unknown[0]: 1}) - rest
        if isinstance(factor, int) and dim == unknown[0] * factor + rest:
            sizes[unknown[0]] = (size - evaluate(rest, sizes)) // factor


def _value_of(dim: Dim, sizes: SizeValues, check: _CheckedValue) -> int:
    try:
        return evaluate(dim, sizes)
    except ZeroDivisionError as error:
        raise TypeCheckError(f"{check.place}: {error}") from None
