"""Pools with windows behind all elements, and pools that OpenVINO moves an activation across.

OpenVINO fuses a convolution with an activation behind a max pool, in int8 as well, as if the activation of the maximum
were the maximum of the activations. That holds for monotonically rising functions only. A pool that rounds up has a
window that begins behind all elements, which ONNX leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import onnx_ir as ir

from .nodes import FALLING, MOVES, Nodes, sizes_of

GATES: Final = ("Div", "Mul")
"""Operators by which a written-out activation reads its operand a second time."""


def axes_of_empty_windows(node: ir.Node) -> list[int]:
    """The spatial axes of a pool along which rounding up may add a window that begins behind all elements."""
    if not node.attributes.get_int("ceil_mode", 0) or node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET":
        return []
    kernel, strides, pads, dilations = _spatial(node)
    shape = None if node.inputs[0] is None else node.inputs[0].shape
    found: list[int] = []
    for axis, (size, stride, dilation) in enumerate(zip(kernel, strides, dilations, strict=True)):
        begin, end, reach = pads[axis], pads[axis + len(kernel)], dilation * (size - 1) + 1
        length = None if shape is None else shape[axis + 2]
        if not isinstance(length, int):
            is_possible = end + stride > reach
        else:
            is_possible = -(-(length + begin + end - reach) // stride) * stride >= length + begin
        if is_possible:
            found.append(axis)
    return found


def _spatial(node: ir.Node) -> tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]:
    """The kernel, strides, pads and dilations of a pool."""
    kernel = node.attributes.get_ints("kernel_shape", ())
    ones = (1,) * len(kernel)
    strides, dilations = (node.attributes.get_ints(name, ones) for name in ("strides", "dilations"))
    return kernel, strides, node.attributes.get_ints("pads", (0, 0) * len(kernel)), dilations


def cut_windows(node: ir.Node, axes: Sequence[int]) -> None:
    """Remove the windows that begin behind all elements from a pool's results, along the spatial ``axes``."""
    data = node.inputs[0]
    _, strides, pads, _ = _spatial(node)
    assert data is not None
    for old in node.outputs:
        made = Nodes(f"{old.name or 'pool'}/Windows")
        ends: list[ir.Value] = []
        for axis in axes:
            last = made.add("Add", [sizes_of(made, data, axis + 2, axis + 3), made.constant([pads[axis] - 1])])
            ends.append(made.add("Add", [made.add("Div", [last, made.constant([strides[axis]])]), made.constant([1])]))
        end = ends[0] if len(ends) == 1 else made.add("Concat", ends, axis=0)
        made.add("Slice", [old, made.constant([0] * len(axes)), end, made.constant([axis + 2 for axis in axes])])
        made.stand_after(old)


def falls_somewhere(pooled: ir.Value) -> bool:
    """True if a non-monotonic activation may follow ``pooled``, directly or after it is moved."""
    users = [use.node for use in pooled.uses()]
    if len(users) > 1:
        return any(user.op_type in GATES for user in users)
    if len(users) == 1 and users[0].op_type in MOVES:
        return falls_somewhere(users[0].outputs[0])
    return any(user.op_type in FALLING for user in users)


def pool_again(node: ir.Node) -> None:
    """Insert a pool of single elements between a max pool and its users."""
    kernel = node.attributes.get_ints("kernel_shape")
    assert kernel is not None
    insert_pool(node, len(kernel))


def insert_pool(node: ir.Node, spatial: int) -> None:
    """Insert a pool of single elements, which changes nothing, with ``spatial`` spatial axes after ``node``."""
    old = node.outputs[0]
    made = Nodes(old.name or "pool")
    made.add("MaxPool", [old], kernel_shape=[1] * spatial)
    made.stand_after(old)
