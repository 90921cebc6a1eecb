"""OpenAttention: attention written as two products, so that these can be computed on bytes."""

from __future__ import annotations

from typing import Any

from ... import op as ops
from ...analysis import get_var2val
from ...analysis.finite_values import FiniteValues
from ...analysis.tensors import shape_of
from ...analysis.values import call_of
from ...ir.expr import Expr, Var, const
from ...ir.module import IRModule
from ...ir.op import Call, is_call_of
from ...ir.program import Function
from ...ir.visitor import iter_bindings
from ...pattern import PatternContext, is_op, wildcard
from ...rewrite import Bindings, Decline, Rule, decline
from ..context import PassContext
from ..passes import FunctionPass, Pass
from .layers import is_float32

_KINDS = ("relax.nn.attention", "relax.nn.attention_bias")

with PatternContext() as _ATTENTION:
    _query, _key, _value = wildcard(), wildcard(), wildcard()
    _attended = is_op(_KINDS[0])(_query, _key, _value) | is_op(_KINDS[1])(_query, _key, _value, wildcard())


def has_attention(function: Function) -> bool:
    """True if ``function`` has an attention as one operator."""
    return any(is_call_of(binding.value, kind) for binding in iter_bindings(function) for kind in _KINDS)


def _opened(call: Call, bias: Expr | None) -> Expr | Decline:
    query, key, value = call.args[:3]
    shapes = [shape_of(one) for one in (query, key, value)]
    if not is_float32(query) or any(len(shape) != 4 for shape in shapes):
        return decline("only float32 attention of known sizes is written out")
    heads, size = shapes[0][2], shapes[0][3]
    if call.attrs.causal_mask is not None:
        return decline("it has a causal mask")
    if not isinstance(heads, int) or heads != shapes[1][2] or not isinstance(size, int) or not size:
        return decline("heads share their keys, or their size is not known")
    scale = size**-0.5 if call.attrs.scale is None else call.attrs.scale
    queries = ops.multiply(ops.permute_dims(query, (0, 2, 1, 3)), const(scale, "float32"))
    scores: Expr = ops.matmul(queries, ops.permute_dims(key, (0, 2, 3, 1)))
    if bias is not None:
        scores = ops.add(scores, bias)
    rows = ops.matmul(ops.nn.softmax(scores, -1), ops.permute_dims(value, (0, 2, 1, 3)))
    return ops.permute_dims(rows, (0, 2, 1, 3))


def OpenAttention() -> Pass:
    """Write attention as products, scores and a softmax, for `Quantize` with ``attention``.

    Attention is left unchanged, with the reason in `report`, if it has a causal mask, heads that share keys, or a bias
    that may be infinite (a query that sees no key gives zeros), or if it is not float32. Guarantees: the same values up
    to rounding. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        finite, values = FiniteValues([]), get_var2val(function)

        def open_one(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
            call = call_of(bindings, matchings[_attended])
            bias = call.args[3] if len(call.args) > 3 else None
            if bias is not None and not finite.holds(bias, values):
                return decline("its bias may hide all keys from a query")
            found = _opened(call, bias)
            return found if isinstance(found, Decline) else {matchings[_attended]: found}

        return context.rewrite(function, Rule(_ATTENTION, open_one, "open_attention"))

    return FunctionPass(transform, "OpenAttention")
