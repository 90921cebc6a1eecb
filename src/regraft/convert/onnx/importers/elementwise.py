"""Reading elementwise operators: arithmetic, functions, comparisons, logic, bits, conversion, activations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any, Final

import ml_dtypes
import numpy as np

from .... import ops
from ....ir.dims import dim_max, dim_min
from ....ir.dtypes import is_float, is_integer, itemsize, numpy_dtype
from ....ir.expr import Constant, Expr, const
from ..importing import IMPORTERS, Imported, NodeImporter, Sizes, all_known, reads

_SAME: Final[dict[str, Callable[..., Expr]]] = {
    "Abs": ops.abs,
    "Acos": ops.acos,
    "Acosh": ops.acosh,
    "And": ops.logical_and,
    "Asin": ops.asin,
    "Asinh": ops.asinh,
    "Atan": ops.atan,
    "Atanh": ops.atanh,
    "BitwiseAnd": ops.bitwise_and,
    "BitwiseNot": ops.bitwise_not,
    "BitwiseOr": ops.bitwise_or,
    "BitwiseXor": ops.bitwise_xor,
    "Ceil": ops.ceil,
    "Cos": ops.cos,
    "Cosh": ops.cosh,
    "Erf": ops.erf,
    "Exp": ops.exp,
    "Floor": ops.floor,
    "IsNaN": ops.isnan,
    "Log": ops.log,
    "Neg": ops.negative,
    "Not": ops.logical_not,
    "Or": ops.logical_or,
    "Relu": ops.nn.relu,
    "Round": ops.round,
    "Sigmoid": ops.sigmoid,
    "Sign": ops.sign,
    "Sin": ops.sin,
    "Sinh": ops.sinh,
    "Sqrt": ops.sqrt,
    "Tan": ops.tan,
    "Tanh": ops.tanh,
    "Xor": ops.logical_xor,
    "Less": ops.less,
    "Greater": ops.greater,
    "GreaterOrEqual": ops.greater_equal,
    "LessOrEqual": ops.less_equal,
}
"""Operators that are one operator of the same meaning here."""


def _direct(function: Callable[..., Expr]) -> Callable[[NodeImporter], Imported]:
    return lambda node: function(*node.operands())


for _name, _function in _SAME.items():
    IMPORTERS["", _name] = _direct(_function)


def together(node: NodeImporter) -> tuple[Sizes, Sizes] | None:
    """Both operands as sizes, where they are known and one of them says more than a constant would."""
    left, right = node.sizes(0), node.sizes(1)
    if left is None or right is None or (all_known(left.values) and all_known(right.values)):
        return None
    if len(left.values) != len(right.values) and 1 not in (len(left.values), len(right.values)):
        return None
    return left, right


def _on_sizes(left: Sizes, right: Sizes, function: Callable[[Any, Any], Any]) -> Sizes:
    count = max(len(left.values), len(right.values))
    pairs = zip(
        left.values if len(left.values) == count else left.values * count,
        right.values if len(right.values) == count else right.values * count,
        strict=True,
    )
    return Sizes(tuple(function(a, b) for a, b in pairs), left.is_scalar and right.is_scalar, left.dtype)


_ARITHMETIC: Final[dict[str, tuple[Callable[..., Expr], Callable[[Any, Any], Any]]]] = {
    "Add": (ops.add, lambda a, b: a + b),
    "Sub": (ops.subtract, lambda a, b: a - b),
    "Mul": (ops.multiply, lambda a, b: a * b),
    # Sizes are not negative: rounding down is rounding towards zero.
    "Div": (ops.divide, lambda a, b: a // b),
}


@reads(*_ARITHMETIC)
def _arithmetic(node: NodeImporter) -> Imported:
    function, on_sizes = _ARITHMETIC[node.op_type]
    both = together(node)
    if both is not None and not (node.op_type == "Div" and 0 in both[1].values):
        return _on_sizes(*both, on_sizes)
    return function(node.operand(0), node.operand(1))


@reads("Max", "Min")
def _extreme(node: NodeImporter) -> Imported:
    both = together(node) if len(node.node.inputs) == 2 else None
    if both is not None:
        return _on_sizes(*both, dim_max if node.op_type == "Max" else dim_min)
    return reduce(ops.maximum if node.op_type == "Max" else ops.minimum, node.operands())


@reads("Equal")
def _equal(node: NodeImporter) -> Imported:
    both = together(node)
    if both is not None:
        # A size that is not known is never equal to -1, which is what models compare with.
        answers = _on_sizes(*both, lambda a, b: a == b)
        decided = all(a == b or -1 in (a, b) for a, b in zip(both[0].values * 9, both[1].values * 9, strict=False))
        if decided:
            numbers = np.asarray(answers.values, dtype=bool)
            return const(numbers.reshape(()) if answers.is_scalar else numbers)
    return ops.equal(node.operand(0), node.operand(1))


@reads("Where")
def _where(node: NodeImporter) -> Imported:
    condition, left, right = node.array(0), node.sizes(1), node.sizes(2)
    if condition is not None and left is not None and right is not None:
        flags = [bool(flag) for flag in condition.reshape(-1)]
        count = max(len(flags), len(left.values), len(right.values))
        if all(len(part) in (1, count) for part in (flags, left.values, right.values)):
            rows = zip(*(list(part) * (count // len(part)) for part in (flags, left.values, right.values)), strict=True)
            scalar = condition.ndim == 0 and left.is_scalar and right.is_scalar
            return Sizes(tuple(a if flag else b for flag, a, b in rows), scalar, left.dtype)
    return ops.where(*node.operands())


@reads("Sum")
def _sum(node: NodeImporter) -> Imported:
    return reduce(ops.add, node.operands())


@reads("Mean")
def _mean(node: NodeImporter) -> Imported:
    operands = node.operands()
    return ops.divide(reduce(ops.add, operands), node.like(len(operands)))


@reads("Mod")
def _mod(node: NodeImporter) -> Imported:
    return (ops.mod if node.attr("fmod", 0) else ops.floor_mod)(node.operand(0), node.operand(1))


@reads("Pow")
def _pow(node: NodeImporter) -> Imported:
    base, exponent = node.operand(0), node.operand(1)
    own, other = node.dtype(0), node.dtype(1)
    if own == other:
        return ops.power(base, exponent)
    if is_integer(own) and is_float(other):
        return ops.astype(ops.power(ops.astype(base, other), exponent), own)
    return ops.power(base, ops.astype(exponent, own))


@reads("Reciprocal")
def _reciprocal(node: NodeImporter) -> Imported:
    return ops.divide(node.like(1), node.operand(0))


@reads("IsInf")
def _isinf(node: NodeImporter) -> Imported:
    x = node.operand(0)
    positive, negative = node.attr("detect_positive", 1), node.attr("detect_negative", 1)
    if positive and negative:
        return ops.isinf(x)
    bound = ops.greater(x, node.like(0)) if positive else ops.less(x, node.like(0))
    found = ops.isinf(x)
    return ops.logical_and(found, bound) if positive or negative else ops.logical_and(found, ops.logical_not(found))


@reads("BitShift")
def _bit_shift(node: NodeImporter) -> Imported:
    shift = ops.left_shift if node.attr("direction") == "LEFT" else ops.right_shift
    return shift(node.operand(0), node.operand(1))


@reads("Identity")
def _identity(node: NodeImporter) -> Imported:
    return node.sizes(0) or node.operand(0)


@reads("Cast")
def _cast(node: NodeImporter) -> Imported:
    return _converted(node, node.dtype_attr("to") or "")


@reads("CastLike")
def _cast_like(node: NodeImporter) -> Imported:
    return _converted(node, node.dtype(1))


def _converted(node: NodeImporter, target: str) -> Imported:
    known = node.sizes(0)
    if known is not None and target in ("int32", "int64"):
        return replace(known, dtype=target)
    x, own = node.operand(0), node.dtype(0)
    is_narrow = is_float(target) and itemsize(target) == 1 and target != "float4_e2m1fn"
    if is_narrow and node.attr("saturate", 1) and is_float(own) and target not in ("float8_e8m0fnu",):
        return _saturated(x, own, target)
    if target == "float8_e8m0fnu":
        raise node.refuse("conversion to float8e8m0 rounds in ways of its own, which are not supported")
    if is_float(own) and is_integer(target) and target in ("int4", "uint4", "int2", "uint2"):
        return ops.astype(ops.astype(x, "int32"), target)
    return ops.astype(x, target)


def greatest_number(dtype: str) -> float:
    """The greatest finite number of a floating dtype."""
    find: Any = ml_dtypes.finfo
    return float(find(numpy_dtype(dtype)).max)


def _saturated(x: Expr, own: str, target: str) -> Expr:
    """Conversion to an 8-bit float that takes what is too large, infinities too, to the greatest number."""
    greatest = greatest_number(target)
    if itemsize(own) == 1:
        x, own = ops.astype(x, "float32"), "float32"
    greatest = min(greatest, greatest_number(own))
    return ops.astype(ops.clip(x, -greatest, greatest), target)


@reads("BitCast")
def _bit_cast(node: NodeImporter) -> Imported:
    raise node.refuse("reading the bits of one type as another is not supported")


@reads("Clip")
def _clip(node: NodeImporter) -> Imported:
    x = node.operand(0)
    low = node.attr("min") if node.attr("min") is not None else node.optional(1)
    high = node.attr("max") if node.attr("max") is not None else node.optional(2)
    for bound, limit in ((low, ops.maximum), (high, ops.minimum)):
        if isinstance(bound, Expr):
            x = limit(x, bound)
        elif bound is not None:
            x = limit(x, node.like(bound))
    if isinstance(low, Constant) and isinstance(high, Constant) and low.data.size == high.data.size == 1:
        bounds = [constant.data.numpy().reshape(()).item() for constant in (low, high)]
        return ops.clip(node.operand(0), *bounds)
    return x if x is not node.operand(0) else ops.clip(x, -np.inf, np.inf) if is_float(node.dtype()) else x


# --- activations


@reads("LeakyRelu")
def _leaky_relu(node: NodeImporter) -> Imported:
    return ops.nn.leakyrelu(node.operand(0), node.attr("alpha", 0.01))


@reads("PRelu")
def _prelu(node: NodeImporter) -> Imported:
    x, slope = node.operand(0), node.operand(1)
    if node.rank(1) == 1 and node.rank(0) == 1:
        return ops.nn.prelu(x, slope, axis=0)
    rank, shape = node.rank(0), node.ty(1).shape
    if shape is not None and rank >= 2 and len(shape) == rank - 1 and all(size == 1 for size in shape[1:]):
        return ops.nn.prelu(x, ops.reshape(slope, [shape[0]]), axis=1)
    return ops.where(ops.less(x, node.like(0)), ops.multiply(x, slope), x)


@reads("Selu")
def _selu(node: NodeImporter) -> Imported:
    alpha, gamma = node.attr("alpha", 1.67326319217681884765625), node.attr("gamma", 1.05070102214813232421875)
    x = node.operand(0)
    if abs(alpha - 1.6732632) < 1e-6 and abs(gamma - 1.0507010) < 1e-6:
        return ops.nn.selu(x)
    return ops.multiply(_elu(node, x, alpha), node.like(gamma))


def _elu(node: NodeImporter, x: Expr, alpha: float) -> Expr:
    low = ops.multiply(ops.subtract(ops.exp(ops.minimum(x, node.like(0))), node.like(1)), node.like(alpha))
    return ops.where(ops.less(x, node.like(0)), low, x)


@reads("Elu")
def _read_elu(node: NodeImporter) -> Imported:
    return _elu(node, node.operand(0), node.attr("alpha", 1.0))


@reads("Celu")
def _celu(node: NodeImporter) -> Imported:
    alpha = node.attr("alpha", 1.0)
    x = node.operand(0)
    inner = ops.divide(ops.minimum(x, node.like(0)), node.like(alpha))
    low = ops.multiply(ops.subtract(ops.exp(inner), node.like(1)), node.like(alpha))
    return ops.add(ops.maximum(x, node.like(0)), low)


@reads("Gelu")
def _gelu(node: NodeImporter) -> Imported:
    return (ops.nn.gelu_tanh if node.attr("approximate", "none") == "tanh" else ops.nn.gelu)(node.operand(0))


@reads("Softplus")
def _softplus(node: NodeImporter) -> Imported:
    return ops.nn.softplus(node.operand(0))


@reads("Softsign")
def _softsign(node: NodeImporter) -> Imported:
    x = node.operand(0)
    return ops.divide(x, ops.add(ops.abs(x), node.like(1)))


@reads("HardSigmoid")
def _hard_sigmoid(node: NodeImporter) -> Imported:
    alpha, beta = node.attr("alpha", 0.2), node.attr("beta", 0.5)
    return ops.clip(ops.add(ops.multiply(node.operand(0), node.like(alpha)), node.like(beta)), 0.0, 1.0)


@reads("HardSwish")
def _hard_swish(node: NodeImporter) -> Imported:
    x = node.operand(0)
    return ops.multiply(x, ops.clip(ops.add(ops.multiply(x, node.like(1 / 6)), node.like(0.5)), 0.0, 1.0))


@reads("Mish")
def _mish(node: NodeImporter) -> Imported:
    return ops.multiply(node.operand(0), ops.tanh(ops.nn.softplus(node.operand(0))))


@reads("Swish")
def _swish(node: NodeImporter) -> Imported:
    alpha, x = node.attr("alpha", 1.0), node.operand(0)
    return ops.nn.silu(x) if alpha == 1.0 else ops.multiply(x, ops.sigmoid(ops.multiply(x, node.like(alpha))))


@reads("ThresholdedRelu")
def _thresholded_relu(node: NodeImporter) -> Imported:
    x = node.operand(0)
    return ops.where(ops.greater(x, node.like(node.attr("alpha", 1.0))), x, node.like(0))


@reads("Shrink")
def _shrink(node: NodeImporter) -> Imported:
    x, bias, bound = node.operand(0), node.attr("bias", 0.0), node.attr("lambd", 0.5)
    if not is_float(node.dtype()):
        raise node.refuse("only floating types are supported")
    high = ops.where(ops.greater(x, node.like(bound)), ops.subtract(x, node.like(bias)), node.like(0))
    return ops.where(ops.less(x, node.like(-bound)), ops.add(x, node.like(bias)), high)


@reads("Softmax", "LogSoftmax")
def _softmax(node: NodeImporter) -> Imported:
    function = ops.nn.softmax if node.op_type == "Softmax" else ops.nn.log_softmax
    if node.opset >= 13:
        return function(node.operand(0), node.attr("axis", -1))
    axis = node.attr("axis", 1) % max(node.rank(), 1)
    flat = ops.reshape(node.operand(0), [_product(node, 0, axis), _product(node, axis, node.rank())])
    return ops.reshape(function(flat, -1), list(node.shape()))


def _product(node: NodeImporter, first: int, last: int) -> Any:
    total: Any = 1
    for size in node.shape()[first:last]:
        total = total * size
    return total


@reads("Hardmax")
def _hardmax(node: NodeImporter) -> Imported:
    axis: int = node.attr("axis", -1 if node.opset >= 13 else 1)
    size = node.shape()[axis]
    if not isinstance(size, int):
        raise node.refuse("the size of its axis is known at run time only")
    place = ops.argmax(node.operand(0), axis=axis)
    return ops.one_hot(place, node.like(1), node.like(0), depth=size, axis=axis)


@reads("Dropout")
def _dropout(node: NodeImporter) -> tuple[Imported | None, ...]:
    training = node.array(2) if node.has(2) else np.asarray(False)
    ratio = node.array(1) if node.has(1) else np.asarray(node.attr("ratio", 0.5))
    if training is None or (bool(training) and (ratio is None or float(ratio) != 0.0)):
        raise node.refuse("dropout in training is random")
    x = node.operand(0)
    mask = ops.ones_like(x, "bool") if len(node.node.outputs) > 1 else None
    return x, mask
