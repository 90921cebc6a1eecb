"""Attention whose scores are capped, as one operator that only `CacheInPlace` sees: it becomes one of ONNX Runtime."""

from __future__ import annotations

from typing import Final

from ...ir.expr import Expr
from ...ir.op import Call, Op
from ...ir.program import Function
from ...ir.types import Type
from ...op.composite.attention import ATTENTION, attention
from ..context import PassContext
from ..fuse_attention.fuse import Attention, attention_rule
from ..fuse_attention.scores import NoAttention


def _type(call: Call) -> Type:
    query, key, value, *bias = call.args
    return attention(query, key, value, bias[0] if bias else None).ty


CAPPED: Final = Op(
    "regraft.capped_attention",
    ("query", "key", "value", "bias?"),
    {**ATTENTION.attributes, "cap": 0.0},
    infer=_type,
)
"""``nn.attention`` of scaled scores that became ``cap * tanh(scores / cap)`` before the bias and the mask."""


def _as_capped(parts: Attention) -> Expr:
    if parts.cap is None:
        raise NoAttention("the scores are not capped")
    bias = () if parts.bias is None else (parts.bias,)
    attributes = {"scale": parts.scale, "causal_mask": parts.causal, "cap": parts.cap}
    return Call(CAPPED, (parts.query, parts.key, parts.value, *bias), attributes)


def with_capped_attention(function: Function, context: PassContext) -> Function:
    """``function`` with each attention of capped scores as one `CAPPED`."""
    return context.rewrite(function, attention_rule(function, _as_capped, "capped_attention"))
