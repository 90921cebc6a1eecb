"""FuseAttention: attention that is written out becomes one ``nn.attention``.

The pattern is the core of all forms, ``softmax(scores) @ values``, with what may stand between the two. What the scores
are is read by `fuse_attention_scores` and `fuse_attention_masks`, what the products are by `fuse_attention_products`,
and what axes mean, and where operands come from, by `fuse_attention_axes`; this module decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import op as ops
from ..analysis.finite_values import FiniteValues
from ..ir.dims import dims_equal
from ..ir.expr import Expr, Var
from ..ir.module import IRModule
from ..ir.op import Call
from ..ir.program import Function
from ..ir.types import is_subtype
from ..op.primitive.manipulate import permutation
from ..pattern import PatternContext, is_const, is_op, is_tuple, is_tuple_get_item, wildcard
from ..rewrite import Bindings, Decline, Rule, RuleSet, decline
from .compile_time import weights_of
from .context import PassContext
from .fuse_attention_axes import Axes, Axis, Form, Group, Layout
from .fuse_attention_masks import Mask, mask_of
from .fuse_attention_products import WeightedSum, read_weighted_sum
from .fuse_attention_scores import read_scores
from .passes import FunctionPass, Pass
from .read_values import dtype_of, matched, number_of, same_sizes, shape_of
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


def _roles(axes: Axes, lead: Sequence[Group], keys: Form) -> tuple[Group, Group]:
    """Which of the leading axes of scores are the batch, and which heads."""
    if len(lead) == 1:
        atoms = axes.atoms(lead[0])
        return atoms[:1], atoms[1:]
    own = axes.atoms(axis for group in keys.groups for axis in group)
    count = 2 if len(lead) == 3 and set(own).issuperset(axes.atoms(lead[2])) else 1
    batch, heads = (axes.atoms(axis for group in part for axis in group) for part in (lead[:count], lead[count:]))
    return batch, heads


def _placed(
    layout: Layout, paths: Sequence[Sequence[Form]], axes: Sequence[Group], bindings: Bindings
) -> tuple[list[Expr], float] | str:
    """Queries, keys and values in the layout of ``nn.attention`` and the number they are multiplied by; or why not.

    ``paths`` say where they come from, ``axes`` are queries, keys, the size of both, and that of the values. Keys and
    values are those from before their heads were repeated, if both were, and alike.
    """
    rows, columns, size, last = axes
    query = layout.places(paths[0], rows, size).get(layout.heads)
    of_rows = [form if form.groups[-1][-1:] == size else None for form in paths[1]]
    if not any(of_rows):
        return _not_rows(paths[1], bindings)
    keys = layout.places(of_rows, columns, size)
    values = layout.places([form for form in paths[2] if form.factor == 1.0], columns, last)
    alike = [heads for heads in keys if heads in values]
    if query is None or not alike:
        return "batch or heads of queries, keys and values are not known to be the same"
    heads = min(alike, key=len)
    return [query[0], keys[heads][0], values[heads][0]], query[1] * keys[heads][1]


def _not_rows(along: Sequence[Form], bindings: Bindings) -> str:
    """Why the keys, which come ``along`` these, are no rows."""
    if matched(is_op("relax.reshape")(wildcard(), wildcard()), along[-1].value, bindings) is not None:
        return "queries and keys are split into batch and heads differently"
    turned = is_op("relax.permute_dims")(wildcard())
    found = matched(turned, along[0].value, bindings)
    order = None if found is None else permutation(found[turned])
    how = "not transposed by permute_dims" if order is None else f"permuted by {list(order)}"
    return f"the keys are {how}; expected their last two axes exchanged, so that each key is a row"


def _fused(
    operands: Sequence[Expr],
    scale: float,
    mask: Mask,
    layout: Layout,
    summed: WeightedSum,
    product: Var,
    rows: Group,
    bindings: Bindings,
) -> dict[Var, Expr] | str:
    """The replacements, or why there are none."""
    query, key, value = operands
    if not same_sizes(shape_of(key)[:3], shape_of(value)[:3]):
        return "batch or heads of keys and values are not known to be the same"
    if len({dtype_of(operand) for operand in (query, key, value)}) != 1:
        return "queries, keys and values have different dtypes"
    bias = mask.bias
    if bias is not None and dims_equal(shape_of(bias)[3], shape_of(key)[1]) is not True:
        bias = ops.broadcast_to(bias, [*shape_of(bias)[:3], shape_of(key)[1]])
    attended = ops.nn.attention(query, key, value, bias, scale * mask.scale, mask.causal)
    edits = layout.results(Form(attended, layout.wanted(rows, (summed.size,))), product, summed.groups, bindings)
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
        groups = tuple([(Axis(size),) for size in shape_of(matchings[_softmax])])
        *lead, rows, columns = groups
        axes = Axes([axis for group in lead for axis in group])
        scores = read_scores(matchings[_scores], groups, axes, bindings)
        if isinstance(scores, str):
            return decline(scores)
        product, weights, values = (matchings[pattern] for pattern in (_product, _weights, _values))
        call, weighed = bindings[product], axes.regrouped(groups, shape_of(weights))
        assert isinstance(call, Call)
        if weighed is None:
            return decline("the weights are reshaped to other queries and keys")
        summed = read_weighted_sum(call, weighed, values, weights_last=_einsum_turned in matchings)
        if isinstance(summed, str):
            return decline(summed)
        product_of = scores.product
        paths = [axes.path(operand, bindings) for operand in (product_of.query, product_of.keys, summed.values)]
        for form in (*paths[0], *paths[1]):
            finite.assume(form.value, bindings)
        layout = Layout(axes, *_roles(axes, lead, product_of.keys))
        placed = _placed(layout, paths, (rows, columns, (product_of.size,), (summed.size,)), bindings)
        if isinstance(placed, str):
            return decline(placed)
        mask = mask_of(scores, layout.mask, bindings, finite)
        if isinstance(mask, str):
            return decline(mask)
        if mask.doubt is not None and not every_query_sees_a_key and _guarded not in matchings:
            return decline(
                f"{mask.doubt}; a query that sees no key gives NaN here and 0 by nn.attention, so say "
                "every_query_sees_a_key=True if there is none"
            )
        edits = _fused(*placed, mask, layout, summed, product, rows, bindings)
        return decline(edits) if isinstance(edits, str) else edits

    return fuse


def FuseAttention(every_query_sees_a_key: bool = False) -> Pass:
    """Write ``softmax(query @ keyᵀ * scale + mask) @ value`` as one ``nn.attention``.

    Read are products by ``matmul`` or ``einsum``, over (batch, heads, sequence, size), over (batch * heads, sequence,
    size), also where the two are joined and split on the way, and over five axes; operands in any layout from which
    permutations, reshapes and broadcasts make these, keys with each key as a row somewhere on that way; any constant
    scale, which is passed on exactly, on the queries, the keys, or the scores, before or
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
