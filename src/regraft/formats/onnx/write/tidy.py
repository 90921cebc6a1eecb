"""Clean-up of a written graph: nodes that exist only because operators were written one at a time are removed.

It works on nodes and knows no operator of the vocabulary. Constants are rearranged while the model is written, a sum
after a product or a convolution becomes its bias, and unread nodes are removed.
Passes and rules clean up programs. This module handles what has no form in a program: a primitive convolution has no
bias, a primitive product adds nothing, and a loop has no axes and directions as a `Scan` has. The other nodes that it
removes are in no program either: one operator is written as several nodes that rearrange constants between them, and
two operators may be written with equal nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from ....ir.tensor_data import TensorData
from ....op.folding import MOST_KNOWN
from ..attributes import bodies_of
from ..source_nodes import ORIGIN_KEY
from .graph import GraphWriter, dtype_of, maker, order_of
from .kernels import has_kernel
from .known_nodes import known_result
from .scans import arrange_scan


def tidy(graph: GraphWriter, results: Sequence[ir.Value]) -> dict[ir.Value, ir.Value]:
    """Make the graph smaller, in place. Returns the replacements of those ``results`` that were removed.

    Equal nodes with equal operands are merged. A node that only rearranges a constant is replaced by the rearranged
    constant, unless something else reads the constant as it is, or it is large and a result. Two `Unsqueeze` in a row
    become one. A sum after a convolution or a product of two matrices, with one number for each channel or column,
    becomes an operand of that node; so does one after a product with weights in blocks. A `Scan` takes transposes and
    reversals into its own attributes. Nodes over a few known numbers are computed, unless the source model had them.
    Unread nodes are removed. In the bodies of branches and loops, equal nodes are merged and unread nodes are removed.
    Cost: linear in the nodes.
    """
    tidying = _Tidying(graph, results)
    tidying.compute_all_once(graph.nodes)
    standard = [node for node in graph.nodes if not node.domain]
    for node in standard:
        if node.op_type != "Transpose":  # transposes last: a product can transpose its right operand itself
            tidying.arrange(node)
    for node in standard:
        if node.op_type == "Add":
            tidying.sum_into_producer(node)
        elif node.op_type == "Unsqueeze":
            tidying.unsqueeze_once(node)
        elif node.op_type == "Scan":
            tidying.arrange_scan(node)
    for node in standard:
        tidying.arrange(node)
    for node in graph.nodes:
        tidying.compute_known(node)
    tidying.put_later()
    tidying.drop_unread()
    return {value: tidying.now(value) for value in tidying.replaced}


class _Tidying:
    __slots__ = ("_arranged", "_graph", "_known", "_later", "_results", "_sources", "replaced")
    replaced: dict[ir.Value, ir.Value]

    def __init__(self, graph: GraphWriter, results: Sequence[ir.Value]) -> None:
        self._graph = graph
        self._results = dict.fromkeys(results)
        self._arranged: dict[tuple[ir.Value, tuple[int, ...], tuple[int, ...] | None], ir.Value] = {}
        self._sources: dict[ir.Value, ir.Value] = {}
        self._known: dict[tuple[object, ...], ir.Node] = {}
        self._later: dict[ir.Node, ir.Node] = {}
        self.replaced = {}

    def compute_all_once(self, nodes: Iterable[ir.Node]) -> None:
        """Replace ``nodes``, and nodes in their bodies, by equal nodes that come earlier, here or around the bodies."""
        added: list[tuple[object, ...]] = []
        for node in nodes:
            outer = self._known
            if node.op_type == "Scan":  # not all runtimes let its body read values from around it
                self._known = {}
            for body in bodies_of(node):
                self.compute_all_once(body)
            self._known = outer
            key = None if node in self._graph.effects else _what_it_does(node)
            if key is not None and key not in self._known:
                self._known[key] = node
                added.append(key)
            elif key is not None and not any(output.is_graph_output() for output in node.outputs):
                known = self._known[key]
                for mine, theirs in zip(node.outputs, known.outputs, strict=True):
                    self._replace(node, mine, theirs)
                _join_origins(known, node)
        for key in added:
            del self._known[key]

    def arrange(self, node: ir.Node) -> None:
        """Replace a node that only rearranges a constant by a new constant, if all readers rearrange it in this way."""
        if node.op_type not in _ARRANGEMENTS or len(node.inputs) != 1 + (node.op_type != "Transpose"):
            return
        source, result = node.inputs[0], node.outputs[0]
        data = self._graph.data_of(source)
        if source is None or data is None or not all(_is_same(node, use.node, use.idx) for use in source.uses()):
            return
        if source in self._results and data.size > MOST_KNOWN:
            return
        shape = _ARRANGEMENTS[node.op_type](self._graph, node, data)
        if shape is not None:
            order = order_of(node, len(shape)) if node.op_type == "Transpose" else None
            self._replace(node, result, self._constant(source, shape, order))

    def _constant(self, source: ir.Value, shape: tuple[int, ...], order: tuple[int, ...] | None) -> ir.Value:
        """The constant ``source`` transposed to ``order``, or reshaped to ``shape`` if that is None; made once."""
        if order is None:
            source = self._sources.get(source, source)
        data = self._graph.data_of(source)
        assert data is not None
        if order is None and data.shape == shape:
            return source
        key = source, shape, order
        if key not in self._arranged:
            found = self._graph.constant_data(_as_arranged(data, shape, order), "constant")
            self._arranged[key] = found
            if order is None:
                self._sources[found] = source
        return self._arranged[key]

    def sum_into_producer(self, node: ir.Node) -> None:
        """Turn the addition of a row to a convolution or a matrix product into an operand of that node."""
        for value, summand in (tuple(node.inputs), tuple(node.inputs[::-1])):
            producer = None if value is None else value.producer()
            added = None if summand is None else self._added(summand)
            if added is None or producer is None or value is None or summand is None:
                continue
            row, shape, dtype = added
            if len(value.uses()) != 1 or value in self._results:
                continue
            if self._is_known_row(row) and _is_for_stored_columns(producer, shape):
                self._add_inside(node, producer, row, 5)
                return
            if len(producer.inputs) != 2 or producer.domain:
                continue
            if producer.op_type in _CHANNELS and _is_for_channels(producer, shape):
                bias = row if self._graph.data_of(row) is None else self._constant(row, (prod(shape),), None)
            elif self._is_known_row(row) and _is_for_columns(producer, shape, dtype):
                bias = row
                _make_gemm(producer)
            else:
                continue
            self._add_inside(node, producer, bias, 2)
            return

    def _add_inside(self, node: ir.Node, producer: ir.Node, bias: ir.Value, place: int) -> None:
        """Replace the sum ``node`` by ``producer``, with ``bias`` as its operand ``place``."""
        if bias.producer() is not None:
            self._later[node] = producer
        producer.resize_inputs(place + 1)
        producer.replace_input_with(place, bias)
        [value] = producer.outputs
        value.name, value.shape = node.outputs[0].name, node.outputs[0].shape
        _join_origins(producer, node)
        self._replace(node, node.outputs[0], value)

    def _added(self, summand: ir.Value) -> tuple[ir.Value, tuple[int, ...], str] | None:
        """The row that a summand is or is reshaped from, the shape of the summand, and its dtype; None for others."""
        data = self._graph.data_of(summand)
        if data is not None:
            return summand, data.shape, data.dtype
        change = maker(summand, "Reshape", "Unsqueeze")
        row = summand if change is None else change.inputs[0] or summand
        shape = summand.shape
        is_row = row.shape is not None and len(row.shape) == 1 and row.dtype is not None
        if not is_row or row in self._results or shape is None or not shape.is_static():
            return None
        return row, tuple(shape.numpy()), dtype_of(row)

    def _is_known_row(self, row: ir.Value) -> bool:
        """True for a row that no input changes: a constant, or dequantized codes of int32."""
        dequantize = maker(row, "DequantizeLinear")
        if dequantize is None:
            return self._graph.data_of(row) is not None
        codes = self._graph.data_of(dequantize.inputs[0])
        return codes is not None and codes.dtype == "int32"

    def compute_known(self, node: ir.Node) -> None:
        """Replace a node on known numbers by a constant, if the node was made while writing."""
        graph = self._graph
        if node in graph.kept or node in graph.effects or any(output in self._results for output in node.outputs):
            return
        operands = [graph.data_of(value) for value in node.inputs]
        if any(value is not None and data is None for value, data in zip(node.inputs, operands, strict=True)):
            return
        found = known_result(node, operands, graph.written_for)
        if found is not None:
            self._replace(node, node.outputs[0], graph.constant_data(TensorData(found), "constant"))

    def put_later(self) -> None:
        """Move each node that took in a sum to the place of the sum, after the node that makes the summand."""
        moved = set(self._later.values())
        if moved:
            self._graph.nodes[:] = [self._later.get(node, node) for node in self._graph.nodes if node not in moved]

    def unsqueeze_once(self, node: ir.Node) -> None:
        """Merge an `Unsqueeze` with an `Unsqueeze` before it."""
        inner = maker(node.inputs[0], "Unsqueeze")
        if inner is None or len(inner.inputs) != 2 or len(node.inputs) != 2:  # their form before opset 13
            return
        first, then = (_numbers(self._graph, each.inputs[1]) for each in (inner, node))
        if first is None or then is None or min(first) < 0 or min(then) < 0:
            return
        # The axes of the inner result in the outer one: the axes that `then` leaves free.
        free = [place for place in range(max(first) + len(then) + 1) if place not in then]
        axes = sorted([*then, *[free[axis] for axis in first]])
        node.replace_input_with(0, inner.inputs[0])
        node.replace_input_with(1, self._graph.integers(axes))

    def arrange_scan(self, node: ir.Node) -> None:
        """Let a scan go along other axes, or backwards, by its attributes."""
        arrange_scan(self._graph, node, self._results, self._replace)

    def _replace(self, node: ir.Node, old: ir.Value, new: ir.Value) -> None:
        """Let all readers of ``old``, the result of ``node``, read ``new``; ``node`` then reads nothing."""
        old.replace_all_uses_with(new)
        if old in self._results:
            self.replaced[old] = new
            self._results[new] = None
            del self._results[old]
        _detach(node)

    def now(self, value: ir.Value) -> ir.Value:
        """The final replacement of ``value``, or ``value`` itself."""
        while value in self.replaced:
            value = self.replaced[value]
        return value

    def drop_unread(self) -> None:
        """Remove nodes whose results are all unread."""
        live: list[ir.Node] = []
        for node in reversed(self._graph.nodes):
            for body in bodies_of(node):
                self._drop_unread_of(body)
            if node.domain and (node.domain, node.op_type, node.overload) not in self._graph.functions:
                self._leave_out_unread(node)
            if self._is_live(node):
                live.append(node)
            else:
                _detach_all(node)
        self._graph.nodes[:] = reversed(live)

    def _drop_unread_of(self, body: ir.Graph) -> None:
        for node in list(reversed(body)):
            for inner in bodies_of(node):
                self._drop_unread_of(inner)
            if not self._is_live(node):
                _detach_all(node)
                body.remove(node)

    def _is_live(self, node: ir.Node) -> bool:
        is_read = any(value.uses() or value in self._results or value.is_graph_output() for value in node.outputs)
        return is_read or self._has_effects(node)

    def _has_effects(self, node: ir.Node) -> bool:
        inside = (inner for body in bodies_of(node) for inner in body)
        return node in self._graph.effects or any(self._has_effects(inner) for inner in inside)

    def _leave_out_unread(self, node: ir.Node) -> None:
        """Remove unread results of a node of another domain: some runtimes do not compute all of its results."""
        given = self._graph.given
        first = 0 if any(output in given for output in node.outputs) else 1  # one is required if none is marked
        for output in node.outputs[first:]:
            if not output.uses() and output not in self._results and output not in given:
                output.name = ""


def _what_it_does(node: ir.Node) -> tuple[object, ...] | None:
    """The operator, operands and attributes of a node, equal for equal nodes; None for a node with a body."""
    if bodies_of(node):
        return None
    attributes: list[tuple[str, object]] = []
    for name, attribute in sorted(node.attributes.items()):
        told: object = attribute.value
        if attribute.type == ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
            held = tensor.string_data() if isinstance(tensor, ir.StringTensor) else tensor.tobytes()
            told = tensor.dtype, tuple(tensor.shape), held
        attributes.append((name, told))
    return node.domain, node.op_type, len(node.outputs), *node.inputs, tuple(map(repr, attributes))


def _detach(node: ir.Node) -> None:
    for index in range(len(node.inputs)):
        node.replace_input_with(index, None)


def _detach_all(node: ir.Node) -> None:
    """Remove the operands of ``node`` and of all nodes in its bodies."""
    _detach(node)
    for body in bodies_of(node):
        for inner in body:
            _detach_all(inner)


def _join_origins(node: ir.Node, other: ir.Node) -> None:
    texts = [props[ORIGIN_KEY] for props in (node.metadata_props, other.metadata_props) if ORIGIN_KEY in props]
    origins = dict.fromkeys(" ".join(texts).split())
    if origins:
        node.metadata_props[ORIGIN_KEY] = " ".join(origins)


# --- arranging constants


def _numbers(graph: GraphWriter, value: ir.Value | None) -> list[int] | None:
    data = graph.data_of(value)
    return None if data is None else [int(number) for number in data.numpy()]


def _transposed(_graph: GraphWriter, node: ir.Node, data: TensorData) -> tuple[int, ...] | None:
    return tuple([data.shape[axis] for axis in order_of(node, len(data.shape))])


def _unsqueezed(graph: GraphWriter, node: ir.Node, data: TensorData) -> tuple[int, ...] | None:
    axes = _numbers(graph, node.inputs[1])
    if axes is None:
        return None
    rank = len(data.shape) + len(axes)
    places = {axis % rank for axis in axes}
    sizes = iter(data.shape)
    return tuple([1 if axis in places else next(sizes) for axis in range(rank)])


def _reshaped(graph: GraphWriter, node: ir.Node, data: TensorData) -> tuple[int, ...] | None:
    sizes = _numbers(graph, node.inputs[1])
    if sizes is None or data.size == 0:
        return None
    sizes = [data.shape[axis] if size == 0 else size for axis, size in enumerate(sizes)]
    return tuple([data.size // -prod(sizes) if size == -1 else size for size in sizes])


_ARRANGEMENTS: Final[dict[str, Callable[[GraphWriter, ir.Node, TensorData], tuple[int, ...] | None]]] = {
    "Transpose": _transposed,
    "Reshape": _reshaped,
    "Unsqueeze": _unsqueezed,
}
"""For each operator that only rearranges its first operand, a function that gives the shape of the result for a
constant operand, or None if that is unknown."""


def _is_same(node: ir.Node, other: ir.Node, index: int) -> bool:
    """True if ``other`` rearranges its operand ``index`` exactly as ``node`` rearranges its first operand."""
    if node is other:
        return index == 0
    if (
        index != 0
        or (node.domain, node.op_type) != (other.domain, other.op_type)
        or node.inputs[1:] != other.inputs[1:]
    ):
        return False
    return order_of(node, 0) == order_of(other, 0)


def _as_arranged(data: TensorData, shape: tuple[int, ...], order: tuple[int, ...] | None) -> TensorData:
    """``data`` transposed to ``order``, or reshaped to ``shape`` if that is None, in the same memory.

    Reshaped data keeps its name; transposed data gets another.
    """
    name = data.name if data.name is None or order is None else f"{data.name}_transposed"

    def arranged(array: np.ndarray) -> np.ndarray:
        return array.reshape(shape) if order is None else array.transpose(order)

    if data.is_loaded:
        return TensorData(arranged(data.numpy()), name)
    return TensorData.lazy(shape, data.dtype, lambda: arranged(data.read()), name)


# --- biases

_CHANNELS: Final = ("Conv", "ConvTranspose")


def _is_for_channels(conv: ir.Node, shape: tuple[int, ...]) -> bool:
    """True if a summand of ``shape`` holds one number for each channel of the result of ``conv``."""
    weight = conv.inputs[1]
    if weight is None or weight.shape is None or not weight.shape.is_static():
        return False
    sizes = weight.shape.numpy()
    group = conv.attributes.get("group")
    channels = sizes[0] if conv.op_type == "Conv" else sizes[1] * (1 if group is None else group.as_int())
    beside = (channels, *[1] * (len(sizes) - 2))
    return shape == beside or shape == (1, *beside)


def _is_for_columns(product: ir.Node, shape: tuple[int, ...], dtype: str) -> bool:
    """True if a `Gemm` can compute ``product`` with a summand of ``shape``: one number for each column."""
    if product.op_type != "MatMul" or dtype == "float16" or not has_kernel("Gemm", dtype):
        return False
    left, right = product.inputs
    if left is None or right is None or left.shape is None or right.shape is None:
        return False
    return len(left.shape) == 2 == len(right.shape) and shape == (right.shape[1],)


def _is_for_stored_columns(product: ir.Node, shape: tuple[int, ...]) -> bool:
    """True if ``product`` has weights in blocks, and a summand of ``shape`` holds one number for each column."""
    if (product.domain, product.op_type) != ("com.microsoft", "MatMulNBits") or any(product.inputs[5:]):
        return False
    return shape == (product.attributes.get_int("N"),)


def _make_gemm(product: ir.Node) -> None:
    """Turn a matrix product into a `Gemm`, which can add, and which takes in a transpose of its right operand."""
    product.op_type = "Gemm"
    transpose = maker(product.inputs[1], "Transpose")
    if transpose is not None and order_of(transpose, 2) == (1, 0):
        product.replace_input_with(1, transpose.inputs[0])
        product.attributes.add(ir.AttrInt64("transB", 1))
