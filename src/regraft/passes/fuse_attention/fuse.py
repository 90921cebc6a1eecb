"""FuseAttention: attention that is written out becomes one ``nn.attention``.

The pattern is the core of all forms, ``softmax(scores) @ values``, with what may stand between the two. `scores` reads
what the scores are and adds up what is done to them, and `analysis.axes` composes what operands are views of; this
module decides, and writes the layout that `heads` knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ... import op as ops
from ...analysis.axes import AxisGroup, Groups, View, arrangement, atoms, axis_of, onward, regrouped, sources, together
from ...analysis.contraction import contraction_of
from ...analysis.finite_values import FiniteValues
from ...analysis.tensors import dtype_of, number_of, same_sizes, shape_of
from ...analysis.values import definition, resolve
from ...ir.dims import Dim, dims_equal
from ...ir.expr import Expr, PrimValue, Var
from ...ir.module import IRModule
from ...ir.op import Call, is_call_of
from ...ir.program import Function
from ...ir.types import is_subtype
from ...op.primitive.manipulate import permutation
from ...pattern import (
    DFPattern,
    PatternContext,
    chain,
    is_const,
    is_expr,
    is_op,
    is_tuple,
    is_tuple_get_item,
    repeat,
    wildcard,
)
from ...rewrite import Bindings, Decline, Rule, RuleSet, decline
from ...rewrite.drive import vars_of
from ..compile_time import weights_of
from ..context import PassContext
from ..passes import FunctionPass, Pass
from .heads import SHARE_HEADS, HeadLayout
from .scores import NoAttention, bias_of, read_scores


def _as_good_as(weights: DFPattern) -> DFPattern:
    """Weights that only look different: cast, reshaped, through no-op dropout, or 0 where they are NaN."""
    return (
        is_op("relax.where")(is_op("relax.isnan")(weights), _zero, weights)
        | is_tuple_get_item(is_op("relax.nn.dropout")(weights), 0)
        | is_op("relax.astype")(weights)
        | is_op("relax.reshape")(weights, wildcard())
    )


with PatternContext() as _ATTENTION:
    _scores, _values, _zero = wildcard(), wildcard(), is_const()
    _softmax = is_op("relax.nn.softmax")(_scores)
    # A sink is one more score, whose weight is cut off.
    _sinks = wildcard()
    _more = is_op("relax.concat")(is_tuple([_scores, _sinks]))
    _highest = is_op("relax.max")(_more)
    _softmax_of_more = is_op("relax.nn.softmax")(_more | is_op("relax.subtract")(_more, _highest))
    _cut = is_op("relax.strided_slice")(
        _softmax_of_more, wildcard(), wildcard(), wildcard(), varg_default_wildcard=True
    )
    _weights = chain(_as_good_as, until=_softmax | _cut, max=4)
    _matmul = is_op("relax.matmul")(_weights, _values)
    _einsum = is_op("relax.einsum")(is_tuple([_weights, _values]))
    _einsum_turned = is_op("relax.einsum")(is_tuple([_values, _weights]))
    _product = _matmul | _einsum | _einsum_turned


_ZEROS, _ONES = (is_tuple([repeat(is_expr(PrimValue(number)))]) for number in (0, 1))


def _score_axes(matchings: Mapping[Any, Any], bindings: Bindings) -> list[AxisGroup]:
    """The axes of the softmax; raises `NoAttention` if it, or what follows it, is not that of attention."""
    softmax, values = bindings[matchings[_softmax if _softmax in matchings else _softmax_of_more]], matchings[_values]
    assert isinstance(softmax, Call)
    shape = shape_of(softmax)
    rank = len(shape)
    if rank not in (3, 4, 5):
        raise NoAttention("attention has scores of three to five axes, whose sizes are known")
    if softmax.attrs.axis % rank != rank - 1:
        raise NoAttention(f"the softmax is along axis {softmax.attrs.axis}, not along the keys")
    operands = {matchings[place] for place in (_scores, _values, _sinks) if place in matchings}
    known = {*vars_of(matchings.values())} - operands
    between = known - {matchings[_product]}
    for var in between:
        if bindings.is_output(var) or not known.issuperset(bindings.users_of(var)):
            raise NoAttention(f"{var.name_hint} is needed elsewhere, too")
    if _zero in matchings and number_of(matchings[_zero]) != 0.0:
        raise NoAttention("queries that see no key give something else than 0")
    if not {dtype_of(var) for var in between} <= {dtype_of(softmax), dtype_of(values), "bool", None}:
        raise NoAttention("the weights are rounded to another dtype than that of the values")
    if _sinks in matchings:
        shape = _shape_without_sink(matchings, bindings)
    return [axis_of(size, divisible=axis < rank - 2) for axis, size in enumerate(shape)]


def _shape_without_sink(matchings: Mapping[Any, Any], bindings: Bindings) -> Sequence[Dim]:
    """The shape of the scores; raises `NoAttention` where what is joined to them, and cut off again, is no sink."""
    scores, sinks, cut = (shape_of(matchings[place]) for place in (_scores, _sinks, _cut))
    slicing = bindings[matchings[_cut]]
    assert isinstance(slicing, Call)
    begin, _, *strides = slicing.args[2:]
    is_cut_off = _ZEROS.match(begin) and all(map(_ONES.match, strides))
    if not is_cut_off or not same_sizes(scores, cut) or not same_sizes([*cut[:-1], 1], sinks):
        raise NoAttention("the scores are joined to others than a sink for each head, or these weights are kept")
    if _highest in matchings and not same_sizes(shape_of(matchings[_highest])[-1:], [1]):
        raise NoAttention("what is subtracted from the scores before the softmax is not the same for all keys")
    return scores


def _weighted_sum(matchings: Mapping[Any, Any], scores: Groups, bindings: Bindings) -> tuple[View, View, AxisGroup]:
    """The values, their sum by weights, whose softmax has the axes ``scores``, and the axis that only these have."""
    groups = regrouped(scores, shape_of(matchings[_weights]))
    if groups is None or groups[-2:] != scores[-2:]:
        raise NoAttention("the weights are reshaped to other queries and keys")
    product = contraction_of(matchings[_product], bindings)
    if product is None:
        raise NoAttention("the shape of the values is not known")
    ours, theirs = (1, 0) if _einsum_turned in matchings else (0, 1)
    weights, values = product.terms[ours], product.terms[theirs]
    last = product.rest(weights)
    is_sum = weights[-1] in values and weights[-2] not in values
    if last is None or not is_sum or sorted(product.result) != sorted([*weights[:-1], last]):
        raise NoAttention("the weights are not summed along the keys, each with its value")
    axes = {**dict(zip(weights, groups, strict=True)), last: axis_of(product.size_of(last))}
    summed = View(matchings[_product], [axes[label] for label in product.result])
    return product.view(theirs, axes), summed, axes[last]


def _layout(lead: Groups, keys: View) -> HeadLayout:
    """Which of the leading axes of scores are the batch, and which heads, by what the ``keys`` have."""
    if len(lead) == 1:
        parts = atoms(lead[0])
        return HeadLayout(parts[:1], parts[1:])
    count = 2 if len(lead) == 3 and {*atoms(lead[2])} <= {*together(keys.groups)} else 1
    return HeadLayout(together(lead[:count]), together(lead[count:]))


def _not_rows(keys: Sequence[View], bindings: Bindings) -> NoAttention:
    """Why the keys, of which ``keys`` are the sources, are no rows."""
    first, last = (definition(bindings, resolve(bindings, view.value)) for view in (keys[0], keys[-1]))
    if is_call_of(last, "relax.reshape"):
        return NoAttention("queries and keys are split into batch and heads differently")
    order = permutation(first) if isinstance(first, Call) and is_call_of(first, "relax.permute_dims") else None
    how = "not transposed by permute_dims" if order is None else f"permuted by {list(order)}"
    return NoAttention(f"the keys are {how}; expected their last two axes exchanged, so that each key is a row")


class AttentionParts(NamedTuple):
    """The parts of an attention, (batch, sequence, heads, size) as ``nn.attention`` takes them.

    With a ``cap``, scaled scores become ``cap * tanh(scores / cap)`` before the bias and the mask. ``sinks`` (heads,)
    are scores of a key without a value, which take a part of the weights.
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
"""An attention as an operator; raises `NoAttention` for what the operator cannot be."""


def _as_nn_attention(parts: AttentionParts) -> Expr:
    if parts.cap is not None:
        raise NoAttention(f"the scores are capped at {parts.cap:g} by tanh, which nn.attention does not do")
    if parts.sinks is not None:
        raise NoAttention("a sink takes a part of the weights, which nn.attention does not have")
    return ops.nn.attention(parts.query, parts.key, parts.value, parts.bias, parts.scale, parts.causal)


def _fused(
    matchings: Mapping[Any, Any], bindings: Bindings, finite: FiniteValues, sees_a_key: bool, attend: Attend
) -> dict[Var, Expr]:
    """The replacements; raises `NoAttention` where there are none."""
    groups = *lead, rows, columns = _score_axes(matchings, bindings)
    scores = read_scores(matchings[_scores], groups, bindings)
    values, summed, last = _weighted_sum(matchings, groups, bindings)
    of_query, of_keys, of_values = (sources(view, bindings) for view in (scores.query, scores.keys, values))
    for view in (*of_query, *of_keys):
        finite.assume(view.value, bindings)
    # To transpose keys that are rows nowhere would cost more than is gained.
    as_rows = [view if view.groups[-1][-1:] == scores.size else None for view in of_keys]
    if not any(as_rows):
        raise _not_rows(of_keys, bindings)
    layout = _layout(lead, scores.keys)
    placed = layout.placed(of_query, rows, scores.size)
    unscaled = [view if view.factor == 1.0 else None for view in of_values]
    shared = layout.shared(as_rows, unscaled, columns, (scores.size, last))
    if placed is None or shared is None:
        raise NoAttention("batch or heads of queries, keys and values are not known to be the same")
    query, key, value = (operand.written() for operand, _ in (placed, *shared))
    if not dtype_of(query) == dtype_of(key) == dtype_of(value):
        raise NoAttention("queries, keys and values have different dtypes")
    scale, cap, bias, causal, doubt = bias_of(scores, layout, bindings, finite)
    if doubt is not None and not sees_a_key and _zero not in matchings:
        raise NoAttention(
            f"{doubt}; a query that sees no key gives NaN here and 0 by nn.attention, so say "
            "every_query_sees_a_key=True if there is none"
        )
    if bias is not None and dims_equal(shape_of(bias)[3], shape_of(key)[1]) is not True:
        bias = ops.broadcast_to(bias, [*shape_of(bias)[:3], shape_of(key)[1]])
    sinks = layout.of_heads(matchings[_sinks], groups, bindings) if _sinks in matchings else None
    if sinks is None and _sinks in matchings:
        raise NoAttention("the sinks are not one number for each head")
    attended = attend(AttentionParts(query, key, value, bias, scale * placed[1] * shared[0][1], causal, cap, sinks))
    edits = _results(View(attended, [layout.batch, rows, layout.heads, last]), summed, bindings)
    if any(is_subtype(new.ty, old.ty) is not True for old, new in edits.items()):
        raise NoAttention("the result has another dtype than the operands, or a shape that is less precisely known")
    return edits


def _results(attended: View, product: View, bindings: Bindings) -> dict[Var, Expr]:
    """What replaces ``product``, or those permutations and reshapes of it that are needed.

    The one that is nearest to ``attended`` is made of it, and the others of that one.
    """
    pending = [product]
    needed: dict[Var, View] = {}
    while pending:
        view = pending.pop()
        users = bindings.users_of(view.value)
        further = [after for user in users if (after := onward(view, user, bindings)) is not None]
        if isinstance(view.value, Var) and (len(further) < len(users) or bindings.is_output(view.value)):
            needed[view.value] = view
        pending += further
    if not needed:
        return {}
    first = min(needed.values(), key=lambda view: len(arrangement(attended, view.groups).steps))
    return {
        var: arrangement(attended if view is first else first, view.groups).written() for var, view in needed.items()
    }


def FuseAttention(every_query_sees_a_key: bool = False) -> Pass:
    """Write ``softmax(query @ keyᵀ * scale + mask) @ value`` as one ``nn.attention``.

    Products may be ``matmul`` or ``einsum``, over (batch, heads, sequence, size), over (batch * heads, sequence, size),
    also where the two are joined and split on the way, and over five axes. Operands may have any layout from which
    permutations, reshapes and broadcasts make these; each key must be a row somewhere on that way. A constant scale is
    passed on exactly; it may be on the queries, the keys, or the scores, before or after masks. Masks are added, or put
    a very low number in the place of scores. There may be a floor of the lowest number under them, no-op dropout, and
    half precision that is scaled, or whose softmax is taken, in float32. A constant mask that is exactly triangular
    becomes ``causal_mask``, other masks a bias. Keys and values that were repeated for several heads each, or that a
    group of heads shares, are shared. Permutations that only bring heads forward and back are gone after it.

    Left, with the reason in `report`: a softmax along another axis; scores or weights that something else needs; scores
    that are capped, clipped or scaled by more than one number; sinks; and masks that may hide all keys from a query. A
    written-out softmax gives NaN there, ``nn.attention`` zeros. ``every_query_sees_a_key`` promises that there is no
    such query. Without it, masks are fused that are known to leave every query a key, or that are finite: made of
    integers, booleans, finite constants, the queries, and weights (see `weights_of`). Code that turns those NaNs into
    zeros itself needs no promise. Inputs are taken to be finite.

    Needs: known shapes; constant masks are recognized after `FoldConstant`. Guarantees: the same values but for
    rounding: scores are not rounded to half precision in between. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        fused = attention_rule(function, _as_nn_attention, "fuse_attention", every_query_sees_a_key)
        return context.rewrite(function, RuleSet([fused, SHARE_HEADS]))

    return FunctionPass(transform, "FuseAttention")


def attention_rule(function: Function, attend: Attend, name: str, every_query_sees_a_key: bool = False) -> Rule:
    """The rule that writes the attentions of ``function`` as what ``attend`` makes of their parts."""
    finite = FiniteValues(weights_of(function))

    def fuse(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
        try:
            return _fused(matchings, bindings, finite, every_query_sees_a_key, attend)
        except NoAttention as reason:
            return decline(str(reason))

    return Rule(_ATTENTION, fuse, name)
