"""The scores of a written-out attention, read from the softmax inwards to the product of queries and keys.

Around the product may stand, in any order: times or divided by a constant number, a mask added or subtracted, a boolean
mask that puts a constant in the place of scores, a floor, a hyperbolic tangent before all masks, a cast of half
precision to float32, and permutations and reshapes; and next to it, times a tensor that has no axis of the keys, which
the queries are multiplied by instead. `bias_of` adds these steps up to one scale, one cap, one bias and a
causal mask. A mask that may hide all keys from a query is in doubt, since a written-out softmax gives NaN there, or a
mean of all values, and ``nn.attention`` something else; `FiniteValues` says which masks certainly do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ... import op as ops
from ...analysis.axes import Arrangement, AxisGroup, Groups, View, atoms, axis_of, size_of, source
from ...analysis.contraction import contraction_of
from ...analysis.finite_values import FiniteValues
from ...analysis.tensors import HALF, dtype_of, same_sizes, shape_of
from ...analysis.uniform import uniform_of
from ...analysis.values import resolve
from ...ir.expr import Constant, Expr, Var, const
from ...ir.op import Call, Op
from ...pattern import DFPattern, below, chain, is_const, is_op, wildcard
from ...rewrite import Bindings
from .heads import HeadLayout

AS_GOOD_AS_INFINITE: Final = -1e30
"""A number so low that adding a score to it in float32 gives the number again."""
_HIDES: Final = -1e4
"""No score of use is that low: the exponential of the difference is 0."""


_TURNED: Final = "the scores are turned around after they were masked"
_NO_NUMBER: Final = "which gives NaN here and 0 by nn.attention"
_OTHER_MEAN: Final = "which gives a mean of all values here and another one by nn.attention"


class NoAttention(Exception):
    """Why something that looks like attention is none, or is left as it is."""


class Mask(NamedTuple):
    """The scores so far, whose axes are ``groups``, plus ``term`` times ``factor``, by which they are scaled later.

    With a ``fill``, ``term`` is a condition, and scores become that number, of ``dtype``, where it is not ``kept``.
    Without a ``term`` it is a floor: lower scores become ``fill``.
    """

    term: Expr | None
    groups: Groups
    fill: float | None = None
    dtype: str | None = None
    kept: bool = True
    factor: float = 1.0

    @property
    def lifts(self) -> bool:
        """True if hidden scores are a finite number after it."""
        return self.fill is not None and self.fill > -np.inf


class Factor(NamedTuple):
    """The scores so far, whose axes are ``groups``, times ``term``."""

    term: Expr
    groups: Groups


def moved(inner: DFPattern) -> DFPattern:
    """The elements of ``inner``, on other axes."""
    moves = is_op("relax.permute_dims") | is_op("relax.expand_dims") | is_op("relax.squeeze")
    return moves(inner) | is_op("relax.reshape")(inner, wildcard())


_below, _other, _condition, _number = below(), wildcard(), wildcard(), is_const()
_cast = is_op("relax.astype")(_below)
_times = is_op("relax.multiply") | is_op("relax.divide")
_view = _times(_below, _number) | is_op("relax.astype")(_times(_cast, _number)) | moved(_below)
_by_tensor = is_op("relax.multiply")(_below, _other)
_plus = is_op("relax.add")(_below, _other)
_minus = is_op("relax.subtract")(_below, _other)
_where = is_op("relax.where")(_condition, _below, _other)
_where_not = is_op("relax.where")(_condition, _other, _below)
_highest = wildcard()
_floor = is_op("relax.maximum")(_below, _other) | is_op("relax.clip")(_below, _other, _highest)
_tangent = is_op("relax.tanh")(_below)
_step = (_view | _by_tensor | _plus | _minus | _where | _where_not | _floor | _tangent | _cast).users(1)
_core = wildcard()
_SCORES: Final = chain(_step, until=_core)
"""Steps over the product of queries and keys. Several of these, and either operand, may fit one value."""

ScoreStep: TypeAlias = float | Factor | Mask | Var
"""A factor, of one number or of a tensor, a mask, or the variable of a hyperbolic tangent."""


class Scores(NamedTuple):
    """Queries times keys; ``rows`` have the queries only, and ``size`` is the axis that they share.

    They are multiplied by ``factors``, scaled, become ``cap * tanh(scores / cap)`` if there is a ``cap``, and go under
    ``masks``, first first.
    """

    query: View
    keys: View
    rows: AxisGroup
    size: AxisGroup
    scale: float = 1.0
    cap: float | None = None
    masks: Sequence[Mask] = ()
    factors: Sequence[Factor] = ()


def read_scores(scores: Expr, groups: Groups, columns: AxisGroup, bindings: Bindings) -> Scores:
    """``scores``, whose axes are ``groups``, taken apart; raises `NoAttention` where they cannot be.

    ``columns`` are those of the keys. Nothing but the next step may use a step. A sum of two products is read with the
    first one as the scores. Cost: the values that are used by nothing but ``scores``.
    """
    reasons: list[tuple[int, NoAttention]] = []
    for found in bindings.matches(_SCORES, scores):
        steps: list[ScoreStep] = []
        own = groups
        try:
            for link in found.each(_step):
                own, step = _step_of(link, own, bindings)
                steps.append(step)
            return _under(steps, _queries_and_keys(found[_core], own, columns, bindings))
        except NoAttention as reason:
            reasons.append((len(steps), reason))
    raise max(reasons, key=itemgetter(0))[1]


def _under(steps: Sequence[ScoreStep], product: Scores) -> Scores:
    """``product`` under ``steps``, the last first."""
    factor, masks, factors = 1.0, list[Mask](), list[Factor]()
    tangent, cap = None, None
    for step in steps:
        if isinstance(step, float | int):
            factor *= step
        elif isinstance(step, Factor):
            factors.append(step)
        elif factors:
            raise NoAttention("scores that are masked or capped are multiplied by a tensor")
        elif tangent is not None:
            raise NoAttention(f"{tangent.name_hint} is a tanh of scores that are masked, or capped, before")
        elif isinstance(step, Mask):
            if step.fill is not None and factor < 0:
                raise NoAttention(_TURNED)
            fill = None if step.fill is None else step.fill * factor
            masks.append(step._replace(fill=fill, factor=factor))
        else:
            tangent, cap, factor = step, factor, 1.0
    if cap is not None and cap <= 0:
        raise NoAttention("the scores are turned around after they were capped")
    return product._replace(scale=factor * (cap or 1.0), cap=cap, masks=masks[::-1], factors=factors)


def _neither(var: Var, bindings: Bindings) -> NoAttention:
    call = bindings[var]
    how = f", made by {call.op.name.removeprefix('relax.')}," if isinstance(call, Call) and type(call.op) is Op else ""
    return NoAttention(f"{var.name_hint}{how} is neither a product of queries and keys nor a scaled or masked one")


def _step_of(link: Mapping[Any, Any], groups: Groups, bindings: Bindings) -> tuple[Groups, ScoreStep]:
    """The axes of the scores below ``link``, a match of `_step` whose axes are ``groups``, and the step over them."""
    outer, inner = link[_step], link[_below]
    other = link.get(_other, inner)
    is_kept = dtype_of(inner) == dtype_of(outer) or (dtype_of(inner) in HALF and dtype_of(outer) == "float32")
    if _view in link:
        view = source(View(outer, groups), bindings)
        if view is not None:
            return view.groups, view.factor
    elif _cast in link and is_kept:
        return groups, 1.0
    elif _tangent in link:
        return groups, outer
    elif _by_tensor in link and dtype_of(inner) not in HALF and dtype_of(inner) == dtype_of(other):
        return groups, Factor(other, groups)
    elif (_plus in link or _minus in link) and other is not inner and is_kept:
        return groups, Mask(other if _plus in link else ops.negative(other), groups)
    elif (number := uniform_of(other, bindings)) is not None and is_kept:
        if _condition in link:
            return groups, Mask(link[_condition], groups, float(number), dtype_of(other), _where in link)
        highest = uniform_of(link[_highest], bindings) if _highest in link else float("inf")
        # A floor so low, and a ceiling so high, change no score.
        if number <= AS_GOOD_AS_INFINITE and highest is not None and highest >= -AS_GOOD_AS_INFINITE:
            return groups, Mask(None, groups, float(number))
    raise _neither(outer, bindings)


def _queries_and_keys(var: Expr, groups: Groups, columns: AxisGroup, bindings: Bindings) -> Scores:
    """The product ``var``, whose axes are ``groups``, as one of queries and keys, which have the axis ``columns``."""
    if not isinstance(var, Var) or var not in bindings:
        raise NoAttention("the scores are no product of queries and keys in the same block")
    if bindings.is_output(var) or len(bindings.users_of(var)) != 1:
        raise NoAttention(f"{var.name_hint} is needed elsewhere, too")
    product = contraction_of(var, bindings)
    if product is None:
        raise _neither(var, bindings)
    if not same_sizes(shape_of(var), [size_of(group) for group in groups]):
        raise NoAttention(f"{var.name_hint} is broadcast by a mask, or its shape is not known")
    axes = dict(zip(product.result, groups, strict=True))
    for place in (0, 1):
        roles = product.roles(place)
        if roles is None or len(roles.summed) != 1:
            raise NoAttention("the scores are summed along more than the head size")
        if roles.ours and any(atoms(axes[label]) == atoms(columns) for label in roles.theirs):
            size = axis_of(product.size_of(roles.summed[0]))
            axes[roles.summed[0]] = size
            return Scores(product.view(place, axes), product.view(1 - place, axes), axes[roles.ours[-1]], size)
    raise _neither(var, bindings)


# --- what the masks are together


class Bias(NamedTuple):
    """What is added to scaled scores, and the causal mask; ``doubt``: why, and what, a query gives that sees no key."""

    bias: Expr | None
    causal: str | None
    doubt: str | None


def bias_of(masks: Sequence[Mask], layout: HeadLayout, bindings: Bindings, finite: FiniteValues) -> Bias:
    """``masks`` as one bias and a causal mask; raises `NoAttention` where they are none."""
    bias, causal = None, None
    doubts: list[str] = []  # of each mask that hides for good, why it may hide all keys; "" where it certainly does not
    alone = sum(mask.term is not None for mask in masks) == 1
    for at, mask in enumerate(masks):
        if mask.term is None:
            # So low a floor changes no score; it lifts what was hidden to a finite number, and so the whole row.
            if bias is not None and mask.lifts and not finite.holds(bias, bindings):
                bias, doubts = ops.maximum(bias, const(mask.fill, dtype_of(bias))), []
            continue
        placed = layout.mask(mask.term, mask.groups)
        added = _added_by(mask, placed, bindings)
        if added is not None and not added.any():
            continue
        # What is lifted later is lifted in the whole row, of which a triangle hides a part.
        is_final = alone or not any(one.lifts for one in masks[at + 1 :])
        triangle = None if added is None or not is_final else _causal_kind(added, layout, alone=alone)
        if triangle is not None and causal in (None, triangle) and mask.factor > 0:
            causal = triangle
            doubts.append("")
            continue
        mask = _lowered(mask, masks, masks[at + 1 :])
        bias = _with(mask, placed.written(), bias)
        # What leaves the differences of scores, or is as low as its sum with a score, hides nothing for good.
        if mask.fill is None:
            is_absorbed = finite.holds(placed.value, bindings)
        else:
            is_absorbed = -np.inf < mask.fill <= AS_GOOD_AS_INFINITE and mask.dtype not in HALF
        if not is_absorbed:
            if mask.factor < 0:
                raise NoAttention(_TURNED)
            doubts.append(_doubt(mask, added, bindings))
    if len(doubts) > 1 and not any(doubts):
        doubts = [f"two masks together may hide all keys from a query, {_NO_NUMBER}"]
    return Bias(bias, causal, next(filter(None, doubts), None))


def _lowered(mask: Mask, masks: Sequence[Mask], later: Sequence[Mask]) -> Mask:
    """``mask`` with a number beside which no score shows, where all that are hidden are to be the same anyway."""
    if mask.fill is None:
        return mask
    if not mask.fill <= _HIDES:
        raise NoAttention(f"hidden scores become {mask.fill}, which does not hide them")
    are_alike = {one.fill for one in masks} <= {mask.fill, -np.inf, None} and all(one.fill is not None for one in later)
    return mask._replace(fill=min(mask.fill, AS_GOOD_AS_INFINITE)) if are_alike and mask.dtype not in HALF else mask


def _with(mask: Mask, term: Expr, bias: Expr | None) -> Expr:
    """``bias`` after ``mask``, whose ``term`` is in its place; in the dtype that scores have there."""
    dtype = dtype_of(term) if mask.fill is None else mask.dtype
    if bias is not None and dtype is not None and dtype != dtype_of(bias):
        bias = ops.astype(bias, dtype)
    if mask.fill is None:
        term = term if mask.factor == 1.0 else ops.multiply(term, const(mask.factor, dtype))
        return term if bias is None else ops.add(bias, term)
    shown, hidden = const(0.0, dtype) if bias is None else bias, const(mask.fill, dtype)
    return ops.where(term, shown, hidden) if mask.kept else ops.where(term, hidden, shown)


def _added_by(mask: Mask, placed: Arrangement, bindings: Bindings) -> np.ndarray[Any, Any] | None:
    """What a constant mask adds, as ``placed``; or, where it does not keep a score, the number that is put there."""
    term = resolve(bindings, mask.term) if mask.term is not None else None
    known = placed.of_array(np.asarray(term.data.numpy())) if isinstance(term, Constant) else None
    return known if known is None or mask.fill is None else np.where(known == mask.kept, 0.0, mask.fill)


def _causal_kind(added: np.ndarray[Any, Any], layout: HeadLayout, *, alone: bool) -> str | None:
    """Which causal mask it is, exactly; None if it is none, or one that leaves a query without keys."""
    hidden = added != 0
    if not same_sizes(added.shape[-2:], [size_of(layout.rows), size_of(layout.columns)]):
        return None
    if not np.all(added[hidden] <= AS_GOOD_AS_INFINITE if alone else np.isneginf(added[hidden])):
        return None
    queries, keys = added.shape[-2:]
    for kind, offset in (("TopLeft", 0), ("BottomRight", keys - queries)):
        if offset >= 0 and keys and bool(np.all(hidden != np.tri(queries, keys, offset, dtype=bool))):
            return kind
    return None


def _doubt(mask: Mask, added: np.ndarray[Any, Any] | None, bindings: Bindings) -> str:
    """Why ``mask`` may hide all keys from a query, and what that gives; "" if it hides keys, but not all."""
    effect = _OTHER_MEAN if mask.lifts else _NO_NUMBER
    if added is not None:
        hidden = np.isneginf(added) if mask.fill is None else added != 0
        return f"a constant mask hides all keys from a query, {effect}" if hidden.all(axis=-1).any() else ""
    term = resolve(bindings, mask.term) if mask.term is not None else None
    name = term.name_hint if isinstance(term, Var) else "that is computed in place"
    does = "may be -inf" if mask.fill is None else f"puts {mask.fill} in the place of scores, maybe"
    return f"the mask {name} {does} for all keys of a query, {effect}"
