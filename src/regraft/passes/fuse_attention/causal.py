"""Constant masks that are triangles: what they are called, and attention whose bias is nothing else, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ... import op as ops
from ...analysis.tensors import same_sizes, shape_of
from ...ir.dims import Dim
from ...ir.expr import Constant, Expr
from ...ir.op import Call
from ...pattern import is_const, is_op, wildcard
from ...rewrite import Decline, Rule, decline

AS_GOOD_AS_INFINITE: Final = -1e30
"""A number so low that adding a score to it in float32 gives the number again."""


def causal_kind(added: np.ndarray[Any, Any], sizes: Sequence[Dim], *, alone: bool) -> str | None:
    """Which causal mask is ``added`` to scores, whose last axes have ``sizes``, exactly.

    None if it is none, or one that leaves a query without keys. ``alone`` says that there is no other mask, so that a
    very low number is as good as minus infinity. Cost: the elements.
    """
    hidden, (queries, keys) = added != 0, added.shape[-2:]
    if (
        same_sizes([queries, keys], sizes)
        and keys
        and np.all(added[hidden] <= (AS_GOOD_AS_INFINITE if alone else -np.inf))
    ):
        for kind, offset in (("TopLeft", 0), ("BottomRight", keys - queries)):
            if offset >= 0 and np.all(hidden != np.tri(queries, keys, offset, dtype=bool)):
                return kind
    return None


_query, _key, _value, _bias = wildcard(), wildcard(), wildcard(), is_const()
_biased = is_op("relax.nn.attention_bias")(_query, _key, _value, _bias)


def _without_bias(attention: Call, matchings: dict[Any, Any]) -> Expr | Decline:
    bias, attrs, (query, key, value) = matchings[_bias], attention.attrs, attention.args[:3]
    assert isinstance(bias, Constant)
    added = bias.data.numpy().astype(np.float32)
    if not added.any():
        return ops.nn.attention(query, key, value, None, attrs.scale, attrs.causal_mask, attrs.window_size)
    sizes = [size for operand in (query, key) for size in shape_of(operand)[1:2]]
    if attrs.causal_mask is not None or len(sizes) < 2:
        return decline("there is a causal mask already, or the sizes are not known")
    # Of the two kinds, the one that all engines have.
    if causal_kind(added, sizes, alone=True) != "TopLeft":
        return decline("the bias is another one than a causal mask")
    return ops.nn.attention(query, key, value, None, attrs.scale, "TopLeft")


CONSTANT_BIAS: Final = Rule(_biased, _without_bias, "constant_bias").assuming_finite()
"""Attention whose constant bias is a causal mask, as attention with that mask; one of zeros is left out."""
