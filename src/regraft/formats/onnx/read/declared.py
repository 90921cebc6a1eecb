"""Nodes of operators without a reader, as calls of declared operators, or as foreign calls that keep them unchanged.

A foreign call keeps the node's attributes. The types of its results are those that the model states.
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
from ....op.rules import shaped
from ...errors import ConvertError
from ..attributes import call_attribute
from ..element_types import TENSOR_TYPES, dtype_of_text
from ..sparse_attributes import content_of
from .importing import IMPORTERS, NodeImporter
from .whole import asked_results, foreign_call, optional_operands, results_of

_OWN: Final = frozenset({"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"})
"""The domains that ONNX itself defines. An operator of these that cannot be read is an error, not a foreign call."""

_RANDOM: Final = frozenset({"BiasDropout", "BitmaskBiasDropout", "BitmaskDropout", "Sampling"})
"""The operators of ONNX Runtime's own domain whose results differ from run to run."""


LEARNING: Final = "ai.onnx.ml"
"""The domain of estimators. Those without a reader are carried: all are pure, and the types of results are known."""


def is_outside(node: ir.Node) -> bool:
    """True if a node is read as a call of its own operator: one that ONNX does not define, or an unread estimator."""
    return node.domain not in _OWN or (node.domain == LEARNING and (LEARNING, node.op_type) not in IMPORTERS)


def has_declaration(node: ir.Node) -> bool:
    """True if a declared operator has the name of a node's operator."""
    return Op.of_onnx("" if node.domain == "ai.onnx" else node.domain, node.op_type) is not None


def is_function(node: ir.Node) -> bool:
    """True if the declaration of a node's operator defines it, and names no operator of a runtime."""
    op = Op.of_onnx(node.domain, node.op_type) if is_outside(node) else None
    return op is not None and op.onnx is None


def read_outside(node: NodeImporter, is_pure: bool) -> tuple[Expr | None, ...]:
    """The results of a node of a declared operator, or of a foreign operator. Raises `ConvertError`."""
    op = Op.of_onnx(node.node.domain, node.op_type)
    if op is not None:
        found = _declared_call(node, op)
        if found is not None:
            return found
    types = [_stated(node, value) if value.name else ObjectType() for value in asked_results(node)]
    return results_of(node, foreign_call(node, node.node.domain, types, is_pure=is_pure))


def is_pure(node: ir.Node, said: frozenset[str]) -> bool:
    """True if a node of another domain has no effects: by its declaration, or ``said`` has its domain or operator."""
    if node.domain == "com.microsoft" and node.op_type in _RANDOM:
        # Only BiasDropout is declared. It is pure without the operand that turns on training.
        return node.op_type == "BiasDropout" and all(value is None for value in node.inputs[4:])
    op = Op.of_onnx(node.domain, node.op_type)
    if op is not None:
        return op.is_pure
    if node.domain == LEARNING:
        return True
    if node.domain == "com.microsoft":
        return True
    return bool(said & {node.domain, f"{node.domain}::{node.op_type}"})


def _declared_call(node: NodeImporter, op: Op) -> tuple[Expr | None, ...] | None:
    """The results of a call of ``op``; None if the node does not fit its declaration."""
    attributes: dict[str, Any] = {}
    for name, attribute in node.node.attributes.items():
        if name not in op.attributes or content_of(attribute) is not None:
            return None
        value = call_attribute(attribute)
        default = op.attributes[name]
        attributes[name] = bool(value) if isinstance(default, bool) else _as_declared(value, default)
    try:
        call = op(*optional_operands(node), **attributes)
    except OpTypeError:
        return None
    known = len(call.ty.fields) if isinstance(call.ty, TupleType) else 1
    return results_of(node, call) if len(asked_results(node)) <= known else None


def _as_declared(value: Any, default: Any) -> Any:
    """The default if ``value`` is its single-precision form, else ``value``. Files hold floats in single precision."""
    if isinstance(default, float) and isinstance(value, float) and _single(default) == value:
        return default
    return value


def _single(value: float) -> float:
    return float(np.float32(value))


_KEEPING_SHAPES: Final = ("Imputer", "Normalizer", "Scaler")
"""The estimators whose result has the shape of their operand."""


def _stated(node: NodeImporter, value: ir.Value) -> Type:
    """The type that the model states for a result: a tensor, possibly of unknown shape or dtype."""
    if value.type is not None and not isinstance(value.type, ir.TensorType):
        raise ConvertError(f"{value.name} is a {type(value.type).__name__}; only tensors can be carried")
    dtype = node.graph.stated_dtype(value)
    if dtype is None and node.node.domain == LEARNING:
        dtype = _defined_dtype(node, value)
    if value.shape is None and node.node.domain == LEARNING and node.op_type in _KEEPING_SHAPES:
        return node.ty(0).with_dtype(dtype)
    if value.shape is None:
        return TensorType(None, dtype, _defined_rank(node, value))
    return shaped(node.graph.stated_sizes(value), dtype)


def _defined_rank(node: NodeImporter, value: ir.Value) -> int:
    """The rank that ONNX defines for a result of an estimator; -1 if it defines none, or for another operator.

    A classifier gives a label for each row, and then a row of scores; a regressor gives a row of targets.
    """
    if node.node.domain != LEARNING:
        return -1
    if node.op_type.endswith("Classifier"):
        return 1 + node.node.outputs.index(value)
    return 2 if node.op_type.endswith("Regressor") else -1


def _defined_dtype(node: NodeImporter, value: ir.Value) -> str | None:
    """The dtype that ONNX defines for a result of an estimator, for a model that does not state it; None if unknown."""
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
    # Classes are names or numbers.
    allowed = next((one.allowed_type_strs for one in schema.type_constraints if one.type_param_str == told), ())
    numbers = [dtype_of_text(one) for one in allowed if one != "tensor(string)"]
    return numbers[0] if len(numbers) == 1 else None


def pure_names(names: Iterable[str]) -> frozenset[str]:
    """The domains and operators in ``names``, which a user says have no effects.

    Raises `ConvertError` for a domain of ONNX itself, and for a text that is neither a domain nor ``domain::Name``.
    """
    found = frozenset(names)
    for name in found:
        domain, colons, op_type = name.partition("::")
        if not domain or (colons and not op_type) or "::" in op_type:
            raise ConvertError(f"pure={name!r} is not a name; give a domain, or an operator as domain::Name")
    for name in found & _OWN:
        raise ConvertError(f"pure={name!r}: ONNX defines which of its own operators are pure")
    return found
