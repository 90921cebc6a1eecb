"""Sizes of an exported program as dims. PyTorch's symbolic integers are SymPy expressions.

Each SymPy symbol becomes one size variable. This module reads SymPy's objects without importing SymPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, Final, NamedTuple, cast

from ...ir.dims import Dim, SymVar, add_all, ceildiv, dim_max, dim_min, dim_product, floordiv, floormod
from ...ir.types import TensorType
from ..errors import ConvertError
from .tensors import PARTS, dtype_name


def _power(operands: Sequence[Dim]) -> Dim:
    base, exponent = operands
    if not isinstance(exponent, int) or exponent < 0:
        raise ConvertError(f"a size is {base} to the power of {exponent}")
    return dim_product([base] * exponent)


def _fold(function: Callable[[Dim, Dim], Dim]) -> Callable[[Sequence[Dim]], Dim]:
    return lambda operands: reduce(function, operands)


def _modular_index(operands: Sequence[Dim]) -> Dim:
    base, divisor, modulus = operands
    return floormod(floordiv(base, divisor), modulus)


_MEANINGS: Final[dict[str, Callable[[Sequence[Dim]], Dim]]] = {
    "Add": add_all,
    "Mul": dim_product,
    "Pow": _power,
    "PowByNatural": _power,
    "FloorDiv": _fold(floordiv),
    "CleanDiv": _fold(floordiv),
    "CeilDiv": _fold(ceildiv),
    "Mod": _fold(floormod),
    "PythonMod": _fold(floormod),
    "ModularIndexing": _modular_index,
    "Max": _fold(dim_max),
    "Min": _fold(dim_min),
    "Identity": lambda operands: operands[0],
}
"""The dim for each SymPy function of sizes. Divisions and remainders round down, as in Python."""


_ROUNDED: Final = ("TruncToInt", "FloorToInt", "CeilToInt")
"""SymPy functions that round a fraction to a whole number."""
_HALF_OF_LAST_BIT: Final = Fraction(1, 2**54)
_MOST_PARTS: Final = 1000
_MOST_TRIED: Final = 1 << 16


class _ScaledSize(NamedTuple):
    """A size times a fraction, which PyTorch computes in float64 by ``computed``.

    ``error`` is the relative error of the number by which PyTorch multiplies; positive if it exceeds ``factor``.
    """

    size: Any
    factor: Fraction
    error: Fraction
    computed: Callable[[int], float]

    def is_exact(self, upwards: bool, most: Any) -> bool:
        """True if rounding gives the same whole number as for the exact fraction, for sizes up to ``most``.

        A product that is exactly a whole number must not be computed as less (as more, if it is rounded up). An error
        of half of the last bit, or in the other direction, disappears in rounding.
        """
        if (self.error if upwards else -self.error) <= _HALF_OF_LAST_BIT:
            return True
        whole = range(0, int(most) + 1, self.factor.denominator) if most <= _MOST_TRIED else ()
        return bool(whole) and all(self.computed(size) == size * self.factor for size in whole)


def _part(expression: Any) -> _ScaledSize | None:
    """The size and the fraction of a SymPy product; None for other expressions."""
    name, args = expression.func.__name__, expression.args
    if name == "ToFloat":
        return _ScaledSize(args[0], Fraction(1), Fraction(0), float)
    if name == "IntTrueDiv" and args[1].is_Integer:
        return _ScaledSize(args[0], Fraction(1, int(args[1])), Fraction(0), float)
    if len(args) != _TWO or name not in ("Mul", "FloatTrueDiv"):
        return None
    first, second = sorted(args, key=lambda arg: bool(arg.is_Float)) if name == "Mul" else args
    size = _part(first)
    if size is None or size.factor != 1 or not second.is_Float:
        return None
    number = float(second)
    meant = Fraction(number).limit_denominator(_MOST_PARTS)
    if meant <= 0 or float(meant) != number:
        return None
    error = (Fraction(number) - meant) / meant
    if name == "Mul":
        return _ScaledSize(size.size, meant, error, number.__mul__)
    return _ScaledSize(size.size, 1 / meant, -error, number.__rtruediv__)


_TWO: Final = 2


class SizeTable:
    """The size variables of one program, by the names of their symbols.

    ``names`` are better names for some symbols. The others are called ``s0``, ``s1`` ... in order of appearance, or
    ``u0`` ... if they depend on data.
    """

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self._names: Final = dict(names or {})
        self._variables: Final[dict[str, SymVar]] = {}
        self._counts: Final[dict[str, int]] = {}
        self._examples: Final[dict[str, int]] = {}
        self._ranges: Mapping[Any, Any] = {}

    def dim(self, size: Any) -> Dim:
        """The dim of an int or of a symbolic integer; raises `ConvertError` if no dim can express it."""
        if isinstance(size, int):
            return int(size)
        expression = size.node.expr
        self._ranges = size.node.shape_env.var_to_range
        if expression.is_Symbol and size.node.hint is not None:
            self._examples[str(expression.name)] = int(size.node.hint)
        return self.expression(expression)

    def may_be_negative(self, size: Any) -> bool:
        """True if a symbolic integer, read from a tensor, is not known to be 0 or more, as a size must be."""
        known = size.node.shape_env.var_to_range.get(size.node.expr)
        return known is not None and not bool(known.lower >= 0)

    def shape(self, tensor: Any) -> tuple[Dim, ...]:
        """The dims of a (fake) tensor."""
        return tuple([self.dim(size) for size in tensor.shape])

    def stated_type(self, tensor: Any) -> TensorType:
        """The type of a (fake) tensor; for a complex one, the type of its parts."""
        dtype = dtype_name(tensor.dtype)
        return TensorType(self.shape(tensor), PARTS.get(dtype, dtype))

    def type_of(self, tensor: Any) -> TensorType:
        """The type of a (fake) tensor, without a shape if that depends on the values of tensors."""
        dtype = dtype_name(tensor.dtype)
        if any(not isinstance(size, int) and size.node.hint is None for size in tensor.shape):
            return TensorType(ndim=len(tensor.shape), dtype=dtype)
        return TensorType(self.shape(tensor), dtype)

    def expression(self, expression: Any) -> Dim:
        """The dim of a SymPy expression."""
        if expression.is_Symbol:
            return self._variable(str(expression.name))
        if expression.is_Integer:
            return int(expression)
        name = expression.func.__name__
        if name in _ROUNDED:
            return self._rounded(expression)
        meaning = _MEANINGS.get(name)
        if meaning is None:
            raise ConvertError(f"the size {expression} has no counterpart: it uses {name}")
        return meaning([self.expression(part) for part in expression.args])

    def _rounded(self, expression: Any) -> Dim:
        """The dim of a size times a fraction, rounded to a whole number."""
        from torch.utils._sympy import value_ranges

        name, part = expression.func.__name__, _part(expression.args[0])
        upwards = name == "CeilToInt"
        if part is None:
            raise ConvertError(f"the size {expression} has no counterpart: it is no size times a fraction")
        bounds: Any = cast(Any, value_ranges).bound_sympy(part.size, dict(self._ranges))
        if not part.is_exact(upwards, bounds.upper):
            share = part.factor
            raise ConvertError(
                f"the size {expression} has no counterpart: for some sizes it depends on the rounding of floats; "
                f"write it as n * {share.numerator} // {share.denominator}, or declare a smaller greatest size"
            )
        if name == "TruncToInt" and not bool(bounds.lower >= 0):
            raise ConvertError(f"the size {expression} has no counterpart: it rounds a value that may be less than 0")
        divide = ceildiv if upwards else floordiv
        return divide(self.expression(part.size) * part.factor.numerator, part.factor.denominator)

    def limits(self, ranges: Mapping[Any, Any]) -> Iterator[tuple[str, int, int | None, int]]:
        """The name, the smallest and largest value, and the example value of each of PyTorch's symbols.

        The largest value is None if there is no limit.
        """
        lower = self._least_of_multiples(ranges)
        for symbol, values in ranges.items():
            name = str(getattr(symbol, "name", ""))
            found = self._variables.get(name)
            if found is not None:
                low = int(values.lower) if values.lower.is_Integer else 0
                high = int(values.upper) if values.upper.is_Integer else None
                yield found.name, min(low, lower.get(found, low)), high, self._examples.get(name, low)

    def _least_of_multiples(self, ranges: Mapping[Any, Any]) -> dict[SymVar, int]:
        """The smallest value of each size of which a multiple is declared.

        PyTorch assumes 2 or more for the size itself, although the multiple allows 1.
        """
        found: dict[SymVar, int] = {}
        for expression, values in ranges.items():
            if expression.func.__name__ != "Mul" or len(expression.args) != _TWO or not values.lower.is_Integer:
                continue
            factor, symbol = expression.args
            variable = self._variables.get(str(getattr(symbol, "name", "")))
            if variable is not None and factor.is_Integer and factor > 0:
                found[variable] = int(ceildiv(int(values.lower), int(factor)))
        return found

    def _variable(self, symbol: str) -> SymVar:
        found = self._variables.get(symbol)
        if found is None:
            found = self._variables[symbol] = SymVar(self._names.get(symbol) or self._fresh(symbol))
        return found

    def _fresh(self, symbol: str) -> str:
        kind = symbol[0] if symbol[:1] in ("s", "u") else "s"
        while True:
            number = self._counts[kind] = self._counts.get(kind, -1) + 1
            name = f"{kind}{number}"
            if name not in self._names.values():
                return name
