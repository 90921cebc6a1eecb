"""The sum of the steps around a product of queries and keys: one scale, one bias, a causal mask.

A mask that may hide all keys from a query is in doubt, since a written-out softmax gives NaN there and ``nn.attention``
zeros; `FiniteValues` says which masks certainly do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ... import op as ops
from ...analysis.axes import Groups
from ...analysis.finite_values import FiniteValues
from ...analysis.tensors import dtype_of, shape_of
from ...analysis.values import resolve
from ...ir.dims import Dim
from ...ir.expr import Constant, Expr, Var, const
from ...rewrite import Bindings
from .scores import AS_GOOD_AS_INFINITE, HALF, Floor, Mask, NoAttention, Scale, Scores


class Bias(NamedTuple):
    """``scale``, what is added to the scores after it, and the causal mask; ``doubt``: why rows may be all hidden."""

    scale: float
    bias: Expr | None
    causal: str | None
    doubt: str | None


BringMask: TypeAlias = Callable[[Expr, Groups], Expr]
"""Brings a mask that broadcasts to scores of these axes to the axes that a bias has."""

_HIDES: Final = -1e4
"""No score of use is that low: the exponential of the difference is 0."""


def bias_of(scores: Scores, place: BringMask, bindings: Bindings, finite: FiniteValues) -> Bias:
    """The steps of ``scores`` as one scale and one bias; raises `NoAttention` where they are none."""
    scale, bias, causal = 1.0, None, None
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
        if isinstance(step, Floor):
            # So low a floor changes no score; it lifts what was hidden to a finite number, and so the whole row.
            if bias is not None and step.number > -np.inf and not finite.holds(bias, bindings):
                bias = ops.maximum(bias, const(step.number, dtype_of(bias)))
                hiding = hiding if causal is not None else []
            continue
        known = _constant_mask(step, bindings)
        if known is not None and not known.changed.any():
            continue
        kind = None if known is None else _causal_kind(known, shape_of(scores.product), alone=alone)
        if kind is not None and causal in (None, kind):
            causal = kind
            hiding.append("")
            continue
        if step.fill is not None:
            fills.append(step.fill)
        bias = _with(step, place(step.term, step.groups), bias)
        if not _is_absorbed(step, bindings, finite):
            hiding.append(_doubt(step, known, bindings))
    if not all(fill <= _HIDES for fill in fills):
        raise NoAttention(f"hidden scores become {max(fills)}, which does not hide them")
    doubt = "two masks together" if len(hiding) > 1 and not any(hiding) else next(filter(None, hiding), None)
    return Bias(scale, bias, causal, doubt)


def _with(mask: Mask, term: Expr, bias: Expr | None) -> Expr:
    """``bias`` after ``mask``, whose ``term`` is in its place; in the dtype that scores have there."""
    dtype = dtype_of(term) if mask.fill is None else mask.dtype
    if bias is not None and dtype is not None and dtype != dtype_of(bias):
        bias = ops.astype(bias, dtype)
    if mask.fill is None:
        return term if bias is None else ops.add(bias, term)
    shown, hidden = const(0.0, dtype) if bias is None else bias, const(mask.fill, dtype)
    return ops.where(term, shown, hidden) if mask.kept else ops.where(term, hidden, shown)


# --- constant masks


class _Constant(NamedTuple):
    """A constant mask: where it changes scores, to which number at most, and where it hides them for good."""

    changed: np.ndarray[Any, Any]
    most: float
    hidden: np.ndarray[Any, Any]


def _constant_mask(mask: Mask, bindings: Bindings) -> _Constant | None:
    term = resolve(bindings, mask.term)
    if not isinstance(term, Constant):
        return None
    values = np.asarray(term.data.numpy())
    if mask.fill is not None:
        hidden = values != mask.kept
        return _Constant(hidden, mask.fill, hidden)
    values = values.astype("float64")
    return _Constant(values != 0, float(values[values != 0].max(initial=-np.inf)), np.isneginf(values))


def _causal_kind(mask: _Constant, scores: Sequence[Dim], *, alone: bool) -> str | None:
    """Which causal mask it is, exactly; None if it is none, or one that leaves a query without keys."""
    if mask.changed.ndim < 2 or mask.changed.shape[-2:] != scores[-2:]:
        return None
    if not (mask.most <= AS_GOOD_AS_INFINITE if alone else mask.most == -np.inf):
        return None
    queries, keys = mask.changed.shape[-2:]
    for kind, offset in (("TopLeft", 0), ("BottomRight", keys - queries)):
        if offset >= 0 and keys and bool(np.all(mask.changed != np.tri(queries, keys, offset, dtype=bool))):
            return kind
    return None


# --- rows in which nothing is visible


def _is_absorbed(mask: Mask, bindings: Bindings, finite: FiniteValues) -> bool:
    """True if ``mask`` hides nothing for good: where it lowers all scores of a query, they are compared as before.

    A finite number that is added leaves their differences; one put in their place does if it is as low as their sum.
    """
    if mask.fill is None:
        return finite.holds(mask.term, bindings)
    return -np.inf < mask.fill <= AS_GOOD_AS_INFINITE and mask.dtype not in HALF


def _doubt(mask: Mask, known: _Constant | None, bindings: Bindings) -> str:
    """Why ``mask`` may hide all keys from a query; nothing if it hides keys, but not all."""
    if known is not None:
        each_row_sees = known.hidden.ndim > 0 and not known.hidden.all(axis=-1).any()
        return "" if each_row_sees else "a constant mask hides all keys from a query"
    term = resolve(bindings, mask.term)
    name = term.name_hint if isinstance(term, Var) else "that is computed in place"
    return f"the mask {name} " + ("may be -inf" if mask.fill is None else f"puts {mask.fill} in the place of scores")
