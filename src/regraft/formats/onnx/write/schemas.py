"""The types that the schema of an ONNX operator states for its operands and results."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import onnx

from ..element_types import dtype_of_text


class TypeParameters(NamedTuple):
    """The type parameters of an operator: one per input and output, the last one repeated for variadic ones."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    fixed: dict[str, str]
    main: str

    def inputs_of(self, count: int) -> list[str]:
        """The type parameter of each of ``count`` inputs."""
        return [self.inputs[min(index, len(self.inputs) - 1)] for index in range(count)]

    def outputs_of(self, count: int) -> list[str]:
        """The type parameter of each of ``count`` outputs."""
        return [self.outputs[min(index, len(self.outputs) - 1)] for index in range(count)]


@lru_cache(maxsize=1024)
def signature_of(op_type: str, opset: int, domain: str) -> TypeParameters:
    """The type parameters of an operator in an opset, as its schema states them."""
    schema = onnx.defs.get_schema(op_type, opset, domain)
    allowed = {one.type_param_str: [*map(dtype_of_text, one.allowed_type_strs)] for one in schema.type_constraints}
    fixed = {name: types[0] for name, types in allowed.items() if len(types) == 1 and types[0] is not None}
    inputs = tuple(item.type_str for item in schema.inputs)
    outputs = tuple(item.type_str for item in schema.outputs)
    main = inputs[1] if op_type == "Where" else inputs[0] if inputs else ""
    return TypeParameters(inputs, outputs, fixed, main)


@lru_cache(maxsize=1024)
def allowed_dtypes(op_type: str, opset: int, parameter: str) -> frozenset[str] | None:
    """The dtypes that a type parameter of an operator allows in an opset; None if it has no such parameter."""
    schema = onnx.defs.get_schema(op_type, opset, "")
    for constraint in schema.type_constraints:
        if constraint.type_param_str == parameter:
            return frozenset(filter(None, map(dtype_of_text, constraint.allowed_type_strs)))
    return None
