"""Reading products with weights in blocks of a few bits, each with a scale: ``MatMulNBits``.

If a runtime may round the other operand to bytes, it is one operator, `matmul_blocks`. Otherwise the weights are
dequantized and transposed, in the form of a blocked ``DequantizeLinear`` before a product.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .... import op as ops
from ....ir.expr import Constant, Expr, const
from ....ir.tensor_data import TensorData
from .importing import Imported, NodeImporter, reads

_ROUNDED_TO_BYTES = 4
"""The accuracy level at which ONNX Runtime rounds the other operand to bytes."""


class _Blocks(NamedTuple):
    """Weights (``rows``, ``columns``); each column has ``blocks`` blocks of ``size`` numbers of ``bits`` bits."""

    rows: int
    columns: int
    bits: int
    size: int

    @property
    def blocks(self) -> int:
        return -(-self.rows // self.size)


@reads("MatMulNBits", domain="com.microsoft")
def _matmul_nbits(node: NodeImporter) -> Imported:
    stored = _Blocks(node.attr("K"), node.attr("N"), node.attr("bits", 4), node.attr("block_size"))
    if stored.bits not in (2, 4, 8) or node.attr("weight_prepacked", 0):
        raise node.refuse("other widths, and weights that are laid out for a runtime")
    if node.dtype(0) not in ("float32", "float16") or node.dtype(2) != node.dtype(0):
        raise node.refuse("scales of another dtype")
    order = _order(node, stored)
    has_own_zeros = node.has(3) and node.dtype(3) != "uint8"
    if node.attr("accuracy_level", 0) == _ROUNDED_TO_BYTES and order is None and not has_own_zeros:
        found = _rounded(node, stored)
    else:
        found = _exact(node, stored, order)
    return found if not node.has(5) else ops.add(node.emit(found), node.operand(5))


def _order(node: NodeImporter, stored: _Blocks) -> np.ndarray | None:
    """The order of the rows in which each block is consecutive; None if it is the given order.

    Raises `UnsupportedNodeError` for blocks with too many or too few rows.
    """
    if not node.has(4):
        return None
    groups = node.array(4)
    if groups is None:
        raise node.refuse("rows that are put into blocks at run time")
    order = np.argsort(groups[: stored.rows], kind="stable")
    if not np.array_equal(groups[order], np.arange(stored.rows) // stored.size):
        raise node.refuse("blocks with more or fewer rows than they have room for")
    return None if np.array_equal(order, np.arange(stored.rows)) else order


def _rounded(node: NodeImporter, stored: _Blocks) -> Expr:
    columns, blocks, bits = stored.columns, stored.blocks, stored.bits
    shapes = [(columns, blocks, stored.size * bits // 8), (columns, blocks), (columns, -(-blocks * bits // 8))]
    operands = [
        node.operand(place) if node.shape(place) == shape else node.emit(ops.reshape(node.operand(place), shape))
        for place, shape in enumerate(shapes[: 3 if node.has(3) else 2], 1)
    ]
    return ops.matmul_blocks(node.operand(0), *operands, bits=bits, block_size=stored.size)


def _exact(node: NodeImporter, stored: _Blocks, order: np.ndarray | None) -> Expr:
    if node.dtype(0) != "float32":
        raise node.refuse("numbers of half precision, which would be rounded before they are summed")
    zeros = _zeros(_data_of(node, 3) if node.has(3) else None, stored)
    scales = _reshaped(_data_of(node, 2), (stored.columns, stored.blocks))
    numbers: Expr = ops.dequantize(_codes(_data_of(node, 1), stored, order), Constant(scales), zeros, 1, "float32")
    if stored.rows < stored.blocks * stored.size:
        numbers = ops.strided_slice(node.emit(numbers), [1], [0], [stored.rows], [1])
    turned = node.emit(ops.permute_dims(node.emit(numbers), [1, 0]))
    data = node.operand(0)
    if order is not None:
        data = node.emit(ops.take(data, const(order), axis=-1))
    return ops.matmul(data, turned)


def _data_of(node: NodeImporter, place: int) -> TensorData:
    known = node.graph.known(node.imported(place))
    if known is None:
        raise node.refuse("weights that are computed at run time")
    return known.data


def _codes(data: TensorData, stored: _Blocks, order: np.ndarray | None) -> Constant:
    shape = (stored.columns, stored.blocks * stored.size)
    codes = TensorData.from_packed(data, shape, stored.bits)
    if order is None:
        return Constant(codes)
    places = np.concatenate([order, np.arange(stored.rows, shape[1])])
    return Constant(codes.derived(shape, lambda numbers: numbers[:, places]))


def _zeros(data: TensorData | None, stored: _Blocks) -> Constant:
    """The zero points by block: packed like the codes, one number each, or by default the middle code."""
    if data is None:
        return const(np.full((stored.columns, stored.blocks), 2 ** (stored.bits - 1)), f"uint{stored.bits}")
    if data.dtype != "uint8":
        return Constant(_reshaped(data, (stored.columns, stored.blocks)))
    per_byte = 8 // stored.bits
    width = -(-stored.blocks // per_byte) * per_byte
    codes = TensorData.from_packed(data, (stored.columns, width), stored.bits)
    shape = (stored.columns, stored.blocks)
    return Constant(codes.derived(shape, lambda numbers: numbers[:, : stored.blocks]))


def _reshaped(data: TensorData, shape: tuple[int, ...]) -> TensorData:
    if data.shape == shape:
        return data
    return TensorData.lazy(shape, data.dtype, lambda: data.read().reshape(shape), data.name, data.sources)
