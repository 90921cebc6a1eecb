"""Attention whose result is multiplied by the share that a sink leaves, as attention with a sink among its scores.

With scores s and a sink t, ``sigmoid(logsumexp(s) - t)`` is the share of the weights that the keys keep if the sink is
one more score: the sum of exp(s), divided by itself plus exp(t). `FuseAttention` recognizes the second form.
"""

from __future__ import annotations

from typing import Any, Final

from ... import op as ops
from ...analysis.tensors import same_sizes, shape_of
from ...analysis.values import resolve
from ...ir.expr import Expr
from ...pattern import is_op, wildcard
from ...rewrite import Bindings, Decline, Rule, decline

_scores, _values, _sinks, _shift, _shift_again = (wildcard() for _ in range(5))
_softmax = is_op("relax.nn.softmax")(_scores)
_product = is_op("relax.matmul")(_softmax, _values)
# The logarithm of the sum of exponentials does not depend on the shift that is subtracted first and added afterwards.
_sum = is_op("relax.sum")(is_op("relax.exp")(is_op("relax.subtract")(_scores, _shift)))
_back = is_op("relax.squeeze")(_shift_again) | is_op("relax.reshape")(_shift_again, wildcard()) | _shift_again
_logarithm = is_op("relax.add")(is_op("relax.log")(_sum), _back)
_share = is_op("relax.sigmoid")(is_op("relax.subtract")(_logarithm, _sinks))
_as_wide = is_op("relax.expand_dims")(_share) | is_op("relax.reshape")(_share, wildcard()) | _share
_kept = is_op("relax.multiply")(_product, _as_wide)


def _with_sink(_: Expr, matchings: dict[Any, Any], bindings: Bindings) -> Expr | Decline:
    scores, softmax, total = matchings[_scores], matchings[_softmax], matchings[_sum]
    shape, last = shape_of(scores), len(shape_of(scores)) - 1
    if resolve(bindings, matchings[_shift]) is not resolve(bindings, matchings[_shift_again]):
        return decline("what is taken from the scores and what is added are not the same")
    if {softmax.attrs.axis % (last + 1)} != {axis % (last + 1) for axis in total.attrs.axis or ()} or last < 1:
        return decline("the sum of exponentials is not along the keys")
    rows = [*shape[:-1], 1]
    if not all(same_sizes(shape_of(matchings[one]), rows) for one in (_as_wide, _shift)):
        return decline("the share is not one number for each query")
    sinks = matchings[_sinks]
    if not total.attrs.keepdims:
        sinks = ops.expand_dims(sinks, [-1])
    more = ops.concat([scores, ops.broadcast_to(sinks, rows)], axis=last)
    weights = ops.nn.softmax(more, axis=last)
    return ops.matmul(ops.strided_slice(weights, [last], [0], [shape[-1]]), matchings[_values])


SINKS_AS_SCORES: Final = Rule(_kept, _with_sink, "sinks_as_scores").assuming_finite()
"""The share that a sink leaves, multiplied in after the sum, written as one more score before the softmax."""
