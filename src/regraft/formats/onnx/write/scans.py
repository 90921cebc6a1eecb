"""Scans along other axes or backwards, by attributes of the `Scan` instead of nodes around it.

`Scan` has attributes for the axis and the direction of each scanned input and each stacked output. A transpose or a
reversal beside it is moved into these attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import onnx_ir as ir

from .graph import GraphWriter

_FAR: Final = -(2**31)
Replace = Callable[[ir.Node, ir.Value, ir.Value], None]
"""Replaces a value, the result of a node, by another value for all its readers."""


def arrange_scan(graph: GraphWriter, scan: ir.Node, results: Collection[ir.Value], replace: Replace) -> None:
    """Move the transposes and reversals around ``scan`` into it; ``results`` are the outputs of the whole graph.

    Cost: linear in its inputs and outputs.
    """
    scanned = scan.attributes["num_scan_inputs"].as_int()
    first = len(scan.inputs) - scanned
    axes: list[int] = []
    backwards: list[int] = []
    for index in range(first, len(scan.inputs)):
        value, axis, back = scan.inputs[index], 0, 0
        while value is not None and (step := _step_before(graph, value, axis)) is not None:
            value, axis, turned = step
            back ^= turned
        scan.replace_input_with(index, value)
        axes.append(axis)
        backwards.append(back)
    places: list[int] = []
    turned_round: list[int] = []
    for value in scan.outputs[first:]:
        axis = back = 0
        while (after := _step_after(graph, value, axis, results)) is not None:
            node, axis, turned = after
            back ^= turned
            value.name, value.shape = node.outputs[0].name, node.outputs[0].shape
            replace(node, node.outputs[0], value)
        places.append(axis)
        turned_round.append(back)
    for name, numbers in (
        ("scan_input_axes", axes),
        ("scan_input_directions", backwards),
        ("scan_output_axes", places),
        ("scan_output_directions", turned_round),
    ):
        if any(numbers):
            scan.attributes.add(ir.AttrInt64s(name, numbers))


def _step_before(graph: GraphWriter, value: ir.Value, axis: int) -> tuple[ir.Value | None, int, int] | None:
    """The operand of the transpose or reversal that makes ``value``, its axis to scan, and 1 if it is reversed.

    None if another node makes ``value``.
    """
    node = value.producer()
    if node is None or node.domain:
        return None
    if node.op_type == "Transpose" and (order := _order(node)) is not None and _keeps_rows(order, axis):
        return node.inputs[0], order[axis], 0
    return (node.inputs[0], axis, 1) if _reverses(graph, node, axis) else None


def _step_after(
    graph: GraphWriter, value: ir.Value, axis: int, results: Collection[ir.Value]
) -> tuple[ir.Node, int, int] | None:
    """The transpose or reversal that alone reads the stack ``value``, the axis after it, and 1 if it is reversed.

    None if there is no such node, or ``value`` is a result of the graph.
    """
    uses = tuple(value.uses())
    if len(uses) != 1 or value in results:
        return None
    node = uses[0].node
    if node.domain or uses[0].idx != 0:
        return None
    if node.op_type == "Transpose" and (order := _order(node)) is not None and _keeps_rows(order, order.index(axis)):
        return node, order.index(axis), 0
    return (node, axis, 1) if _reverses(graph, node, axis) else None


def _order(node: ir.Node) -> list[int] | None:
    attribute = node.attributes.get("perm")
    return None if attribute is None else list(attribute.as_ints())


def _keeps_rows(order: list[int], place: int) -> bool:
    """True if a transpose only moves the axis that ends up at ``place``."""
    others = order[:place] + order[place + 1 :]
    return others == sorted(others)


def _reverses(graph: GraphWriter, node: ir.Node, axis: int) -> bool:
    """True if a node reverses its operand along ``axis``."""
    if node.op_type != "Slice" or len(node.inputs) != 5:
        return False
    numbers: list[int] = []
    for value in node.inputs[1:]:
        data = graph.data_of(value)
        if data is None or data.size != 1:
            return False
        numbers.append(int(data.numpy().reshape(-1)[0]))
    start, end, along, step = numbers
    return start == -1 and end <= _FAR and along == axis and step == -1
