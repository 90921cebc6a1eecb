"""The outermost operation of a size, under the name of Relax's node, and its operands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .conditions import Both, Either, Equal, Greater, GreaterEqual, Less, LessEqual, Negation, NotEqual
from .symbolic import (
    Dim,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Operation,
    Select,
    SymExpr,
    SymVar,
    dim_product,
    monomial_product,
    written_terms,
)

_NAMES: Final[Mapping[type[Operation], str]] = {
    FloorDiv: "FloorDiv",
    FloorMod: "FloorMod",
    Min: "Min",
    Max: "Max",
    Select: "Select",
    Equal: "EQ",
    NotEqual: "NE",
    Less: "LT",
    LessEqual: "LE",
    Greater: "GT",
    GreaterEqual: "GE",
    Both: "And",
    Either: "Or",
    Negation: "Not",
}


def outermost(dim: Dim) -> tuple[str, tuple[Dim, ...]]:
    """The name of the outermost operation of ``dim``, as its text shows it, and its operands; ``""`` for a number."""
    if not isinstance(dim, SymExpr):
        return "", ()
    if isinstance(dim, SymVar):
        return "Var", ()
    if isinstance(dim, Operation):
        operands = dim.operands
        if isinstance(dim, Min | Max) and len(operands) > 2:
            operands = (dim.build(*operands[:-1]), operands[-1])
        return _NAMES[type(dim)], operands
    *others, (atoms, coefficient) = written_terms(dim)
    if others:
        term = monomial_product(atoms, abs(coefficient))
        return ("Sub", (dim + term, term)) if coefficient < 0 else ("Add", (dim - term, term))
    if coefficient != 1:
        return "Mul", (monomial_product(atoms, 1), coefficient)
    return "Mul", (dim_product(atoms[:-1]), atoms[-1])
