"""The operands of an attention, and rules for attention as one operator: heads that share keys, constant biases.

If keys and values were repeated for several heads each, the attention takes them from before the repetition. The values
are the same to the bit, and the keys of a long text are not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from .. import op as ops
from ..analysis.axes import Arrangement, AxisGroup, Groups, View, atoms, axis_of, nearest, sources
from ..analysis.masks import causal_kind
from ..analysis.tensors import shape_of
from ..analysis.uniform import uniform_of
from ..ir.expr import Constant, Expr
from ..ir.op import Call
from ..pattern import is_const, is_op, wildcard
from ..rewrite import Bindings, Decline, Rule, decline


class NoAttention(Exception):
    """The reason why an expression that looks like an attention is not one, or is left as it is."""


class AttentionParts(NamedTuple):
    """The parts of an attention; tensors are (batch, sequence, heads, size), as ``nn.attention`` takes them.

    With a ``cap``, scaled scores become ``cap * tanh(scores / cap)`` before the bias and the mask are applied.
    ``sinks`` (heads,) are scores of a key without a value; the softmax gives this key a share of the weights.
    """

    query: Expr
    key: Expr
    value: Expr
    bias: Expr | None
    scale: float
    causal: str | None
    cap: float | None
    sinks: Expr | None


Attend: TypeAlias = Callable[[AttentionParts], Expr]
"""A function that writes an attention as an operator; it raises `NoAttention` if the operator cannot express it."""


def as_nn_attention(parts: AttentionParts) -> Expr:
    """``parts`` as one ``nn.attention``."""
    if parts.cap is not None:
        raise NoAttention(f"the scores are capped at {parts.cap:g} by tanh, which nn.attention does not do")
    if parts.sinks is not None:
        raise NoAttention("a sink takes a part of the weights, which nn.attention does not have")
    return ops.nn.attention(parts.query, parts.key, parts.value, parts.bias, parts.scale, parts.causal)


def of_fewest_heads(
    lead: Groups, heads: AxisGroup, operands: Sequence[Sequence[View | None]], sizes: Groups
) -> list[Arrangement] | None:
    """The operands with the axes ``lead``, the first few parts of ``heads``, and their own axes of ``sizes``.

    The parts of ``heads`` are as few as possible, the same for all operands. Each operand is given by its views
    (`sources`). None if an operand has no view with these axes.
    """
    parts = atoms(heads)
    for count in range(len(parts) + 1):
        found = [nearest(views, [*lead, parts[:count], size]) for views, size in zip(operands, sizes, strict=True)]
        placed = [one for one in found if one is not None]
        if len(placed) == len(found):
            return placed
    return None


_query, _key, _value, _bias, _any_bias = wildcard(), wildcard(), wildcard(), is_const(), wildcard()
_attention = is_op("relax.nn.attention")(_query, _key, _value)
_with_any = is_op("relax.nn.attention_bias")(_query, _key, _value, _any_bias)
_with_constant = is_op("relax.nn.attention_bias")(_query, _key, _value, _bias)


def _shared(attention: Call, matchings: dict[Any, Any], bindings: Bindings) -> Expr | Decline:
    operands = [matchings[_key], matchings[_value]]
    if any(len(shape_of(operand)) != 4 for operand in operands):
        return decline("the sizes of keys and values are not known")
    shape, last = shape_of(operands[0]), shape_of(operands[1])[3]
    batch, sequence, heads, *sizes = [axis_of(size, divisible=at == 2) for at, size in enumerate((*shape, last))]
    views = [View(one, [batch, sequence, heads, size]) for one, size in zip(operands, sizes, strict=True)]
    before = [sources(view, bindings, multiples=False) for view in views]
    placed = of_fewest_heads([batch, sequence], heads, before, sizes) or ()
    written = [one.written() for one in placed]
    if not written or shape_of(written[0])[2] == shape[2]:
        return attention
    return attention.with_args([attention.args[0], *written, *attention.args[3:]])


SHARE_HEADS: Final = Rule(_attention | _with_any, _shared, "share_repeated_heads")
"""Attention over keys and values that were repeated for several heads: take them from before the repetition."""


def _without_bias(attention: Call, matchings: dict[Any, Any]) -> Expr | Decline:
    bias, attrs, (query, key, value) = matchings[_bias], attention.attrs, attention.args[:3]
    assert isinstance(bias, Constant)
    added = bias.data.numpy().astype(np.float32)
    sizes = [size for operand in (query, key) for size in shape_of(operand)[1:2]]
    if attrs.causal_mask is not None or len(sizes) < 2:
        return decline("there is a causal mask already, or the sizes are not known")
    # Of the two kinds of causal mask, use the one that all engines have.
    if causal_kind(added, sizes, alone=True) != "TopLeft":
        return decline("the bias is not a causal mask")
    return ops.nn.attention(query, key, value, None, attrs.scale, "TopLeft")


def _without_zeros(attention: Call, matchings: dict[Any, Any], bindings: Bindings) -> Expr | Decline:
    attrs, added = attention.attrs, uniform_of(matchings[_any_bias], bindings)
    if added is None or added:
        return decline("the bias is not known to be 0 everywhere")
    query, key, value = attention.args[:3]
    return ops.nn.attention(query, key, value, None, attrs.scale, attrs.causal_mask, attrs.window_size)


ZERO_BIAS: Final = Rule(_with_any, _without_zeros, "zero_bias")
"""Attention whose bias is computed to be 0 everywhere, such as a mask that hides nothing: drop the bias."""

CONSTANT_BIAS: Final = Rule(_with_constant, _without_bias, "constant_bias").assuming_finite()
"""Attention whose constant bias is a causal mask: use the attribute instead of the bias."""
