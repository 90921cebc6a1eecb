"""Operators that are one node of the same meaning on the same operands, which the reader and the writer both need."""

from __future__ import annotations

from typing import Final

SAME: Final = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Add": "add",
    "And": "logical_and",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "Cos": "cos",
    "Cosh": "cosh",
    "Equal": "equal",
    "Erf": "erf",
    "Exp": "exp",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Log": "log",
    "Mul": "multiply",
    "Neg": "negative",
    "Not": "logical_not",
    "Or": "logical_or",
    "Sigmoid": "sigmoid",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Sub": "subtract",
    "Tan": "tan",
    "Tanh": "tanh",
    "Where": "where",
    "Xor": "logical_xor",
}
"""For each of ONNX's operators the name of the one here."""
