"""Nodes of operators that the table of readers lacks: as calls of declared operators, or of foreign ones as they are.

A foreign call keeps the node's attributes, and takes the types of its results from what the model states.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import onnx
import onnx_ir as ir

from ....ir.errors import OpTypeError
from ....ir.expr import Expr
from ....ir.op import Op
from ....ir.types import ObjectType, TensorType, TupleType, Type
from ...errors import ConvertError
from ..attributes import CAPTURED, call_attribute
from ..element_types import TENSOR_TYPES, dtype_of_text
from ..sparse_attributes import content_of
from .importing import IMPORTERS, NodeImporter
from .whole import captured_values, carried_attributes

_OWN: Final = frozenset({"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"})
"""The domains that ONNX itself defines: an operator there that cannot be read is an error, and no foreign one."""

_RANDOM: Final = frozenset({"BiasDropout", "BitmaskBiasDropout", "BitmaskDropout", "Sampling"})
"""The operators of ONNX Runtime's own domain that are not the same in each run."""


LEARNING: Final = "ai.onnx.ml"
"""The domain of estimators: what of it has no reader is carried, since all of it is pure and its types are known."""


def is_outside(node: ir.Node) -> bool:
    """True if a node is of an operator that ONNX does not define, or of an estimator, so that it is read as it is."""
    return node.domain not in _OWN or (node.domain == LEARNING and (LEARNING, node.op_type) not in IMPORTERS)


def has_declaration(node: ir.Node) -> bool:
    """True if an operator is declared that a node may be a call of."""
    return Op.of_onnx("" if node.domain == "ai.onnx" else node.domain, node.op_type) is not None


def is_function(node: ir.Node) -> bool:
    """True if a node calls what its declaration says, and no runtime is said to have."""
    op = Op.of_onnx(node.domain, node.op_type) if is_outside(node) else None
    return op is not None and op.onnx is None


def read_outside(node: NodeImporter, is_pure: bool) -> tuple[Expr | None, ...]:
    """The results of a node of a declared operator, or of one that nobody has declared. Raises `ConvertError`."""
    op = Op.of_onnx(node.node.domain, node.op_type)
    if op is not None:
        found = _declared_call(node, op)
        if found is not None:
            return found
    return _foreign_call(node, is_pure)


def is_pure(node: ir.Node, said: frozenset[str]) -> bool:
    """True if a node of another domain has no effects: by its declaration, or as ``said`` of its domain or operator."""
    if node.domain == "com.microsoft" and node.op_type in _RANDOM:
        # The one of them that is declared is so without the operand that says that it is in training.
        return node.op_type == "BiasDropout" and all(value is None for value in node.inputs[4:])
    op = Op.of_onnx(node.domain, node.op_type)
    if op is not None:
        return op.is_pure
    if node.domain == LEARNING:
        return True
    if node.domain == "com.microsoft":
        return True
    return bool(said & {node.domain, f"{node.domain}::{node.op_type}"})


def _operands(node: NodeImporter) -> list[Expr | None]:
    operands = [node.optional(index) for index in range(len(node.node.inputs))]
    while operands and operands[-1] is None:
        operands.pop()
    return operands


def _declared_call(node: NodeImporter, op: Op) -> tuple[Expr | None, ...] | None:
    """The results of a call of ``op``; None where the node says what its declaration does not allow for."""
    attributes: dict[str, Any] = {}
    for name, attribute in node.node.attributes.items():
        if name not in op.attributes or content_of(attribute) is not None:
            return None
        value = call_attribute(attribute)
        default = op.attributes[name]
        attributes[name] = bool(value) if isinstance(default, bool) else _as_declared(value, default)
    try:
        call = op(*_operands(node), **attributes)
    except OpTypeError:
        return None
    if not isinstance(call.ty, TupleType):
        return (call,) if _asked(node) <= 1 else None
    if _asked(node) > len(call.ty.fields):
        return None
    found = node.emit(call)
    return tuple([found[index] if _is_asked(value) else None for index, value in enumerate(node.node.outputs)])


def _as_declared(value: Any, default: Any) -> Any:
    """``value`` as the default is: floats are held in single precision, in which 0.01 is another number."""
    if isinstance(default, float) and isinstance(value, float) and _single(default) == value:
        return default
    return value


def _single(value: float) -> float:
    return float(np.float32(value))


def _is_asked(value: ir.Value) -> bool:
    return bool(value.name)


def _asked(node: NodeImporter) -> int:
    """The number of results, from the first on, that a node may give."""
    return max((index + 1 for index, value in enumerate(node.node.outputs) if _is_asked(value)), default=0)


def _foreign_call(node: NodeImporter, is_pure: bool) -> tuple[Expr | None, ...]:
    name = f"{node.node.domain}::{node.op_type}"
    op = Op.foreign(name, version=node.opset, pure=is_pure)
    attributes = carried_attributes(node)
    captured = captured_values(node.node)
    if captured:
        attributes[CAPTURED] = tuple(captured)
    operands = [*_operands(node), *map(node.graph.expression, captured.values())]
    outputs = node.node.outputs[: _asked(node)]
    types: list[Type] = [_stated(node, value) if _is_asked(value) else ObjectType() for value in outputs]
    call = op(*operands, ty_args=types or [TupleType(())], **attributes)
    if len(outputs) == 1:
        return (call,)
    found = node.emit(call)
    return tuple([found[index] if _is_asked(value) else None for index, value in enumerate(outputs)])


_KEEPING_SHAPES: Final = ("Imputer", "Normalizer", "Scaler")
"""The estimators that give a number for each of their operand."""


def _stated(node: NodeImporter, value: ir.Value) -> Type:
    """The type that the model states for a result: a tensor, of which it may say no more."""
    if value.type is not None and not isinstance(value.type, ir.TensorType):
        raise ConvertError(f"{value.name} is a {type(value.type).__name__}; only tensors can be carried")
    dtype = node.graph.stated_dtype(value)
    if dtype is None and node.node.domain == LEARNING:
        dtype = _defined_dtype(node, value)
    if value.shape is None and node.node.domain == LEARNING and node.op_type in _KEEPING_SHAPES:
        return node.ty(0).with_dtype(dtype)
    if value.shape is None:
        return TensorType(None, dtype, _defined_rank(node, value))
    known = node.graph.stated_sizes(value)
    if any(size is None for size in known):
        return TensorType(None, dtype, len(known))
    return TensorType([size for size in known if size is not None], dtype)


def _defined_rank(node: NodeImporter, value: ir.Value) -> int:
    """The rank that ONNX defines for a result of an estimator; -1 where it does not, or for another operator.

    A classifier gives a label for each row, and then a row of scores; a regressor gives a row of targets.
    """
    if node.node.domain != LEARNING:
        return -1
    if node.op_type.endswith("Classifier"):
        return 1 + node.node.outputs.index(value)
    return 2 if node.op_type.endswith("Regressor") else -1


def _defined_dtype(node: NodeImporter, value: ir.Value) -> str | None:
    """The dtype that ONNX defines for a result of an estimator, where the model does not state it."""
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, node.opset, LEARNING)
    except onnx.defs.SchemaError:
        return None
    told = schema.outputs[min(node.node.outputs.index(value), len(schema.outputs) - 1)].type_str
    if told in TENSOR_TYPES:
        return dtype_of_text(told)
    of_input = [index for index, one in enumerate(schema.inputs) if one.type_str == told and node.has(index)]
    if of_input:
        return node.ty(of_input[0]).dtype
    if any(name.endswith("strings") for name in node.node.attributes):
        return None
    # Classes have names or numbers.
    allowed = next((one.allowed_type_strs for one in schema.type_constraints if one.type_param_str == told), ())
    numbers = [dtype_of_text(one) for one in allowed if one != "tensor(string)"]
    return numbers[0] if len(numbers) == 1 else None


def pure_names(names: Iterable[str]) -> frozenset[str]:
    """The domains and operators that a person says have no effects. Raises `ConvertError` for the standard's own."""
    found = frozenset(names)
    for name in found:
        domain, colons, op_type = name.partition("::")
        if not domain or (colons and not op_type) or "::" in op_type:
            raise ConvertError(f"pure={name!r} names nothing; give a domain, or an operator as domain::Name")
    for name in found & _OWN:
        raise ConvertError(f"pure={name!r}: ONNX says itself which of its operators are pure")
    return found
