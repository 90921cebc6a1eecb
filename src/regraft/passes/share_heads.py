"""Attention that is one operator already, over keys and values that were repeated for several heads each.

``nn.attention`` lets consecutive heads share a key, so the repetition is left out: the values are the same to the bit,
and the keys of a long text are read as they lie.
"""

from __future__ import annotations

from typing import Any, Final

from ..ir.expr import Expr, Var
from ..ir.op import Call
from ..pattern import PatternContext, is_op, wildcard
from ..rewrite import Bindings, Decline, Rule, decline
from .fuse_attention_axes import Axes, Axis, Form, Layout
from .read_values import same_sizes, shape_of

with PatternContext() as _ATTENTION:
    _query, _key, _value, _bias = wildcard(), wildcard(), wildcard(), wildcard()
    _plain = is_op("relax.nn.attention")(_query, _key, _value)
    _biased = is_op("relax.nn.attention_bias")(_query, _key, _value, _bias)
    _attention = _plain | _biased


def _shared(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
    var = matchings[_attention]
    call = bindings[var]
    assert isinstance(call, Call)
    key, value = (_unrepeated(matchings[one], bindings) for one in (_key, _value))
    if key is None or value is None:
        return decline("the heads of keys and values are not repeated")
    if not same_sizes([shape_of(key)[2]], [shape_of(value)[2]]):
        return decline("keys and values are not repeated alike")
    return {var: Call(call.op, (call.args[0], key, value, *call.args[3:]), call.attrs)}


def _unrepeated(operand: Expr, bindings: Bindings) -> Expr | None:
    """``operand`` of (batch, sequence, heads, size) before each head was repeated; None if they were not."""
    if len(shape_of(operand)) != 4:
        return None
    batch, sequence, heads, size = (Axis(size) for size in shape_of(operand))
    layout = Layout(Axes([heads]), (batch,), (heads,))
    path = layout.axes.path(Form(operand, layout.wanted((sequence,), (size,))), bindings)
    found = layout.places([form for form in path if form.factor == 1.0], (sequence,), (size,))
    fewest = min(found, key=len)
    return None if fewest == layout.axes.atoms((heads,)) else found[fewest][0]


SHARE_HEADS: Final = Rule(_ATTENTION, _shared, "share_repeated_heads")
"""Attention of keys and values from before each of their heads was repeated."""
