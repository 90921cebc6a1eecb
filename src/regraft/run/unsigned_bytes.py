"""Signed bytes that are multiplied by unsigned ones, written as unsigned ones: the same numbers with another zero
point.

If the processor has no instruction for byte products, ONNX Runtime multiplies uint8 by int8 in pairs, and sums each
pair in 16 bits. The sum overflows: twice 255 * 127 is 64,770. With two uint8 operands it is exact.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import onnx_ir as ir

from ..formats.onnx.attributes import bodies_of
from .processor import multiplies_bytes

if TYPE_CHECKING:
    import onnx

_PRODUCTS: Final = ("MatMul", "Gemm", "Conv", "ConvTranspose")


class _Operands(NamedTuple):
    """The positions of the left operand and its zero point, None if the operator quantizes it; and of each right
    operand.
    """

    left: tuple[int, int] | None
    right: tuple[tuple[int, int], ...]


_MICROSOFT: Final = "com.microsoft"

_ON_BYTES: Final[Mapping[tuple[str, str], _Operands]] = {
    ("", "MatMulInteger"): _Operands((0, 2), ((1, 3),)),
    ("", "ConvInteger"): _Operands((0, 2), ((1, 3),)),
    ("", "QLinearMatMul"): _Operands((0, 2), ((3, 5),)),
    ("", "QLinearConv"): _Operands((0, 2), ((3, 5),)),
    (_MICROSOFT, "QLinearConv"): _Operands((0, 2), ((3, 5),)),
    (_MICROSOFT, "QGemm"): _Operands((0, 2), ((3, 5),)),
    (_MICROSOFT, "MatMulIntegerToFloat"): _Operands((0, 4), ((1, 5),)),
    (_MICROSOFT, "QAttention"): _Operands((0, 6), ((1, 7),)),
    (_MICROSOFT, "DynamicQuantizeMatMul"): _Operands(None, ((1, 3),)),
    (_MICROSOFT, "DynamicQuantizeLSTM"): _Operands(None, ((1, 9), (2, 11))),
}
"""The operators that multiply bytes themselves."""

_UNSIGNED: Final = ir.DataType.UINT8
_SIGNED: Final = ir.DataType.INT8

_SAFE: Final = 64
"""Weights up to this magnitude are not changed: two of their products with 255 fit into 16 bits."""

_OFFSET: Final = 128

_MOST_MOVES: Final = 16
"""The number of nodes between a quantized value and its product that are searched."""


def without_overflow(graph: ir.Graph, *, needed: bool | None = None, fold_signed: bool = False) -> bool:
    """Change ``graph`` in place so that no product has one operand in uint8 and the other in int8 of more than 7 bits.

    This covers operators on bytes, and products of `DequantizeLinear`'s results, which runtimes compute in bytes; for
    these they add 128 to int8 on the left themselves. Values stay the same. Returns True if there was such a product.
    ``needed`` says that the processor overflows; by default it is checked for this one. ``fold_signed``: weights beside
    int8 become float32, because a runtime keeps their zero point from being changed. Cost: linear in the nodes, and in
    the weights that change.
    """
    if multiplies_bytes() if needed is None else not needed:
        return False
    change = _Change(graph, fold_signed)
    change.run(graph)
    change.drop_unread()
    return change.is_made


def model_without_overflow(model: str | os.PathLike[str] | onnx.ModelProto) -> bytes | None:
    """The content of an ONNX file or model without such products, including weights from files beside it.

    None if it has no such product, if it cannot be read, or if it is too large for one message.
    """
    try:
        is_file = isinstance(model, str | os.PathLike)
        read = ir.load(os.fspath(model)) if is_file else ir.from_proto(model)  # pyright: ignore[reportUnknownMemberType]
        if not without_overflow(read.graph, needed=True):
            return None
        return ir.to_proto(ir.external_data.load_to_model(read)).SerializeToString()
    except Exception:  # opening the model later reports the error
        return None


class _Change:
    """The change of one graph, with the new form of each int8 value."""

    def __init__(self, graph: ir.Graph, fold_signed: bool) -> None:
        self._graph = graph
        self._fold_signed = fold_signed
        self._changed: dict[ir.Value, ir.Value] = {}
        self.is_made = False

    def run(self, nodes: ir.Graph) -> None:
        """Change the operands of the products among ``nodes``, and in their bodies."""
        for node in list(nodes):
            for body in bodies_of(node):
                self.run(body)
            operands = _ON_BYTES.get((node.domain, node.op_type))
            if operands is not None:
                self._product_on_bytes(node, operands)
            elif node.op_type in _PRODUCTS and not node.domain:
                self._product_of_dequantized(node)

    def _product_on_bytes(self, node: ir.Node, operands: _Operands) -> None:
        places = operands.left or ()
        if places and _UNSIGNED not in [_dtype_of(_input(node, place)) for place in places]:
            return
        for data, zero_point in operands.right:
            if _dtype_of(_input(node, data)) == _SIGNED:
                self._make_unsigned(node, data, zero_point)

    def _product_of_dequantized(self, node: ir.Node) -> None:
        made_by, right = (_made_by(None if value is None else value.producer()) for value in node.inputs[:2])
        if made_by is None or right is None or not _gives(right, _SIGNED) or _is_safe(right.inputs[0]):
            return
        if _gives(made_by, _UNSIGNED):
            self._read_unsigned(right)
        elif _gives(made_by, _SIGNED):
            if self._fold_signed:
                self._fold(node, right)
            elif self._read_unsigned(made_by):
                self._read_unsigned(right)

    def drop_unread(self) -> None:
        """Remove constants that are no longer read."""
        for value in self._changed:
            if not value.uses() and value.name is not None:
                self._graph.initializers.pop(value.name, None)

    def _read_unsigned(self, dequantized: ir.Node) -> bool:
        """Make a `DequantizeLinear` read unsigned bytes, if the source of its bytes can produce them; True if so."""
        data, zero_point = dequantized.inputs[0], _input(dequantized, 2)
        if data is None or (zero_point is not None and zero_point.const_value is None):
            return False
        quantized = data.producer()
        if data.const_value is not None:
            self._make_unsigned(dequantized, 0, 2)
            return True
        if quantized is None or not _is(quantized, "QuantizeLinear"):
            return False
        point = _input(quantized, 2)
        readers = [use.node for use in data.uses()]
        is_whole = all(_is(reader, "DequantizeLinear") for reader in readers)
        if point is None or point.const_value is None or not is_whole or data.is_graph_output():
            return False
        for one in (quantized, *readers):
            one.replace_input_with(2, self._unsigned(_input(one, 2), one))
        data.dtype = _UNSIGNED
        self.is_made = True
        return True

    def _fold(self, product: ir.Node, dequantized: ir.Node) -> None:
        """Make ``product`` read the numbers that constant bytes represent."""
        known = [None if value is None else value.const_value for value in dequantized.inputs]
        if product.inputs[1] is not dequantized.outputs[0] or None in known or "block_size" in dequantized.attributes:
            return
        data, scale, *point = [one.numpy() for one in known if one is not None]
        axis = dequantized.attributes.get_int("axis", 1)
        beside = [-1 if each == axis % data.ndim else 1 for each in range(data.ndim)] if scale.ndim else ()
        zero = point[0].astype(np.int32).reshape(beside) if point else 0
        numbers = ((data.astype(np.int32) - zero) * scale.reshape(beside)).astype(scale.dtype)
        self.is_made = True
        product.replace_input_with(1, self._constant(dequantized.outputs[0].name or "weights", numbers))

    def _make_unsigned(self, node: ir.Node, data: int, zero_point: int) -> None:
        """Make ``node`` read its operand ``data`` as unsigned bytes, with the matching zero point."""
        value = node.inputs[data]
        if _is_safe(value):
            return
        self.is_made = True
        point = self._unsigned(_input(node, zero_point), node)
        node.replace_input_with(data, self._unsigned(value, node))
        node.resize_inputs(max(len(node.inputs), zero_point + 1))
        node.replace_input_with(zero_point, point)

    def _unsigned(self, value: ir.Value | None, node: ir.Node) -> ir.Value:
        """``value`` plus 128, in uint8, for ``node``; None is a zero point of 0."""
        if value is None:
            scale = node.inputs[1] if node.op_type == "DequantizeLinear" else None
            sizes = () if scale is None or scale.shape is None else tuple(scale.shape.numpy())
            return self._constant("zero_point", np.full(sizes, _OFFSET, np.uint8))
        if value.const_value is None:
            return self._computed(value, node)
        if value not in self._changed:
            array = (value.const_value.numpy().astype(np.int16) + _OFFSET).astype(np.uint8)
            self._changed[value] = self._constant(value.name or "weights", array)
        return self._changed[value]

    def _constant(self, hint: str, array: np.ndarray) -> ir.Value:
        name = f"{hint}_unsigned_{len(self._graph.initializers)}"
        tensor = ir.Tensor(array, name=name)
        value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
        self._graph.initializers[name] = value
        return value

    def _computed(self, value: ir.Value, node: ir.Node) -> ir.Value:
        """A value that is known only at run time, plus 128; added in 32 bits, which every opset supports."""
        offset = self._constant("offset", np.array(_OFFSET, np.int32))
        wide = ir.node("Cast", [value], {"to": ir.DataType.INT32})
        summed = ir.node("Add", [wide.outputs[0], offset])
        narrow = ir.node("Cast", [summed.outputs[0]], {"to": _UNSIGNED})
        graph = node.graph
        assert isinstance(graph, ir.Graph)
        for number, made in enumerate((wide, summed, narrow)):
            made.outputs[0].name = f"{value.name}_unsigned_{len(self._graph.initializers)}_{number}"
        graph.insert_before(node, (wide, summed, narrow))
        return narrow.outputs[0]


def _input(node: ir.Node, index: int) -> ir.Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _is_safe(value: ir.Value | None) -> bool:
    """True for constant bytes that are too small to overflow."""
    known = None if value is None else value.const_value
    return known is not None and bool(np.abs(known.numpy().astype(np.int16)).max(initial=0) <= _SAFE)


def _dtype_of(value: ir.Value | None) -> ir.DataType | None:
    """The dtype of ``value``; a file need not state it for the result of a quantization."""
    made_by = None if value is None else value.producer()
    if value is None or value.dtype is not None or made_by is None:
        return None if value is None else value.dtype
    if made_by.op_type == "DynamicQuantizeLinear" and not made_by.domain:
        return _UNSIGNED
    return _dtype_of(_input(made_by, 2)) if _is(made_by, "QuantizeLinear") else None


def _made_by(node: ir.Node | None) -> ir.Node | None:
    """The source node of the numbers that ``node`` moves, pools or clips: runtimes move quantization across these."""
    for _ in range(_MOST_MOVES):
        if node is None or not node.inputs or node.op_type in ("DequantizeLinear", *_PRODUCTS):
            break
        node = None if node.inputs[0] is None else node.inputs[0].producer()
    return node


def _gives(node: ir.Node | None, dtype: ir.DataType) -> bool:
    """True if ``node`` dequantizes bytes of ``dtype``."""
    return node is not None and _is(node, "DequantizeLinear") and _dtype_of(node.inputs[0]) == dtype


def _is(node: ir.Node, op_type: str) -> bool:
    """True for ONNX's operator of that name, or ONNX Runtime's equivalent in its own domain."""
    return node.op_type == op_type and node.domain in ("", _MICROSOFT)
