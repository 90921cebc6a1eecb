"""The size variables of one function, by name, and arithmetic on sizes with bounds.

A size is written as an int, as text (``"n"``, ``"n * 2 + 1"``), or as an expression over ``n = T.int64()``. Within a
function, one name is one variable. Texts may come from untrusted sources, so every sum and product is bounded here: no
expression of a few characters may take a gigabyte or a minute.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, TypeVar, cast, final

from ..ir.dims import (
    Dim,
    KnownSize,
    SymExpr,
    SymVar,
    both,
    ceildiv,
    compare,
    dim_max,
    dim_min,
    either,
    floordiv,
    floormod,
    negation,
    select,
)
from ..ir.errors import IRError
from ..ir.expr import Expr, Var
from ..ir.types import PrimType, Type
from .source import parse_expression

_GREATEST: Final = 2**64
_MOST_TERMS: Final = 256

ARITHMETIC: Final[Mapping[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]]] = {
    ast.Add: ("+", lambda a, b: a + b),
    ast.Sub: ("-", lambda a, b: a - b),
    ast.Mult: ("*", lambda a, b: a * b),
    ast.Div: ("/", lambda a, b: a / b),
    ast.FloorDiv: ("//", lambda a, b: a // b),
    ast.Mod: ("%", lambda a, b: a % b),
    ast.Pow: ("**", lambda a, b: a**b),
    ast.MatMult: ("@", lambda a, b: a @ b),
}
"""Python's binary operators that a program may use: their sign and function."""

_ON_SIZES: Final = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)

COMPARISONS: Final[Mapping[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}
"""Python's comparisons that form conditions on sizes: their sign and function."""


def sizes_among(values: Sequence[Any]) -> list[Dim] | None:
    """``values`` as sizes, if each is a size or an int and at least one is symbolic; else None."""
    sizes = [scalar_size(value) for value in values]
    if not any(isinstance(size, SymExpr) for size in sizes):
        return None
    return None if any(size is None for size in sizes) else [size for size in sizes if size is not None]


def scalar_size(value: object) -> Dim | None:
    """``value`` if it is an int or a size, or the size that a scalar of the program holds; None for anything else."""
    if isinstance(value, int | SymExpr):
        return value
    return value.as_size() if isinstance(value, Expr) else None


def compare_sizes(signs: Sequence[str], sizes: Sequence[Dim]) -> Dim:
    """The condition that each size and the next one satisfy the comparison between them."""
    holds: Dim = True
    for sign, left, right in zip(signs, sizes, sizes[1:], strict=False):
        holds = both(holds, compare(sign, left, right))
    return holds


SIZE_FUNCTIONS: Final[Mapping[str, Callable[[Dim, Dim], Dim]]] = {
    "min": dim_min,
    "max": dim_max,
    "ceildiv": ceildiv,
    "floordiv": floordiv,
    "floormod": floormod,
}
"""Functions of two sizes, such as ``T.max(n, m)``."""


def size_arithmetic(kind: type[ast.operator], left: Any, right: Any) -> Any:
    """``left kind right`` on numbers and sizes; raises `IRError` if the result is not a size or grows too large."""
    for value in (left, right):
        if isinstance(value, bool) or not isinstance(value, int | float | complex | SymExpr):
            raise IRError(f"arithmetic on {value!r}; sizes are computed from ints and size variables")
    is_number = not isinstance(left, SymExpr) and not isinstance(right, SymExpr)
    if kind not in _ON_SIZES and not (kind is ast.Div and is_number):
        sign = ARITHMETIC[kind][0] if kind in ARITHMETIC else kind.__name__
        raise IRError(f"{sign} is not defined on sizes; use + - * // %")
    if isinstance(left, SymExpr) and isinstance(right, SymExpr) and kind is ast.Mult:
        _check_terms(len(left.coefficients) * len(right.coefficients))
    try:
        return checked_number(ARITHMETIC[kind][1](left, right))
    except ZeroDivisionError:
        raise IRError("division by zero") from None


def checked_number(value: Any) -> Any:
    """``value`` if it is within the bounds of programs; raises `IRError` otherwise."""
    if isinstance(value, int) and not -_GREATEST < value < _GREATEST:
        raise IRError("an integer beyond 64 bits")
    if isinstance(value, SymExpr):
        _check_terms(len(value.coefficients))
    return value


def _check_terms(count: int) -> None:
    if count > _MOST_TERMS:
        raise IRError(f"a size of more than {_MOST_TERMS} terms")


@final
class SizeScope:
    """The size variables of one function.

    ``dtypes`` holds the variables that it declares with a dtype other than int64.
    """

    __slots__ = ("_dtypes", "_scalars", "_variables")

    def __init__(self, dtypes: Mapping[str, str] | None = None) -> None:
        self._dtypes: dict[str, str] = dict(dtypes or {})
        self._variables: dict[str, SymVar] = {}
        self._scalars: dict[str, Var] = {}

    def variable(self, name: str) -> SymVar:
        """The variable of that name, which may belong to a scalar parameter; the first mention creates it."""
        found = self._variables.get(name)
        if found is None:
            scalar = self._scalars[name].as_size() if name in self._scalars else None
            found = scalar if isinstance(scalar, SymVar) else SymVar(name, self._dtypes.get(name, "int64"))
            self._variables[name] = found
        return found

    def parameter(self, name: str, ty: Type) -> Var:
        """A parameter; an integer scalar is the size of its name, whether the name is mentioned before or after it."""
        if not isinstance(ty, PrimType) or ty.value is not None or not ty.dtype.startswith(("int", "uint")):
            return Var(name, ty)
        if name in self._variables:
            return Var(name, PrimType(ty.dtype, self._variables[name]))
        scalar = self._scalars[name] = Var(name, ty)
        return scalar

    def adopt(self, name: str, variable: SymVar) -> None:
        """Make ``name`` refer to an existing variable."""
        self._variables[name] = variable

    def resolve(self, value: object) -> Dim:
        """A size in any of its written forms.

        These are an int, text, a size expression, a `TypeVar`, or a scalar of known value.
        """
        if type(value) is int or type(value) is KnownSize:
            return value
        if isinstance(value, str):
            return self.variable(value) if value.isidentifier() else self._computed(parse_expression(value))
        if isinstance(value, SymExpr):
            return value
        if isinstance(value, TypeVar):
            return self.variable(value.__name__)
        known = value.as_size() if isinstance(value, Expr) else None
        if isinstance(known, int | SymExpr) and not isinstance(known, bool):
            return known
        if hasattr(value, "__index__") and not isinstance(value, bool):
            return int(cast(Any, value).__index__())
        raise IRError(f'{value!r} is not a size; give an int, a name such as "n", or n = T.int64()')

    def _computed(self, node: ast.expr) -> Dim:
        match node:
            case ast.Constant(value=int() as value) if not isinstance(value, bool):
                return cast(Dim, checked_number(value))
            case ast.Name(id=name):
                return self.variable(name)
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ON_SIZES):
                return size_arithmetic(type(op), self._computed(left), self._computed(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._computed(operand)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="T"), attr=name), args=[left, right], keywords=[]):
                if name in SIZE_FUNCTIONS:
                    return SIZE_FUNCTIONS[name](self._computed(left), self._computed(right))
            case ast.Call(func=ast.Attribute(value=ast.Name(id="T"), attr="if_then_else"), args=[_, _, _] as args):
                return select(*[self._computed(arg) for arg in args])
            case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in COMPARISONS for op in ops):
                sizes = [self._computed(operand) for operand in (left, *others)]
                return compare_sizes([COMPARISONS[type(op)][0] for op in ops], sizes)
            case ast.BoolOp(op=op, values=values):
                return reduce(both if isinstance(op, ast.And) else either, map(self._computed, values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return negation(self._computed(operand))
            case _:
                pass
        raise IRError(
            f"{ast.unparse(node)!r} is not a size; sizes are made of ints, names, + - * // % and T.max, T.min"
        )
