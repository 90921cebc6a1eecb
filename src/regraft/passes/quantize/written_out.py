"""WriteOutQuantized: write operators on quantized tensors as dequantization, computation and quantization.

ONNX Runtime has kernels for such operators. Other engines recognize layers on bytes by a `dequantize` before them and a
`quantize` after them.
"""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from ... import op as ops
from ...analysis.values import definition
from ...ir.builder import with_operands
from ...ir.dtypes import numpy_dtype
from ...ir.expr import Constant, Expr, ShapeExpr, const
from ...ir.op import Call, Op
from ...ir.program import Function
from ...ir.tensor_data import TensorData
from ...ir.types import TensorType
from ...ir.visitor import iter_bindings
from ...op.decompose import decompose
from ...op.evaluate import EvaluationError, Evaluator
from ...op.program_xp import DecomposeError
from ...op.semantics import integer_range
from ...pattern import is_op, wildcard
from ...pattern.pattern import DFPattern
from ...rewrite import Bindings, Decline, Rule, RuleSet, decline
from ..legalize import Legalize
from ..passes import Pass, RulePass, Sequential

_QUANTIZED: Final = frozenset(
    f"com.microsoft.{name}"
    for name in (
        "DequantizeLinear",
        "QGemm",
        "QLinearAdd",
        "QLinearAveragePool",
        "QLinearConcat",
        "QLinearConv",
        "QLinearGlobalAveragePool",
        "QLinearLeakyRelu",
        "QLinearMul",
        "QLinearReduceMean",
        "QLinearSigmoid",
        "QLinearSoftmax",
        "QLinearWhere",
        "QuantizeLinear",
    )
)
_MOST_CALLS: Final = 3
"""The most nested calls by which the scale of a bias may be computed."""
_MOST_CHANNELS: Final = 1 << 16
_CODES: Final = ("int8", "uint8", "int16", "uint16", "int32")

_codes, _zero, _scale = wildcard(), wildcard(), wildcard()
_wide = is_op("relax.astype")(_codes)
_numbers = is_op("relax.multiply")(is_op("relax.subtract")(_wide, _zero) | _wide, _scale)


def has_quantized_operators(function: Function) -> bool:
    """True if ``function`` has operators on quantized tensors that `WriteOutQuantized` decomposes."""
    return any(isinstance(binding.value, Call) and _is_quantized(binding.value) for binding in iter_bindings(function))


def _is_quantized(call: Call) -> bool:
    return isinstance(call.op, Op) and call.op.name in _QUANTIZED


def _stays(call: Call) -> bool:
    if not _is_quantized(call):
        return True
    try:
        decompose(call)
    except DecomposeError:
        return True
    return False


def _dequantized(expr: Expr, matchings: dict[DFPattern, Any], bindings: Bindings) -> Expr | Decline:
    codes: Expr = matchings[_codes]
    ty = codes.ty
    if not isinstance(ty, TensorType) or ty.dtype not in _CODES or ty.ndim < 0:
        return decline("it has no numbers of 8 to 32 bits, or their rank is not known")
    if not isinstance(expr.ty, TensorType) or expr.ty.dtype != "float32":
        return decline("the result is not float32")
    scale = _known(bindings, matchings[_scale])
    zero = _known(bindings, matchings[_zero]) if _zero in matchings else np.zeros((), np.float32)
    if scale is None or zero is None:
        return decline("scale and zero point are not known before the program runs")
    axes = {axis for part in (scale, zero) for axis in _axes(part, ty.ndim)}
    least, greatest = integer_range(ty.dtype)
    if len(axes) > 1 or max(scale.ndim, zero.ndim) > ty.ndim:
        return decline("scale and zero point are those of several axes")
    if not np.array_equal(zero, np.clip(np.round(zero), least, greatest)):
        return decline("the zero point is none of the codes")
    parts = [const(_flat(scale)), const(_flat(zero).astype(numpy_dtype(ty.dtype)))]
    return ops.dequantize(codes, *parts, axis=axes.pop() if axes else -1)


def _axes(part: np.ndarray, ndim: int) -> list[int]:
    """The axes of a tensor of ``ndim`` axes along which ``part`` has more than one number."""
    return [ndim - part.ndim + axis for axis, size in enumerate(part.shape) if size != 1]


def _flat(part: np.ndarray) -> np.ndarray:
    return part.reshape(()) if part.size == 1 else part.reshape(-1)


def _known(bindings: Bindings, expr: Expr, depth: int = _MOST_CALLS) -> np.ndarray | None:
    """The numbers of a constant, or of a value that a few calls compute from constants; None for another value."""
    found = _constant(bindings, expr, depth)
    return None if found is None else found.data.numpy()


def _constant(bindings: Bindings, expr: Expr, depth: int) -> Constant | None:
    value = definition(bindings, expr)
    if isinstance(value, Constant) or not isinstance(value, Call) or not depth:
        return value if isinstance(value, Constant) else None
    operands = [arg if isinstance(arg, ShapeExpr) else _constant(bindings, arg, depth - 1) for arg in value.args]
    known = [operand for operand in operands if operand is not None]
    if len(known) < len(operands):
        return None
    try:
        found = Evaluator({}, most_elements=_MOST_CHANNELS).value(with_operands(value, known))
    except EvaluationError:
        return None
    return Constant(TensorData(cast("Any", found))) if isinstance(found, np.ndarray) else None


def WriteOutQuantized() -> Pass:
    """Write operators on quantized tensors as a `dequantize` of each operand, the computation, and a `quantize`.

    These are ``com.microsoft.QLinearAdd`` and similar operators, and dequantization by arithmetic with known scales,
    which the reader writes for ONNX's `QLinearConv` and `QLinearMatMul`. Codes may be summed in another order, so that
    some results are one step away. Operators with operands of unknown rank or dtype stay. Cost: linear.
    """
    rules = RuleSet([Rule(_numbers, _dequantized, "dequantize_by_arithmetic")])
    return Sequential([Legalize(_stays), RulePass(rules)], name="WriteOutQuantized")
