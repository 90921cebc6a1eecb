"""Attention that ``nn.attention`` cannot express, as one operator that only `CacheInPlace` sees.

Its scores are capped, or a sink of each head takes a part of the weights. It becomes an operator of ONNX Runtime.
"""

from __future__ import annotations

from typing import Final

from ...ir.expr import Expr, Tuple
from ...ir.op import Call, Op
from ...ir.program import Function
from ...ir.types import Type
from ...op.composite.attention import ATTENTION, attention
from ...rewrite import RuleSet
from ..attention_operands import AttentionParts, NoAttention
from ..context import PassContext
from ..fuse_attention.fuse import with_attention
from .sinks import SINKS_AS_SCORES

LEFT_OUT: Final = Tuple([])
"""The placeholder of an omitted operand before a given one."""


def given(call: Call, place: int) -> Expr | None:
    """The operand of ``call`` at ``place``; None if it is omitted."""
    found = call.args[place] if place < len(call.args) else LEFT_OUT
    return None if isinstance(found, Tuple) else found


def _type(call: Call) -> Type:
    query, key, value, *_ = call.args
    return attention(query, key, value, given(call, 3)).ty


OTHER_ATTENTION: Final = Op(
    "regraft.other_attention",
    ("query", "key", "value", "bias?", "sinks?"),
    {**ATTENTION.attributes, "cap": 0.0},
    infer=_type,
)
"""``nn.attention`` whose scaled scores become ``cap * tanh(scores / cap)`` before bias and mask, if ``cap`` is above 0.

``sinks`` (heads,) are scores of a key without a value.
"""


def _as_other(parts: AttentionParts) -> Expr:
    if parts.cap is None and parts.sinks is None:
        raise NoAttention("the scores are not capped, and there are no sinks")
    beside = [LEFT_OUT if one is None else one for one in (parts.bias, parts.sinks)]
    attributes = {"scale": parts.scale, "causal_mask": parts.causal, "cap": parts.cap or 0.0}
    return Call(OTHER_ATTENTION, (parts.query, parts.key, parts.value, *beside), attributes)


def with_other_attention(function: Function, context: PassContext) -> Function:
    """``function`` with each attention that has capped scores or sinks as one `OTHER_ATTENTION`."""
    sunk = context.rewrite(function, RuleSet([SINKS_AS_SCORES]))
    return with_attention(sunk, context, _as_other, "other_attention")
