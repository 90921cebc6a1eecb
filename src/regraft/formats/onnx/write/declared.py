"""Operators without an entry in the table, as a node with the operator's name or as a function of its definition.

A declared operator that names an operator of ONNX or of a runtime is written as that node. If it names none, or if
the runtime may lack it, it also becomes an ONNX function of the file, whose body is its reference semantics. Runtimes
with a kernel use the kernel. A foreign operator is written as it was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import onnx_ir as ir

from ....ir.dims import Dim, SymVar
from ....ir.errors import OpTypeError
from ....ir.expr import Expr, Var
from ....ir.module import IRModule
from ....ir.op import REQUIRED, Call, Op, attribute_key
from ....ir.program import Function, SeqExpr
from ....ir.types import ObjectType, TensorType, TupleType, Type, map_sizes
from ....op.decompose import record
from ....op.program_xp import DecomposeError
from ...errors import ConvertError
from ..attributes import STANDARD_DOMAIN, onnx_attribute
from .lowering import Lowered, Lowering, OutsideOperators, lowers_others, widely_had
from .whole import whole_node

if TYPE_CHECKING:
    from .writer import LoweredFunction


@lowers_others
def _lower_declared(lowering: Lowering, call: Call) -> Lowered:
    op = call.op
    assert isinstance(op, Op)
    if op is lowering.outside.spelled_out:
        return _spelled_out(lowering, call)
    if op.is_foreign and op.onnx is None:
        advice = (
            "declare it with rx.operator"
            if op.is_pure
            else "it draws random numbers: export the model in eval mode, or make them an input of the model"
        )
        raise ConvertError(f"{op.name} is an operator of PyTorch, which ONNX does not have; {advice}")
    if op.onnx is not None and (op.reference is None or lowering.outside.runtime_has(op.onnx, call)):
        return _as_node(lowering, call, op, "")
    if op.reference is not None and not (lowering.outside.with_functions and _may_be_defined(op)):
        return _spelled_out(lowering, call)
    if op.reference is not None:
        return _as_function(lowering, call, op)
    raise ConvertError(
        f"{op.name} has no form in ONNX: declare it with onnx='domain::Name', if a runtime has it, or with a reference"
    )


def _may_be_defined(op: Op) -> bool:
    """True if a function may have the operator's name: runtimes ignore functions with names of their own operators."""
    return op.onnx is None or not widely_had(op.onnx)


# --- as a node


def _as_node(lowering: Lowering, call: Call, op: Op, overload: str) -> Lowered:
    graph, name = lowering.graph, op.onnx_name
    inputs = [value for arg in call.args for value in _inputs(lowering, arg)]
    outputs, result = _outputs(lowering, call.ty)
    if op.is_foreign:
        node = whole_node(graph, call, name, inputs, outputs)
        if name.domain != STANDARD_DOMAIN:
            graph.given.update(value for value in outputs if value not in _left_out(outputs, call.ty))
    else:
        while inputs and inputs[-1] is None:
            inputs.pop()
        attributes = {key: onnx_attribute(key, value) for key, value in _stated(op, call).items()}
        node = graph.add(name.op_type, inputs, outputs, domain=name.domain, **attributes)
        node.overload = overload
        graph.given.update(outputs[: _ALWAYS_GIVEN.get(str(name), 1)])
        if name.domain:
            graph.domains[name.domain] = max(name.version, graph.domains.get(name.domain, 1))
    if not op.is_pure:
        graph.effects.add(node)
    return result


_ALWAYS_GIVEN: Final = {
    "com.microsoft::CausalConvWithState": 2,
    "com.microsoft::EmbedLayerNormalization": 2,
    "com.microsoft::QEmbedLayerNormalization": 2,
    "com.microsoft::RemovePadding": 4,
}
"""The number of results, from the first, that a runtime requires a node to name, if it is more than one."""


def _left_out(outputs: Sequence[ir.Value], ty: Type) -> list[ir.Value]:
    """The results that the node of a foreign call did not name when it was read."""
    fields = ty.fields if isinstance(ty, TupleType) else (ty,)
    return [value for value, field in zip(outputs, fields, strict=True) if isinstance(field, ObjectType)]


def _stated(op: Op, call: Call) -> dict[str, Any]:
    """The attributes that a node has to state: those that differ from the default."""
    stated: dict[str, Any] = {}
    for key, value in call.attrs.items():
        default = op.attributes.get(key, REQUIRED)
        if default is REQUIRED or attribute_key(default) != attribute_key(value):
            stated[key] = value
    return stated


def _inputs(lowering: Lowering, arg: Expr) -> Iterator[ir.Value | None]:
    """The values that a node reads for an operand; None for an empty tuple, which is an operand left out."""
    if isinstance(arg.ty, TupleType):
        if not arg.ty.fields:
            yield None
        yield from lowering.fields(arg)
    else:
        yield lowering.tensor(arg)


def _outputs(lowering: Lowering, ty: Type) -> tuple[list[ir.Value], Lowered]:
    """New values for the results of a node of type ``ty``: as a flat list, and in the structure of the type."""
    graph = lowering.graph
    if isinstance(ty, TupleType):
        parts = [_outputs(lowering, field) for field in ty.fields]
        return [value for values, _ in parts for value in values], tuple([part for _, part in parts])
    if isinstance(ty, TensorType) and ty.dtype is not None:
        value = graph.value(ty.dtype, f"{graph.hint}/result")
        value.shape = None if ty.shape is None else lowering.shape(ty.shape)
    elif isinstance(ty, TensorType | ObjectType):
        value = graph.value(None, f"{graph.hint}/result")
    else:
        raise ConvertError(f"a result of type {ty!r} is not a tensor; the results of an ONNX node are tensors")
    return [value], value


# --- as a function


def _as_function(lowering: Lowering, call: Call, op: Op) -> Lowered:
    """A call of a function of the model, whose body is the operator's definition for operands of these types."""
    graph = lowering.graph
    sizes: dict[Dim, Dim] = {}
    types = [_with_own_sizes(arg.ty, sizes) for arg in call.args]
    key = (op, tuple(map(repr, types)), call.attrs)
    overload = graph.overloads.get(key)
    if overload is None:
        try:
            lowered = _body(op, types, call, graph.opset)
        except (ConvertError, DecomposeError, OpTypeError):
            # The known sizes of this program may allow what the unknown sizes of a function do not.
            return _as_node(lowering, call, op, "") if _is_for_others(lowering, op) else _spelled_out(lowering, call)
        overload = graph.overloads[key] = _add_function(lowering, op, call, lowered)
    return _as_node(lowering, call, op, overload)


def _is_for_others(lowering: Lowering, op: Op) -> bool:
    """True if the file is for any runtime that has the operator that the declaration names."""
    return op.onnx is not None and lowering.outside.runtime_has is widely_had


def _spelled_out(lowering: Lowering, call: Call) -> Lowered:
    return lowering.value(record(call, lowering))


def _with_own_sizes(ty: Type, sizes: dict[Dim, Dim]) -> Type:
    """``ty`` with a variable for each size that is no number: the body of a function reads these off its inputs."""
    return map_sizes(ty, lambda dim: sizes.setdefault(dim, SymVar(f"d{len(sizes)}")))


def _body(op: Op, types: Sequence[Type], call: Call, opset: int) -> LoweredFunction:
    from .writer import lower_function

    names = [operand.name for operand in op.operands]
    params = [Var(names[i] if i < len(names) else f"{names[-1]}_{i}", ty) for i, ty in enumerate(types)]
    args = [arg if _is_missing(arg) else param for param, arg in zip(params, call.args, strict=True)]
    given = [param for param, arg in zip(params, call.args, strict=True) if not _is_missing(arg)]
    inner = Call(op, args, call.attrs, call.ty_args)
    function = Function(given, SeqExpr([], inner), inner.ty, attrs={"global_symbol": "main"})
    return lower_function(IRModule({"main": function}), "main", opset, OutsideOperators(spelled_out=op))


def _is_missing(arg: Expr) -> bool:
    return isinstance(arg.ty, TupleType) and not arg.ty.fields


def _add_function(lowering: Lowering, op: Op, call: Call, lowered: LoweredFunction) -> str:
    """Add the function to the model; returns its overload, which is empty for the first function of its name."""
    graph, body, name = lowering.graph, lowered.graph, op.onnx_name
    _hold_constants(body)
    for index, arg in enumerate(call.args):
        if _is_missing(arg):  # functions take their inputs by position
            body.inputs.insert(index, ir.Value(name=f"left_out_{index}"))
    same = [key for key in graph.functions if key[:2] == (name.domain, name.op_type)]
    overload = str(len(same)) if same else ""
    attributes = [ir.Attr(key, ir.AttributeType.UNDEFINED, None) for key in _stated(op, call)]
    function = ir.Function(name.domain, name.op_type, overload, graph=body, attributes=attributes)
    for key, inner in lowered.functions.items():
        graph.functions.setdefault(key, inner)
    graph.functions[name.domain, name.op_type, overload] = function
    return overload


def _hold_constants(body: ir.Graph) -> None:
    """Turn the constants into nodes, because an ONNX function has no initializers."""
    for key, value in tuple(body.initializers.items()):
        tensor = value.const_value
        assert tensor is not None
        node = ir.node("Constant", [], {"value": ir.Tensor(tensor.numpy(), dtype=tensor.dtype)})
        held = node.outputs[0]
        held.name, held.type, held.shape = key, value.type, value.shape
        value.replace_all_uses_with(held)
        del body.initializers[key]
        body.insert_before(body[0], node)
