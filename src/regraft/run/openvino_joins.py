"""Nodes that OpenVINO's processor plugin would compute wrongly, alone or joined to others, in a form that it has right.

It joins a reduction with the elementwise operators after it. Where the reduction is over the first or the last of three
axes, and such an operator has a constant with a number for each channel, the joined kernel reads the numbers of other
channels. It also joins a convolution with an activation behind a max pool, as if the activation of the largest number
were the largest activation, which holds for rising functions only. And it moves the strides of a convolution of single
elements before the node that it reads, as if nothing were padded between the two. All were seen in 2026.4, in float32;
the first two in bytes as well. A convolution that has a window of padding alone may be wrong, or end the process. Where
a pool rounds up, it has a window that begins behind all elements, which ONNX leaves out. And where a reduction that
drops its axes stands between two transposes, these are joined to a wrong one if they only move axes of size 1. Two
transposes around a change of shape from four axes to three may be joined to a copy, which they are not. An axis of
size 1 that is added before a reduction which keeps its axes stands in another place after it. With attention it joins
elementwise operators, and then has no kernel for Mish, so that the model does not compile; and where a sum of attention
and an elementwise result is read twice, compiling the model ends the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

_REDUCTIONS: Final = tuple(
    f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)
_MOST_AFTER: Final = 16
"""The most nodes after a reduction that are searched for numbers of channels."""
_MOST_BEFORE: Final = 4
"""The most nodes, one after another, that a constant may be made of, or that are asked for the rank of a value."""
_FALLING: Final = ("Abs", "Gelu", "HardSwish", "LeakyRelu", "Mish", "PRelu", "Sigmoid", "Softplus", "Swish")
"""Operators of one tensor that are no rising functions, or begin one that OpenVINO takes for an activation."""
_ALONE: Final = ("Cast", "Clip", "Erf", "Exp", "Neg", "Relu", "Sqrt", "Tanh", *_FALLING)
"""Elementwise operators of one tensor, which OpenVINO moves transposes over."""
_ATTENTION: Final = ("Attention", "Softmax")
"""Operators of attention, one of which stands in any graph that has some."""
_MOST_OF_TANH: Final = 30.0
"""A number whose hyperbolic tangent is 1 in single precision."""
_GATES: Final = ("Div", "Mul")
"""Operators by which an activation that is written out reads its operand twice."""
_MOVES: Final = ("Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that OpenVINO moves activations over."""
_TURN: Final = (0, 2, 1)
"""The transpose that OpenVINO may take away together with one before it."""
_END: Final = np.iinfo(np.int64).max
"""The end of an axis, whatever its size is."""
_KEEPING: Final = (
    "Abs",
    "Add",
    "Cast",
    "Div",
    "Exp",
    "Max",
    "Min",
    "Mul",
    "Neg",
    "Pow",
    "Relu",
    "Sqrt",
    "Sub",
    "Where",
)
"""Operators whose result has the highest rank among their operands; values between the nodes of one call state none."""


def keep_apart(graph: ir.Graph) -> None:
    """Change what OpenVINO would join wrongly in ``graph``, in place; values stay what they are.

    Reductions over the first or last of three axes read a matrix where numbers of channels follow, and in any case
    in a graph with quantized values, since OpenVINO moves their scales behind them. A max pool before an activation
    that falls somewhere is followed by one of single elements. A convolution of single elements reads padded elements
    that were picked before, and one that has windows of padding alone reads joined zeros. Of a pool that rounds up,
    windows that begin behind all elements are cut off. In a graph with transposes, reductions keep their axes, which
    are dropped after them, and a transpose of three axes that follows another one turns four. In a graph with
    attention, Mish that follows no convolution is written out as OpenVINO does not know it, and attention that is added
    to what is read twice is followed by a pool of single elements. Cost: linear in the nodes.
    """
    nodes = list(graph.all_nodes())
    kinds = {node.op_type for node in nodes if not node.domain}
    has_scales, turns = "DequantizeLinear" in kinds, "Transpose" in kinds
    attends = not kinds.isdisjoint(_ATTENTION)
    for node in nodes:
        if node.domain:
            continue
        if node.op_type in _REDUCTIONS:
            while _adds_axes_after(node):
                pass
            axis = _outer_axis(node)
            if axis is not None and (has_scales or _meets_channels(node.outputs[0])):
                _read_matrix(node, axis)
            elif turns and not node.attributes.get_int("keepdims", 1):
                _drop_axes_after(node)
        elif node.op_type in ("AveragePool", "MaxPool"):
            if node.op_type == "MaxPool" and _falls_somewhere(node.outputs[0]):
                _pool_again(node)
            if axes := _axes_of_empty_windows(node):
                _cut_windows(node, axes)
        elif node.op_type == "Transpose" and _follows_transpose(node):
            _turn_four_axes(node)
        elif attends and node.op_type in ("Mish", "Tanh") and (softplus := _softplus_of(node)) is not None:
            _write_out_mish(node, softplus)
        elif node.op_type == "Conv" and _skips_padded_elements(node):
            _pick_before(node)
        elif node.op_type == "Conv" and _reaches_padding_alone(node):
            _join_padding(node)
    for product in [one for node in nodes if node.op_type in _ATTENTION for one in _products_of(node)]:
        _stand_alone(product)


# --- reductions


def _adds_axes_after(node: ir.Node) -> bool:
    """Let the axes of size 1 that are added before the reduction ``node`` be added after it; False if there are none.

    OpenVINO does so itself, at the places that they would have if no axis were kept.
    """
    before, graph = None if node.inputs[0] is None else node.inputs[0].producer(), node.graph
    axes = _numbers_of(node.inputs[1]) if len(node.inputs) > 1 else None
    added = None if before is None else _added_axes(before)
    if before is None or not axes or not added or not any(added):
        return False
    assert graph is not None
    reduced = {axis % len(added) for axis in axes}
    own = [axis - sum(added[:axis]) for axis in sorted(reduced) if not added[axis]]
    if not own:
        return False
    old, keeps = node.outputs[0], node.attributes.get_int("keepdims", 1)
    made = _Nodes(f"{old.name or 'reduction'}_of_fewer")
    node.replace_input_with(0, before.inputs[0])
    node.replace_input_with(1, made.constant(own))
    graph.insert_before(node, made.nodes)
    left = [is_new for axis, is_new in enumerate(added) if keeps or axis not in reduced]
    if any(left):
        after = _Nodes(f"{old.name or 'reduction'}_in_all")
        places = after.constant([axis for axis, is_new in enumerate(left) if is_new])
        _stand_after(old, after.add("Unsqueeze", [old, places]))
        after.nodes[-1].replace_input_with(0, old)
        graph.insert_after(node, after.nodes)
    return True


def _added_axes(node: ir.Node) -> list[bool] | None:
    """For each axis of its result, whether ``node`` adds it, of size 1; None if it does something else, too."""
    source = node.inputs[0] if node.inputs else None
    rank = None if source is None else _rank_of(source)
    if source is None or rank is None or node.op_type not in ("Unsqueeze", "Reshape"):
        return None
    if node.op_type == "Unsqueeze":
        places = _numbers_of(node.inputs[1]) or []
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


def _numbers_of(value: ir.Value | None) -> list[int] | None:
    """The numbers of a constant; None for another value."""
    held = None if value is None else ir.convenience.get_const_tensor(value)
    return None if held is None else [int(number) for number in held.numpy().reshape(-1)]


def _outer_axis(node: ir.Node) -> int | None:
    """The one axis of a reduction over the first or last of three; None for other reductions."""
    data = node.inputs[0]
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    if data is None or _rank_of(data) != 3 or axes is None or axes.const_value is None:
        return None
    found = [int(axis) % 3 for axis in axes.const_value.numpy().reshape(-1)]
    return found[0] if found in ([0], [2]) else None


def _rank_of(value: ir.Value, depth: int = _MOST_BEFORE) -> int | None:
    made_by = value.producer()
    if value.shape is not None:
        return len(value.shape)
    if made_by is None or made_by.domain or not depth:
        return None
    operands = [one for one in made_by.inputs if one is not None]
    if made_by.op_type == "Attention":
        return _rank_of(operands[0], depth - 1)
    if made_by.op_type == "Reshape" and operands[1].const_value is not None:
        return int(operands[1].const_value.size)
    if made_by.op_type in _REDUCTIONS:
        rank = _rank_of(operands[0], depth - 1)
        if rank is None or made_by.attributes.get_int("keepdims", 1):
            return rank
        axes = _numbers_of(operands[1]) if len(operands) > 1 else None
        return rank - len(axes) if axes else None
    ranks = [_rank_of(one, depth - 1) for one in operands]
    known = [rank for rank in ranks if rank is not None]
    return max(known) if made_by.op_type in _KEEPING and len(known) == len(ranks) else None


def _meets_channels(value: ir.Value) -> bool:
    """True if an elementwise node after ``value`` has several constant numbers, and nothing else reads in between."""
    for _ in range(_MOST_AFTER):
        uses = tuple(value.uses())
        if len(uses) != 1:
            return False
        user, place = uses[0].node, uses[0].idx
        beside = [one for index, one in enumerate(user.inputs) if one is not None and index != place]
        if any(_is_constant(one) and _has_several(one) for one in beside):
            return True
        result = user.outputs[0]
        is_known = value.shape is not None and result.shape is not None
        if len(user.outputs) != 1 or (is_known and result.shape != value.shape):
            return False
        value = result
    return True


def _is_constant(value: ir.Value, depth: int = _MOST_BEFORE) -> bool:
    made_by = value.producer()
    if value.const_value is not None or made_by is None or not depth:
        return value.const_value is not None
    return all(one is None or _is_constant(one, depth - 1) for one in made_by.inputs)


def _has_several(value: ir.Value) -> bool:
    return value.shape is None or any(size != 1 for size in value.shape)


def _read_matrix(node: ir.Node, axis: int) -> None:
    """Let the reduction ``node`` over ``axis`` of three read a matrix, and bring its result into shape."""
    data, old, graph = node.inputs[0], node.outputs[0], node.graph
    assert data is not None
    assert graph is not None
    made = _Nodes(old.name or "reduction")
    is_last = axis == 2
    flat = made.add("Flatten", [data], axis=2 if is_last else 1)
    along = made.constant([1 if is_last else 0])
    kept = made.add(node.op_type, [flat, along], keepdims=1)
    other = (0, 1) if is_last else (1, 2)
    parts = [_sizes(made, data, other[0], other[1] + 1)]
    if node.attributes.get_int("keepdims", 1):
        parts.insert(len(parts) if is_last else 0, made.constant([1]))
    sizes = parts[0] if len(parts) == 1 else made.add("Concat", parts, axis=0)
    result = made.add("Reshape", [kept, sizes])
    ir.convenience.replace_nodes_and_values(graph, node, [node], made.nodes, [old], [result])


def _drop_axes_after(node: ir.Node) -> None:
    """Let the reduction ``node`` keep its axes, and a node after it drop them; one over all axes stays."""
    old, graph = node.outputs[0], node.graph
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    if axes is None:
        return
    assert graph is not None
    made = _Nodes(f"{old.name or 'reduction'}_kept")
    node.attributes.add(ir.AttrInt64("keepdims", 1))
    _stand_after(old, made.add("Squeeze", [old, axes]))
    made.nodes[-1].replace_input_with(0, old)
    graph.insert_after(node, made.nodes)


# --- transposes


def _follows_transpose(node: ir.Node) -> bool:
    """True if ``node`` turns the last two of three axes of what another transpose gave, in a new shape."""
    if tuple(node.attributes.get_ints("perm", ())) != _TURN:
        return False
    value = node.inputs[0]
    for _ in range(_MOST_AFTER):
        made_by = None if value is None else value.producer()
        if made_by is None or made_by.domain or made_by.op_type not in (*_MOVES, *_REDUCTIONS, *_ALONE):
            return False
        if made_by.op_type == "Transpose":
            return True
        value = made_by.inputs[0]
    return False


def _turn_four_axes(node: ir.Node) -> None:
    """Let ``node`` turn the last two of four axes, the second of which is of size 1."""
    old, graph = node.outputs[0], node.graph
    source = node.inputs[0]
    assert graph is not None
    assert source is not None
    made = _Nodes(f"{old.name or 'transpose'}_of_four")
    axis = made.constant([1])
    node.replace_input_with(0, made.add("Unsqueeze", [source, axis]))
    node.attributes.add(ir.AttrInt64s("perm", (0, 1, 3, 2)))
    graph.insert_before(node, made.nodes)
    after = _Nodes(f"{old.name or 'transpose'}_of_three")
    _stand_after(old, after.add("Squeeze", [old, axis]))
    after.nodes[-1].replace_input_with(0, old)
    graph.insert_after(node, after.nodes)


def _sizes(made: _Nodes, data: ir.Value, start: int, end: int) -> ir.Value:
    """The sizes of ``data`` from axis ``start`` up to ``end``."""
    stated = () if data.shape is None else data.shape[start:end]
    known = [size for size in stated if isinstance(size, int)]
    return made.constant(known) if len(known) == end - start else made.add("Shape", [data], start=start, end=end)


# --- pools


def _axes_of_empty_windows(node: ir.Node) -> list[int]:
    """The spatial axes of a pool where rounding up may make a window that begins behind all elements."""
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


def _cut_windows(node: ir.Node, axes: Sequence[int]) -> None:
    """Cut windows of a pool that begin behind all elements off its results along the spatial ``axes``."""
    data, graph = node.inputs[0], node.graph
    _, strides, pads, _ = _spatial(node)
    assert data is not None
    assert graph is not None
    for old in node.outputs:
        made = _Nodes(f"{old.name or 'pool'}_windows")
        ends: list[ir.Value] = []
        for axis in axes:
            last = made.add("Add", [_sizes(made, data, axis + 2, axis + 3), made.constant([pads[axis] - 1])])
            ends.append(made.add("Add", [made.add("Div", [last, made.constant([strides[axis]])]), made.constant([1])]))
        end = ends[0] if len(ends) == 1 else made.add("Concat", ends, axis=0)
        cut = made.add("Slice", [old, made.constant([0] * len(axes)), end, made.constant([axis + 2 for axis in axes])])
        _stand_after(old, cut)
        made.nodes[-1].replace_input_with(0, old)
        graph.insert_after(node, made.nodes)


def _stand_after(old: ir.Value, new: ir.Value) -> None:
    """Let ``new``, which is computed from ``old``, take its name, its place in the graph, and its users."""
    new.shape, new.type = old.shape, old.type
    old.name, new.name = new.name, old.name
    old.shape = None
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)


def _falls_somewhere(pooled: ir.Value) -> bool:
    """True if an activation that is no rising function may follow ``pooled``, at once or after it is moved."""
    users = [use.node for use in pooled.uses()]
    if len(users) > 1:
        return any(user.op_type in _GATES for user in users)
    if len(users) == 1 and users[0].op_type in _MOVES:
        return _falls_somewhere(users[0].outputs[0])
    return any(user.op_type in _FALLING for user in users)


def _pool_again(node: ir.Node) -> None:
    """Let a pool of single elements stand between a max pool and what follows."""
    kernel = node.attributes.get_ints("kernel_shape")
    assert kernel is not None
    _insert_pool(node, len(kernel))


def _insert_pool(node: ir.Node, spatial: int) -> None:
    """Let a pool of single elements, which changes none, of so many ``spatial`` axes follow ``node``."""
    old, graph = node.outputs[0], node.graph
    assert graph is not None
    made = _Nodes(old.name or "pool")
    again = made.add("MaxPool", [old], kernel_shape=[1] * spatial)
    _stand_after(old, again)
    made.nodes[0].replace_input_with(0, old)
    graph.insert_after(node, made.nodes)


# --- attention


def _products_of(node: ir.Node) -> list[ir.Value]:
    """The weighted sums of the attention that ``node`` is, or is the softmax of."""
    if node.op_type == "Attention":
        return [node.outputs[0]]
    users = [use.node for use in node.outputs[0].uses()]
    return [user.outputs[0] for user in users if user.op_type == "MatMul" and user.inputs[0] is node.outputs[0]]


def _stand_alone(product: ir.Value) -> None:
    """Let a pool of single elements follow ``product`` of attention where OpenVINO would join it to what ends it."""
    rank, node = _rank_of(product), product.producer()
    if rank is not None and rank > 2 and node is not None and _is_joined_to_what_is_read_twice(product):
        _insert_pool(node, rank - 2)


def _is_joined_to_what_is_read_twice(value: ir.Value) -> bool:
    """True if elementwise operators join ``value`` to something else that is computed, and several nodes read it."""
    is_joined = False
    for _ in range(_MOST_AFTER):
        users = [use.node for use in value.uses()]
        if len(users) + value.is_graph_output() != 1 or not users:
            return is_joined and len(users) + value.is_graph_output() > 1
        if users[0].op_type not in (*_ALONE, *_GATES, *_KEEPING, *_MOVES):
            return False
        others = [one for one in users[0].inputs if one is not None and one is not value]
        is_joined |= any(one.producer() is not None and not _is_constant(one) for one in others)
        value = users[0].outputs[0]
    return False


# --- Mish


def _softplus_of(node: ir.Node) -> ir.Value | None:
    """The operand of the softplus in Mish, which is one node or ends in the hyperbolic tangent ``node``.

    None where there is no softplus, or where it reads a convolution, which OpenVINO joins it to.
    """
    data = node.inputs[0]
    made_by = None if data is None else data.producer()
    if node.op_type == "Tanh":
        if made_by is None or made_by.op_type != "Softplus":
            return None
        data = made_by.inputs[0]
        made_by = None if data is None else data.producer()
    return None if made_by is not None and made_by.op_type.startswith("Conv") else data


def _write_out_mish(node: ir.Node, data: ir.Value) -> None:
    """Let the hyperbolic tangent in Mish read the softplus of ``data`` up to a number that is as large as counts."""
    graph, made = node.graph, _Nodes(f"{node.outputs[0].name or 'mish'}_apart")
    assert graph is not None
    softplus = made.add("Softplus", [data])
    least = made.add("Min", [softplus, made.number(_MOST_OF_TANH, data.dtype or ir.DataType.FLOAT)])
    if node.op_type == "Tanh":
        node.replace_input_with(0, least)
    else:
        node.op_type = "Mul"
        node.resize_inputs(2)
        node.replace_input_with(1, made.add("Tanh", [least]))
    graph.insert_before(node, made.nodes)


# --- convolutions


def _skips_padded_elements(node: ir.Node) -> bool:
    """True if a convolution of single elements has strides, and what it reads is padded."""
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


def _pick_before(node: ir.Node) -> None:
    """Let the convolution ``node`` read what its strides reach, padded before."""
    data, old, graph = node.inputs[0], node.outputs[0], node.graph
    strides, pads = (node.attributes.get_ints(name, ()) for name in ("strides", "pads"))
    assert data is not None
    assert graph is not None
    count, made = len(strides), _Nodes(old.name or "convolution")
    if any(pads):
        data = made.add("Pad", [data, made.constant([0, 0, *pads[:count], 0, 0, *pads[count:]])])
    axes = range(2, 2 + count)
    picked = made.add("Slice", [data, *map(made.constant, ([0] * count, [_END] * count, axes, strides))])
    node.replace_input_with(0, picked)
    node.attributes["strides"] = ir.AttrInt64s("strides", [1] * count)
    node.attributes["pads"] = ir.AttrInt64s("pads", [0] * (2 * count))
    graph.insert_before(node, made.nodes)


def _reaches_padding_alone(node: ir.Node) -> bool:
    """True if a convolution of float32 has a window that may lie in its padding alone."""
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


def _join_padding(node: ir.Node) -> None:
    """Let the convolution ``node`` read zeros that are joined to its data, in place of its padding."""
    data, old, graph = node.inputs[0], node.outputs[0], node.graph
    pads = node.attributes.get_ints("pads", ())
    assert data is not None
    assert graph is not None
    made, rank = _Nodes(f"{old.name or 'convolution'}_padding"), 2 + len(pads) // 2
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


def _zeros_beside(made: _Nodes, data: ir.Value, axis: int, rank: int, count: int) -> ir.Value:
    """Zeros of the shape of ``data`` but for ``count`` along ``axis``."""
    after = [_sizes(made, data, axis + 1, rank)] if axis + 1 < rank else []
    return made.add(
        "ConstantOfShape", [made.add("Concat", [_sizes(made, data, 0, axis), made.constant([count]), *after], axis=0)]
    )


class _Nodes:
    """New nodes in order, whose values are named after one that they replace."""

    def __init__(self, name: str) -> None:
        self._name: Final = name
        self.nodes: Final[list[ir.Node]] = []

    def add(self, op_type: str, inputs: Sequence[ir.Value], **attributes: int | Sequence[int]) -> ir.Value:
        """The output of a new node."""
        node = ir.node(op_type, inputs, attributes)
        node.outputs[0].name = f"{self._name}_{op_type.lower()}_{len(self.nodes)}"
        self.nodes.append(node)
        return node.outputs[0]

    def constant(self, numbers: Sequence[int]) -> ir.Value:
        """The output of a new node that gives these numbers."""
        return self._constant(np.array(numbers, np.int64))

    def number(self, number: float, dtype: ir.DataType) -> ir.Value:
        """The output of a new node that gives one number."""
        return self._constant(np.array(number, dtype.numpy()))

    def _constant(self, array: np.ndarray) -> ir.Value:
        node = ir.node("Constant", [], {"value": ir.Tensor(array)})
        node.outputs[0].name = f"{self._name}_constant_{len(self.nodes)}"
        self.nodes.append(node)
        return node.outputs[0]
