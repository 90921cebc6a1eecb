"""Convolutions of padded elements.

OpenVINO moves the strides of a convolution with kernel size 1 before the node that it reads, as if there were no
padding between the two. A convolution that has a window in its padding alone may be wrong, or crash the process.
"""

from __future__ import annotations

import onnx_ir as ir

from .nodes import END, Nodes, sizes_of


def skips_padded_elements(node: ir.Node) -> bool:
    """True if ``node`` is a convolution of kernel size 1 with strides, and its operand is padded."""
    data, weight = node.inputs[0], node.inputs[1]
    shape = None if weight is None else weight.shape
    if (
        data is None
        or shape is None
        or node.attributes.get_int("group", 1) != 1
        or any(size != 1 for size in shape[2:])
    ):
        return False
    made_by = data.producer()
    is_padded = any(node.attributes.get_ints("pads", ())) or (made_by is not None and made_by.op_type == "Pad")
    return is_padded and any(stride > 1 for stride in node.attributes.get_ints("strides", ()))


def pick_before(node: ir.Node) -> None:
    """Make the convolution ``node`` read only the elements that its strides reach, padded before."""
    data, old, graph = node.inputs[0], node.outputs[0], node.graph
    strides, pads = (node.attributes.get_ints(name, ()) for name in ("strides", "pads"))
    assert data is not None
    assert graph is not None
    count, made = len(strides), Nodes(old.name or "convolution")
    if any(pads):
        data = made.add("Pad", [data, made.constant([0, 0, *pads[:count], 0, 0, *pads[count:]])])
    axes = range(2, 2 + count)
    picked = made.add("Slice", [data, *map(made.constant, ([0] * count, [END] * count, axes, strides))])
    node.replace_input_with(0, picked)
    node.attributes["strides"] = ir.AttrInt64s("strides", [1] * count)
    node.attributes["pads"] = ir.AttrInt64s("pads", [0] * (2 * count))
    graph.insert_before(node, made.nodes)


def reaches_padding_alone(node: ir.Node) -> bool:
    """True if a float32 convolution may have a window in its padding alone."""
    data, weight = node.inputs[0], node.inputs[1]
    shape = None if weight is None else weight.shape
    if data is None or data.dtype not in (None, ir.DataType.FLOAT) or shape is None:
        return False
    kernel = shape[2:]
    dilations, pads = (node.attributes.get_ints(name, ()) for name in ("dilations", "pads"))
    for axis, size in enumerate(kernel):
        reach = (dilations[axis] if dilations else 1) * (size - 1) + 1 if isinstance(size, int) else 1
        if pads and max(pads[axis], pads[axis + len(kernel)]) >= reach:
            return True
    return False


def join_padding(node: ir.Node) -> None:
    """Make the convolution ``node`` read zeros concatenated to its data, in place of its padding."""
    data, old, graph = node.inputs[0], node.outputs[0], node.graph
    pads = node.attributes.get_ints("pads", ())
    assert data is not None
    assert graph is not None
    made, rank = Nodes(f"{old.name or 'convolution'}/Padding"), 2 + len(pads) // 2
    for axis in range(2, rank):
        parts = [
            data if count is None else _zeros_beside(made, data, axis, rank, count)
            for count in (pads[axis - 2], None, pads[axis - 2 + rank - 2])
            if count is None or count
        ]
        data = parts[0] if len(parts) == 1 else made.add("Concat", parts, axis=axis)
    node.replace_input_with(0, data)
    node.attributes["pads"] = ir.AttrInt64s("pads", [0] * len(pads))
    graph.insert_before(node, made.nodes)


def _zeros_beside(made: Nodes, data: ir.Value, axis: int, rank: int, count: int) -> ir.Value:
    """Zeros of the shape of ``data``, except for size ``count`` along ``axis``."""
    after = [sizes_of(made, data, axis + 1, rank)] if axis + 1 < rank else []
    return made.add(
        "ConstantOfShape", [made.add("Concat", [sizes_of(made, data, 0, axis), made.constant([count]), *after], axis=0)]
    )
