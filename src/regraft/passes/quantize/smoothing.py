"""SmoothOutliers: scale down channels that are much larger than others, before a tensor is quantized to bytes.

One scale for a whole tensor is too coarse if a few channels are large. A product does not change if its left operand is
divided, channel by channel, by the factors that the rows of its weights are multiplied with. So a part of the spread
moves to the weights, which have a scale for each column (Xiao et al., SmoothQuant, 2022).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ... import op as ops
from ...analysis.values import call_of
from ...ir.expr import Constant, Expr, Tuple, Var, const
from ...ir.module import IRModule
from ...ir.op import Call, is_call_of
from ...ir.program import Binding, BindingBlock, Function, SeqExpr, VarBinding
from ...ir.tensor_data import TensorData
from ...ir.visitor import iter_bindings
from ...op.adjoints import tensor_type
from ...pattern import PatternContext, is_const, is_op, wildcard
from ...rewrite import Bindings, Decline, Rule, RuleSet, decline
from ..context import PassContext, PassError
from ..passes import FunctionPass, Pass
from .layers import PRODUCT, is_float32, measurable, product_of, sources_of

Magnitudes = Mapping[str, np.ndarray]
"""The largest magnitude of each channel (the last axis), by the names of bindings."""

_SPREAD: Final = 6.0
"""The least ratio of the largest channel to the median from which channels are smoothed."""
_LEAST: Final = 1e-5

with PatternContext() as _SCALED_NORM:
    _data, _gamma, _beta, _factor = wildcard(), is_const(), is_const(), is_const()
    _layer_norm = is_op("relax.nn.layer_norm")(_data, _gamma, _beta)
    _rms_norm = is_op("relax.nn.rms_norm")(_data, _gamma)
    _norm = _layer_norm | _rms_norm
    _scaled = is_op("relax.multiply")(_norm, _factor)


class _Smoothing:
    """The state of one run of the pass, and the rewriters of its rules."""

    def __init__(self, magnitudes: Magnitudes, strength: float, least: int) -> None:
        self._magnitudes: Final = magnitudes
        self._strength: Final = strength
        self._least: Final = least
        self._factors: Final[dict[Var, np.ndarray | None]] = {}

    def rules(self) -> RuleSet:
        """The rules: products first; then the division of their left operand is folded into a norm before it."""
        return RuleSet([Rule(PRODUCT, self._product, "smooth_outliers"), Rule(_SCALED_NORM, _into_norm, "scale_norm")])

    def _product(self, matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
        layer = product_of(matchings, bindings, (), self._least)
        if isinstance(layer, Decline):
            return layer
        if not isinstance(layer.data, Var) or layer.data.name_hint not in self._magnitudes:
            return decline("no samples give the ranges of the channels of its operand")
        if layer.data not in self._factors:
            self._factors[layer.data] = self._factors_of(layer.data, layer.weights(), bindings)
        factors = self._factors[layer.data]
        if factors is None:
            return decline("no channel of its operand is much larger than the others")
        smaller = ops.multiply(layer.data, const((1 / factors).astype(np.float32)))
        weights = TensorData((layer.weights() * factors[:, None]).astype(np.float32), None, sources_of(layer.constant))
        return {layer.var: ops.matmul(smaller, Constant(weights))}

    def _factors_of(self, data: Var, weights: np.ndarray, bindings: Bindings) -> np.ndarray | None:
        """The divisor of each channel of ``data``, for all products that read it; None if no smoothing is needed."""
        sizes = np.asarray(self._magnitudes[data.name_hint], np.float64)
        if sizes.shape != (len(weights),) or not np.isfinite(sizes).all():
            return None
        if sizes.max() < _SPREAD * max(float(np.median(sizes)), _LEAST):
            return None
        rows = np.abs(weights).max(axis=1)
        for user in bindings.users_of(data):
            call = bindings.get(user)
            right = call.args[1] if is_call_of(call, "relax.matmul") else None
            if isinstance(right, Constant) and right.data.shape == weights.shape[:1] + right.data.shape[1:]:
                rows = np.maximum(rows, np.abs(right.data.read()).max(axis=1))
        factors = np.maximum(sizes, _LEAST) ** self._strength / np.maximum(rows, _LEAST) ** (1 - self._strength)
        # Only the ratios of the factors matter. Divided by the median, the smaller half of them counts as 1.
        return np.maximum(factors / np.median(factors), 1.0)


def _into_norm(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
    norm, factor = matchings[_norm], matchings[_factor]
    call = call_of(bindings, norm)
    if bindings.needed_elsewhere([norm], [matchings[_scaled]]) is not None:
        return decline(f"{norm.name_hint} is needed elsewhere, too")
    parts = [matchings[one] for one in (_gamma, _beta) if one in matchings]
    if any(part.data.shape != factor.data.shape or not is_float32(part) for part in parts):
        return decline("the factors are not one for each channel of the norm")
    scaled = [_times(part, factor) for part in parts]
    return {matchings[_scaled]: Call(call.op, (call.args[0], *scaled), call.attrs)}


def _times(constant: Constant, factor: Constant) -> Constant:
    return Constant(TensorData(constant.data.read() * factor.data.read(), None, sources_of(constant)))


def left_sides(function: Function) -> tuple[Var, ...]:
    """The values that products with constant weights read, in order, each once; values inside branches are left out."""
    found, there = dict[Var, None](), measurable(function)
    values = {binding.var: binding.value for binding in iter_bindings(function)}
    for value in values.values():
        if is_call_of(value, "relax.matmul") and isinstance(value.args[0], Var):
            right = values.get(value.args[1], value.args[1]) if isinstance(value.args[1], Var) else value.args[1]
            if isinstance(right.args[0] if is_call_of(right, "relax.permute_dims") else right, Constant):
                found[value.args[0]] = None
    return tuple(one for one in found if is_float32(one) and one in there)


def with_magnitudes(function: Function, values: Sequence[Var]) -> Function:
    """``function``, returning the largest magnitude of each channel of ``values``, in order, instead of its results.

    The values are parameters, or bound in the body's blocks and not in branches. Cost: linear.
    """
    pending, results = dict.fromkeys(values), dict[Var, Var]()
    blocks: list[BindingBlock] = []
    seen: list[Var] = list(function.params)
    for block in function.body.blocks:
        added: list[Binding] = []
        for value in [var for var in (*seen, *(binding.var for binding in block)) if var in pending]:
            call = ops.max(ops.abs(value), list(range(tensor_type(value).ndim - 1)))
            results[value] = Var(f"{value.name_hint}_magnitudes", call.ty)
            added.append(VarBinding(results[value], call))
            del pending[value]
        seen = []
        blocks.append(type(block)([*block, *added]))
    body = SeqExpr(blocks, Tuple([results[value] for value in values]))
    return Function(function.params, body, None, function.is_pure, function.attrs)


def SmoothOutliers(magnitudes: Magnitudes, strength: float = 0.5, least: int = 4096) -> Pass:
    """Move a part of the spread of the channels of products' left operands into their weights.

    ``magnitudes`` gives the size of each channel on samples, by the names of bindings (`with_magnitudes` measures it).
    If the largest channel is at least 6 times as large as the median, each channel is divided by a factor, and the rows
    of the weights are multiplied by it: ``size ** strength / row ** (1 - strength)``, in which ``row`` is the largest
    weight that the channel is multiplied by, relative to the median of these numbers, and at least 1. Products with one
    left operand share its factors. The factors go into a norm before the product if nothing else reads the norm. Run
    this before quantizing to bytes (`QuantizeDynamic`, `Quantize`).

    Needs: weights as constants. Guarantees: the same values up to rounding. Raises `PassError` for a ``strength`` that
    is not between 0 and 1. Cost: linear in the weights.
    """
    if not 0 <= strength <= 1:
        raise PassError(f"SmoothOutliers: strength={strength}; expected a number from 0 to 1")

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        return context.rewrite(function, _Smoothing(magnitudes, strength, least).rules())

    return FunctionPass(transform, "SmoothOutliers")
