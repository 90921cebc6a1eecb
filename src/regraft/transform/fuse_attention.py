"""FuseAttention: attention that is written out becomes one ``nn.attention``.

The pattern is the core of all forms, ``softmax(scores) @ values``, with what may stand between the two. What the scores
are is read by `fuse_attention_scores`, what the operands are by `fuse_attention_operands`; this module decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .. import ops
from ..dpl import PatternContext, is_const, is_op, is_tuple_get_item, wildcard
from ..ir.dims import Dim, dims_equal
from ..ir.expr import Expr, Var
from ..ir.module import IRModule
from ..ir.op import Call
from ..ir.program import Function
from ..ir.types import TensorType, is_subtype
from ..rewrite import Bindings, Decline, Rule, decline
from .compile_time import weights_of
from .context import PassContext
from .fuse_attention_operands import Operand, keys_of, placed_bias, results, same_sizes, shape_of
from .fuse_attention_scores import Mask, Scores, dtype_of, mask_of, number_of, read_scores, without_factors
from .passes import FunctionPass, Pass

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
    _weights = _uncast | _cast | _cast_again
    _product = is_op("relax.matmul")(_weights, _values)

_BETWEEN = (_softmax, _isnan, _guarded, _dropout, _kept, _cast, _cast_again)


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
    rank = softmax.ty.ndim if isinstance(softmax.ty, TensorType) else -1
    if rank not in (3, 4) or not shape_of(softmax):
        return "attention has scores of three or four axes, whose sizes are known"
    if softmax.attrs.axis % rank != rank - 1:
        return f"the softmax is along axis {softmax.attrs.axis}, not along the keys"
    needed = _needed_elsewhere(matchings, bindings)
    if needed is not None:
        return f"{needed} is needed elsewhere, too"
    if _guarded in matchings and number_of(matchings[_zero]) != 0.0:
        return "queries that see no key give something else than 0"
    casts = [matchings[pattern] for pattern in (_cast, _cast_again) if pattern in matchings]
    if not {dtype_of(cast) for cast in casts} <= {dtype_of(softmax), dtype_of(matchings[_values])}:
        return "the weights are rounded to another dtype than that of the values"
    return None


class _Layout(NamedTuple):
    """The three operands, and the sizes of batch and heads; None: one head each, of a batch of all of them."""

    query: Expr
    key: Expr
    value: Expr
    split: tuple[Dim, Dim] | None


def _layout(query: Operand, key: Operand, value: Operand, bindings: Bindings) -> _Layout | str:
    """The operands as ``nn.attention`` takes them, or why they do not fit together."""
    operands = (query, key, value)
    apart = len(shape_of(query.value)) == 4
    splits = [operand.split(bindings) for operand in operands]
    split = next((found for found in splits if found is not None), None)
    if not apart:
        known = [found for operand, found in zip(operands, splits, strict=True) if len(shape_of(operand.value)) == 4]
        if any(split is None or not same_sizes(found or (), split) for found in known):
            return "queries and keys are split into batch and heads differently"
    placed = [operand.placed(split, bindings) for operand in operands]
    (batch, _, heads, _), *others = (shape_of(tensor) for tensor in placed)
    groups = others[0][2]
    if any(dims_equal(shape[0], batch) is not True or dims_equal(shape[2], groups) is not True for shape in others):
        return "batch or heads of keys and values are not known to be the same"
    if dims_equal(groups, heads) is not True and dims_equal(groups, 1) is not True:
        return "the heads of queries and keys are not known to be the same"
    return _Layout(placed[0], placed[1], placed[2], split)


def _fused(scores: Scores, mask: Mask, values: Expr, product: Var, bindings: Bindings) -> dict[Var, Expr] | str:
    """The replacements, or why there are none."""
    query, from_query = without_factors(scores.query, bindings)
    keys = keys_of(scores.keys, bindings)
    if isinstance(keys, str):
        return keys
    if not len(shape_of(query)) == len(shape_of(values)) == len(shape_of(product)):
        return "queries, keys and values have different numbers of axes"
    layout = _layout(Operand(query), keys[0], Operand(values), bindings)
    if isinstance(layout, str):
        return layout
    bias = None if mask.bias is None else placed_bias(mask.bias, scores.product, layout.split)
    scale = from_query * keys[1] * mask.scale
    attended = ops.nn.attention(*layout[:3], bias, scale, mask.causal)
    edits = results(attended, product, layout.split, bindings)
    if any(is_subtype(new.ty, old.ty) is not True for old, new in edits.items()):
        return "the result has another dtype than the operands, or a shape that is less precisely known"
    return edits


def _rewriter(
    weights: Mapping[Var, None], every_query_sees_a_key: bool
) -> Callable[[dict[Any, Any], Bindings], dict[Var, Expr] | Decline]:
    def fuse(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
        reason = _unreadable(matchings, bindings)
        if reason is not None:
            return decline(reason)
        scores = read_scores(matchings[_scores], bindings)
        if isinstance(scores, str):
            return decline(scores)
        mask = mask_of(scores, bindings, weights)
        if isinstance(mask, str):
            return decline(mask)
        if mask.doubt is not None and not every_query_sees_a_key and _guarded not in matchings:
            return decline(
                f"{mask.doubt}; a query that sees no key gives NaN here and 0 by nn.attention, so say "
                "every_query_sees_a_key=True if there is none"
            )
        edits = _fused(scores, mask, matchings[_values], matchings[_product], bindings)
        return decline(edits) if isinstance(edits, str) else edits

    return fuse


def FuseAttention(every_query_sees_a_key: bool = False) -> Pass:
    """Write ``softmax(query @ keyᵀ * scale + mask) @ value`` as one ``nn.attention``.

    Read are products over (batch, heads, sequence, size) and over (batch * heads, sequence, size); keys transposed by
    exactly the last two axes; any constant scale, which is passed on exactly, on the queries, the keys, or the scores,
    before or after masks; masks that are added, or that put a very low number in the place of scores; no-op dropout;
    softmax in float32 of half-precision scores. A constant mask that is exactly triangular becomes ``causal_mask``,
    other masks a bias. Keys and values of one head are shared by all; repeated ones stay repeated. Permutations that
    only bring heads forward and back are gone afterwards.

    Left, with the reason in `report`: a softmax along another axis; scores or weights that something else needs; and
    masks that may hide all keys from a query. A written-out softmax gives NaN there, ``nn.attention`` zeros.
    ``every_query_sees_a_key`` promises that there is no such query. Without it, masks are fused that are known to leave
    every query a key, or that are finite: made of integers, booleans, finite constants and weights (see
    `weights_of`). Code that turns those NaNs into zeros itself needs no promise. Inputs are taken to be finite.

    Needs: known shapes; constant masks are recognized after `FoldConstant`. Guarantees: the same values but for
    rounding: scores are not rounded to half precision in between. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        weights = dict.fromkeys(weights_of(function))
        return context.rewrite(function, Rule(_attention, _rewriter(weights, every_query_sees_a_key), "fuse_attention"))

    return FunctionPass(transform, "FuseAttention")
