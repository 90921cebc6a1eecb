"""Weights that are stored as codes with scales, and OpenVINO's errors with them.

Codes of 2 bits: OpenVINO does not have them.

Codes of 4 bits that a program converts itself: if each of them has a scale, OpenVINO divides by zero.

Codes of the right operand of a product: OpenVINO reads the scales as one per column, or per block of a column. With one
scale per row it computes other values, and it refuses blocks of a row. For a lookup table, it reads the scales as one
per row, or per block of a row; otherwise it reads beyond their end, and may crash the process. Products with blocks of
5, 6, 10, 14, 18, 40 or 48 elements give other values there; powers of 2, tried up to 256, are right.

Quantizations to 16 bits: OpenVINO drops them, and with them the limits that serve as an activation.

A quantized bias: if two layers share one, ONNX Runtime's quantizer writes the second layer's bias twice, and OpenVINO
fails to move it behind the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from ...formats.onnx.write.known_nodes import evaluated
from .nodes import Nodes, is_constant, rank_of

_BYTES: Final = {ir.DataType.INT4: np.int8, ir.DataType.UINT4: np.uint8}
_TWO_BITS: Final = {ir.DataType.INT2: ir.DataType.INT8, ir.DataType.UINT2: ir.DataType.UINT8}
_CODES: Final = (*_BYTES, ir.DataType.INT8, ir.DataType.UINT8)
_OPSET: Final = 21
"""The first opset with block-wise codes."""
_MOST_NODES: Final = 8
"""The length of the longest chain of nodes that weights are computed with."""


def hold_in_bytes(graph: ir.Graph, nodes: Sequence[ir.Node]) -> None:
    """Give each 2-bit number in ``graph`` a byte, in constants and in nodes that only move them."""
    for value in graph.initializers.values():
        wider, held = _in_bytes(value), value.const_value
        if wider is not None and held is not None:
            value.const_value = ir.tensor(held.numpy().astype(wider.numpy()), name=value.name)
            value.dtype = wider
    for node in nodes:
        for value in node.outputs:
            wider = _in_bytes(value)
            if node.op_type != "Cast" and wider is not None:
                value.dtype = wider


def _in_bytes(value: ir.Value) -> ir.DataType | None:
    return None if value.dtype is None else _TWO_BITS.get(value.dtype)


def rounds_to_16_bits(node: ir.Node) -> bool:
    """True if ``node`` quantizes float32 to 16 bits."""
    data, zero = node.inputs[0], node.inputs[2] if len(node.inputs) > 2 else None
    is_wide = zero is not None and zero.dtype in (ir.DataType.INT16, ir.DataType.UINT16)
    return node.op_type == "QuantizeLinear" and is_wide and data is not None and data.dtype == ir.DataType.FLOAT


def round_by_arithmetic(node: ir.Node) -> None:
    """Write a quantization to 16 bits as a rounded and clipped quotient, in place."""
    codes, (data, scale, zero) = node.outputs[0], node.inputs
    assert data is not None
    assert scale is not None
    assert zero is not None
    assert zero.dtype is not None
    made, limits = Nodes(codes.name or ""), np.iinfo(zero.dtype.numpy())
    rank, axis = rank_of(data), node.attributes.get_int("axis", 1)
    wide = made.add("Cast", [zero], to=int(ir.DataType.FLOAT))
    scale_rank = rank_of(scale)
    if scale_rank and rank:
        shape = made.constant([-1, *[1] * (rank - 1 - axis % rank)])
        scale, wide = (made.add("Reshape", [one, shape]) for one in (scale, wide))
    steps = made.add("Add", [made.add("Round", [made.add("Div", [data, scale])]), wide])
    least, most = (made.number(limit, ir.DataType.FLOAT) for limit in (limits.min, limits.max))
    result = made.add("Cast", [made.add("Clip", [steps, least, most])], to=int(zero.dtype))
    assert node.graph is not None
    ir.convenience.replace_nodes_and_values(node.graph, node, [node], made.nodes, [codes], [result])


def reads_codes(node: ir.Node) -> bool:
    """True if ``node`` casts a constant of 4 bits."""
    value = node.inputs[0]
    return value is not None and value.dtype in _BYTES and ir.convenience.get_const_tensor(value) is not None


def read_bytes(node: ir.Node) -> None:
    """Make the cast read the same numbers, stored in bytes."""
    value = node.inputs[0]
    assert value is not None
    assert value.dtype is not None
    held = ir.convenience.get_const_tensor(value)
    assert held is not None
    made = Nodes(f"{value.name}/Bytes")
    node.replace_input_with(0, made.tensor(held.numpy().astype(_BYTES[value.dtype])))
    assert node.graph is not None
    node.graph.insert_before(node, made.nodes)


def misread_codes(node: ir.Node) -> int | None:
    """The position of an operand that is computed from codes and that OpenVINO may misread; else None."""
    match node.op_type:
        case "Add":
            return _summand_of_codes(node)
        case "Gather" if _has_other_scales(node.inputs[0], is_turned=not node.attributes.get_int("axis", 0)):
            return 0
        case "Gemm" | "MatMul" if _has_other_scales(
            node.inputs[1], is_turned=bool(node.attributes.get_int("transB", 0))
        ):
            return 1
        case _:
            return None


def _has_other_scales(right: ir.Value | None, *, is_turned: bool) -> bool:
    """True if the codes that ``right`` is computed from may have scales per row, or per column if it is transposed."""
    if right is None or right.producer() is None or not is_constant(right, _MOST_NODES):
        return False
    made = list(_before(right))
    if not any(value is not None and value.dtype in _CODES for node in made for value in node.inputs):
        return False
    for node in made:
        if node.op_type == "Transpose":
            is_turned = not is_turned
        elif node.op_type == "DequantizeLinear":
            return not _is_by_column(node, summed=1 if is_turned else 0)
        elif node.op_type in ("Add", "Div", "Mul", "Sub"):
            beside = [value for value in node.inputs if value is not None and value.producer() not in made]
            if not all(_fits_columns(value, is_turned) for value in beside):
                return True
    return False


def _is_by_column(dequantized: ir.Node, summed: int) -> bool:
    """True if scales are per column or per block of a column; ``summed`` is the axis along columns."""
    held = None if dequantized.inputs[1] is None else ir.convenience.get_const_tensor(dequantized.inputs[1])
    if held is None:
        return False
    data = dequantized.inputs[0]
    rank = 2 if data is None or data.shape is None else len(data.shape)
    is_along = dequantized.attributes.get_int("axis", 1) % rank == summed
    has_blocks, size = len(held.shape) > 1, dequantized.attributes.get_int("block_size", 0)
    if has_blocks and size & (size - 1) and held.shape[summed] != 1:
        return False
    return held.size == 1 or (rank == 2 and is_along == has_blocks)


def _fits_columns(value: ir.Value, is_turned: bool) -> bool:
    """True if each number in ``value`` belongs to a column, or to a block of one if the last axis is in blocks."""
    held = ir.convenience.get_const_tensor(value)
    if held is None:
        return False
    sizes = (1, 1, *held.shape)
    return held.size == 1 or (sizes[-1 if is_turned else -2] == 1 and (len(held.shape) < 3 or is_turned))


def _summand_of_codes(total: ir.Node) -> int | None:
    """The position of the operand of a sum that is dequantized from constants; else None."""
    for place, value in enumerate(total.inputs):
        maker = None if value is None else value.producer()
        if maker is not None and maker.op_type == "DequantizeLinear" and is_constant(maker.outputs[0]):
            return place
    return None


def read_numbers(node: ir.Node, place: int = 1) -> None:
    """Make the node read, at ``place``, the numbers that the codes represent."""
    value = node.inputs[place]
    assert value is not None
    assert node.graph is not None
    made = Nodes(f"{value.name}/Numbers_{place}")
    node.replace_input_with(place, made.tensor(_numbers(value)))
    node.graph.insert_before(node, made.nodes)


def _numbers(value: ir.Value) -> np.ndarray:
    """The numbers that the nodes before ``value`` compute from constants."""
    held = ir.convenience.get_const_tensor(value)
    if held is not None:
        numbers = held.numpy()
        return numbers.astype(_BYTES[held.dtype]) if held.dtype in _BYTES else numbers
    node = value.producer()
    assert node is not None
    return evaluated(node, [None if one is None else _numbers(one) for one in node.inputs], _OPSET)


def _before(value: ir.Value) -> Iterator[ir.Node]:
    """The nodes that compute ``value`` from codes, the last one first."""
    following: ir.Value | None = value
    for _ in range(_MOST_NODES):
        maker = None if following is None else following.producer()
        if maker is None or maker.op_type == "Constant":
            return
        yield maker
        operands: Sequence[ir.Value | None] = maker.inputs
        made = [one for one in operands if one is not None and _is_made(one)]
        following = made[0] if made else operands[0]


def _is_made(value: ir.Value) -> bool:
    maker = value.producer()
    return maker is not None and maker.op_type != "Constant"
