"""The sum of the steps around a product of queries and keys: one scale, one bias, a causal mask.

A mask that may hide all keys from a query is in doubt, since a written-out softmax gives NaN there and ``nn.attention``
zeros; `FiniteValues` says which masks certainly do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from .. import op as ops
from ..analysis.finite_values import FiniteValues
from ..analysis.values import resolve
from ..ir.expr import Constant, Expr, Var, const
from ..rewrite import Bindings
from .fuse_attention_axes import Group
from .fuse_attention_products import Product
from .fuse_attention_scores import AS_GOOD_AS_INFINITE, HALF, Add, Floor, Hide, Scale, Scores
from .read_values import dtype_of, number_of, shape_of


class Mask(NamedTuple):
    """``scale``, what is added to the scores after it, and the causal mask; ``doubt``: why rows may be all hidden."""

    scale: float
    bias: Expr | None
    causal: str | None
    doubt: str | None


BringMask = Callable[[Expr, Sequence[Group]], Expr]
"""Brings a mask that broadcasts to scores of these axes to the axes that a bias has."""

_HIDES: Final = -1e4
"""No score of use is that low: the exponential of the difference is 0."""


def mask_of(scores: Scores, place: BringMask, bindings: Bindings, finite: FiniteValues) -> Mask | str:
    """The steps of ``scores`` as one scale and one bias, or why they are not."""
    scale, bias, causal = 1.0, None, None
    doubts: list[str | None] = []
    alone = sum(isinstance(step, Add | Hide) for step in scores.steps) == 1
    for step in scores.steps:
        if isinstance(step, Scale):
            if step.factor < 0 and (causal is not None or doubts):
                return "the scores are turned around after they were masked"
            scale *= step.factor
            bias = bias if bias is None or step.factor == 1.0 else ops.multiply(bias, _like(step.factor, bias))
            continue
        if isinstance(step, Floor):
            # So low a floor changes no score; it lifts what was hidden to a finite number, and so the whole row.
            if bias is not None and not finite.holds(bias, bindings):
                bias = ops.maximum(bias, _like(step.number, bias))
                doubts = doubts if causal is not None else []
            continue
        visible = _visible(step, bindings)
        if visible is not None and bool(visible.all()):
            continue
        kind = _causal_kind(step, scores.product, alone=alone, bindings=bindings)
        if kind is not None and causal in (None, kind):
            causal = kind
            doubts.append(None)
            continue
        if isinstance(step, Hide):
            fill = number_of(step.fill)
            if fill is None or not fill <= _HIDES:
                return f"hidden scores become {fill}, which does not hide them"
            bias = _chosen_bias(step, place(step.condition, step.groups), bias)
        else:
            mask = place(step.mask, step.groups)
            bias = mask if bias is None else ops.add(_in_dtype_of(mask, bias), mask)
        doubts += _doubts(step, bindings, finite)
    named = [doubt for doubt in doubts if doubt is not None]
    if not named and len(doubts) > 1:
        named = ["two masks together"]
    return Mask(scale, bias, causal, named[0] if named else None)


def _like(number: float, tensor: Expr) -> Constant:
    return const(number, dtype_of(tensor))


def _in_dtype_of(other: Expr, tensor: Expr) -> Expr:
    """``tensor`` as scores were cast between two masks."""
    dtype = dtype_of(other)
    return tensor if dtype is None or dtype == dtype_of(tensor) else ops.astype(tensor, dtype)


def _chosen_bias(step: Hide, condition: Expr, bias: Expr | None) -> Expr:
    kept = _like(0.0, step.fill) if bias is None else _in_dtype_of(step.fill, bias)
    return ops.where(condition, kept, step.fill) if step.kept else ops.where(condition, step.fill, kept)


# --- constant masks


def _visible(step: Add | Hide, bindings: Bindings) -> np.ndarray[Any, Any] | None:
    """Where a constant mask that hides leaves scores as they are; None if it is not constant, or also adds numbers."""
    mask = resolve(bindings, step.condition if isinstance(step, Hide) else step.mask)
    if not isinstance(mask, Constant):
        return None
    values = np.asarray(mask.data.numpy())
    if isinstance(step, Hide):
        return values if step.kept else ~values
    kept = values == 0
    return kept if bool(np.all(kept | (values <= AS_GOOD_AS_INFINITE))) else None


def _causal_kind(step: Add | Hide, product: Product, *, alone: bool, bindings: Bindings) -> str | None:
    """Which causal mask ``step`` is, exactly; None if it is none, or one that leaves a query without keys."""
    visible = _visible(step, bindings)
    shape = shape_of(product.var)
    if visible is None or visible.ndim < 2 or visible.shape[-2:] != shape[-2:]:
        return None
    hidden = _fill(step, bindings)
    if hidden is None or (hidden > AS_GOOD_AS_INFINITE if alone else hidden != -np.inf):
        return None
    queries, keys = visible.shape[-2:]
    for kind, offset in (("TopLeft", 0), ("BottomRight", keys - queries)):
        expected = np.tri(queries, keys, offset, dtype=bool)
        if offset >= 0 and keys and bool(np.all(visible == expected)):
            return kind
    return None


def _fill(step: Add | Hide, bindings: Bindings) -> float | None:
    """The highest number that hidden scores become, or that is added to them; None if nothing is hidden."""
    if isinstance(step, Hide):
        return number_of(step.fill)
    mask = resolve(bindings, step.mask)
    assert isinstance(mask, Constant)
    values = np.asarray(mask.data.numpy(), dtype="float64")
    hidden = values[values != 0]
    return float(hidden.max()) if hidden.size else None


# --- rows in which nothing is visible


def _doubts(step: Add | Hide, bindings: Bindings, finite: FiniteValues) -> list[str | None]:
    """Why ``step`` may hide all keys from a query; None in the list if it hides keys, but not all; empty if none.

    A finite number that is added hides nothing for good: where all scores of a query are that low, they are compared
    with each other, by the softmax and by ``nn.attention`` alike.
    """
    all_hidden = "a constant mask hides all keys from a query"
    if isinstance(step, Add):
        if finite.holds(step.mask, bindings):
            return []
        mask = resolve(bindings, step.mask)
        if isinstance(mask, Constant):
            visible = ~np.isneginf(np.asarray(mask.data.numpy(), dtype="float64"))
            return [None if _each_row_sees(visible) else all_hidden]
        return [f"the mask {_name(mask)} may be -inf"]
    fill = number_of(step.fill)
    if fill is not None and -np.inf < fill <= AS_GOOD_AS_INFINITE and dtype_of(step.fill) not in HALF:
        return []
    visible = _visible(step, bindings)
    if visible is None:
        return [f"the mask {_name(resolve(bindings, step.condition))} puts {fill} in the place of scores"]
    return [None if _each_row_sees(visible) else all_hidden]


def _each_row_sees(visible: np.ndarray[Any, Any]) -> bool:
    return visible.ndim > 0 and bool(visible.any(axis=-1).all())


def _name(expr: Expr) -> str:
    return expr.name_hint if isinstance(expr, Var) else "that is computed in place"
