"""Sizes of an exported program as dims: PyTorch's symbolic integers, which are SymPy expressions, become ours.

Each SymPy symbol is one size variable. Knows dims; asks SymPy's objects for their parts and imports none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final

from ...ir.dims import Dim, SymVar, ceildiv, dim_max, dim_min, dim_product, floordiv, floormod
from ...ir.types import TensorType
from ..errors import ConvertError
from .tensors import dtype_name


def _sum(operands: Sequence[Dim]) -> Dim:
    total: Dim = 0
    for operand in operands:
        total = total + operand
    return total


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
    "Add": _sum,
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
"""The meaning of each SymPy function of sizes; divisions and remainders round down, as in Python."""


class SizeTable:
    """The size variables of one program, by the names of their symbols.

    ``names`` are better names for some symbols; the others are called ``s0``, ``s1`` ... in order of appearance, and
    ``u0`` ... those that depend on data.
    """

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self._names: Final = dict(names or {})
        self._variables: Final[dict[str, SymVar]] = {}
        self._counts: Final[dict[str, int]] = {}
        self._examples: Final[dict[str, int]] = {}

    def dim(self, size: Any) -> Dim:
        """The dim of an int or of a symbolic integer; raises `ConvertError` for what no dim can say."""
        if isinstance(size, int):
            return int(size)
        expression = size.node.expr
        if expression.is_Symbol and size.node.hint is not None:
            self._examples[str(expression.name)] = int(size.node.hint)
        return self.expression(expression)

    def may_be_negative(self, size: Any) -> bool:
        """True if a symbolic integer that is read from a tensor is not promised to be a size, 0 or more."""
        known = size.node.shape_env.var_to_range.get(size.node.expr)
        return known is not None and not bool(known.lower >= 0)

    def shape(self, tensor: Any) -> tuple[Dim, ...]:
        """The dims of a (fake) tensor."""
        return tuple([self.dim(size) for size in tensor.shape])

    def type_of(self, tensor: Any) -> TensorType:
        """The type of a (fake) tensor; without a shape where that depends on what tensors hold."""
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
        meaning = _MEANINGS.get(expression.func.__name__)
        if meaning is None:
            raise ConvertError(f"the size {expression} has no counterpart: it uses {expression.func.__name__}")
        return meaning([self.expression(part) for part in expression.args])

    def limits(self, ranges: Mapping[Any, Any]) -> Iterator[tuple[str, int, int | None, int]]:
        """The name, the least and greatest value, and the value in the example of each of PyTorch's symbols."""
        for symbol, values in ranges.items():
            name = str(getattr(symbol, "name", ""))
            found = self._variables.get(name)
            if found is not None:
                low = int(values.lower) if values.lower.is_Integer else 0
                high = int(values.upper) if values.upper.is_Integer else None
                yield found.name, low, high, self._examples.get(name, low)

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
