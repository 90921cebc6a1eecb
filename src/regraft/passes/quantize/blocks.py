"""QuantizeWeights: weights stored in 8 or 4 bits, in blocks with a scale each, and nothing else changed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ... import op as ops
from ...ir.expr import Constant, Expr, Var, const
from ...ir.module import IRModule
from ...ir.program import Function
from ...ir.tensor_data import TensorData
from ...rewrite import Bindings, Decline, Rule
from ..context import PassContext, PassError
from ..passes import FunctionPass, Pass
from .layers import PRODUCT, product_of
from .weights import in_blocks


def QuantizeWeights(bits: int = 8, block: int = 32, keep: Collection[str] = (), least: int = 4096) -> Pass:
    """Store the weights of float32 products in ``bits`` bits, 8 or 4, in blocks of ``block`` numbers of a column.

    Each ``x @ w`` becomes ``matmul_blocks``: a quarter or an eighth of the bytes, and one scale for each block. With 4
    bits the scale of each block is the one, of a few, that errs the least. ``keep`` names bindings that stay as they
    are; products with weights of fewer than ``least`` numbers stay, too.

    This is for models that wait for memory: a decoder that makes one token after another. On many rows it gains little.
    ONNX Runtime and OpenVINO run it fast. Needs: weights as constants. Guarantees: dtypes and shapes as before. Values
    change by less than 1 % (8 bits) or some percent (4 bits). Cost: linear in the weights, each of which is read once.
    """
    if bits not in (4, 8):
        raise PassError(f"QuantizeWeights: bits={bits}; expected 8 or 4")
    if block < 16 or block & (block - 1):
        raise PassError(f"QuantizeWeights: block={block}; expected a power of 2, of 16 or more")
    kept = frozenset(keep)

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        def quantize(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
            layer = product_of(matchings, bindings, kept, least)
            if isinstance(layer, Decline):
                return layer
            packed = in_blocks(layer.weights(), bits, block)
            codes = Constant(TensorData(packed.codes, None, layer.sources))
            return {layer.var: ops.matmul_blocks(layer.data, codes, const(packed.scales), bits, block)}

        return context.rewrite(function, Rule(PRODUCT, quantize, "quantize_weights"))

    return FunctionPass(transform, "QuantizeWeights", keeps_values=False)
