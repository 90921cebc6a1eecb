"""QuantizeRecurrent: LSTM layers with weights in bytes, by ONNX Runtime's operator."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from ... import op as ops
from ...analysis.values import call_of
from ...ir.expr import Constant, Expr, Tuple, Var, const
from ...ir.module import IRModule
from ...ir.op import Call, Op
from ...ir.program import Function
from ...ir.tensor_data import TensorData
from ...ir.types import TensorType
from ...pattern import PatternContext, is_const, is_op, wildcard
from ...rewrite import Bindings, Decline, Rule, decline
from ..context import PassContext
from ..passes import FunctionPass, Pass
from .layers import KEPT, is_float32, sources_of
from .weights import WeightCodes, per_channel

with PatternContext() as _LSTM:
    _data, _weights, _recurrence = wildcard(), is_const(), is_const()
    _layer = is_op("relax.nn.lstm")(_data, _weights, _recurrence, varg_default_wildcard=True)


def _in_bytes(constant: Constant, form: WeightCodes) -> tuple[Expr, Expr, Expr]:
    """Weights (directions, 4 * hidden, k) in bytes (directions, k, 4 * hidden), with their scales and zero points."""
    weights = constant.data.read()
    ways, rows, width = weights.shape
    found = per_channel(weights.reshape(ways * rows, width), 0, form)
    values = np.ascontiguousarray(found.values.reshape(ways, rows, width).transpose(0, 2, 1))
    codes = Constant(TensorData(values, None, sources_of(constant)))
    return codes, const(found.scales.reshape(ways, rows)), const(np.full((ways, rows), found.zero))


def _operator(call: Call, codes: WeightCodes) -> Expr:
    """The layer of ``call`` as ONNX Runtime's own operator."""
    nothing = Tuple(())
    given = [*call.args[3:], *[nothing] * (8 - len(call.args))]
    bias, hidden, cell, lengths, peephole = given
    if isinstance(lengths.ty, TensorType) and lengths.ty.dtype != "int32":
        lengths = ops.astype(lengths, "int32")
    data, kernel, matrix = call.args[:3]
    assert isinstance(kernel, Constant)
    assert isinstance(matrix, Constant)
    (weights, *of_weights), (recurrence, *of_recurrence) = _in_bytes(kernel, codes), _in_bytes(matrix, codes)
    attrs: dict[str, Any] = {
        "activations": tuple(name.capitalize() for name in call.attrs.activations),
        "direction": call.attrs.direction,
        "hidden_size": matrix.data.shape[2],
        "input_forget": int(call.attrs.input_forget),
    }
    if call.attrs.clip is not None:
        attrs["clip"] = call.attrs.clip
    operands = (data, weights, recurrence, bias, lengths, hidden, cell, peephole, *of_weights, *of_recurrence)
    return Op.get("com.microsoft.DynamicQuantizeLSTM")(*operands, **attrs)


def QuantizeRecurrent(keep: Collection[str] = (), least: int = 4096, bits: int = 8, *, unsigned: bool = False) -> Pass:
    """Compute float32 LSTM layers with constant weights in bytes, on ONNX Runtime.

    Each ``nn.lstm`` becomes ``com.microsoft.DynamicQuantizeLSTM`` with weights in bytes, with one scale for each row of
    a gate. The sequence, and the hidden state of each step, are quantized by ranges found as the program runs, so no
    samples are needed. ``keep`` names bindings that stay; layers of fewer than ``least`` weights stay, too. ``bits``
    and ``unsigned`` are as in `QuantizeDynamic`. There is no such operator for ``nn.gru`` and ``nn.rnn``, which stay.

    Needs: weights as constants. Guarantees: the same dtypes and shapes. Values change by 1 to 5 % of the largest, so
    this is never done by default. Weights take a quarter of the bytes. Only ONNX Runtime runs the result fast. Cost:
    linear in the weights, each of which is read once.
    """
    kept, codes = frozenset(keep), WeightCodes(bits, unsigned)

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        def quantize(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
            var = matchings[_layer]
            call, weights = call_of(bindings, var), (matchings[_weights], matchings[_recurrence])
            if var.name_hint in kept:
                return decline(KEPT)
            if not all(is_float32(one) for one in (matchings[_data], *weights)):
                return decline("only float32 layers are quantized")
            if sum(one.data.size for one in weights) < least:
                return decline(f"weights of fewer than {least} numbers gain nothing")
            return {var: _operator(call, codes)}

        return context.rewrite(function, Rule(_LSTM, quantize, "quantize_lstm"))

    return FunctionPass(transform, "QuantizeRecurrent", keeps_values=False)
