"""Strings, maps, sequences and optionals at the ends of a model, carried through unchanged.

Programs consist of tensors of numbers. Many models do too, except at their ends: texts come in and become numbers,
or classes go out by name. `without_ends` takes these nodes off before a model is read, and `with_ends` puts them
back when it is written. In between, an attribute of the module holds them as the bytes of a model.
"""

from __future__ import annotations

from base64 import b85decode, b85encode
from collections.abc import Iterable, Iterator, Mapping

import onnx
import onnx_ir as ir
from onnx import TensorProto
from onnx.numpy_helper import to_array

from ..errors import ConvertError, reading_attribute
from .write.opsets import span_of

CARRIED = "onnx_carried"
"""The attribute of a module that holds the ends of its model, as text."""


def without_ends(
    proto: onnx.ModelProto, with_sequences: bool = False, inside: bool = False
) -> tuple[onnx.ModelProto, str | None]:
    """``proto`` without the nodes that a program cannot hold, and these as text; ``proto`` and None if it has none.

    ``with_sequences`` also takes off nodes with sequences and optionals, which readers support in part.
    ``inside`` looks for such nodes even if all inputs and outputs are plain.
    The middle takes all numeric inputs and the results of the first nodes. It returns the numeric outputs and the
    values that the last nodes need. Cost: linear in the nodes, or in the inputs and outputs if all of these are plain.
    """
    graph = proto.graph
    ports = [*graph.input, *graph.output]
    texts = {tensor.name for tensor in graph.initializer if tensor.data_type == TensorProto.STRING}
    are_plain = all(_is_plain(port.type) or (_is_of_tensors(port.type) and not with_sequences) for port in ports)
    if not texts and are_plain and not inside:
        return proto, None
    known = {value.name: value for value in _typed(proto)}
    others = texts | {name for name, value in known.items() if not _is_plain(value.type)}
    first, last = _ends(proto, others)
    if inside and not first | last:
        return proto, None
    return _middle(proto, first, last, others, known), _packed(proto, first, last)


def with_ends(middle: onnx.ModelProto, carried: str) -> onnx.ModelProto:
    """The model that `without_ends` split, with ``middle`` in place of its own middle.

    Raises `ConvertError` if a carried node means something else in the opset of ``middle``.
    """
    ends = _unpacked(carried)
    mark = [node.op_type for node in ends.graph.node].index(_HERE)
    first, last = list(ends.graph.node[:mark]), list(ends.graph.node[mark + 1 :])
    _bring_opsets(middle, ends)
    border = {value.name for value in (*middle.graph.input, *middle.graph.output)}
    border |= {value.name for value in (*ends.graph.input, *ends.graph.output)}
    constants = {tensor.name: tensor for tensor in ends.graph.initializer}
    border |= {tensor.name for tensor in middle.graph.initializer if _is_same(tensor, constants.get(tensor.name))}
    _rename_apart(middle.graph, border, {name for node in (*first, *last) for name in _names(node)})
    graph = middle.graph
    nodes = [*first, *graph.node, *last]
    inputs, outputs = ({value.name: value for value in ports} for ports in (graph.input, graph.output))
    read = {name for node in (*first, *last) for name in _names(node)}
    given = [
        inputs.get(value.name, value)
        for value in ends.graph.input
        if value.name in inputs or value.name in read or not _is_plain(value.type)
    ]
    asked = [outputs.get(value.name, value) for value in ends.graph.output]
    for field in ("node", "input", "output"):
        graph.ClearField(field)
    graph.node.extend(nodes)
    held = {tensor.name for tensor in graph.initializer}
    graph.initializer.extend(tensor for tensor in ends.graph.initializer if tensor.name not in held)
    graph.input.extend(given)
    graph.output.extend(asked)
    middle.functions.extend(function for function in ends.functions if function not in middle.functions)
    return middle


def runs_on_tensors(carried: str) -> bool:
    """True if the whole model takes only tensors of numbers, and returns tensors of numbers or sequences of them."""
    graph = _unpacked(carried).graph
    are_taken = all(_is_plain(port.type) for port in graph.input)
    return are_taken and all(_is_plain(port.type) or _is_sequence(port.type) for port in graph.output)


def _unpacked(carried: str) -> onnx.ModelProto:
    """The ends that `_packed` made a text of, with the mark between them."""
    with reading_attribute(CARRIED):
        ends = onnx.ModelProto.FromString(b85decode(carried))
        if _HERE not in {node.op_type for node in ends.graph.node}:
            raise ValueError("it has no place for the program")
    return ends


# --- which nodes


_HERE = "Middle"
"""The operator of a node that marks the place of the middle."""


def _is_plain(kind: onnx.TypeProto) -> bool:
    """True if a value is a tensor of numbers, or its type is unknown."""
    known = kind.WhichOneof("value")
    return known is None or (known == "tensor_type" and kind.tensor_type.elem_type != TensorProto.STRING)


def _is_of_tensors(kind: onnx.TypeProto) -> bool:
    """True if a value is a sequence or an optional of tensors of numbers, which readers support."""
    known = kind.WhichOneof("value")
    if known == "optional_type":
        inner = kind.optional_type.elem_type
        return _is_plain(inner) or _is_of_tensors(inner)
    return _is_sequence(kind)


def _is_sequence(kind: onnx.TypeProto) -> bool:
    return kind.WhichOneof("value") == "sequence_type" and _is_plain(kind.sequence_type.elem_type)


def _typed(proto: onnx.ModelProto) -> Iterator[onnx.ValueInfoProto]:
    """The values of the graph with their types, as far as ONNX can infer them."""
    light = onnx.ModelProto()
    light.CopyFrom(proto)
    for tensor in light.graph.initializer:
        if tensor.ByteSize() > _LEAST_LARGE:  # its numbers do not matter here
            tensor.ClearField("raw_data")
            tensor.ClearField("float_data")
    try:
        graph = onnx.shape_inference.infer_shapes(light).graph
    except Exception:  # onnx raises errors of many kinds; the types that the model states are known in any case
        graph = proto.graph
    yield from graph.input
    yield from graph.value_info
    yield from graph.output


_LEAST_LARGE = 1 << 16


def _names(node: onnx.NodeProto) -> set[str]:
    """The values that a node and the nodes inside it read or write."""
    found = {*node.input, *node.output}
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            for inner in body.node:
                found |= _names(inner)
    return found - {""}


def _ends(proto: onnx.ModelProto, others: set[str]) -> tuple[set[int], set[int]]:
    """The indices of the nodes before the middle, and of the nodes after it.

    Before it are the nodes that depend on an input other than a tensor of numbers and that read or write such values,
    and all nodes that these need. After it are the other nodes with such values, and all nodes that need those.
    """
    graph = proto.graph
    nodes = [(_names(node) - set(node.output), set(node.output) - {""}) for node in graph.node]
    reached = {value.name for value in graph.input if value.name in others}
    first: set[int] = set()
    for index, (taken, given) in enumerate(nodes):
        if taken & reached:
            if (taken | given) & others:
                first.add(index)
            reached |= given & others
    needed: set[str] = {name for index in first for name in nodes[index][0]}
    for index in reversed(range(len(nodes))):
        if nodes[index][1] & needed:
            first.add(index)
            needed |= nodes[index][0]
    last: set[int] = set()
    made: set[str] = set()
    for index, (taken, given) in enumerate(nodes):
        if taken & made or (index not in first and (taken | given) & others):
            last.add(index)
            made |= given
    # If text is made from numbers and numbers from that text again, the whole graph is carried.
    return (set(), set(range(len(nodes)))) if first & last else (first, last)


def _middle(
    proto: onnx.ModelProto,
    first: set[int],
    last: set[int],
    others: set[str],
    known: Mapping[str, onnx.ValueInfoProto],
) -> onnx.ModelProto:
    graph, middle = proto.graph, onnx.ModelProto()
    middle.CopyFrom(proto)
    kept = [node for index, node in enumerate(graph.node) if index not in first | last]
    read = {name for node in kept for name in _names(node)}
    begun = {name for index in sorted(first) for name in graph.node[index].output}
    made = {name for node in kept for name in node.output} | begun | {value.name for value in graph.input}
    asked = {name for index in last for name in _names(graph.node[index])} | {value.name for value in graph.output}
    inputs = [value for value in graph.input if value.name not in others]
    inputs += [known.get(name, onnx.ValueInfoProto(name=name)) for name in sorted(begun & read - others)]
    constants = {tensor.name for tensor in graph.initializer}
    own = {name for node in kept for name in node.output} | ((begun | constants) & read)
    names = [value.name for value in graph.output if value.name in own - others]
    names += sorted((asked & own & made) - others - set(names))
    target = middle.graph
    for field in ("node", "input", "output", "initializer", "value_info"):
        target.ClearField(field)
    target.node.extend(kept)
    target.input.extend(inputs)
    target.output.extend([known.get(name, onnx.ValueInfoProto(name=name)) for name in names])
    needed = (read | {value.name for value in inputs}) - others
    target.initializer.extend(tensor for tensor in graph.initializer if tensor.name in needed)
    return middle


# --- as text


def _packed(proto: onnx.ModelProto, first: set[int], last: set[int]) -> str:
    graph, ends = proto.graph, onnx.ModelProto()
    ends.opset_import.extend(proto.opset_import)
    ends.functions.extend(proto.functions)
    ends.graph.node.extend(graph.node[index] for index in sorted(first))
    ends.graph.node.append(onnx.NodeProto(op_type=_HERE))
    ends.graph.node.extend(graph.node[index] for index in sorted(last))
    ends.graph.input.extend(graph.input)
    ends.graph.output.extend(graph.output)
    read = {name for index in first | last for name in _names(graph.node[index])}
    read |= {value.name for value in graph.output}  # a constant may be an output
    ends.graph.initializer.extend(tensor for tensor in graph.initializer if tensor.name in read)
    for tensor in ends.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            raise ConvertError(f"the constant {tensor.name} beside strings, maps or sequences is in a file of its own")
    return b85encode(ends.SerializeToString(deterministic=True)).decode()


# --- back


def _bring_opsets(middle: onnx.ModelProto, ends: onnx.ModelProto) -> None:
    if not middle.graph.node:  # all of the model is carried
        del middle.opset_import[:]
        least = onnx.helper.find_min_ir_version_for(list(ends.opset_import), ignore_unknown=True)
        middle.ir_version = max(middle.ir_version, least)
    versions = {one.domain: one.version for one in middle.opset_import}
    for one in ends.opset_import:
        if one.domain not in versions:
            middle.opset_import.append(one)
    standard = {"", "ai.onnx"}
    before = max((one.version for one in ends.opset_import if one.domain in standard), default=0)
    after = max((version for domain, version in versions.items() if domain in standard), default=before)
    standing = [node for node in ends.graph.node if node.domain in standard and node.op_type != _HERE]
    for node in standing:
        span = span_of(_bare(node), before)
        if after != before and (span is None or after not in span):
            raise ConvertError(
                f"{node.op_type} (node {node.name}) is carried as it was in opset {before}, and means something else "
                f"in opset {after}; write the model with opset={before}"
            )


def _bare(node: onnx.NodeProto) -> ir.Node:
    """``node`` without its graph and without the content of its bodies."""
    graphs = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
    attributes = [
        ir.Attr(one.name, ir.AttributeType(one.type), None) if one.type in graphs else ir.serde.from_proto(one)
        for one in node.attribute
    ]
    inputs = [ir.Value(name=name) if name else None for name in node.input]
    return ir.Node(node.domain, node.op_type, inputs, attributes, num_outputs=len(node.output))


def _is_same(tensor: onnx.TensorProto, other: onnx.TensorProto | None) -> bool:
    """True if ``other`` is there and both hold the same numbers. False if those of ``tensor`` are in another file."""
    if other is None or tensor.data_location == TensorProto.EXTERNAL:
        return False
    is_alike = tensor.data_type == other.data_type and tensor.dims == other.dims
    return is_alike and to_array(tensor).tobytes() == to_array(other).tobytes()


def _rename_apart(graph: onnx.GraphProto, border: Iterable[str], taken: set[str]) -> None:
    """Rename the values of ``graph`` whose name is in ``taken`` and not in ``border``."""
    kept, names = set(border), {name for node in graph.node for name in _names(node)}
    names |= {tensor.name for tensor in graph.initializer}
    new: dict[str, str] = {}
    for name in sorted((names & taken) - kept):
        count = 1
        while f"{name}_{count}" in names | taken | kept:
            count += 1
        new[name] = f"{name}_{count}"
        names.add(new[name])
    if new:
        _rename(graph, new)


def _rename(graph: onnx.GraphProto, new: dict[str, str]) -> None:
    for tensor in graph.initializer:
        tensor.name = new.get(tensor.name, tensor.name)
    for value in graph.value_info:
        value.name = new.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [new.get(name, name) for name in node.input]
        node.output[:] = [new.get(name, name) for name in node.output]
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                _rename(body, new)
