"""The scores of a written-out attention, read from the softmax inwards to the product of queries and keys.

Around the product may stand, in any order: times or divided by a constant number, a mask added or subtracted, a boolean
mask that puts a constant in the place of scores, a floor, a hyperbolic tangent before all masks, a cast of half
precision to float32, and a reshape that joins or splits leading axes. `bias_of` adds these steps up to one scale, one
cap, one bias and a causal mask. A mask that may hide all keys from a query is in doubt, since a written-out softmax
gives NaN there and ``nn.attention`` zeros; `FiniteValues` says which masks certainly do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ... import op as ops
from ...analysis.axes import AxisGroup, Groups, View, axis_of, regrouped, size_of
from ...analysis.contraction import contraction_of
from ...analysis.finite_values import FiniteValues
from ...analysis.tensors import HALF, dtype_of, same_sizes, shape_of, without_factor
from ...analysis.uniform import uniform_of
from ...analysis.values import resolve
from ...ir.dims import Dim
from ...ir.expr import Constant, Expr, Var, const
from ...ir.op import Call, Op
from ...pattern import DFPattern, below, chain, is_const, is_op, wildcard
from ...rewrite import Bindings
from .heads import HeadLayout

AS_GOOD_AS_INFINITE: Final = -1e30
"""A number so low that adding a score to it in float32 gives the number again."""
_HIDES: Final = -1e4
"""No score of use is that low: the exponential of the difference is 0."""


class NoAttention(Exception):
    """Why something that looks like attention is none, or is left as it is."""


class Mask(NamedTuple):
    """The scores so far, whose axes are ``groups``, plus ``term``.

    With a ``fill``, ``term`` is a condition, and scores become that number, of ``dtype``, where it is not ``kept``.
    """

    term: Expr
    groups: Groups
    fill: float | None = None
    dtype: str | None = None
    kept: bool = True


_below, _other, _condition, _number = below(), wildcard(), wildcard(), is_const()
_cast = is_op("relax.astype")(_below)
_times = is_op("relax.multiply") | is_op("relax.divide")
_scale = _times(_below, _number) | is_op("relax.astype")(_times(_cast, _number))
_plus = is_op("relax.add")(_below, _other)
_minus = is_op("relax.subtract")(_below, _other)
_where = is_op("relax.where")(_condition, _below, _other)
_where_not = is_op("relax.where")(_condition, _other, _below)
_highest = wildcard()
_floor = is_op("relax.maximum")(_below, _other) | is_op("relax.clip")(_below, _other, _highest)
_tangent = is_op("relax.tanh")(_below)
_reshape = is_op("relax.reshape")(_below, wildcard())
_step = (_scale | _plus | _minus | _where | _where_not | _floor | _tangent | _cast | _reshape).users(1)
_core = wildcard()
_SCORES: Final = chain(_step, until=_core)
"""Steps over the product of queries and keys. Several of these, and either operand, may fit one value."""

ScoreStep: TypeAlias = tuple[DFPattern, Any]
"""`_scale` or `_floor` and its number, `_tangent` and the variable of its result, or `_plus` and a `Mask`."""


class Scores(NamedTuple):
    """Queries times keys, bound to ``product``; ``size`` is the axis that they share; then the steps, first first."""

    product: Var
    query: View
    keys: View
    size: AxisGroup
    steps: Sequence[ScoreStep]


def read_scores(scores: Expr, groups: Groups, bindings: Bindings) -> Scores:
    """``scores``, whose axes are ``groups``, taken apart; raises `NoAttention` where they cannot be.

    Nothing but the next step may use a step. A sum of two products is read with the first one as the scores.
    Cost: the values that are used by nothing but ``scores``.
    """
    reasons: list[tuple[int, NoAttention]] = []
    for found in bindings.matches(_SCORES, scores):
        read: list[ScoreStep | None] = []
        own = groups
        try:
            for link in found.each(_step):
                own, step = _step_of(link, own, bindings)
                read.append(step)
            steps = [step for step in reversed(read) if step is not None]
            return _queries_and_keys(found[_core], own, steps, bindings)
        except NoAttention as reason:
            reasons.append((len(read), reason))
    raise max(reasons, key=itemgetter(0))[1]


def _neither(var: Var, bindings: Bindings) -> NoAttention:
    call = bindings[var]
    how = f", made by {call.op.name.removeprefix('relax.')}," if isinstance(call, Call) and type(call.op) is Op else ""
    return NoAttention(f"{var.name_hint}{how} is neither a product of queries and keys nor a scaled or masked one")


def _step_of(link: Mapping[Any, Any], groups: Groups, bindings: Bindings) -> tuple[Groups, ScoreStep | None]:
    """The axes of the scores below ``link``, a match of `_step` whose axes are ``groups``, and the step over them."""
    outer, inner = link[_step], link[_below]
    other = link.get(_other, inner)
    is_kept = dtype_of(inner) == dtype_of(outer) or (dtype_of(inner) in HALF and dtype_of(outer) == "float32")
    if _scale in link:
        scaled = without_factor(outer, bindings)
        if scaled is not None:
            return groups, (_scale, scaled[1])
    elif _cast in link and is_kept:
        return groups, None
    elif _reshape in link:
        before = regrouped(groups, shape_of(inner))
        if before is not None and before[-2:] == groups[-2:]:
            return before, None
    elif _tangent in link:
        return groups, (_tangent, outer)
    elif (_plus in link or _minus in link) and other is not inner and is_kept:
        return groups, (_plus, Mask(other if _plus in link else ops.negative(other), groups))
    elif (number := uniform_of(other, bindings)) is not None and is_kept:
        if _condition in link:
            return groups, (_plus, Mask(link[_condition], groups, float(number), dtype_of(other), _where in link))
        highest = uniform_of(link[_highest], bindings) if _highest in link else float("inf")
        # A floor so low, and a ceiling so high, change no score.
        if number <= AS_GOOD_AS_INFINITE and highest is not None and highest >= -AS_GOOD_AS_INFINITE:
            return groups, (_floor, float(number))
    raise _neither(outer, bindings)


def _queries_and_keys(var: Expr, groups: Groups, steps: Sequence[ScoreStep], bindings: Bindings) -> Scores:
    """The scores that are ``steps`` over the product ``var``, whose axes are ``groups``."""
    if not isinstance(var, Var) or var not in bindings:
        raise NoAttention("the scores are no product of queries and keys in the same block")
    if bindings.is_output(var) or len(bindings.users_of(var)) != 1:
        raise NoAttention(f"{var.name_hint} is needed elsewhere, too")
    product = contraction_of(var, bindings)
    if product is None:
        raise _neither(var, bindings)
    if not same_sizes(shape_of(var), [size_of(group) for group in groups]):
        raise NoAttention(f"{var.name_hint} is broadcast by a mask, or its shape is not known")
    *_, row, column = product.result
    shared = product.rest(product.result)
    if shared is None:
        raise NoAttention("the scores are summed along more than the head size")
    size = axis_of(product.size_of(shared))
    axes = {**dict(zip(product.result, groups, strict=True)), shared: size}
    # Of an einsum, either operand may be the queries.
    first, second = (0, 1) if column in product.terms[1] else (1, 0)
    queries, keys = ({*product.terms[at]} & {row, column, shared} for at in (first, second))
    if queries != {row, shared} or keys != {column, shared}:
        raise NoAttention("the scores are no products of queries and keys along the head size")
    return Scores(var, product.view(first, axes), product.view(second, axes), size, steps)


# --- what the steps are together


class Bias(NamedTuple):
    """``scale``, what is added to the scores after it, and the causal mask; ``doubt``: why rows may be all hidden.

    With a ``cap``, scaled scores become ``cap * tanh(scores / cap)`` before that.
    """

    scale: float
    cap: float | None
    bias: Expr | None
    causal: str | None
    doubt: str | None


def bias_of(scores: Scores, layout: HeadLayout, bindings: Bindings, finite: FiniteValues) -> Bias:
    """The steps of ``scores`` as one scale and one bias; raises `NoAttention` where they are none."""
    scale, bias, causal = 1.0, None, None
    before: float | None = None  # the scale of what the hyperbolic tangent is taken of
    hiding: list[str] = []
    fills: list[float] = []  # what hidden scores have become
    alone = sum(kind is _plus for kind, _ in scores.steps) == 1
    for kind, step in scores.steps:
        if kind is _scale:
            if step < 0 and hiding:
                raise NoAttention("the scores are turned around after they were masked")
            scale *= step
            fills = [fill * step for fill in fills]
            if bias is not None and step != 1.0:
                bias = ops.multiply(bias, const(step, dtype_of(bias)))
            continue
        if kind is _tangent:
            if before is not None or bias is not None or hiding:
                raise NoAttention(f"{step.name_hint} is a tanh of scores that are masked, or capped, before")
            before, scale = scale, 1.0
            continue
        if kind is _floor:
            # So low a floor changes no score; it lifts what was hidden to a finite number, and so the whole row.
            if bias is not None and step > -np.inf and not finite.holds(bias, bindings):
                bias = ops.maximum(bias, const(step, dtype_of(bias)))
                hiding = hiding if causal is not None else []
            continue
        known = _constant_mask(step, bindings)
        if known is not None and not known.any():
            continue
        triangle = None if known is None else _causal_kind(known, shape_of(scores.product), alone=alone)
        if triangle is not None and causal in (None, triangle):
            causal = triangle
            hiding.append("")
            continue
        if step.fill is not None:
            fills.append(step.fill)
        bias = _with(step, layout.mask(step.term, step.groups), bias)
        if not _is_absorbed(step, bindings, finite):
            hiding.append(_doubt(step, known, bindings))
    if not all(fill <= _HIDES for fill in fills):
        raise NoAttention(f"hidden scores become {max(fills)}, which does not hide them")
    doubt = "two masks together" if len(hiding) > 1 and not any(hiding) else next(filter(None, hiding), None)
    if before is None:
        return Bias(scale, None, bias, causal, doubt)
    if scale <= 0:
        raise NoAttention("the scores are turned around after they were capped")
    return Bias(before * scale, scale, bias, causal, doubt)


def _with(mask: Mask, term: Expr, bias: Expr | None) -> Expr:
    """``bias`` after ``mask``, whose ``term`` is in its place; in the dtype that scores have there."""
    dtype = dtype_of(term) if mask.fill is None else mask.dtype
    if bias is not None and dtype is not None and dtype != dtype_of(bias):
        bias = ops.astype(bias, dtype)
    if mask.fill is None:
        return term if bias is None else ops.add(bias, term)
    shown, hidden = const(0.0, dtype) if bias is None else bias, const(mask.fill, dtype)
    return ops.where(term, shown, hidden) if mask.kept else ops.where(term, hidden, shown)


def _constant_mask(mask: Mask, bindings: Bindings) -> np.ndarray[Any, Any] | None:
    """What a constant mask adds; or, where it does not keep a score, the number that is put there."""
    term = resolve(bindings, mask.term)
    if not isinstance(term, Constant) or mask.fill is None:
        return np.asarray(term.data.numpy()) if isinstance(term, Constant) else None
    return np.where(np.asarray(term.data.numpy()) == mask.kept, np.float32(0.0), np.float32(mask.fill))


def _causal_kind(added: np.ndarray[Any, Any], scores: Sequence[Dim], *, alone: bool) -> str | None:
    """Which causal mask it is, exactly; None if it is none, or one that leaves a query without keys."""
    if added.ndim < 2 or added.shape[-2:] != scores[-2:]:
        return None
    hidden = added != 0
    if not np.all(added[hidden] <= AS_GOOD_AS_INFINITE if alone else np.isneginf(added[hidden])):
        return None
    queries, keys = added.shape[-2:]
    for kind, offset in (("TopLeft", 0), ("BottomRight", keys - queries)):
        if offset >= 0 and keys and bool(np.all(hidden != np.tri(queries, keys, offset, dtype=bool))):
            return kind
    return None


def _is_absorbed(mask: Mask, bindings: Bindings, finite: FiniteValues) -> bool:
    """True if ``mask`` hides nothing for good: where it lowers all scores of a query, they are compared as before.

    A finite number that is added leaves their differences; one put in their place does if it is as low as their sum.
    """
    if mask.fill is None:
        return finite.holds(mask.term, bindings)
    return -np.inf < mask.fill <= AS_GOOD_AS_INFINITE and mask.dtype not in HALF


def _doubt(mask: Mask, added: np.ndarray[Any, Any] | None, bindings: Bindings) -> str:
    """Why ``mask`` may hide all keys from a query; nothing if it hides keys, but not all."""
    if added is not None:
        hidden = np.isneginf(added) if mask.fill is None else added != 0
        each_row_sees = hidden.ndim > 0 and not hidden.all(axis=-1).any()
        return "" if each_row_sees else "a constant mask hides all keys from a query"
    term = resolve(bindings, mask.term)
    name = term.name_hint if isinstance(term, Var) else "that is computed in place"
    return f"the mask {name} " + ("may be -inf" if mask.fill is None else f"puts {mask.fill} in the place of scores")
