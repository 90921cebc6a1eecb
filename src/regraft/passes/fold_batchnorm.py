"""FoldBatchnormToConv2D: a convolution and a batch norm, at inference, as one convolution with other weights."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from .. import op as ops
from ..analysis.compile_time import is_known, known_before_inputs
from ..analysis.values import call_of, resolve
from ..ir.dims import Dim
from ..ir.expr import Expr, Var, const
from ..ir.module import IRModule
from ..ir.op import Call
from ..ir.program import Function
from ..ir.types import TensorType
from ..pattern import PatternContext, is_op, is_tuple_get_item, wildcard
from ..pattern.pattern import DFPattern
from ..rewrite import Bindings, Decline, Rule, RuleSet, decline, if_as_precise
from .context import PassContext
from .passes import FunctionPass, Pass

with PatternContext() as _normalized:
    _data, _weight, _bias = wildcard(), wildcard(), wildcard()
    _gamma, _beta, _mean, _variance = wildcard(), wildcard(), wildcard(), wildcard()
    _conv = is_op("relax.nn.conv2d")(_data, _weight)
    _biased = is_op("relax.add")(_conv, _bias)
    _norm = is_op("relax.nn.batch_norm")(_conv | _biased, _gamma, _beta, _mean, _variance)
    _field = is_tuple_get_item(_norm, 0)

_old_mean, _old_variance = wildcard(), wildcard()
_any_norm = is_op("relax.nn.batch_norm")(wildcard(), wildcard(), wildcard(), _old_mean, _old_variance)
_new_mean, _new_variance = is_tuple_get_item(_any_norm, 1), is_tuple_get_item(_any_norm, 2)


def _statistic(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    if matchings[_any_norm].attrs.training:
        return decline("the batch norm is in training, where its statistics change")
    return if_as_precise(matchings[_old_mean if _new_mean in matchings else _old_variance], expr)


def _channels(layout: str, letter: str, size: Dim) -> list[Dim]:
    """The shape that puts a vector of ``size`` elements along the axis ``letter`` of a layout."""
    return [size if axis == letter else 1 for axis in layout]


def _folded(matchings: Mapping[Any, Any], bindings: Bindings, known: dict[Var, None]) -> dict[Var, Expr] | Decline:
    conv, norm = call_of(bindings, matchings[_conv]), call_of(bindings, matchings[_norm])
    if norm.attrs.training:
        return decline("the batch norm is in training, where its statistics come from the batch")
    parameters = [matchings[p] for p in (_weight, _gamma, _beta, _mean, _variance)]
    bias: Expr | None = matchings.get(_bias)
    if not all(is_known(resolve(bindings, each), known) for each in [*parameters, *([] if bias is None else [bias])]):
        return decline("weights or statistics are not known before the inputs: bind them, or set num_input")
    chain = [matchings[_conv], *([] if bias is None else [matchings[_biased]]), matchings[_norm]]
    if any(bindings.users_of(value) != (user,) or bindings.is_output(value) for value, user in pairwise(chain)):
        return decline("the convolution is used elsewhere, so it is computed anyway")
    weight = parameters[0].ty
    if not isinstance(weight, TensorType) or weight.shape is None or weight.dtype is None:
        return decline("the shape or dtype of the weights is not known")
    if not isinstance(conv.ty, TensorType) or conv.ty.dtype != weight.dtype:
        return decline("the convolution is rounded to another dtype than that of its weights")
    kernel: str = conv.attrs.kernel_layout
    out: str = conv.attrs.out_layout or conv.attrs.data_layout
    if norm.attrs.axis % len(out) != out.index("C"):
        return decline("the batch norm is not over the channels of the convolution")
    size = weight.shape[kernel.index("O")]
    return {matchings[_field]: _as_convolution(conv, norm, parameters, bias, size, weight.dtype)}


def _as_convolution(conv: Call, norm: Call, parameters: list[Expr], bias: Expr | None, size: Dim, dtype: str) -> Expr:
    weight, gamma, beta, mean, variance = parameters
    factor: Expr = ops.rsqrt(ops.add(variance, const(norm.attrs.epsilon, dtype)))
    if norm.attrs.scale:
        factor = ops.multiply(gamma, factor)
    shift: Expr = ops.negative(ops.multiply(mean, factor))
    if norm.attrs.center:
        shift = ops.add(beta, shift)
    kernel, out = conv.attrs.kernel_layout, conv.attrs.out_layout or conv.attrs.data_layout
    scaled = ops.multiply(weight, ops.reshape(factor, _channels(kernel, "O", size)))
    product = Call(conv.op, (conv.args[0], scaled), conv.attrs)
    added: Expr = ops.reshape(shift, _channels(out, "C", size))
    if bias is not None:
        added = ops.add(ops.multiply(bias, ops.reshape(factor, _channels(out, "C", size))), added)
    return ops.add(product, added)


def FoldBatchnormToConv2D() -> Pass:
    """Fold a batch norm at inference into the weights and bias of the 2-D convolution before it.

    The convolution may have a bias or none. Needs: ``training=False``; weights, scale, shift and statistics that are
    known before the inputs: constants (`BindParams`), or parameters after the first ``num_input``. Run `FoldConstant`
    or `LiftTransformParams` afterwards to compute the new weights once. Guarantees: the same values up to rounding. Any
    layouts and groups. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        known = known_before_inputs(function)

        def fold(matchings: dict[DFPattern, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
            return _folded(matchings, bindings, known)

        statistics = Rule(_new_mean | _new_variance, _statistic, "keep_statistics")
        return context.rewrite(function, RuleSet([statistics, Rule(_normalized, fold, "fold_batchnorm_to_conv2d")]))

    return FunctionPass(transform, "FoldBatchnormToConv2D")
