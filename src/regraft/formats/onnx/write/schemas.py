"""The types that the schema of an ONNX operator states for its operands and results."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import onnx


class TypeParameters(NamedTuple):
    """The type parameters of an operator: one per input and output, the last one repeated for variadic ones."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    fixed: dict[str, str]
    main: str


@lru_cache(maxsize=1024)
def signature_of(op_type: str, opset: int, domain: str) -> TypeParameters:
    """The type parameters of an operator in an opset, as its schema states them."""
    schema = onnx.defs.get_schema(op_type, opset, domain)
    fixed: dict[str, str] = {}
    for constraint in schema.type_constraints:
        if len(constraint.allowed_type_strs) == 1:
            fixed[constraint.type_param_str] = next(iter(constraint.allowed_type_strs))
    inputs = tuple(item.type_str for item in schema.inputs)
    outputs = tuple(item.type_str for item in schema.outputs)
    main = inputs[1] if op_type == "Where" else inputs[0] if inputs else ""
    return TypeParameters(inputs, outputs, fixed, main)


@lru_cache(maxsize=1024)
def allowed_dtypes(op_type: str, opset: int, parameter: str) -> frozenset[str] | None:
    """The dtypes that a type parameter of an operator may be in an opset; None where that has no such parameter."""
    schema = onnx.defs.get_schema(op_type, opset, "")
    for constraint in schema.type_constraints:
        if constraint.type_param_str == parameter:
            return frozenset(name for text in constraint.allowed_type_strs if (name := fixed_dtype(text)) is not None)
    return None


_TENSOR_NAMES: Final = {"float": "float32", "double": "float64"}


def fixed_dtype(type_str: str) -> str | None:
    """The dtype that ``tensor(int64)`` and the like say; None for a type parameter."""
    if not type_str.startswith("tensor("):
        return None
    name = type_str[len("tensor(") : -1]
    return _TENSOR_NAMES.get(name, name)
