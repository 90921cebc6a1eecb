"""FuseAttention: attention that is written out becomes one ``nn.attention``.

The pattern is the core of all forms, ``softmax(scores) @ values``, with the operators that may stand between the two.
`scores` reads how the scores are computed and collects the steps on them. `analysis.axes` composes the views that
operands are. This module decides, and writes the layout that `heads` describes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ... import op as ops
from ...analysis.axes import AxisGroup, Groups, View, arrangement, atoms, axis_of, source, sources
from ...analysis.compile_time import weights_of
from ...analysis.contraction import contraction_of
from ...analysis.finite_values import FiniteValues
from ...analysis.tensors import dtype_of, same_sizes, shape_of, whole_numbers
from ...analysis.values import call_of, definition, resolve
from ...ir.dims import dims_equal
from ...ir.expr import Expr, Var, number_of
from ...ir.module import IRModule
from ...ir.op import Call, is_call_of
from ...ir.program import Function
from ...ir.types import is_subtype
from ...ir.visitor import iter_bindings
from ...op.primitive.manipulate import permutation
from ...pattern import PatternContext, below, chain, is_const, is_op, is_tuple, is_tuple_get_item, wildcard
from ...rewrite import Bindings, Decline, Rule, RuleSet, decline, rewrite
from ...rewrite.drive import vars_of
from ...rewrite.one_name import tidied
from ..attention_operands import (
    CONSTANT_BIAS,
    SHARE_HEADS,
    ZERO_BIAS,
    Attend,
    AttentionParts,
    NoAttention,
    as_nn_attention,
)
from ..context import PassContext
from ..layout import SHORTER_VIEWS
from ..no_ops import SAME_TYPE
from ..passes import FunctionPass, Pass
from .heads import HeadLayout
from .scores import bias_of, moved, read_scores

with PatternContext() as _ATTENTION:
    _scores, _values, _zero = wildcard(), wildcard(), is_const()
    _softmax = is_op("relax.nn.softmax")(_scores)
    # A sink is one more score, whose weight is sliced off.
    _sinks = wildcard()
    _softmax_of_more = is_op("relax.nn.softmax")(is_op("relax.concat")(is_tuple([_scores, _sinks])))
    _cut = is_op("relax.strided_slice")(_softmax_of_more, varg_default_wildcard=True)
    # Weights that only look different: moved, cast, through a dropout without effect, or set to 0 where they are NaN.
    _below = below()
    _moved = moved(_below)
    _link = (
        is_op("relax.where")(is_op("relax.isnan")(_below), _zero, _below)
        | is_tuple_get_item(is_op("relax.nn.dropout")(_below), 0)
        | is_op("relax.astype")(_below)
        | _moved
    )
    _weights = chain(_link, until=_softmax | _cut, max=6)
    _matmul, _einsum = is_op("relax.matmul"), is_op("relax.einsum")
    _turned = _matmul(_values, _weights) | _einsum(is_tuple([_values, _weights]))
    _product = _matmul(_weights, _values) | _einsum(is_tuple([_weights, _values])) | _turned

# The same for the whole result: a sum of weights that are NaN is NaN.
_guarded = wildcard()
_missing = is_op("relax.isnan")(_guarded)
_GUARD = is_op("relax.where")(_missing, _zero, _guarded)


def _guard_of(product: Var, bindings: Bindings) -> Var | None:
    """The value that is ``product`` with 0 for NaN; None if there is none, or if something else needs ``product``."""
    for guard in bindings.users_of(product):
        for found in bindings.matches(_GUARD, guard):
            parts = [found[_guarded], found[_missing]]
            if found[_guarded] == product and number_of(found[_zero]) == 0.0:
                return guard if bindings.needed_elsewhere(parts, [guard]) is None else None
    return None


def _softmax_of(matchings: Mapping[Any, Any], bindings: Bindings) -> Call:
    """The softmax; raises `NoAttention` if it, or an operator after it, does not belong to an attention."""
    softmax = call_of(bindings, matchings[_softmax if _softmax in matchings else _softmax_of_more])
    values = matchings[_values]
    if len(shape_of(softmax)) not in (3, 4, 5):
        raise NoAttention("attention has scores of three to five axes, whose sizes are known")
    operands = {matchings[place] for place in (_scores, _values, _sinks) if place in matchings}
    between = [var for var in vars_of(matchings.values()) if var not in operands and var != matchings[_product]]
    if (part := bindings.needed_elsewhere(between, [matchings[_product]])) is not None:
        raise NoAttention(f"{part.name_hint} is needed elsewhere, too")
    if any(zero is not None and number_of(zero) != 0.0 for zero in matchings.get(_zero, ())):
        raise NoAttention("queries that see no key give a result other than 0")
    if not {dtype_of(var) for var in between} <= {dtype_of(softmax), dtype_of(values), "bool", None}:
        raise NoAttention("the weights are rounded to another dtype than that of the values")
    if _sinks in matchings and not _is_cut_off(softmax, matchings, bindings):
        raise NoAttention(
            "the scores are joined to something other than a sink for each head, or the weights of the sinks are kept"
        )
    return softmax


def _is_cut_off(softmax: Call, matchings: Mapping[Any, Any], bindings: Bindings) -> bool:
    """True if one score for each row is joined to the scores before ``softmax``, and its weight is sliced off again."""
    scores, sinks, cut = (shape_of(matchings[place]) for place in (_scores, _sinks, _cut))
    slicing = call_of(bindings, matchings[_cut])
    begin, _, *strides = map(whole_numbers, slicing.args[2:])
    is_first = same_sizes(scores, cut) and not any(begin or [1]) and all({*(one or ())} == {1} for one in strides)
    is_one = same_sizes([*cut[:-1], 1], sinks) and same_sizes([*cut[:-1], cut[-1] + 1], shape_of(softmax))
    return is_first and is_one and softmax.attrs.axis in (-1, len(cut) - 1)


def _weighted_sum(
    matchings: Mapping[Any, Any], softmax: Call, bindings: Bindings
) -> tuple[View, View, AxisGroup, Groups]:
    """The values, their weighted sum, the axis that only the values have, and the axes of the ``softmax``."""
    product = contraction_of(matchings[_product], bindings)
    if product is None:
        raise NoAttention("the shape of the values is not known")
    ours = int(_turned in matchings)
    roles = product.roles(ours)
    if roles is None or len(roles.summed) != 1 or len(roles.theirs) != 1:
        raise NoAttention("the weighted values are not summed along the keys")
    [keys], [last] = roles.summed, roles.theirs
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


def _not_rows(keys: Sequence[View], bindings: Bindings) -> NoAttention:
    """The reason why the keys, whose sources are ``keys``, are not rows."""
    first, last = (definition(bindings, resolve(bindings, view.value)) for view in (keys[0], keys[-1]))
    if is_call_of(last, "relax.reshape"):
        return NoAttention("queries and keys are split into batch and heads differently")
    order = permutation(first) if is_call_of(first, "relax.permute_dims") else None
    how = "not transposed by permute_dims" if order is None else f"permuted by {list(order)}"
    return NoAttention(f"the keys are {how}; expected their last two axes exchanged, so that each key is a row")


def _fused(
    matchings: Mapping[Any, Any], bindings: Bindings, finite: FiniteValues, sees_a_key: bool, attend: Attend
) -> dict[Var, Expr]:
    """The replacement; raises `NoAttention` if there is none."""
    softmax = _softmax_of(matchings, bindings)
    values, summed, last, groups = _weighted_sum(matchings, softmax, bindings)
    along: int = softmax.attrs.axis % len(groups)
    scores, product = read_scores(matchings[_scores], groups, groups[along], bindings)
    of_query, of_keys = sources(product.query, bindings), sources(product.keys, bindings)
    of_values = sources(values, bindings, multiples=False)
    for view in (*of_query, *of_keys):
        finite.assume(view.value, bindings)
    # If the keys are not rows anywhere, transposing them would cost more than fusing gains.
    as_rows = [view if view.groups[-1][-1:] == product.size else None for view in of_keys]
    if not any(as_rows):
        raise _not_rows(of_keys, bindings)
    layout = HeadLayout.of(groups, along, product.rows, product.keys)
    operands = layout.operands(of_query, as_rows, of_values, (product.size, last))
    query, key, value = (operand.written() for operand in operands)
    for factor, own in scores.factors:
        query = ops.multiply(query, layout.factor(factor, own))
    if not dtype_of(query) == dtype_of(key) == dtype_of(value):
        raise NoAttention("queries, keys and values have different dtypes")
    bias, causal, doubt = bias_of(scores.masks, layout, bindings, finite)
    guard = _guard_of(matchings[_product], bindings)
    is_guarded = guard is not None or any(zero is not None for zero in matchings.get(_zero, ()))
    if doubt is not None and not sees_a_key and not is_guarded:
        raise NoAttention(f"{doubt}; set every_query_sees_a_key=True if there is no such query")
    if bias is not None and dims_equal(shape_of(bias)[3], shape_of(key)[1]) is not True:
        bias = ops.broadcast_to(bias, [*shape_of(bias)[:3], shape_of(key)[1]])
    sinks = layout.of_heads(matchings[_sinks], groups, bindings) if _sinks in matchings else None
    scale = scores.scale * operands[0].factor * operands[1].factor
    attended = attend(AttentionParts(query, key, value, bias, scale, causal, scores.cap, sinks))
    result = arrangement(View(attended, [layout.batch, layout.rows, layout.heads, last]), summed.groups).written()
    if is_subtype(result.ty, summed.value.ty) is not True:
        raise NoAttention("the result has another dtype than the operands, or a shape that is less precisely known")
    return {matchings[_product] if guard is None else guard: result}


def with_attention(
    function: Function, context: PassContext, attend: Attend, name: str, every_query_sees_a_key: bool = False
) -> Function:
    """``function`` with each attention replaced by the result of ``attend`` for its parts."""
    finite = FiniteValues(weights_of(function))

    def fuse(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
        try:
            return _fused(matchings, bindings, finite, every_query_sees_a_key, attend)
        except NoAttention as reason:
            return decline(str(reason))

    has_softmax = any(is_call_of(binding.value, "relax.nn.softmax") for binding in iter_bindings(function))
    # PyTorch broadcasts the operands of products to their own shapes.
    plain = rewrite(function, SAME_TYPE) if has_softmax else function
    fused = context.rewrite(plain, RuleSet([Rule(_ATTENTION, fuse, name), SHARE_HEADS, ZERO_BIAS, CONSTANT_BIAS]))
    return function if fused is plain else tidied(context.rewrite(fused, SHORTER_VIEWS))


def FuseAttention(every_query_sees_a_key: bool = False) -> Pass:
    """Write ``softmax(query @ keyᵀ * scale + mask) @ value`` as one ``nn.attention``.

    Products may be ``matmul`` or ``einsum``, over three to five axes in any order, also if axes are merged and split in
    between. Scores may be keys times queries. Operands may have any layout that permutations, reshapes and broadcasts
    turn into (batch, sequence, heads, size), if each key is a row at some point on the way. A constant scale is kept
    exactly; it may be applied to the queries, the keys, or the scores, before or after masks. Scores in float32 may be
    multiplied by a tensor of any axes except the keys', as in cosine attention; the queries are then multiplied by it.
    Masks are added, or replace scores by a very low number. There may be a floor of the lowest number under them,
    dropout without effect, and half precision that is scaled, or whose softmax is computed, in float32. A constant mask
    that is exactly triangular becomes ``causal_mask``; other masks become a bias. Keys and values that were repeated
    for several heads each, or that a group of heads shares, are shared. Permutations that only move heads forward and
    back are removed afterwards.

    These are left unchanged, with the reason in `report`: a softmax along another axis than the sum; scores or weights
    that something else needs; scores that are capped, clipped, or multiplied by a tensor with the axis of the keys;
    sinks; and masks that may hide all keys from a query. For such a query a written-out softmax gives NaN, or with
    finite numbers a mean of all values, while ``nn.attention`` gives zeros or another mean. ``every_query_sees_a_key``
    promises that there is no such query. Without it, these masks are fused: masks that are known to leave every query a
    key; masks that hide by a finite number so low that no score matters next to it; and masks that are finite because
    they are computed from integers, booleans, finite constants, the queries, and weights (see `weights_of`). Code that
    replaces those NaNs by zeros itself, in the weights or in the result, needs no promise. Inputs are assumed to be
    finite.

    Needs: known shapes; constant masks are recognized after `FoldConstant`. Guarantees: the same values up to rounding:
    scores are not rounded to half precision in between. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        return with_attention(function, context, as_nn_attention, "fuse_attention", every_query_sees_a_key)

    return FunctionPass(transform, "FuseAttention")
