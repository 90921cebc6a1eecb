"""Attention that is one operator already, over keys and values that were repeated for several heads each.

``nn.attention`` lets consecutive heads share a key, so the repetition is left out: the values are the same to the bit,
and the keys of a long text are read as they lie.
"""

from __future__ import annotations

from typing import Any, Final

from .. import op as ops
from ..ir.expr import Expr, Var
from ..ir.op import Call
from ..pattern import PatternContext, is_op, wildcard
from ..rewrite import Bindings, Decline, Rule, decline
from .fuse_attention_operands import peeled, unrepeated
from .fuse_attention_products import Operand, same_sizes

_HEADS_FIRST: Final = (0, 2, 1, 3)
"""Where batch, heads, sequence and size lie in an operand of ``nn.attention``; exchanged with it, it is its own."""

with PatternContext() as _ATTENTION:
    _query, _key, _value, _bias = wildcard(), wildcard(), wildcard(), wildcard()
    _plain = is_op("relax.nn.attention")(_query, _key, _value)
    _biased = is_op("relax.nn.attention_bias")(_query, _key, _value, _bias)
    _attention = _plain | _biased


def _shared(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
    var = matchings[_attention]
    call = bindings[var]
    assert isinstance(call, Call)
    found = [unrepeated(peeled(Operand(matchings[one], _HEADS_FIRST), bindings), bindings) for one in (_key, _value)]
    key, value = found
    if key is None or value is None:
        return decline("the heads of keys and values are not repeated")
    if not same_sizes([key[1]], [value[1]]):
        return decline("keys and values are not repeated alike")
    operands = [_placed(one) for one, _ in (key, value)]
    return {var: Call(call.op, (call.args[0], *operands, *call.args[3:]), call.attrs)}


def _placed(operand: Operand) -> Expr:
    """``operand`` as (batch, sequence, heads, size)."""
    order = tuple(operand.axes[axis] for axis in _HEADS_FIRST)
    return operand.value if order == (0, 1, 2, 3) else ops.permute_dims(operand.value, order)


SHARE_HEADS: Final = Rule(_ATTENTION, _shared, "share_repeated_heads")
"""Attention of keys and values from before each of their heads was repeated."""
