"""The scores of a written-out attention, read from the softmax inwards to the product of queries and keys.

Around the product may stand, in any order: times or divided by a constant number, a mask added or subtracted, a boolean
mask that puts a constant in the place of scores, a floor, a hyperbolic tangent before all masks, a cast of half
precision to float32, and a reshape that joins or splits leading axes. `bias_of` adds these steps up to one scale, one
cap, one bias and a causal mask. A mask that may hide all
keys from a query is in doubt, since a written-out softmax gives NaN there and ``nn.attention`` zeros; `FiniteValues`
says which masks certainly do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ... import op as ops
from ...analysis.axes import AxisGroup, Groups, View, axis_of, regrouped, size_of
from ...analysis.contraction import Contraction, contraction_of
from ...analysis.finite_values import FiniteValues
from ...analysis.tensors import HALF, dtype_of, same_sizes, shape_of, without_factor
from ...analysis.uniform import uniform_of
from ...analysis.values import resolve
from ...ir.dims import Dim
from ...ir.expr import Constant, Expr, Var, const
from ...ir.op import Call, Op
from ...pattern import is_op, wildcard
from ...pattern.matcher.match import compiled
from ...rewrite import Bindings
from .heads import HeadLayout

AS_GOOD_AS_INFINITE: Final = -1e30
"""A number so low that adding a score to it in float32 gives the number again."""
_HIDES: Final = -1e4
"""No score of use is that low: the exponential of the difference is 0."""


class NoAttention(Exception):
    """Why something that looks like attention is none, or is left as it is."""


class Scale(NamedTuple):
    """The scores so far, times ``factor``."""

    factor: float


class Floor(NamedTuple):
    """The scores so far, but no less than ``number``."""

    number: float


class Tangent(NamedTuple):
    """The hyperbolic tangent of the scores so far, which ``var`` holds."""

    var: Var


class Mask(NamedTuple):
    """The scores so far, whose axes are ``groups``, plus ``term``.

    With a ``fill``, ``term`` is a condition, and scores become that number, of ``dtype``, where it is not ``kept``.
    """

    term: Expr
    groups: Groups
    fill: float | None = None
    dtype: str | None = None
    kept: bool = True


ScoreStep: TypeAlias = Scale | Floor | Tangent | Mask


class Scores(NamedTuple):
    """Queries times keys, bound to ``product``; ``size`` is the axis that they share; then the steps, first first."""

    product: Var
    query: View
    keys: View
    size: AxisGroup
    steps: Sequence[ScoreStep]


class _ScorePosition(NamedTuple):
    """A value that may be the scores one step further in: its axes should be ``groups``."""

    value: Expr
    groups: Groups
    steps: Sequence[ScoreStep] = ()

    def inner(self, value: Expr, step: ScoreStep) -> _ScorePosition:
        return _ScorePosition(value, self.groups, (step, *self.steps))


_inner, _other, _condition = wildcard(), wildcard(), wildcard()
_plus = is_op("relax.add")(_inner, _other)
_minus = is_op("relax.subtract")(_inner, _other)
_where = is_op("relax.where")(_condition, _inner, _other)
_where_not = is_op("relax.where")(_condition, _other, _inner)
_no_less = is_op("relax.maximum")(_inner, _other)
_clipped = is_op("relax.clip")(_inner, _other, wildcard())
_tangent = is_op("relax.tanh")(_inner)
_cast = is_op("relax.astype")(_inner)
_reshaped = is_op("relax.reshape")(_inner, wildcard())
_STEP: Final = _plus | _minus | _where | _where_not | _no_less | _clipped | _tangent | _cast | _reshaped
"""One step over the scores so far, ``_inner``. Several of these, and either operand, may fit one value."""


def read_scores(scores: Expr, groups: Groups, bindings: Bindings) -> Scores:
    """``scores``, whose axes are ``groups``, taken apart; raises `NoAttention` where they cannot be.

    Nothing but the next step may use a step. A sum of two products is read with the first one as the scores.
    Cost: the values that are used by nothing but ``scores``.
    """
    pending = [_ScorePosition(scores, groups)]
    reasons: list[tuple[int, NoAttention]] = []
    while pending:
        place = pending.pop()
        try:
            found = _read(place, bindings)
        except NoAttention as reason:
            reasons.append((len(place.steps), reason))
            continue
        if isinstance(found, Scores):
            return found
        pending.extend(reversed(found))
    raise max(reasons, key=itemgetter(0))[1]


def _read(place: _ScorePosition, bindings: Bindings) -> Scores | list[_ScorePosition]:
    """The scores, if ``place`` is their product; else what may be one step further in."""
    leaf = resolve(bindings, place.value)
    if not isinstance(leaf, Var) or leaf not in bindings:
        raise NoAttention("the scores are no product of queries and keys in the same block")
    name = leaf.name_hint
    if bindings.is_output(leaf) or len(bindings.users_of(leaf)) != 1:
        raise NoAttention(f"{name} is needed elsewhere, too")
    scaled = without_factor(leaf, bindings)
    if scaled is not None:
        return [place.inner(scaled[0], Scale(scaled[1]))]
    product = contraction_of(leaf, bindings)
    if product is not None:
        if not same_sizes(shape_of(leaf), [size_of(group) for group in place.groups]):
            raise NoAttention(f"{name} is broadcast by a mask, or its shape is not known")
        return _queries_and_keys(leaf, product, place)
    ways = compiled(_STEP).matches(bindings, leaf)
    inner = [further for found in ways if (further := _further(found, leaf, place, bindings)) is not None]
    if inner:
        return inner
    call = bindings[leaf]
    how = f", made by {call.op.name.removeprefix('relax.')}," if isinstance(call, Call) and type(call.op) is Op else ""
    raise NoAttention(f"{name}{how} is neither a product of queries and keys nor a scaled or masked one")


def _further(found: Mapping[Any, Any], outer: Var, place: _ScorePosition, bindings: Bindings) -> _ScorePosition | None:
    """The scores one step inwards of ``outer``, in one way in which `_STEP` matches; None if it is none."""
    inner: Expr = found[_inner]
    if dtype_of(inner) != dtype_of(outer) and not (dtype_of(inner) in HALF and dtype_of(outer) == "float32"):
        return None
    if _cast in found:
        return place._replace(value=inner)
    if _tangent in found:
        return place.inner(inner, Tangent(outer))
    if _reshaped in found:
        groups = regrouped(place.groups, shape_of(inner))
        keeps_keys = groups is not None and groups[-2:] == place.groups[-2:]
        return place._replace(value=inner, groups=groups) if keeps_keys else None
    other = resolve(bindings, found[_other])
    if other is resolve(bindings, inner):
        return None
    if _plus in found or _minus in found:
        return place.inner(inner, Mask(other if _plus in found else ops.negative(other), place.groups))
    number = uniform_of(other, bindings)
    if number is None:
        return None
    if _condition in found:
        mask = Mask(found[_condition], place.groups, float(number), dtype_of(other), _where in found)
        return place.inner(inner, mask)
    # A floor so low, and a ceiling so high, change no score.
    highest = uniform_of(found[_clipped].args[2], bindings) if _clipped in found else float("inf")
    if not number <= AS_GOOD_AS_INFINITE or highest is None or not highest >= -AS_GOOD_AS_INFINITE:
        return None
    return place.inner(inner, Floor(float(number)))


def _queries_and_keys(var: Var, product: Contraction, place: _ScorePosition) -> Scores:
    """``product``, bound to ``var``, as the scores whose axes are those of ``place``."""
    *_, row, column = product.result
    shared = product.rest(product.result)
    if shared is None:
        raise NoAttention("the scores are summed along more than the head size")
    size = axis_of(product.size_of(shared))
    axes = {**dict(zip(product.result, place.groups, strict=True)), shared: size}
    # Of an einsum, either operand may be the queries.
    first, second = (0, 1) if column in product.terms[1] else (1, 0)
    queries, keys = ({*product.terms[at]} & {row, column, shared} for at in (first, second))
    if queries != {row, shared} or keys != {column, shared}:
        raise NoAttention("the scores are no products of queries and keys along the head size")
    return Scores(var, product.view(first, axes), product.view(second, axes), size, place.steps)


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
    alone = sum(isinstance(step, Mask) for step in scores.steps) == 1
    for step in scores.steps:
        if isinstance(step, Scale):
            if step.factor < 0 and hiding:
                raise NoAttention("the scores are turned around after they were masked")
            scale *= step.factor
            fills = [fill * step.factor for fill in fills]
            if bias is not None and step.factor != 1.0:
                bias = ops.multiply(bias, const(step.factor, dtype_of(bias)))
            continue
        if isinstance(step, Tangent):
            if before is not None or bias is not None or hiding:
                raise NoAttention(f"{step.var.name_hint} is a tanh of scores that are masked, or capped, before")
            before, scale = scale, 1.0
            continue
        if isinstance(step, Floor):
            # So low a floor changes no score; it lifts what was hidden to a finite number, and so the whole row.
            if bias is not None and step.number > -np.inf and not finite.holds(bias, bindings):
                bias = ops.maximum(bias, const(step.number, dtype_of(bias)))
                hiding = hiding if causal is not None else []
            continue
        known = _constant_mask(step, bindings)
        if known is not None and not known.any():
            continue
        kind = None if known is None else _causal_kind(known, shape_of(scores.product), alone=alone)
        if kind is not None and causal in (None, kind):
            causal = kind
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
