"""Python's operators on expressions, and the function of the vocabulary that each of them calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ..ir.expr import Expr
from .primitive.binary import add, divide, floor_divide, mod, multiply, power, subtract
from .primitive.comparison import greater, greater_equal, less, less_equal
from .primitive.datatype import astype
from .primitive.linear_algebra import matmul
from .primitive.unary import abs, negative

OPERATORS: Final[Mapping[str, Callable[..., Expr]]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "//": floor_divide,
    "%": mod,  # as in Relax: the sign of the dividend, unlike Python on ints
    "**": power,
    "@": matmul,
    "<": less,
    "<=": less_equal,
    ">": greater,
    ">=": greater_equal,
    "neg": negative,
    "abs": abs,
    "astype": astype,
}
