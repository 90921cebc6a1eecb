"""Reading matrix products and quantized arithmetic."""

from __future__ import annotations

import numpy as np

from .... import op as ops
from ....ir.dims import dims_equal
from ....ir.dtypes import is_float, is_integer, itemsize
from ....ir.expr import Constant, Expr, const
from ....op.semantics import integer_range
from .convolution import convolved, shifted, with_bias
from .elementwise import greatest_number
from .importing import Imported, NodeImporter, in_dtype, reads


@reads("Gemm")
def _gemm(node: NodeImporter) -> Imported:
    left, right = node.operand(0), node.operand(1)
    if node.attr("transA", 0):
        left = node.emit(ops.permute_dims(left))
    if node.attr("transB", 0):
        right = node.emit(ops.permute_dims(right))
    product: Expr = ops.matmul(left, right)
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    if alpha != 1.0:
        product = node.emit(product) * alpha
    addend = node.optional(2)
    if addend is None or beta == 0.0:
        return product
    if beta != 1.0:
        addend = node.emit(addend * beta)
    return node.emit(product) + addend


@reads("Einsum")
def _einsum(node: NodeImporter) -> Imported:
    return ops.einsum(node.operands(), node.attr("equation"))


@reads("MatMulInteger")
def _matmul_integer(node: NodeImporter) -> Imported:
    if any(node.has(index) and node.rank(index) > 1 for index in (2, 3)):
        # One zero point for each row or column of each matrix of a batch.
        left = shifted(node, 0, 2)
        right = in_dtype(node.operand(1), "int32")
        if node.has(3):
            right = right - in_dtype(node.operand(3), "int32")
        return ops.matmul(left, right, "int32")
    points = [node.operand(index) if node.has(index) else const(0, node.dtype(index - 2)) for index in (2, 3)]
    return ops.matmul_integer(node.operand(0), node.operand(1), *points)


@reads("DynamicQuantizeLinear")
def _dynamic_quantize(node: NodeImporter) -> tuple[Imported | None, ...]:
    found = node.emit(ops.dynamic_quantize(node.operand(0)))
    return found[0], found[1], found[2]


@reads("Det")
def _det(node: NodeImporter) -> Imported:
    size = node.known_shape()[-1]
    if size > 4:
        raise node.refuse("determinants of matrices of more than 4 rows are not supported")
    return _determinant(node, node.operand(0), list(range(size)), 0, size)


def _determinant(node: NodeImporter, x: Expr, columns: list[int], row: int, size: int) -> Expr:
    """The Laplace expansion along the first row. It is used for small sizes only."""

    def element(column: int) -> Expr:
        picked = ops.take(x, const(row, "int64"), axis=-2)
        return ops.take(node.emit(picked), const(column, "int64"), axis=-1)

    if len(columns) == 1:
        return node.emit(element(columns[0]))
    total: Expr | None = None
    for place, column in enumerate(columns):
        minor = _determinant(node, x, [other for other in columns if other != column], row + 1, size)
        term = element(column) * minor
        total = node.emit(term if total is None else total - term if place % 2 else total + term)
    assert total is not None
    return total


# --- quantization


def _blocked(node: NodeImporter, parameter: Expr, axis: int) -> Expr:
    """A parameter with one element for each block along ``axis``, repeated for each element of the block.

    Its dtype must have whole bytes: ONNX Runtime cannot move elements of 4 bits.
    """
    size = node.attr("block_size", 0)
    sizes = node.shape()
    repeated = ops.repeat(parameter, size, axis)
    total = sizes[axis]
    if not isinstance(total, int):
        raise node.undecided("blocks along an axis of a size that is known at run time only")
    return node.emit(ops.strided_slice(node.emit(repeated), [axis], [0], [total]))


@reads("QuantizeLinear")
def _quantize(node: NodeImporter) -> Imported:
    target = node.dtype(2) if node.has(2) else node.dtype_attr("output_dtype", "uint8") or "uint8"
    if target not in ("int8", "uint8", "int16", "uint16", "int4", "uint4", "int2", "uint2") and not (
        is_float(target) and itemsize(target) == 1
    ):
        raise node.refuse(f"quantization to {target} is not supported")
    x = node.operand(0)
    if is_integer(node.dtype()):
        x = node.emit(in_dtype(x, "float32"))
    axis = node.attr("axis", 1)
    if node.rank(1) > 1:
        return _quantize_blocks(node, x, target, axis)
    return ops.quantize(x, *_for_all(node, axis, target), target)


def _for_all(node: NodeImporter, axis: int, dtype: str) -> tuple[Expr, Expr, int]:
    """Scale, zero point (0 of ``dtype`` if none is given) and axis.

    A single number is for the whole tensor, even if that does not have the axis.
    """
    scale, zero = node.operand(1), node.optional(2)
    if zero is None and isinstance(scale, Constant):
        zero = const(np.zeros(scale.data.shape), dtype)
    elif zero is None:
        zero = node.emit(ops.zeros_like(scale, dtype))
    if node.rank(1) == 0:
        return scale, zero, -1
    if node.shape(1) != (1,):
        return scale, zero, axis
    return node.emit(ops.reshape(scale, [])), node.emit(ops.reshape(zero, [])), -1


def _quantize_blocks(node: NodeImporter, x: Expr, target: str, axis: int) -> Expr:
    scale = _blocked(node, node.operand(1), axis)
    ratio: Expr = ops.divide(x, scale)
    if not is_float(target):
        ratio = ops.round(ratio)
    if node.has(2):
        ratio = ratio + _blocked(node, in_dtype(node.operand(2), node.dtype(1)), axis)
    if is_float(target):
        greatest = greatest_number(target)
        return in_dtype(node.emit(ops.clip(node.emit(ratio), -greatest, greatest)), target)
    least, greatest = integer_range(target)
    limited = ops.clip(node.emit(ratio), float(least), float(greatest))
    return in_dtype(in_dtype(limited, "int32"), target)


@reads("DequantizeLinear")
def _dequantize(node: NodeImporter) -> Imported:
    axis: int = node.attr("axis", 1)
    result = node.dtype_attr("output_dtype", node.dtype(1)) or node.dtype(1)
    scale = node.operand(1)
    if node.rank(1) > 1:
        _check_blocks(node, axis)
        zero = node.operand(2) if node.has(2) else const(0, node.dtype())
        if _has_even_blocks(node, axis):
            return ops.dequantize(node.operand(0), scale, zero, axis, result)
        filled = _filled_up(node, axis)
        if filled is not None:
            whole = node.emit(ops.dequantize(filled, scale, zero, axis, result))
            return ops.strided_slice(whole, [axis], [0], [node.known_shape()[axis]], [1])
        x: Expr = in_dtype(node.operand(0), "float32")
        if node.has(2):
            x = x - _blocked(node, in_dtype(node.operand(2), "float32"), axis)
        return in_dtype(x * _blocked(node, in_dtype(scale, "float32"), axis), result)
    return ops.dequantize(node.operand(0), *_for_all(node, axis, node.dtype()), result)


def _check_blocks(node: NodeImporter, axis: int) -> None:
    """Raise if the shape of the scales does not fit the blocks along ``axis``, as ONNX Runtime does at run time."""
    size = node.attr("block_size", 0)
    whole, scales = list(node.shape()), list(node.shape(1))
    if not size or len(whole) != len(scales):
        return
    if isinstance(length := whole[axis], int):
        whole[axis] = -(-length // size)
    if any(dims_equal(*pair) is False for pair in zip(whole, scales, strict=True)):
        raise node.refuse(
            f"scales of shape {tuple(scales)} are not those of blocks of {size} along axis {axis} "
            f"of {tuple(node.shape())}"
        )


def _has_even_blocks(node: NodeImporter, axis: int) -> bool:
    """True if all blocks along ``axis`` have the same number of elements. A single block may exceed the axis."""
    if node.rank() != node.rank(1):
        return False
    whole, blocks = node.shape()[axis], node.shape(1)[axis]
    return isinstance(whole, int) and (blocks == 1 or blocks * node.attr("block_size", 0) == whole)


def _filled_up(node: NodeImporter, axis: int) -> Constant | None:
    """Known codes, padded so that the last block along ``axis`` is full; None for other codes."""
    known = node.graph.known(node.imported(0))
    if known is None or node.rank() != node.rank(1):
        return None
    data, blocks = known.data, node.known_shape(1)
    shape, widths = list(data.shape), [(0, 0)] * len(data.shape)
    shape[axis] = blocks[axis] * node.attr("block_size", 0)
    widths[axis] = (0, shape[axis] - data.shape[axis])
    if widths[axis][1] < 0:
        return None
    return Constant(data.derived(shape, lambda numbers: np.pad(numbers, widths)))


@reads("QLinearMatMul")
def _qlinear_matmul(node: NodeImporter) -> Imported:
    # a, its scale and zero point, b, its scale and zero point, then the scale and zero point of the result
    left, right = (_dequantized(node, index, axis) for index, axis in ((0, -2), (3, -1)))
    return _requantized(node, ops.matmul(left, right), -2)


def _dequantized(node: NodeImporter, index: int, axis: int) -> Expr:
    x, scale = in_dtype(node.operand(index), "float32"), in_dtype(node.operand(index + 1), "float32")
    zero = in_dtype(node.operand(index + 2), "float32")

    def placed(parameter: Expr, place: int) -> Expr:
        ty = node.ty(place)
        if ty.ndim != 1 or ty.shape == (1,):
            return parameter
        return ops.reshape(parameter, [-1, *[1] * (-axis - 1)])

    return node.emit((x - placed(zero, index + 2)) * placed(scale, index + 1))


def _requantized(node: NodeImporter, x: Expr, axis: int) -> Expr:
    scale, zero = in_dtype(node.operand(6), "float32"), node.operand(7)
    return ops.quantize(node.emit(x), scale, zero, axis, node.dtype(7))


@reads("QLinearConv")
def _qlinear_conv(node: NodeImporter) -> Imported:
    found = convolved(node, _dequantized(node, 0, -1), _dequantized(node, 3, -node.rank(3)), 3)
    if node.has(8):
        scale = in_dtype(node.operand(1), "float32") * in_dtype(node.operand(4), "float32")
        found = with_bias(node, found, node.emit(in_dtype(node.operand(8), "float32") * scale))
    return _requantized(node, found, 1)
