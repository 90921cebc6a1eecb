"""The scores of a written-out attention, read backwards from the softmax to the product of queries and keys.

Each operator in between is a step of `_SCORES`. The steps may come in any order, with two exceptions: a tanh comes
before all masks, and tensors that scores are multiplied by come next to the product. `bias_of` combines the masks into
one bias and a causal mask. A mask that may hide all keys from a query is doubtful: a written-out softmax gives NaN
there, or a mean of all values, and ``nn.attention`` gives something else. `FiniteValues` finds the masks that cannot do
this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ... import op as ops
from ...analysis.axes import AxisGroup, Groups, View, atoms, axis_of, size_of, source
from ...analysis.contraction import contraction_of
from ...analysis.finite_values import FiniteValues
from ...analysis.masks import AS_GOOD_AS_INFINITE, causal_kind
from ...analysis.tensors import dtype_of, same_sizes, shape_of
from ...analysis.uniform import uniform_of
from ...analysis.values import resolve
from ...ir.dtypes import HALF
from ...ir.expr import Constant, Expr, Var, const
from ...ir.op import Call, Op
from ...pattern import DFPattern, below, chain, is_const, is_op, wildcard
from ...rewrite import Bindings
from ..attention_operands import NoAttention
from .heads import HeadLayout

_HIDES: Final = -1e4
"""Scores as low as this have no effect: the exponential of the difference is 0."""
_TURNED: Final = "the scores are transposed after they were {}"
_NO_NUMBER: Final = "which gives NaN here and 0 by nn.attention"
_OTHER_MEAN: Final = "which gives a mean of all values here and another one by nn.attention"


class Mask(NamedTuple):
    """The scores up to here, with axes ``groups``, plus ``term``; ``factor`` scales all of it later.

    With a ``fill``, ``term`` is a condition: scores become the number ``fill``, of ``dtype``, unless the condition
    equals ``kept``. Without a ``term`` the mask is a floor: lower scores become ``fill``. ``fill`` is the number after
    all later scales.
    """

    term: Expr | None
    groups: Groups
    factor: float
    fill: float | None = None
    dtype: str | None = None
    kept: bool = True

    @property
    def lifts(self) -> bool:
        """True if it replaces hidden scores by a finite number."""
        return self.fill is not None and self.fill > -np.inf


class Scores(NamedTuple):
    """The steps on scores with axes ``groups``, up to the softmax.

    The scores are multiplied by ``factors``, tensors with the axes that the scores have at that point, and by
    ``scale``. They become ``cap * tanh(scores / cap)`` if there is a ``tangent``. Then ``masks`` are applied, in order.
    """

    groups: Groups
    scale: float = 1.0
    tangent: Var | None = None
    cap: float | None = None
    masks: Sequence[Mask] = ()
    factors: Sequence[tuple[Expr, Groups]] = ()


class ScoreProduct(NamedTuple):
    """Queries times keys: only the queries have the axis ``rows``; the product is summed along the axis ``size``."""

    query: View
    keys: View
    rows: AxisGroup
    size: AxisGroup


def moved(inner: DFPattern) -> DFPattern:
    """The elements of ``inner``, on other axes."""
    moves = is_op("relax.permute_dims", "relax.expand_dims", "relax.squeeze")
    return moves(inner) | is_op("relax.reshape")(inner, wildcard())


_below, _other, _condition, _number, _highest = below(), wildcard(), wildcard(), is_const(), wildcard()
_cast = is_op("relax.astype")(_below)
_times = is_op("relax.multiply", "relax.divide")
_view = _times(_below, _number) | is_op("relax.astype")(_times(_cast, _number)) | moved(_below)
_by_tensor = is_op("relax.multiply")(_below, _other)
_plus = is_op("relax.add")(_below, _other)
_minus = is_op("relax.subtract")(_below, _other)
_where = is_op("relax.where")(_condition, _below, _other)
_where_not = is_op("relax.where")(_condition, _other, _below)
_floor = is_op("relax.maximum")(_below, _other) | is_op("relax.clip")(_below, _other, _highest)
_tangent = is_op("relax.tanh")(_below)
_step = (_view | _by_tensor | _plus | _minus | _where | _where_not | _floor | _tangent | _cast).users(1)
_core = wildcard()
_SCORES: Final = chain(_step, until=_core)
"""The steps on the product of queries and keys. Several steps, and either operand, may match one value."""


def read_scores(value: Expr, groups: Groups, columns: AxisGroup, bindings: Bindings) -> tuple[Scores, ScoreProduct]:
    """The steps of ``value``, whose axes are ``groups``, and its product; raises `NoAttention` for any other value.

    ``columns`` are the axes of the keys. A step may be used only by the next one. In a sum of two products, the first
    one is read as the scores. Cost: the values that only ``value`` uses.
    """
    deepest, why = -1, NoAttention()
    for found in bindings.matches(_SCORES, value):
        scores, depth = Scores(groups), 0
        try:
            for link in found.each(_step):
                scores = _below_step(link, scores, bindings)
                depth += 1
            return scores, _queries_and_keys(found[_core], scores.groups, columns, bindings)
        except NoAttention as reason:
            deepest, why = (depth, reason) if depth > deepest else (deepest, why)
    raise why


def _neither(var: Var, bindings: Bindings) -> NoAttention:
    call = bindings[var]
    how = f", made by {call.op.name.removeprefix('relax.')}," if isinstance(call, Call) and type(call.op) is Op else ""
    return NoAttention(f"{var.name_hint}{how} is neither a product of queries and keys nor a scaled or masked one")


def _below_step(link: Mapping[Any, Any], scores: Scores, bindings: Bindings) -> Scores:
    """``scores``, whose axes are those of ``link``, a match of `_step`, extended by the step in ``link``."""
    outer, inner, groups, scale = link[_step], link[_below], scores.groups, scores.scale
    dtype, other = dtype_of(inner), link.get(_other, inner)
    is_kept = dtype == dtype_of(outer) or (dtype in HALF and dtype_of(outer) == "float32")
    if _view in link:
        view = source(View(outer, groups, scale), bindings)
        if view is None:
            raise _neither(outer, bindings)
        return scores._replace(groups=view.groups, scale=view.factor)
    if _cast in link and is_kept:
        return scores
    if _by_tensor in link and dtype not in HALF and dtype == dtype_of(other):
        return scores._replace(factors=[*scores.factors, (other, groups)])
    mask = _mask_of(link, other, scores, bindings) if is_kept else None
    if mask is None and _tangent not in link:
        raise _neither(outer, bindings)
    if scores.factors:
        raise NoAttention("scores that are masked or capped are multiplied by a tensor")
    if scores.tangent is not None:
        raise NoAttention(f"{scores.tangent.name_hint} is a tanh of scores that are masked, or capped, before")
    if scale < 0 and (mask is None or mask.fill is not None):
        raise NoAttention(_TURNED.format("capped" if mask is None else "masked"))
    return scores._replace(tangent=outer, cap=scale) if mask is None else scores._replace(masks=[mask, *scores.masks])


def _mask_of(link: Mapping[Any, Any], other: Expr, scores: Scores, bindings: Bindings) -> Mask | None:
    """``link`` as a mask with the operand ``other``; None if it is not a mask."""
    groups, scale = scores.groups, scores.scale
    if _plus in link or _minus in link:
        term = other if _plus in link else ops.negative(other)
        return Mask(term, groups, scale) if other is not link[_below] else None
    number = uniform_of(other, bindings) if _other in link else None
    if number is None or _by_tensor in link:
        return None
    if _condition in link:
        return Mask(link[_condition], groups, scale, float(number) * scale, dtype_of(other), _where in link)
    highest = uniform_of(link[_highest], bindings) if _highest in link else float("inf")
    # A floor this low, and a ceiling this high, change no score.
    changes_none = number <= AS_GOOD_AS_INFINITE and highest is not None and highest >= -AS_GOOD_AS_INFINITE
    return Mask(None, groups, scale, float(number) * scale) if changes_none else None


def _queries_and_keys(var: Expr, groups: Groups, columns: AxisGroup, bindings: Bindings) -> ScoreProduct:
    """The product ``var``, with axes ``groups``, as one of queries and keys; the keys have the axis ``columns``."""
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
            size = axes[roles.summed[0]] = axis_of(product.size_of(roles.summed[0]))
            return ScoreProduct(product.view(place, axes), product.view(1 - place, axes), axes[roles.ours[-1]], size)
    raise _neither(var, bindings)


# --- what the masks are together


def bias_of(
    masks: Sequence[Mask], layout: HeadLayout, bindings: Bindings, finite: FiniteValues
) -> tuple[Expr | None, str | None, str | None]:
    """The bias that ``masks`` add to scaled scores, the causal mask, and a doubt that each query sees a key.

    The doubt is a reason why a query may see no key, with the effect; None if every query sees one. Raises
    `NoAttention` if ``masks`` are not masks.
    """
    bias, causal = None, None
    doubts: list[str] = []  # why each mask that hides keys for good may hide all; "" if it leaves some
    alone = sum(mask.term is not None for mask in masks) == 1
    for at, mask in enumerate(masks):
        if mask.term is None:
            # A floor this low changes no score. It replaces infinities by a finite number, and so removes the doubt for
            # the row.
            if bias is not None and mask.lifts and not finite.holds(bias, bindings):
                bias, doubts = ops.maximum(bias, const(mask.fill, dtype_of(bias))), []
            continue
        placed = layout.mask(mask.term, mask.groups)
        term = resolve(bindings, mask.term)
        known = placed.of_array(np.asarray(term.data.numpy())) if isinstance(term, Constant) else None
        added = known if known is None or mask.fill is None else np.where(known == mask.kept, 0.0, mask.fill)
        if added is not None and not added.any():
            continue
        # A later mask that replaces hidden scores by a finite number does so for the whole row, including a triangle's
        # part.
        is_final = alone or not any(one.lifts for one in masks[at + 1 :])
        sizes = [size_of(layout.rows), size_of(layout.columns)]
        triangle = None if added is None or not is_final else causal_kind(added, sizes, alone=alone)
        if triangle is not None and causal in (None, triangle) and mask.factor > 0:
            causal = triangle
            doubts.append("")
            continue
        mask = _lowered(mask, masks, masks[at + 1 :])
        bias = _with(mask, placed.written(), bias)
        # A mask that keeps the differences of scores, or whose number absorbs a score, does not hide all keys for good.
        is_low = -np.inf < (mask.fill or 0.0) <= AS_GOOD_AS_INFINITE and mask.dtype not in HALF
        if not (is_low or (mask.fill is None and finite.holds(term, bindings))):
            if mask.factor < 0:
                raise NoAttention(_TURNED.format("masked"))
            doubts.append(_doubt(mask, term, added))
    if len(doubts) > 1 and not any(doubts):
        doubts = [f"two masks together may hide all keys from a query, {_NO_NUMBER}"]
    return bias, causal, next(filter(None, doubts), None)


def _lowered(mask: Mask, masks: Sequence[Mask], later: Sequence[Mask]) -> Mask:
    """``mask`` with a number so low that no score matters next to it, if all hidden scores are to be equal anyway."""
    if mask.fill is None:
        return mask
    if not mask.fill <= _HIDES:
        raise NoAttention(f"hidden scores become {mask.fill}, which does not hide them")
    are_alike = {one.fill for one in masks} <= {mask.fill, -np.inf, None} and all(one.fill is not None for one in later)
    return mask._replace(fill=min(mask.fill, AS_GOOD_AS_INFINITE)) if are_alike and mask.dtype not in HALF else mask


def _with(mask: Mask, term: Expr, bias: Expr | None) -> Expr:
    """``bias`` combined with ``mask``, whose ``term`` is already placed; in the dtype of the scores at this point."""
    dtype = dtype_of(term) if mask.fill is None else mask.dtype
    if bias is not None and dtype is not None and dtype != dtype_of(bias):
        bias = ops.astype(bias, dtype)
    if mask.fill is None:
        term = term if mask.factor == 1.0 else ops.multiply(term, const(mask.factor, dtype))
        return term if bias is None else ops.add(bias, term)
    shown, hidden = const(0.0, dtype) if bias is None else bias, const(mask.fill, dtype)
    return ops.where(term, shown, hidden) if mask.kept else ops.where(term, hidden, shown)


def _doubt(mask: Mask, term: Expr, added: np.ndarray[Any, Any] | None) -> str:
    """The reason why ``mask`` may hide all keys from a query, and the effect; "" if it certainly leaves some."""
    effect = _OTHER_MEAN if mask.lifts else _NO_NUMBER
    if added is not None:
        hidden = np.isneginf(added) if mask.fill is None else added != 0
        return f"a constant mask hides all keys from a query, {effect}" if hidden.all(axis=-1).any() else ""
    name = term.name_hint if isinstance(term, Var) else "that is computed in place"
    does = "may be -inf" if mask.fill is None else f"puts {mask.fill} in the place of scores, maybe"
    return f"the mask {name} {does} for all keys of a query, {effect}"
