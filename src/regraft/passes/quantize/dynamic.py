"""QuantizeDynamic: products with weights in bytes; the range of the other operand is found as the program runs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ... import op as ops
from ...ir.expr import Constant, Expr, TupleGetItem, Var, const
from ...ir.module import IRModule
from ...ir.program import Function
from ...ir.tensor_data import TensorData
from ...rewrite import Bindings, Decline, Rule
from ..context import PassContext
from ..passes import FunctionPass, Pass
from .layers import PRODUCT, Product, product_of
from .weights import WeightCodes, per_channel


def _in_bytes(layer: Product, codes: WeightCodes) -> Expr:
    """The product computed on bytes: sums in int32, then one scale for each column."""
    weights = per_channel(layer.weights(), 1, codes)
    values = Constant(TensorData(weights.values, None, layer.sources))
    quantized = ops.dynamic_quantize(layer.data)
    data, scale, zero_point = (TupleGetItem(quantized, index) for index in range(3))
    summed = ops.matmul_integer(data, values, zero_point, const(weights.zero))
    # The scales are multiplied with each other first: ONNX Runtime then computes all of this in one kernel.
    return ops.multiply(ops.astype(summed, "float32"), ops.multiply(scale, const(weights.scales)))


def QuantizeDynamic(keep: Collection[str] = (), least: int = 4096, bits: int = 8, *, unsigned: bool = False) -> Pass:
    """Compute float32 products with constant weights in bytes.

    Each ``x @ w`` becomes ``dynamic_quantize(x)`` and ``matmul_integer`` with ``w`` in int8, with one scale for each
    column. The range of ``x`` is found as the program runs, so no samples are needed. ``keep`` names bindings that stay
    as they are. Products with weights of fewer than ``least`` numbers stay, too. ``bits`` and ``unsigned`` are the form
    of the weights, as in `WeightCodes`.

    Needs: weights as constants (`BindParams`). Guarantees: the same dtypes and shapes. Values change by about 1 % of
    the largest, more if a few values are much larger than the others; so this is never done by default. Weights take a
    quarter of the bytes. Fast on ONNX Runtime if the processor multiplies bytes (VNNI, AMX). Cost: linear in the
    weights, each of which is read once.
    """
    kept, codes = frozenset(keep), WeightCodes(bits, unsigned)

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        def quantize(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
            layer = product_of(matchings, bindings, kept, least)
            return layer if isinstance(layer, Decline) else {layer.var: _in_bytes(layer, codes)}

        return context.rewrite(function, Rule(PRODUCT, quantize, "quantize_dynamic"))

    return FunctionPass(transform, "QuantizeDynamic", keeps_values=False)
