"""FuseAttention: attention that is written out becomes one ``nn.attention``.

The pattern is the core of all forms, ``softmax(scores) @ values``, with what may stand between the two. `scores` reads
what the scores are and adds up what is done to them, and `analysis.axes` composes what operands are views of; this
module decides, and writes the layout that `heads` knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from ... import op as ops
from ...analysis.axes import AxisGroup, Groups, View, arrangement, atoms, axis_of, source, sources
from ...analysis.contraction import contraction_of
from ...analysis.finite_values import FiniteValues
from ...analysis.tensors import dtype_of, same_sizes, shape_of
from ...analysis.uniform import uniform_of
from ...analysis.values import definition, leaves_of, resolve
from ...ir.dims import dims_equal
from ...ir.expr import Expr, Var
from ...ir.module import IRModule
from ...ir.op import Call
from ...ir.program import Function
from ...ir.types import is_subtype
from ...pattern import PatternContext, below, chain, is_const, is_op, is_tuple, is_tuple_get_item, wildcard
from ...rewrite import Bindings, Decline, Rule, RuleSet, decline
from ...rewrite.drive import vars_of
from ...rewrite.one_name import tidied
from ..compile_time import weights_of
from ..context import PassContext
from ..layout import SHORTER_VIEWS
from ..passes import FunctionPass, Pass
from .heads import SHARE_HEADS, HeadLayout, NoAttention
from .scores import bias_of, moved, read_scores

with PatternContext() as _ATTENTION:
    # A sink is one more score, whose weight is cut off.
    _scores, _values, _sinks = wildcard(), wildcard(), wildcard()
    _softmax = is_op("relax.nn.softmax")(is_op("relax.concat")(is_tuple([_scores, _sinks])) | _scores)
    _begin, _strides = wildcard(), wildcard()
    _slice = is_op("relax.strided_slice")
    _cut = _slice(_softmax, wildcard(), _begin, wildcard()) | _slice(_softmax, wildcard(), _begin, wildcard(), _strides)
    # Weights that only look different: moved, cast, through no-op dropout, or 0 where they are NaN.
    _below = below()
    _moved = moved(_below)
    _guard = is_op("relax.where")(is_op("relax.isnan")(_below), is_const(0.0), _below)
    _link = _guard | is_tuple_get_item(is_op("relax.nn.dropout")(_below), 0) | is_op("relax.astype")(_below) | _moved
    _weights = chain(_link, until=_softmax | _cut, max=6)
    _matmul, _einsum = is_op("relax.matmul"), is_op("relax.einsum")
    _turned = _matmul(_values, _weights) | _einsum(is_tuple([_values, _weights]))
    _product = _matmul(_weights, _values) | _einsum(is_tuple([_weights, _values])) | _turned


def _softmax_of(matchings: Mapping[Any, Any], bindings: Bindings) -> Call:
    """The softmax; raises `NoAttention` if it, or what follows it, is not that of attention."""
    softmax, values = bindings[matchings[_softmax]], matchings[_values]
    assert isinstance(softmax, Call)
    if len(shape_of(softmax)) not in (3, 4, 5):
        raise NoAttention("attention has scores of three to five axes, whose sizes are known")
    operands = {matchings.get(place) for place in (_scores, _values, _sinks)}
    between = [var for var in vars_of(matchings.values()) if var not in operands and var != matchings[_product]]
    if (part := bindings.needed_elsewhere(between, [matchings[_product]])) is not None:
        raise NoAttention(f"{part.name_hint} is needed elsewhere, too")
    if not {dtype_of(var) for var in between} <= {dtype_of(softmax), dtype_of(values), "bool", None}:
        raise NoAttention("the weights are rounded to another dtype than that of the values")
    if (_sinks in matchings or _cut in matchings) and not _is_cut_off(softmax, matchings):
        raise NoAttention("the scores are joined to others than a sink for each head, or these weights are kept")
    return softmax


def _is_cut_off(softmax: Call, matchings: Mapping[Any, Any]) -> bool:
    """True if one score for each row is joined to the scores before ``softmax``, and its weight is cut off again."""
    if not (_sinks in matchings and _cut in matchings):
        return False
    scores, sinks, cut = (shape_of(matchings[place]) for place in (_scores, _sinks, _cut))
    places = [(matchings[_begin], 0), *([(matchings[_strides], 1)] if _strides in matchings else [])]
    is_first = all(uniform_of(one, {}) == number for operand, number in places for one in leaves_of(operand))
    is_one = same_sizes([*cut[:-1], 1], sinks) and same_sizes([*cut[:-1], cut[-1] + 1], shape_of(softmax))
    return is_first and same_sizes(scores, cut) and is_one and softmax.attrs.axis in (-1, len(cut) - 1)


def _weighted_sum(
    matchings: Mapping[Any, Any], softmax: Call, bindings: Bindings
) -> tuple[View, View, AxisGroup, Groups]:
    """The values, their sum by weights, the axis that only these have, and the axes of the ``softmax``."""
    product, ours = contraction_of(matchings[_product], bindings), int(_turned in matchings)
    roles = None if product is None else product.roles(ours)
    if product is None or roles is None or len(roles.theirs) != 1:
        raise NoAttention("the weights are not summed along the keys, each with its value, of known shape")
    keys, [last] = roles.summed, roles.theirs
    labels = (*product.terms[ours], last)
    axes = {label: axis_of(product.size_of(label), divisible=label != last) for label in labels}
    view: View | None = product.view(ours, axes)
    for outer in matchings.get(_moved, ()):
        view = source(View(outer, view.groups), bindings) if outer is not None and view is not None else view
    axis: int = softmax.attrs.axis
    columns, along = atoms(axes[keys]), () if view is None else atoms(view.groups[axis])
    if view is None or ({*columns} & {*along} and columns != along):
        raise NoAttention("the weights are reshaped to other queries and keys")
    if along != columns:
        raise NoAttention(f"the softmax is along axis {axis}, so the weights are not summed along the keys")
    summed = View(matchings[_product], [axes[label] for label in product.result])
    return product.view(1 - ours, axes), summed, axes[last], view.groups


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
    """The replacement; raises `NoAttention` where there is none."""
    softmax = _softmax_of(matchings, bindings)
    values, summed, last, groups = _weighted_sum(matchings, softmax, bindings)
    along: int = softmax.attrs.axis % len(groups)
    scores, product = read_scores(matchings[_scores], groups, groups[along], bindings)
    of_query, of_keys = sources(product.query, bindings), sources(product.keys, bindings)
    of_values = sources(values, bindings, multiples=False)
    for view in (*of_query, *of_keys):
        finite.assume(view.value, bindings)
    # To transpose keys that are rows nowhere would cost more than is gained.
    as_rows = [view if view.groups[-1][-1:] == product.size else None for view in of_keys]
    if not any(as_rows):
        made = " of ".join(str(definition(bindings, resolve(bindings, view.value))) for view in of_keys)
        raise NoAttention(f"no key is a row: the keys are {made}; expected their last two axes exchanged")
    layout = HeadLayout.of(groups, along, product.rows, product.keys)
    operands = layout.operands(layout.rows, [of_query], [product.size], shared=False)
    operands += layout.operands(layout.columns, [as_rows, of_values], [product.size, last], shared=True)
    query, key, value = (operand.written() for operand in operands)
    for factor, own in scores.factors:
        query = ops.multiply(query, layout.mask(factor, own, of_queries=True).written())
    if not dtype_of(query) == dtype_of(key) == dtype_of(value):
        raise NoAttention("queries, keys and values have different dtypes")
    bias, causal, doubt = bias_of(scores.masks, layout, bindings, finite)
    if doubt is not None and not sees_a_key and not any(one is not None for one in matchings.get(_guard, ())):
        raise NoAttention(f"{doubt}; say every_query_sees_a_key=True if there is no such query")
    if bias is not None and dims_equal(shape_of(bias)[3], shape_of(key)[1]) is not True:
        bias = ops.broadcast_to(bias, [*shape_of(bias)[:3], shape_of(key)[1]])
    sinks = layout.of_heads(matchings[_sinks], groups, bindings) if _sinks in matchings else None
    scale = scores.scale * operands[0].factor * operands[1].factor
    attended = attend(AttentionParts(query, key, value, bias, scale, causal, scores.cap, sinks))
    result = arrangement(View(attended, [layout.batch, layout.rows, layout.heads, last]), summed.groups).written()
    if is_subtype(result.ty, summed.value.ty) is not True:
        raise NoAttention("the result has another dtype than the operands, or a shape that is less precisely known")
    return {matchings[_product]: result}


def with_attention(
    function: Function, context: PassContext, attend: Attend, name: str, every_query_sees_a_key: bool = False
) -> Function:
    """``function`` with its attentions as what ``attend`` makes of their parts."""
    finite = FiniteValues(weights_of(function))

    def fuse(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
        try:
            return _fused(matchings, bindings, finite, every_query_sees_a_key, attend)
        except NoAttention as reason:
            return decline(str(reason))

    fused = context.rewrite(function, RuleSet([Rule(_ATTENTION, fuse, name), SHARE_HEADS]))
    return fused if fused is function else tidied(context.rewrite(fused, SHORTER_VIEWS))


def FuseAttention(every_query_sees_a_key: bool = False) -> Pass:
    """Write ``softmax(query @ keyᵀ * scale + mask) @ value`` as one ``nn.attention``.

    Products may be ``matmul`` or ``einsum``, over three to five axes in any order, also where some are joined and split
    on the way; scores may be keys times queries. Operands may have any layout from which permutations, reshapes and
    broadcasts make (batch, sequence, heads, size); each key must be a row somewhere on that way. A constant scale is
    passed on exactly; it may be on the queries, the keys, or the scores, before or after masks. Scores in float32 may
    be multiplied by a tensor of any axes but the keys', as in cosine attention; then the queries are. Masks are added,
    or put a very low number in the place of scores. There may be a floor of the lowest number under them, no-op
    dropout, and half precision that is scaled, or whose softmax is taken, in float32. A constant mask that is exactly
    triangular becomes ``causal_mask``, other masks a bias. Keys and values that were repeated for several heads each,
    or that a group of heads shares, are shared. Permutations that only bring heads forward and back are gone after it.

    Left, with the reason in `report`: a softmax along another axis than the sum; scores or weights that something else
    needs; scores that are capped, clipped, or multiplied by a tensor with the axis of the keys; sinks; and masks that
    may hide all keys from a query for good. A written-out softmax gives NaN there, or under finite numbers a mean of
    all values, where ``nn.attention`` gives zeros or another mean. ``every_query_sees_a_key`` promises that there is no
    such query. Without it, masks are fused that are known to leave every query a key, whose number no score shows
    beside, or that are finite: made of integers, booleans, finite constants, the queries, and weights (see
    `weights_of`). Code that turns those NaNs into zeros itself needs no promise. Inputs are taken to be finite.

    Needs: known shapes; constant masks are recognized after `FoldConstant`. Guarantees: the same values but for
    rounding: scores are not rounded to half precision in between. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        return with_attention(function, context, _as_nn_attention, "fuse_attention", every_query_sees_a_key)

    return FunctionPass(transform, "FuseAttention")
