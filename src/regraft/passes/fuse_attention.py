"""FuseAttention: attention that is written out becomes one ``nn.attention``.

The pattern is the core of all forms, ``softmax(scores) @ values``, with what may stand between the two. What the scores
are is read by `fuse_attention_scores` and `fuse_attention_masks`, what the products are by `fuse_attention_products`,
where operands come from by `fuse_attention_operands`; this module decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from .. import op as ops
from ..ir.dims import Dim
from ..ir.expr import Expr, Var
from ..ir.module import IRModule
from ..ir.op import Call
from ..ir.program import Function
from ..ir.types import is_subtype
from ..pattern import PatternContext, is_const, is_op, is_tuple, is_tuple_get_item, wildcard
from ..rewrite import Bindings, Decline, Rule, RuleSet, decline
from .compile_time import weights_of
from .context import PassContext
from .fuse_attention_masks import FiniteValues, Mask, mask_of
from .fuse_attention_operands import (
    Heads,
    along_keys,
    heads_of,
    keys_of,
    peeled,
    placed,
    placed_mask,
    results,
    shares_heads,
    unrepeated,
    unscaled,
)
from .fuse_attention_products import Operand, WeightedSum, dtype_of, read_weighted_sum, same_sizes, shape_of
from .fuse_attention_scores import Scores, number_of, read_scores
from .passes import FunctionPass, Pass
from .share_heads import SHARE_HEADS

with PatternContext() as _attention:
    _scores, _values, _zero = wildcard(), wildcard(), is_const()
    _softmax = is_op("relax.nn.softmax")(_scores)
    _isnan = is_op("relax.isnan")(_softmax)
    _guarded = is_op("relax.where")(_isnan, _zero, _softmax)
    _dropout = is_op("relax.nn.dropout")(_softmax)
    _kept = is_tuple_get_item(_dropout, 0)
    _uncast = _softmax | _guarded | _kept
    _cast = is_op("relax.astype")(_uncast)
    _cast_again = is_op("relax.astype")(_cast)
    _plain = _uncast | _cast | _cast_again
    _regrouped = is_op("relax.reshape")(_plain, wildcard())
    _weights = _plain | _regrouped
    _matmul = is_op("relax.matmul")(_weights, _values)
    _einsum = is_op("relax.einsum")(is_tuple([_weights, _values]))
    _einsum_turned = is_op("relax.einsum")(is_tuple([_values, _weights]))
    _product = _matmul | _einsum | _einsum_turned

_BETWEEN = (_softmax, _isnan, _guarded, _dropout, _kept, _cast, _cast_again, _regrouped)


def _needed_elsewhere(matchings: Mapping[Any, Any], bindings: Bindings) -> str | None:
    """The name of a value between the softmax and the product that something else needs."""
    inner = [matchings[pattern] for pattern in _BETWEEN if isinstance(matchings.get(pattern), Var)]
    known = {*inner, matchings[_product]}
    for var in inner:
        if bindings.is_output(var) or not known.issuperset(bindings.users_of(var)):
            return var.name_hint
    return None


def _unreadable(matchings: Mapping[Any, Any], bindings: Bindings) -> str | None:
    """Why the softmax and what follows it are not those of attention; None if they are."""
    softmax = bindings[matchings[_softmax]]
    assert isinstance(softmax, Call)
    rank = len(shape_of(softmax))
    if rank not in (3, 4, 5):
        return "attention has scores of three to five axes, whose sizes are known"
    if softmax.attrs.axis % rank != rank - 1:
        return f"the softmax is along axis {softmax.attrs.axis}, not along the keys"
    needed = _needed_elsewhere(matchings, bindings)
    if needed is not None:
        return f"{needed} is needed elsewhere, too"
    if not same_sizes(shape_of(matchings[_weights])[-2:], shape_of(softmax)[-2:]):
        return "the weights are reshaped to other queries and keys"
    if _guarded in matchings and number_of(matchings[_zero]) != 0.0:
        return "queries that see no key give something else than 0"
    casts = [matchings[pattern] for pattern in (_cast, _cast_again) if pattern in matchings]
    if not {dtype_of(cast) for cast in casts} <= {dtype_of(softmax), dtype_of(matchings[_values])}:
        return "the weights are rounded to another dtype than that of the values"
    return None


class _Parts(NamedTuple):
    """The operands as they stand before the layout of ``nn.attention``, and what they are multiplied by."""

    query: Operand
    keys: Operand
    values: Operand
    scale: float
    heads: Heads


def _parts(scores: Scores, summed: WeightedSum, weights: Expr, bindings: Bindings) -> _Parts | str:
    """The operands, or why they do not fit together."""
    query, from_query = unscaled(scores.product.query, bindings)
    keys = keys_of(scores.product.keys, bindings)
    if isinstance(keys, str):
        return keys
    values = peeled(summed.values, bindings)
    operands = (query, keys[0], values)
    form = heads_of([*scores.shapes, shape_of(weights)], operands, keys[0], bindings)
    if isinstance(form, str):
        return form
    products = shape_of(scores.product.var)
    own = [shape_of(query.value)[axis] for axis in query.axes[:-2]]
    fits = same_sizes(own, products[:-2]) and shares_heads(keys[0], products, form)
    if not fits or not shares_heads(values, shape_of(weights), form):
        return "batch or heads of queries, keys and values are not known to be the same"
    return _Parts(query, keys[0], values, from_query * keys[1], form)


def _once_each(parts: _Parts, bindings: Bindings) -> _Parts:
    """``parts`` with keys and values before their heads were repeated, if both were, and alike."""
    keys, values = unrepeated(parts.keys, bindings), unrepeated(parts.values, bindings)
    if keys is None or values is None or not same_sizes([keys[1]], [values[1]]):
        return parts
    return parts._replace(keys=keys[0], values=values[0])


def _fused(
    parts: _Parts, mask: Mask, summed: WeightedSum, product: Var, lead: Sequence[Dim], bindings: Bindings
) -> dict[Var, Expr] | str:
    """The replacements, or why there are none."""
    query, key, value = (placed(operand, parts.heads, bindings) for operand in (parts.query, parts.keys, parts.values))
    if not same_sizes(shape_of(key)[:3], shape_of(value)[:3]):
        return "batch or heads of keys and values are not known to be the same"
    if len({dtype_of(operand) for operand in (query, key, value)}) != 1:
        return "queries, keys and values have different dtypes"
    bias = None if mask.bias is None else along_keys(mask.bias, shape_of(key)[1])
    attended = ops.nn.attention(query, key, value, bias, parts.scale * mask.scale, mask.causal)
    edits = results(attended, product, summed.axes, parts.heads, lead, bindings)
    if any(is_subtype(new.ty, old.ty) is not True for old, new in edits.items()):
        return "the result has another dtype than the operands, or a shape that is less precisely known"
    return edits


def _rewriter(
    finite: FiniteValues, every_query_sees_a_key: bool
) -> Callable[[dict[Any, Any], Bindings], dict[Var, Expr] | Decline]:
    def fuse(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
        reason = _unreadable(matchings, bindings)
        if reason is not None:
            return decline(reason)
        scores = read_scores(matchings[_scores], bindings)
        if isinstance(scores, str):
            return decline(scores)
        product, weights, values = (matchings[pattern] for pattern in (_product, _weights, _values))
        call = bindings[product]
        assert isinstance(call, Call)
        summed = read_weighted_sum(call, weights, values, weights_last=_einsum_turned in matchings)
        if isinstance(summed, str):
            return decline(summed)
        parts = _parts(scores, summed, weights, bindings)
        if isinstance(parts, str):
            return decline(parts)
        finite.assume(parts.query.value, bindings)
        finite.assume(parts.keys.value, bindings)
        mask = mask_of(scores, partial(placed_mask, form=parts.heads), bindings, finite)
        if isinstance(mask, str):
            return decline(mask)
        if mask.doubt is not None and not every_query_sees_a_key and _guarded not in matchings:
            return decline(
                f"{mask.doubt}; a query that sees no key gives NaN here and 0 by nn.attention, so say "
                "every_query_sees_a_key=True if there is none"
            )
        lead = shape_of(weights)[:-2]
        edits = _fused(_once_each(parts, bindings), mask, summed, product, lead, bindings)
        return decline(edits) if isinstance(edits, str) else edits

    return fuse


def FuseAttention(every_query_sees_a_key: bool = False) -> Pass:
    """Write ``softmax(query @ keyᵀ * scale + mask) @ value`` as one ``nn.attention``.

    Read are products by ``matmul`` or ``einsum``, over (batch, heads, sequence, size), over (batch * heads, sequence,
    size), also where the two are joined and split on the way, and over five axes; keys with each key as a row of what
    is transposed; any constant scale, which is passed on exactly, on the queries, the keys, or the scores, before or
    after masks; masks that are added, or that put a very low number in the place of scores; a floor of the lowest
    number under them; no-op dropout; softmax in float32 of half-precision scores. A constant mask that is exactly
    triangular becomes ``causal_mask``, other masks a bias. Keys and values that were repeated for several heads each,
    or that a group of heads shares, are shared. Permutations that only bring heads forward and back are gone after it.

    Left, with the reason in `report`: a softmax along another axis; scores or weights that something else needs; scores
    that are capped, clipped or scaled by more than one number; and masks that may hide all keys from a query. A
    written-out softmax gives NaN there, ``nn.attention`` zeros. ``every_query_sees_a_key`` promises that there is no
    such query. Without it, masks are fused that are known to leave every query a key, or that are finite: made of
    integers, booleans, finite constants, the queries, and weights (see `weights_of`). Code that turns those NaNs into
    zeros itself needs no promise. Inputs are taken to be finite.

    Needs: known shapes; constant masks are recognized after `FoldConstant`. Guarantees: the same values but for
    rounding: scores are not rounded to half precision in between. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        finite = FiniteValues(weights_of(function))
        fused = Rule(_attention, _rewriter(finite, every_query_sees_a_key), "fuse_attention")
        return context.rewrite(function, RuleSet([fused, SHARE_HEADS]))

    return FunctionPass(transform, "FuseAttention")
