"""The opsets in which a node says the same, and a graph in the lowest opset that its nodes need.

A node is written for one opset and holds in all around it in which its operator has the same inputs and attributes,
takes its element types, and means the same. What ONNX lists of each version of an operator tells all but the last;
`_ANEW` says where a version means something else by the same node. Knows ONNX's operator schemas only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
import onnx_ir as ir

from ...errors import ConvertError
from ..attributes import bodies_of
from ..element_types import TENSOR_TYPES
from .graph import GraphWriter, dtype_of

OLDEST: Final = 13
"""The oldest opset that is written."""
_STANDARD: Final = ("", "ai.onnx")


class OpsetRange(NamedTuple):
    """The first and the last opset in which a node holds."""

    first: int
    last: int

    def __contains__(self, opset: object) -> bool:
        return isinstance(opset, int) and self.first <= opset <= self.last


def _always(_node: ir.Node) -> bool:
    return True


def _is_float(node: ir.Node) -> bool:
    """True if operand 0 of a node holds floats, or may."""
    dtype = node.inputs[0].dtype if node.inputs and node.inputs[0] is not None else None
    return dtype is None or dtype.is_floating_point()


def _has_input(node: ir.Node, index: int) -> bool:
    return index < len(node.inputs) and node.inputs[index] is not None


def _is_of_several_axes(node: ir.Node) -> bool:
    """True if the axes from that of a node on may be more than one that counts: before opset 13 they are as if one."""
    shape = node.inputs[0].shape if node.inputs and node.inputs[0] is not None else None
    if shape is None or "axis" not in node.attributes:
        return True
    axis = node.attributes.get_int("axis", 0) % max(len(shape), 1)
    return any(size != 1 for size in shape[axis + 1 :])


def _is_not_float32(node: ir.Node) -> bool:
    """True if operand 0 of a node holds no float32, or may not."""
    return not node.inputs or node.inputs[0] is None or node.inputs[0].dtype is not ir.DataType.FLOAT


_ANEW: Final[Mapping[tuple[str, int], Callable[[ir.Node], bool]]] = {
    # Before opset 7 a file says more by the absence of attributes than from then on.
    ("Cast", 6): _always,  # the name of an element type
    ("GlobalLpPool", 2): _always,  # its power as a float
    ("LpPool", 2): _always,
    ("PRelu", 7): _always,  # slopes by channel
    ("Selu", 6): _always,  # its numbers by default
    ("AveragePool", 19): lambda node: "ceil_mode" in node.attributes,  # how the last window counts
    ("DFT", 20): _always,  # the axis by default
    ("GridSample", 20): _always,  # the names of its modes
    ("GroupNormalization", 21): _always,  # factors by channel, not by group
    ("Hardmax", 13): _is_of_several_axes,
    ("LogSoftmax", 13): _is_of_several_axes,
    ("MeanVarianceNormalization", 13): _is_not_float32,  # a function whose numbers are float32
    ("Mod", 28): lambda node: not node.attributes.get_int("fmod", 0) and _is_float(node),  # as Python's, not C's alone
    ("Pad", 19): lambda node: node.attributes.get_string("mode") == "wrap",
    ("Resize", 11): _always,
    ("Resize", 13): lambda node: _has_input(node, 2) and _has_input(node, 3),  # sizes no longer beside empty factors
    ("Resize", 19): lambda node: node.attributes.get_string("coordinate_transformation_mode") == "half_pixel_symmetric",
    ("RoiAlign", 16): lambda node: "coordinate_transformation_mode" not in node.attributes,
    ("ScatterElements", 18): lambda node: node.attributes.get_string("reduction") in ("max", "min"),
    ("ScatterND", 18): lambda node: node.attributes.get_string("reduction") in ("max", "min"),
    ("Softmax", 13): _is_of_several_axes,
    ("Split", 18): lambda node: not _has_input(node, 1) and "num_outputs" not in node.attributes,
}
"""For an operator and a version, the nodes to which this version gives another meaning than the one before."""


class _Version(NamedTuple):
    """The operands and attributes of one version of an operator."""

    since: int
    attributes: frozenset[str]
    required: frozenset[str]
    inputs: tuple[frozenset[str], ...]
    least_inputs: int
    outputs: tuple[frozenset[str], ...]
    is_variadic: bool
    gives_many: bool


@lru_cache(maxsize=1024)
def _versions(op_type: str) -> tuple[_Version, ...]:
    """The versions of a standard operator, oldest first."""
    found: dict[int, _Version] = {}
    opset = onnx.defs.onnx_opset_version()
    while opset > 0:
        try:
            schema: Any = onnx.defs.get_schema(op_type, opset, "")
        except onnx.defs.SchemaError:
            break
        if not schema.deprecated:
            found[schema.since_version] = _version(schema)
        opset = schema.since_version - 1
    return tuple(found[since] for since in sorted(found))


def first_of(op_type: str) -> int:
    """The opset in which a standard operator came."""
    return _versions(op_type)[0].since


def _version(schema: Any) -> _Version:
    allowed = {one.type_param_str: frozenset(one.allowed_type_strs) for one in schema.type_constraints}
    variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
    return _Version(
        schema.since_version,
        frozenset(schema.attributes),
        frozenset(name for name, one in schema.attributes.items() if one.required),
        tuple(allowed.get(one.type_str, frozenset([one.type_str])) for one in schema.inputs),
        schema.min_input,
        tuple(allowed.get(one.type_str, frozenset([one.type_str])) for one in schema.outputs),
        bool(schema.inputs) and schema.inputs[-1].option == variadic,
        bool(schema.outputs) and schema.outputs[-1].option == variadic,
    )


_TEXTS: Final = {data_type: text for text, data_type in TENSOR_TYPES.items()}


def _takes(version: _Version, node: ir.Node) -> bool:
    """True if a version of the operator has the inputs, outputs and attributes of ``node``."""
    inputs, outputs = node.inputs, node.outputs
    if not version.attributes >= set(node.attributes) or not version.required <= set(node.attributes):
        return False
    if len(inputs) < version.least_inputs or (len(inputs) > len(version.inputs) and not version.is_variadic):
        return False
    if len(outputs) > len(version.outputs) and not version.gives_many:
        return False
    return all(
        value is None or value.dtype is None or _TEXTS[value.dtype] in allowed[min(index, len(allowed) - 1)]
        for values, allowed in ((inputs, version.inputs), (outputs, version.outputs))
        for index, value in enumerate(values)
    )


def span_of(node: ir.Node, opset: int) -> OpsetRange | None:
    """The opsets in which ``node``, which was written for ``opset``, holds; None for one that is not of that opset.

    Operators of other domains, which have versions of their own, hold in all.
    """
    if node.domain not in _STANDARD:
        return OpsetRange(1, _newest())
    versions = _versions(node.op_type)
    own = max((place for place, one in enumerate(versions) if one.since <= opset), default=None)
    if own is None or not _takes(versions[own], node):
        return None
    first = last = own
    while first > 0 and not _is_anew(node, versions[first]) and _takes(versions[first - 1], node):
        first -= 1
    while last + 1 < len(versions) and not _is_anew(node, versions[last + 1]) and _takes(versions[last + 1], node):
        last += 1
    return OpsetRange(versions[first].since, _newest() if last + 1 == len(versions) else versions[last + 1].since - 1)


def types_of(op_type: str, opset: int) -> frozenset[str]:
    """The types that the first input of a standard operator may have in an opset, as ONNX writes them."""
    found = [version for version in _versions(op_type) if version.since <= opset]
    return found[-1].inputs[0] if found and found[-1].inputs else frozenset()


def _newest() -> int:
    return onnx.defs.onnx_opset_version()


def _is_anew(node: ir.Node, version: _Version) -> bool:
    changed = _ANEW.get((node.op_type, version.since))
    return changed is not None and changed(node)


# --- a graph in an older opset


def first_opset(node: ir.Node, opset: int, oldest: int) -> int:
    """The first opset, from ``oldest`` on, in which ``node`` can be had: as it is, or in the form of `write_down`."""
    span = span_of(node, opset)
    if span is None:
        raise ConvertError(f"{node.op_type} (node {node.name}) is no operator of opset {opset} as it stands")
    if span.first <= oldest or not _has_older_form(node):
        return span.first
    return oldest


def write_down(graph: GraphWriter, opset: int, written_for: int) -> None:
    """Bring the nodes of ``graph``, written for a newer opset, into the forms that ``opset`` has for them, in place.

    Kept nodes are left alone. Cost: linear in the nodes.
    """
    found: list[ir.Node] = []
    shapes: dict[ir.Value | None, ir.Value] = {}
    for node in graph.nodes:
        _write_down_node(graph, node, opset, written_for, found.append)
        found.append(node)
        if node.op_type == "Slice" and node not in graph.kept:
            _share_shape(node, found, shapes)
    graph.nodes[:] = found


def _share_shape(node: ir.Node, found: list[ir.Node], shapes: dict[ir.Value | None, ir.Value]) -> None:
    """Let a part of a shape, the last of ``found``, be cut from the shape that an earlier node gives already."""
    sizes = node.inputs[0]
    producer = None if sizes is None else sizes.producer()
    if sizes is None or producer is None or len(found) < 2 or producer is not found[-2] or producer.op_type != "Shape":
        return
    known = shapes.setdefault(producer.inputs[0], sizes)
    if known is not sizes:
        node.replace_input_with(0, known)
        producer.replace_input_with(0, None)
        del found[-2]


def _write_down_node(
    graph: GraphWriter, node: ir.Node, opset: int, written_for: int, insert: Callable[[ir.Node], None]
) -> None:
    """Bring a node and the nodes inside it into the forms of ``opset``; ``insert`` puts a new node before it."""
    if node not in graph.kept and _has_older_form(node):
        span = span_of(node, written_for)
        if span is not None and opset not in span:
            _OLDER_FORMS.get(node.op_type, _with_axes_as_attribute)(graph, node, insert)
    for body in bodies_of(node):
        for inner in list(body):
            _write_down_node(
                graph, inner, opset, written_for, lambda new, body=body, inner=inner: body.insert_before(inner, new)
            )


_WITH_AXES: Final = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd")


def _has_older_form(node: ir.Node) -> bool:
    if node.op_type in _OLDER_FORMS:
        return True
    if node.op_type not in _WITH_AXES or len(node.inputs) < 2:
        return False
    data, axes = node.inputs[:2]
    is_old = data is None or data.dtype is None or _TEXTS[data.dtype] in types_of(node.op_type, OLDEST)
    return is_old and axes is not None and axes.const_value is not None


def _with_axes_as_attribute(_graph: GraphWriter, node: ir.Node, _insert: Callable[[ir.Node], None]) -> None:
    axes = node.inputs[1]
    assert axes is not None
    assert axes.const_value is not None
    node.attributes.add(ir.AttrInt64s("axes", axes.const_value.numpy().tolist()))
    node.attributes.pop("noop_with_empty_axes", None)
    node.resize_inputs(1)


def _as_slice_of_shape(graph: GraphWriter, node: ir.Node, insert: Callable[[ir.Node], None]) -> None:
    start, end = (node.attributes.pop(name, None) for name in ("start", "end"))
    sizes = graph.value("int64", f"{node.outputs[0].name}/Shape")
    insert(ir.Node("", "Shape", node.inputs, outputs=[sizes], name=graph.node_names.fresh(f"{node.name}/Shape")))
    node.op_type = "Slice"
    node.resize_inputs(3)
    bounds = (0 if start is None else start.as_int(), np.iinfo(np.int64).max if end is None else end.as_int())
    for index, value in enumerate((sizes, *[graph.integers([bound]) for bound in bounds])):
        node.replace_input_with(index, value)


def _as_product_with_gate(graph: GraphWriter, node: ir.Node, insert: Callable[[ir.Node], None]) -> None:
    """``HardSwish`` as runtimes write it out themselves."""
    data, result = node.inputs[0], node.outputs[0]
    assert data is not None
    gate = graph.value(dtype_of(data), f"{result.name}/HardSigmoid")
    gate.shape = result.shape
    name = graph.node_names.fresh(f"{node.name}/HardSigmoid")
    line = [ir.AttrFloat32("alpha", 1 / 6), ir.AttrFloat32("beta", 0.5)]
    insert(ir.Node("", "HardSigmoid", [data], line, outputs=[gate], name=name))
    node.op_type = "Mul"
    node.resize_inputs(2)
    node.replace_input_with(1, gate)


_OLDER_FORMS: Final[Mapping[str, Callable[[GraphWriter, ir.Node, Callable[[ir.Node], None]], None]]] = {
    "HardSwish": _as_product_with_gate,
    "Shape": _as_slice_of_shape,
}
