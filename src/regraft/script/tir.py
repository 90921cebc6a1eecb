"""The ``T`` namespace: scalars, and sizes that are not known yet.

``T.int64()`` declares a size, ``T.float32(0.5)`` is a scalar of that dtype, and ``T.int64`` alone is the type of such a
scalar. Loops, buffers and schedules of TensorIR are not part of this library.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, final

from ..ir.dims import Dim, SymExpr, SymVar, both, compare, dim_max, dim_min, either, negation, outermost, select
from ..ir.dims import ceildiv as dim_ceildiv
from ..ir.dims import floordiv as dim_floordiv
from ..ir.dims import floormod as dim_floormod
from ..ir.errors import IRError
from ..ir.expr import PrimValue
from ..ir.types import PrimType, Type
from ..op.index_maps import IndexMap
from .annotations import TypeConstructor
from .sizes import SizeScope, scalar_size

_SPECIAL = ("inf", "-inf", "nan")


@final
class ScalarConstructor(TypeConstructor):
    """``T.float32``: a scalar's dtype. Called with a number, it returns that scalar.

    Called without arguments, it returns a new size variable.
    """

    __slots__ = ("dtype",)
    name = "T"
    dtype: str

    def __init__(self, dtype: str, sizes: SizeScope | None = None) -> None:
        super().__init__(sizes)
        self.dtype = dtype

    def within(self, sizes: SizeScope) -> ScalarConstructor:
        """The same dtype: scalars do not name sizes."""
        return self

    def default(self) -> Type:
        """A scalar of this dtype."""
        return PrimType(self.dtype)

    def __call__(self, value: Any = None) -> Any:
        """A size variable (without ``value``), a size (for 64-bit ints), or a scalar that knows its dtype."""
        if value is None:
            if not self.dtype.startswith(("int", "uint")):
                raise IRError(f"{self!r}() cannot declare a size: sizes are integers, such as T.int64()")
            return SymVar("", self.dtype)
        if isinstance(value, PrimValue):
            value = value.value
        if isinstance(value, SymExpr):
            return value
        if isinstance(value, str) and value in _SPECIAL:
            value = float(value)
        if isinstance(value, str) or not isinstance(value, int | float):
            raise IRError(f"{self!r}({value!r}): expected a number")
        if self.dtype == "bool":
            return PrimValue(builtins.bool(value))
        if "float" in self.dtype:
            return PrimValue(float(value), self.dtype)
        if value != int(value):
            raise IRError(f"{self!r}({value!r}): expected an integer")
        return int(value) if self.dtype == "int64" else PrimValue(int(value), self.dtype)

    def __repr__(self) -> str:
        return f"T.{self.dtype}"


class _Asked(type):
    """A class whose calls return other objects; ``isinstance`` tests for these."""

    holds: Callable[[Any], builtins.bool]

    def __instancecheck__(cls, instance: Any) -> builtins.bool:
        return cls.holds(instance)


class _SizeVariable(metaclass=_Asked):
    """A new size variable of that name; ``isinstance(dim, T.Var)`` tests for a size variable."""

    def __new__(cls, name: str, dtype: str = "int64") -> Any:
        """The size variable."""
        return SymVar(name, dtype)

    @staticmethod
    def holds(instance: Any) -> builtins.bool:
        """True for a size variable."""
        return isinstance(instance, SymVar)


def _size(value: Any) -> Dim:
    size = scalar_size(value)
    if size is None:
        raise IRError(f"{value!r} is not a size; give an int, or an expression over n = T.int64()")
    return size


def _node(name: str, function: Callable[..., Dim], doc: str) -> Callable[..., Dim]:
    """A kind of operation on sizes: a call builds one; ``isinstance(dim, T.Add)`` tests the outermost operation."""

    def build(cls: type, first: Any, *more: Any) -> Dim:
        sizes = map(_size, (first, *more))
        return reduce(function, sizes) if len(more) > 1 and function not in _NOT_FOLDED else function(*sizes)

    def holds(instance: Any) -> builtins.bool:
        return isinstance(instance, SymExpr) and outermost(instance)[0] == name

    kind: Any = _Asked(name, (), {"__new__": build, "__doc__": doc, "holds": staticmethod(holds)})
    return kind


_NOT_FOLDED = (select, negation)
Add = _node("Add", operator.add, "A sum of sizes.")
Sub = _node("Sub", operator.sub, "A difference of sizes.")
Mul = _node("Mul", operator.mul, "A product of sizes.")
FloorDiv = _node("FloorDiv", dim_floordiv, "A quotient of sizes, rounded down.")
FloorMod = _node("FloorMod", dim_floormod, "The remainder of `FloorDiv`.")
Min = _node("Min", dim_min, "The smallest of sizes.")
Max = _node("Max", dim_max, "The greatest of sizes.")
And = _node("And", both, "True if all conditions hold.")
Or = _node("Or", either, "True if at least one condition holds.")
Not = _node("Not", negation, "True if a condition on sizes does not hold.")
Select = _node("Select", select, "The second operand if the condition, the first operand, holds; otherwise the third.")
EQ = _node("EQ", partial(compare, "=="), "True if two sizes are equal.")
NE = _node("NE", partial(compare, "!="), "True if two sizes differ.")
LT = _node("LT", partial(compare, "<"), "True if the first size is less than the second.")
LE = _node("LE", partial(compare, "<="), "True if the first size is less than or equal to the second.")
GT = _node("GT", partial(compare, ">"), "True if the first size is greater than the second.")
GE = _node("GE", partial(compare, ">="), "True if the first size is greater than or equal to the second.")
ceildiv = _node("CeilDiv", dim_ceildiv, "A quotient of sizes, rounded up.")
floordiv, floormod, if_then_else, min, max = FloorDiv, FloorMod, Select, Min, Max


def const(value: Any, dtype: str = "int32") -> Any:
    """A number of a dtype: a size for a 64-bit int, otherwise a scalar."""
    return ScalarConstructor(dtype)(value)


Var = _SizeVariable


class IntImm(metaclass=_Asked):
    """An int of a dtype; ``isinstance(dim, IntImm)`` tests for a size or scalar that is a known int."""

    def __new__(cls, dtype: str, value: int) -> Any:
        """The size or scalar."""
        return const(value, dtype)

    @staticmethod
    def holds(instance: Any) -> builtins.bool:
        """True for an int or bool, also as a scalar of a program."""
        return isinstance(instance.value if isinstance(instance, PrimValue) else instance, int)


class FloatImm(metaclass=_Asked):
    """A float of a dtype; ``isinstance(value, FloatImm)`` tests for a scalar that is a known float."""

    def __new__(cls, dtype: str, value: float) -> Any:
        """The scalar."""
        return const(value, dtype)

    @staticmethod
    def holds(instance: Any) -> builtins.bool:
        """True for a float of a program."""
        return isinstance(instance, PrimValue) and isinstance(instance.value, float)


# Sizes are not negative, so rounding quotients towards zero is the same as rounding down.
Div = truncdiv = indexdiv = floordiv
Mod = truncmod = indexmod = floormod
all = And
any = Or
index_map = IndexMap.from_func
bool = ScalarConstructor("bool")
boolean = bool
int8 = ScalarConstructor("int8")
int16 = ScalarConstructor("int16")
int32 = ScalarConstructor("int32")
int64 = ScalarConstructor("int64")
uint8 = ScalarConstructor("uint8")
uint16 = ScalarConstructor("uint16")
uint32 = ScalarConstructor("uint32")
uint64 = ScalarConstructor("uint64")
float16 = ScalarConstructor("float16")
bfloat16 = ScalarConstructor("bfloat16")
float32 = ScalarConstructor("float32")
float64 = ScalarConstructor("float64")

_scalars_and_kinds = [name for name, value in globals().items() if isinstance(value, ScalarConstructor | _Asked)]
__all__ = ["IndexMap", "const", "index_map"]
__all__ += sorted([name for name in _scalars_and_kinds if name[0] != "_"])  # pyright: ignore[reportUnsupportedDunderAll]
