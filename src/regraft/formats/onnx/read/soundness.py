"""The checks of a model's message before it is read.

A message that can be parsed may still contain anything: constants whose bytes do not fit their shape, names that are
not text, functions that call themselves, or functions that call each other twice, thirty deep. All of this is found
here, so that the other readers can rely on the message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, prod
from typing import Any, Final

import onnx
import onnx_ir as ir

from ...errors import ConvertError
from ..scopes import scopes, with_bodies

_MOST_BYTES: Final = 2**63 - 1
_MOST_AXES: Final = 64
"""The most axes of a NumPy array."""
_MOST_OF_AN_OPSET: Final = 2**31 - 1
"""The largest version that onnx can look up."""
_MOST_INLINED: Final = 1 << 15
_MOST_FOR_A_NODE: Final = 64
"""The functions of a model may expand to so many nodes, or to so many for each node of the file. Without a bound, a few
kilobytes could expand to any number."""


def check_message(proto: onnx.ModelProto, where: str) -> None:
    """Raise `ConvertError`, naming ``where``, unless ``proto`` is sound. Cost: linear in its size without constants."""
    for imported in (one for scope in (proto, *proto.functions) for one in scope.opset_import):
        if not 0 <= imported.version <= _MOST_OF_AN_OPSET:
            domain = imported.domain or "ai.onnx"
            raise ConvertError(f"{where}: the model is damaged: it is of version {imported.version} of {domain!r}")
    for scope in scopes(proto):
        for name in _names(scope):
            if not isinstance(name, str):
                raise ConvertError(f"{where}: the model is damaged: a name in it is no text: {name!r}")
        for node in scope.node:
            _check_attributes(node, where)
        for tensor in _tensors(scope):
            _check_tensor(tensor, where)
    _check_functions(proto, where)
    seen: set[str] = set()
    for port in proto.graph.input:
        if port.name in seen:
            raise ConvertError(f"{where}: two inputs are called {port.name}; the model is damaged")
        seen.add(port.name)


def _names(scope: Any) -> Iterator[Any]:
    """The names in a graph or function. A name that is not text is bytes."""
    yield scope.name
    if isinstance(scope, onnx.GraphProto):
        for port in (*scope.input, *scope.output, *scope.value_info):
            yield port.name
            yield from (dim.dim_param for dim in port.type.tensor_type.shape.dim)
        yield from (tensor.name for tensor in scope.initializer)
    for node in scope.node:
        yield from (node.op_type, node.name, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)


_WHOLE_VALUES: Final = {
    onnx.AttributeProto.TENSOR: "t",
    onnx.AttributeProto.GRAPH: "g",
    onnx.AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    onnx.AttributeProto.TYPE_PROTO: "tp",
}
"""The fields for the kinds of attributes whose values are messages."""


def _check_attributes(node: onnx.NodeProto, where: str) -> None:
    """Raise unless each attribute states the kind of its value, and has a value if its kind has no default."""
    for attribute in node.attribute:
        field = _WHOLE_VALUES.get(attribute.type)
        is_empty = field is not None and not attribute.HasField(field)
        if (is_empty or attribute.type == onnx.AttributeProto.UNDEFINED) and not attribute.ref_attr_name:
            what = "has no value" if is_empty else "has no known kind of value"
            place = f"{node.op_type} (node {node.name or 'without a name'})"
            raise _damaged(f"{where}: {place}: the attribute {attribute.name} {what}")


def _tensors(scope: Any) -> Iterator[onnx.TensorProto]:
    if isinstance(scope, onnx.GraphProto):
        yield from scope.initializer
        for sparse in scope.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for node in scope.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t
            if attribute.type == onnx.AttributeProto.SPARSE_TENSOR:
                yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
            yield from attribute.tensors


_IN_FIELDS: Final = {"FLOAT": "float_data", "DOUBLE": "double_data", "INT64": "int64_data", "STRING": "string_data"}
_PAIRS: Final = {"COMPLEX64": "float_data", "COMPLEX128": "double_data"}


def _check_tensor(tensor: onnx.TensorProto, where: str) -> None:
    place = f"{where}: constant {tensor.name or 'without a name'}"
    shape = list(tensor.dims)
    count = prod(shape)
    if len(shape) > _MOST_AXES:
        raise _damaged(f"{place}: it has {len(shape)} axes, and constants of at most {_MOST_AXES} are read")
    try:
        dtype = ir.DataType(tensor.data_type)
        bits = 8 if dtype == ir.DataType.STRING else dtype.bitwidth
    except (ValueError, TypeError) as error:
        raise _damaged(f"{place}: {tensor.data_type} is not an element type") from error
    # NumPy counts an axis without elements as size 1 here.
    if any(size < 0 for size in shape) or prod(size or 1 for size in shape) * ceil(bits / 8) > _MOST_BYTES:
        raise _damaged(f"{place}: {shape} is no shape")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        for entry in tensor.external_data:
            if entry.key in ("offset", "length") and not entry.value.isdecimal():
                raise _damaged(f"{place}: {entry.key} is {entry.value!r}, which is not a number of bytes")
        return
    stated = f"{dtype.name.lower()}{shape}"
    if tensor.HasField("raw_data"):
        wanted, given = (count * bits + 7) // 8, len(tensor.raw_data)
        if wanted != given and dtype != ir.DataType.STRING:
            raise _damaged(f"{place}: {given} bytes do not fit {stated}, which takes {wanted}")
        return
    values: Sequence[Any] = getattr(tensor, _field_of(dtype))
    wanted = 2 * count if dtype.name in _PAIRS else count if bits >= 8 else (count * bits + 7) // 8
    if len(values) != wanted and not (bits < 8 and len(values) == count):
        raise _damaged(f"{place}: {len(values)} numbers do not fit {stated}")


def _damaged(what: str) -> ConvertError:
    return ConvertError(f"{what}; the model is damaged")


def _field_of(dtype: ir.DataType) -> str:
    """The field of a tensor's message that holds numbers of that type."""
    if dtype.name in ("UINT32", "UINT64"):
        return "uint64_data"
    return _IN_FIELDS.get(dtype.name) or _PAIRS.get(dtype.name) or "int32_data"


def _check_functions(proto: onnx.ModelProto, where: str) -> None:
    """Raise unless the functions of a model end, and expand to a bounded number of nodes."""
    if not proto.functions:
        return
    functions = {(one.domain, one.name, one.overload): one for one in proto.functions}
    for function in proto.functions:
        given = {*function.input, *[name for node in function.node for name in node.output]}
        used = [*[name for node in function.node for name in node.input if name], *function.output]
        missing = next((name for name in used if name not in given), None)
        if missing is not None:
            raise _damaged(f"{where}: the function {function.name} reads {missing!r}, which nothing in it computes")
    sizes: dict[Any, int] = {}

    def calls(scope: Any) -> list[Any]:
        return [(node.domain, node.op_type, node.overload) for one in with_bodies(scope) for node in one.node]

    for root in functions:
        stack: list[tuple[Any, bool]] = [(root, False)]
        open_calls: set[Any] = set()
        while stack:
            key, is_done = stack.pop()
            if is_done:
                open_calls.discard(key)
                sizes[key] = sum(sizes.get(callee, 1) for callee in calls(functions[key]))
            elif key not in sizes:
                if key in open_calls:
                    continue
                open_calls.add(key)
                stack.append((key, True))
                for callee in calls(functions[key]):
                    if callee in open_calls:
                        raise ConvertError(f"{where}: the function {callee[1]} calls itself; ONNX has no recursion")
                    if callee in functions and callee not in sizes:
                        stack.append((callee, False))
    total = sum(sizes.get(callee, 1) for callee in calls(proto.graph))
    written = len(proto.graph.node) + sum(len(function.node) for function in proto.functions)
    most = max(_MOST_INLINED, _MOST_FOR_A_NODE * written)
    if total > most:
        raise ConvertError(f"{where}: inlining its functions gives {total:,} nodes; at most {most:,} are read")
