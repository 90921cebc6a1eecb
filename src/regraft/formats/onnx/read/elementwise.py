"""Reading elementwise operators: arithmetic, functions, comparisons, logic, bits, conversion, activations."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

import ml_dtypes
import numpy as np

from .... import op as ops
from ....analysis.tensors import stated_shape
from ....ir.dims import dim_product
from ....ir.dtypes import is_float, is_integer, itemsize, numpy_dtype
from ....ir.expr import Constant, Expr, ShapeExpr, const
from ..same_operators import SAME
from .importing import Imported, NodeImporter, in_dtype, reads, reads_as

_READ: Final[dict[str, Callable[..., Expr]]] = {
    "BitwiseAnd": ops.bitwise_and,
    "BitwiseNot": ops.bitwise_not,
    "BitwiseOr": ops.bitwise_or,
    "BitwiseXor": ops.bitwise_xor,
    "Ceil": ops.ceil,
    "Div": ops.divide,
    "Floor": ops.floor,
    "HardSwish": ops.nn.hardswish,
    "IsNaN": ops.isnan,
    "MatMul": ops.matmul,
    "Mish": ops.nn.mish,
    "Relu": ops.nn.relu,
    "Round": ops.round,
    "Sign": ops.sign,
    "Softplus": ops.nn.softplus,
    **{op_type: getattr(ops, name) for op_type, name in SAME.items()},
}
"""Operators that are one operator of the same meaning here."""


def _direct(function: Callable[..., Expr]) -> Callable[[NodeImporter], Imported]:
    return lambda node: function(*_aligned(node))


def _aligned(node: NodeImporter) -> list[Expr]:
    """The operands. Before opset 7, an attribute gives the axis of the first at which the second begins."""
    operands, axis = node.operands(), node.attr("axis")
    if node.opset >= 7 or axis is None or not node.flag("broadcast"):
        return operands
    first, (taken, given) = axis % node.rank(0), operands
    behind = node.rank(0) - first - node.rank(1)
    return [taken, ops.reshape(given, ShapeExpr([*node.shape(1), *[1] * behind])) if behind > 0 else given]


reads_as({name: _direct(function) for name, function in _READ.items()})
reads_as(
    {
        "BitShift": lambda node: (ops.left_shift if node.attr("direction") == "LEFT" else ops.right_shift)(
            node.operand(0), node.operand(1)
        ),
        "Elu": lambda node: ops.nn.elu(node.operand(0), node.attr("alpha", 1.0)),
        "Gelu": lambda node: (ops.nn.gelu_tanh if node.attr("approximate") == "tanh" else ops.nn.gelu)(node.operand(0)),
        "HardSigmoid": lambda node: ops.nn.hardsigmoid(
            node.operand(0), node.attr("alpha", 0.2), node.attr("beta", 0.5)
        ),
        "Identity": lambda node: node.operand(0),
        "LeakyRelu": lambda node: ops.nn.leakyrelu(node.operand(0), node.attr("alpha", 0.01)),
        "Max": lambda node: reduce(ops.maximum, node.operands()),
        "Mean": lambda node: reduce(ops.add, node.operands()) / len(node.node.inputs),
        "Min": lambda node: reduce(ops.minimum, node.operands()),
        "Mod": lambda node: (ops.mod if node.flag("fmod") else ops.floor_mod)(node.operand(0), node.operand(1)),
        "Reciprocal": lambda node: 1 / node.operand(0),
        "Sum": lambda node: reduce(ops.add, node.operands()),
    }
)


@reads("Pow")
def _pow(node: NodeImporter) -> Imported:
    base, exponent = _aligned(node)
    own, other = node.dtype(0), node.dtype(1)
    if own == other:
        return ops.power(base, exponent)
    if is_integer(own) and is_float(other):
        return ops.astype(ops.power(ops.astype(base, other), exponent), own)
    return ops.power(base, ops.astype(exponent, own))


@reads("IsInf")
def _isinf(node: NodeImporter) -> Imported:
    x = node.operand(0)
    positive, negative = node.attr("detect_positive", 1), node.attr("detect_negative", 1)
    if positive and negative:
        return ops.isinf(x)
    bound = x > 0 if positive else x < 0
    found = ops.isinf(x)
    return ops.logical_and(found, bound) if positive or negative else ops.logical_and(found, ops.logical_not(found))


@reads("Cast", "CastLike")
def _cast(node: NodeImporter) -> Imported:
    x, target = node.operand(0), node.dtype_attr("to") or node.dtype(1)
    if target == "float8_e8m0fnu":
        return _as_power_of_two(node, x)
    is_narrow = is_float(target) and itemsize(target) == 1 and target != "float4_e2m1fn"
    if is_narrow and node.attr("saturate", 1) and is_float(node.dtype(0)):
        return _saturated(x, node.dtype(0), target)
    if target in ("int4", "uint4", "int2", "uint2") and is_float(node.dtype(0)):
        return ops.astype(ops.astype(x, "int32"), target)
    return ops.astype(x, target)


_EXPONENT_BITS = 23
"""The lowest bit of the exponent of a float32; the bits below it are the fraction."""
_SPECIAL = 255
"""The exponent of infinity and NaN in float32, and of NaN in float8_e8m0fnu, which has the same bias."""


@reads("BitCast")
def _bit_cast(node: NodeImporter) -> Imported:
    return ops.bitcast(node.operand(0), node.dtype_attr("to"))


def _as_power_of_two(node: NodeImporter, x: Expr) -> Expr:
    """``x`` as float8_e8m0fnu, which has only an exponent, by the node's ``round_mode`` and ``saturate``.

    Signs are dropped. If the node saturates, numbers that are too large become the largest number, and 0 the smallest.
    Otherwise both become NaN.
    """

    emit = node.emit
    mode, saturates = node.attr("round_mode", "up"), bool(node.attr("saturate", 1))
    bits = emit(ops.bitcast(emit(in_dtype(x, "float32")), "int32"))
    size = emit(ops.bitwise_and(bits, 0x7FFFFFFF))
    exponent = emit(ops.right_shift(size, _EXPONENT_BITS))
    fraction = emit(ops.bitwise_and(size, (1 << _EXPONENT_BITS) - 1))
    half = 1 << (_EXPONENT_BITS - 1)
    match mode:
        case "up":
            above = emit(fraction > 0)
        case "nearest":
            # A tie goes to the even neighbour, which is the larger one for exponents above 0.
            tie = ops.logical_and(ops.equal(fraction, half), exponent > 0)
            above = emit(ops.logical_or(fraction > half, tie))
        case "down":
            above = const(np.asarray(False))
        case _:
            raise node.refuse(f'round_mode is "{mode}"; expected "up", "down" or "nearest"')
    rounded = emit(exponent + in_dtype(above, "int32"))
    is_nan = emit(size > _SPECIAL << _EXPONENT_BITS)
    if saturates:
        rounded = emit(ops.minimum(rounded, _SPECIAL - 1))
    else:
        is_nan = emit(ops.logical_or(is_nan, ops.equal(size, 0)))
    rounded = emit(ops.minimum(rounded, _SPECIAL))
    code = emit(ops.where(is_nan, const(_SPECIAL, "int32"), rounded))
    return ops.bitcast(emit(in_dtype(code, "uint8")), "float8_e8m0fnu")


def greatest_number(dtype: str) -> float:
    """The greatest finite number of a floating dtype."""
    find: Any = ml_dtypes.finfo
    return float(find(numpy_dtype(dtype)).max)


def _saturated(x: Expr, own: str, target: str) -> Expr:
    """Conversion to an 8-bit float, in which numbers that are too large, and infinities, become the largest number."""
    greatest = greatest_number(target)
    if itemsize(own) == 1:
        x, own = ops.astype(x, "float32"), "float32"
    greatest = min(greatest, greatest_number(own))
    return ops.astype(ops.clip(x, -greatest, greatest), target)


def _number(bound: Any) -> Any:
    """A bound that is a number or a constant of one element, as a number; None for others."""
    if isinstance(bound, Constant):
        return bound.data.numpy().reshape(()).item() if bound.data.size == 1 else None
    return bound if isinstance(bound, int | float) else None


def _bound(node: NodeImporter, name: str, index: int) -> Any:
    """A bound of `Clip`. A bound of NaN does not limit, as in ONNX Runtime."""
    bound = node.attr(name) if node.attr(name) is not None else node.optional(index)
    if bound is None and node.opset < 11:
        return float(np.finfo(np.float32).min if name == "min" else np.finfo(np.float32).max)
    number = _number(bound)
    if isinstance(number, float) and np.isnan(number):
        return None
    if number is None and isinstance(bound, Expr) and is_float(node.dtype()):
        least = -np.inf if name == "min" else np.inf
        return node.emit(ops.where(node.emit(ops.isnan(bound)), node.like(least), bound))
    return bound


@reads("Clip")
def _clip(node: NodeImporter) -> Imported:
    x = node.operand(0)
    low, high = _bound(node, "min", 1), _bound(node, "max", 2)
    numbers = [_number(bound) for bound in (low, high)]
    if None not in numbers:
        return ops.clip(x, *numbers)
    for bound, limit in ((low, ops.maximum), (high, ops.minimum)):
        if bound is not None:
            x = limit(x, bound if isinstance(bound, Expr) else node.like(bound))
    return x if x is not node.operand(0) else ops.clip(x, -np.inf, np.inf) if is_float(node.dtype()) else x


# --- activations


@reads("PRelu")
def _prelu(node: NodeImporter) -> Imported:
    x, slope = node.operand(0), node.operand(1)
    rank, shape = node.rank(0), node.ty(1).shape
    if node.opset < 7 and rank > 2 and shape is not None and len(shape) == 1:  # one for each channel
        shape = (*shape, *[1] * (rank - 2))
        slope = ops.reshape(slope, ShapeExpr(shape))
    if is_float(node.dtype()) and shape is not None and 0 < len(shape) <= rank:
        aligned = (1,) * (rank - len(shape)) + shape
        wide = [axis for axis, size in enumerate(aligned) if size != 1]
        if len(wide) == 1:
            slopes = slope if len(shape) == 1 else ops.reshape(slope, [aligned[wide[0]]])
            return ops.nn.prelu(x, slopes, axis=wide[0])
    return ops.where(x < 0, x * slope, x)


@reads("Celu")
def _celu(node: NodeImporter) -> Imported:
    alpha, x = node.attr("alpha", 1.0), node.operand(0)
    if alpha == 1.0:
        return ops.nn.elu(x)
    ratio = x / alpha
    if alpha > 0:
        return ops.nn.elu(ratio) * alpha
    # The division by a negative number would change the sign.
    return ops.where(x > 0, x, (ops.exp(ratio) - 1) * alpha)


@reads("Selu")
def _selu(node: NodeImporter) -> Imported:
    numbers = (1.6732, 1.0507) if node.opset < 6 else (1.67326319217681884765625, 1.05070102214813232421875)
    alpha, gamma = node.attr("alpha", numbers[0]), node.attr("gamma", numbers[1])
    x = node.operand(0)
    if abs(alpha - 1.6732632) < 1e-6 and abs(gamma - 1.0507010) < 1e-6:
        return ops.nn.selu(x)
    return ops.nn.elu(x, alpha) * gamma


@reads("Swish")
def _swish(node: NodeImporter) -> Imported:
    alpha, x = node.attr("alpha", 1.0), node.operand(0)
    return ops.nn.silu(x) if alpha == 1.0 else x * ops.sigmoid(x * alpha)


def _along_axis(node: NodeImporter, function: Callable[[Expr, int], Expr]) -> Imported:
    """``function`` of operand 0 along the axis of a node. Before opset 13, all axes from that one on count as one."""
    x = node.operand(0)
    if node.opset >= 13:
        return function(x, node.attr("axis", -1))
    axis = node.attr("axis", 1) % max(node.rank(), 1)
    if 0 in node.shape() or all(size == 1 for size in node.shape()[axis + 1 :]):
        return function(x, axis)  # flattening gives the same rows
    flat = node.emit(ops.reshape(x, [dim_product(node.shape()[:axis]), dim_product(node.shape()[axis:])]))
    return ops.reshape(function(flat, -1), list(node.shape()))


reads_as(
    {
        "LogSoftmax": lambda node: _along_axis(node, ops.nn.log_softmax),
        "Softmax": lambda node: _along_axis(node, ops.nn.softmax),
    }
)


@reads("Hardmax")
def _hardmax(node: NodeImporter) -> Imported:
    def hard(x: Expr, axis: int) -> Expr:
        shape = stated_shape(x)
        assert shape is not None
        size = shape[axis]
        along = [size if place == axis % len(shape) else 1 for place in range(len(shape))]
        places = node.emit(ops.reshape(ops.arange(size, dtype="int64"), along))
        return in_dtype(ops.equal(places, ops.argmax(x, axis=axis, keepdims=True)), node.dtype())

    return node.operand(0) if 0 in node.shape() else _along_axis(node, hard)


@reads("Dropout")
def _dropout(node: NodeImporter) -> tuple[Imported | None, ...]:
    training = node.array(2) if node.has(2) else np.asarray(False)
    ratio = node.array(1) if node.has(1) else np.asarray(node.attr("ratio", 0.5))
    if training is None:
        raise node.refuse("its training mode (input 2) is known at run time only")
    if bool(training) and ratio is None:
        raise node.refuse("its ratio (input 1) is known at run time only, and dropout in training is random")
    if bool(training) and float(np.asarray(ratio)) != 0.0:
        raise node.refuse("dropout in training is random")
    x = node.operand(0)
    if len(node.node.outputs) < 2:
        return x, None
    # Before opset 12, the standard does not define the mask without dropout: ONNX Runtime gives zeros.
    number = node.opset >= 12
    dtype = "bool" if node.opset >= 10 else node.dtype()
    shape = node.ty(0).shape
    return x, ops.full_like(x, number, dtype) if shape is None else ops.full(shape, number, dtype)
