"""The opsets in which a node has the same meaning, and a graph in the lowest opset that its nodes need.

A node is written for one opset. It is valid in all opsets around it in which its operator has the same inputs and
attributes, takes its element types, and has the same meaning. ONNX's schemas of each version state all but the
meaning; `_ANEW` lists the versions that changed it. Knows ONNX's operator schemas only.
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
    """The first and the last opset in which a node is valid."""

    first: int
    last: int

    def __contains__(self, opset: object) -> bool:
        return isinstance(opset, int) and self.first <= opset <= self.last


def _always(_node: ir.Node) -> bool:
    return True


def _is_float(node: ir.Node) -> bool:
    """True if operand 0 of a node holds floats, or its dtype is unknown."""
    dtype = node.inputs[0].dtype if node.inputs and node.inputs[0] is not None else None
    return dtype is None or dtype.is_floating_point()


def _has_input(node: ir.Node, index: int) -> bool:
    return index < len(node.inputs) and node.inputs[index] is not None


def _is_of_several_axes(node: ir.Node) -> bool:
    """True if an axis after a node's axis may have another size than 1.

    Before opset 13, the node's axis and all axes after it count as one.
    """
    shape = node.inputs[0].shape if node.inputs and node.inputs[0] is not None else None
    if shape is None or "axis" not in node.attributes:
        return True
    axis = node.attributes.get_int("axis", 0) % max(len(shape), 1)
    return any(size != 1 for size in shape[axis + 1 :])


def _is_not_float32(node: ir.Node) -> bool:
    """True if operand 0 of a node is not float32, or its dtype is unknown."""
    return not node.inputs or node.inputs[0] is None or node.inputs[0].dtype is not ir.DataType.FLOAT


_ANEW: Final[Mapping[tuple[str, int], Callable[[ir.Node], bool]]] = {
    # Before opset 7, a missing attribute can mean more than later.
    ("Cast", 6): _always,  # the element type was a name
    ("GlobalLpPool", 2): _always,  # its power was a float
    ("LpPool", 2): _always,
    ("PRelu", 7): _always,  # slopes were by channel
    ("Selu", 6): _always,  # its default numbers
    ("AveragePool", 19): lambda node: "ceil_mode" in node.attributes,  # the count of the last window
    ("DFT", 20): _always,  # the default axis
    ("GridSample", 20): _always,  # the names of its modes
    ("GroupNormalization", 21): _always,  # factors by channel, not by group
    ("Hardmax", 13): _is_of_several_axes,
    ("LogSoftmax", 13): _is_of_several_axes,
    ("MeanVarianceNormalization", 13): _is_not_float32,  # a function whose constants are float32
    ("Mod", 28): lambda node: not node.attributes.get_int("fmod", 0) and _is_float(node),  # as Python's, not C's alone
    ("Pad", 19): lambda node: node.attributes.get_string("mode") == "wrap",
    ("Resize", 11): _always,
    ("Resize", 13): lambda node: _has_input(node, 2) and _has_input(node, 3),  # sizes had empty scales before them
    ("Resize", 19): lambda node: node.attributes.get_string("coordinate_transformation_mode") == "half_pixel_symmetric",
    ("RoiAlign", 16): lambda node: "coordinate_transformation_mode" not in node.attributes,
    ("ScatterElements", 18): lambda node: node.attributes.get_string("reduction") in ("max", "min"),
    ("ScatterND", 18): lambda node: node.attributes.get_string("reduction") in ("max", "min"),
    ("Softmax", 13): _is_of_several_axes,
    ("Split", 18): lambda node: not _has_input(node, 1) and "num_outputs" not in node.attributes,
}
"""For an operator and a version, a test for the nodes that mean something else than in the version before."""


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
    """The first opset that has a standard operator."""
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
    """True if a version of the operator accepts the inputs, outputs and attributes of ``node``."""
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
    """The opsets in which ``node``, written for ``opset``, has the same meaning; None if it is not valid in ``opset``.

    Operators of other domains, which have their own versions, are taken to be valid in all.
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
    """The types, in ONNX's text form, that the first input of a standard operator may have in an opset."""
    found = [version for version in _versions(op_type) if version.since <= opset]
    return found[-1].inputs[0] if found and found[-1].inputs else frozenset()


def _newest() -> int:
    return onnx.defs.onnx_opset_version()


def _is_anew(node: ir.Node, version: _Version) -> bool:
    changed = _ANEW.get((node.op_type, version.since))
    return changed is not None and changed(node)


# --- a graph in an older opset


def first_opset(node: ir.Node, opset: int, oldest: int) -> int:
    """The first opset, from ``oldest`` on, that has ``node``, as it is or in the form of `write_down`."""
    span = span_of(node, opset)
    if span is None:
        raise ConvertError(f"{node.op_type} (node {node.name}) is no operator of opset {opset} as it stands")
    if span.first <= oldest or not _has_older_form(node):
        return span.first
    return oldest


def write_down(graph: GraphWriter, opset: int, written_for: int) -> None:
    """Change the nodes of ``graph``, written for a newer opset, to the forms of ``opset``, in place.

    Kept nodes are not changed. Cost: linear in the nodes.
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
    """If an earlier Shape reads the same value, let the last Slice use it, and drop the new Shape from ``found``."""
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
    """Change a node and the nodes inside it to the forms of ``opset``; ``insert`` puts a new node before it."""
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
    """``HardSwish`` as a product, the form in which runtimes decompose it."""
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
