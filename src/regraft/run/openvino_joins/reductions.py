"""Reductions that OpenVINO fuses with nodes before or after them.

If a reduction is over the first or the last of three axes, and an elementwise operator after it has a constant with one
number per channel, the fused kernel reads the numbers of other channels, in int8 as well. If a reduction that drops its
axes stands between two transposes, they are combined to a wrong one if they only move axes of size 1. If an axis of
size 1 is added before a reduction that keeps its axes, it is in another place after it.
"""

from __future__ import annotations

import onnx_ir as ir

from .nodes import MOST_AFTER, Nodes, is_constant, numbers_of, rank_of, sizes_of


def add_axes_after(node: ir.Node) -> None:
    """Add the axes of size 1 that are added before the reduction ``node`` after it instead.

    OpenVINO does so itself, but at the places that they would have if no axis were kept.
    """
    graph = node.graph
    assert graph is not None
    while (found := _added_before(node)) is not None:
        source, added, reduced = found
        old, keeps = node.outputs[0], node.attributes.get_int("keepdims", 1)
        made = Nodes(f"{old.name or 'reduction'}/Fewer")
        own = made.constant([axis - sum(added[:axis]) for axis in sorted(reduced) if not added[axis]])
        node.replace_input_with(0, source)
        node.replace_input_with(1, own)
        graph.insert_before(node, made.nodes)
        left = [is_new for axis, is_new in enumerate(added) if keeps or axis not in reduced]
        if any(left):
            wide = Nodes(f"{old.name or 'reduction'}/All")
            wide.add("Unsqueeze", [old, wide.constant([axis for axis, is_new in enumerate(left) if is_new])])
            whole = old.shape
            wide.stand_after(old)
            if whole is not None:  # the search for the rank of a value after this one begins here
                old.shape = ir.Shape([dim for dim, is_new in zip(whole, left, strict=True) if not is_new])


def _added_before(node: ir.Node) -> tuple[ir.Value | None, list[bool], set[int]] | None:
    """The operand of a reduction before axes are added to it, one bool for each axis (True if it is added), and the
    reduced axes.

    None if no axis is added, or if only added axes are reduced.
    """
    before = None if node.inputs[0] is None else node.inputs[0].producer()
    axes = numbers_of(node.inputs[1]) if len(node.inputs) > 1 else None
    added = None if before is None else _added_axes(before)
    if before is None or not axes or not added or not any(added):
        return None
    reduced = {axis % len(added) for axis in axes}
    return None if all(added[axis] for axis in reduced) else (before.inputs[0], added, reduced)


def _added_axes(node: ir.Node) -> list[bool] | None:
    """One bool for each axis of its result: True if ``node`` adds it, with size 1. None if it does anything else."""
    source = node.inputs[0] if node.inputs else None
    rank = None if source is None else rank_of(source)
    if source is None or rank is None or node.op_type not in ("Unsqueeze", "Reshape"):
        return None
    if node.op_type == "Unsqueeze":
        places = numbers_of(node.inputs[1]) or []
        return [axis in {place % (rank + len(places)) for place in places} for axis in range(rank + len(places))]
    shape, new = source.shape, node.outputs[0].shape
    if shape is None or new is None or not all(isinstance(size, int) for size in (*shape, *new)):
        return None
    left, found = list(shape), list[bool]()
    for size in new:
        found.append(not left or left[0] != size)
        if not found[-1]:
            left.pop(0)
        elif size != 1:
            return None
    return None if left else found


def outer_axis(node: ir.Node) -> int | None:
    """The axis of a reduction over the first or last of three axes; None for other reductions."""
    data = node.inputs[0]
    axes = numbers_of(node.inputs[1]) if len(node.inputs) > 1 else None
    if data is None or rank_of(data) != 3 or axes is None:
        return None
    found = [axis % 3 for axis in axes]
    return found[0] if found in ([0], [2]) else None


def meets_channels(value: ir.Value) -> bool:
    """True if an elementwise node after ``value`` has a constant of several numbers, and no other node reads in
    between. Also true if the first `MOST_AFTER` nodes do not decide it.
    """
    for _ in range(MOST_AFTER):
        uses = tuple(value.uses())
        if len(uses) != 1:
            return False
        user, place = uses[0].node, uses[0].idx
        beside = [one for index, one in enumerate(user.inputs) if one is not None and index != place]
        if any(is_constant(one) and _has_several(one) for one in beside):
            return True
        result = user.outputs[0]
        is_known = value.shape is not None and result.shape is not None
        if len(user.outputs) != 1 or (is_known and result.shape != value.shape):
            return False
        value = result
    return True


def _has_several(value: ir.Value) -> bool:
    return value.shape is None or any(size != 1 for size in value.shape)


def read_matrix(node: ir.Node, axis: int) -> None:
    """Make the reduction ``node`` over ``axis`` of three read a matrix, and reshape its result."""
    data, old, graph = node.inputs[0], node.outputs[0], node.graph
    assert data is not None
    assert graph is not None
    made = Nodes(old.name or "reduction")
    is_last = axis == 2
    flat = made.add("Flatten", [data], axis=2 if is_last else 1)
    along = made.constant([1 if is_last else 0])
    kept = made.add(node.op_type, [flat, along], keepdims=1)
    other = (0, 1) if is_last else (1, 2)
    parts = [sizes_of(made, data, other[0], other[1] + 1)]
    if node.attributes.get_int("keepdims", 1):
        parts.insert(len(parts) if is_last else 0, made.constant([1]))
    sizes = parts[0] if len(parts) == 1 else made.add("Concat", parts, axis=0)
    result = made.add("Reshape", [kept, sizes])
    ir.convenience.replace_nodes_and_values(graph, node, [node], made.nodes, [old], [result])


def drop_axes_after(node: ir.Node) -> None:
    """Make the reduction ``node`` keep its axes, and drop them in a node after it; a reduction over all axes stays."""
    old = node.outputs[0]
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    if axes is None:
        return
    made = Nodes(f"{old.name or 'reduction'}/Kept")
    node.attributes.add(ir.AttrInt64("keepdims", 1))
    made.add("Squeeze", [old, axes])
    made.stand_after(old)
