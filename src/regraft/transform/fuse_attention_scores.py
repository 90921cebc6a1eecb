"""The scores of a written-out attention, read from the softmax inwards: their scale, their masks, their product.

Scores are a product of queries and transposed keys, with any of these around it, in any order: times or divided by a
constant number, a mask added or subtracted, a boolean mask that puts a constant in the place of scores, a cast of half
precision to float32. `read_scores` takes them apart; `mask_of` says what they are together as ``scale`` and ``bias``.
Knows nothing of layouts (`fuse_attention_operands`).
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from .. import ops
from ..dpl import is_const, is_op, wildcard
from ..dpl.pattern import DFPattern
from ..dpl.view import leaves_of, resolve
from ..ir.dtypes import is_float
from ..ir.expr import Constant, Expr, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var, const
from ..ir.op import Call, Op
from ..ir.types import TensorType
from ..rewrite import Bindings

_HALF: Final = ("float16", "bfloat16")

# --- numbers

_inner, _number = wildcard(), is_const()
_times = is_op("relax.multiply")(_inner, _number)
_over = is_op("relax.divide")(_inner, _number)
_scaled = _times | _over


def matched(pattern: DFPattern, expr: Expr, bindings: Bindings) -> dict[DFPattern, Any] | None:
    """The match of ``expr``; None if it is none."""
    return pattern.extract_matched_expr(expr, bindings)


def number_of(expr: Expr) -> float | None:
    """The value of a constant of one element; None for others."""
    if not isinstance(expr, Constant) or expr.data.size != 1:
        return None
    return float(np.asarray(expr.data.numpy(), dtype="float64").reshape(()))


def without_factor(expr: Expr, bindings: Bindings) -> tuple[Expr, float] | None:
    """``expr`` as a tensor of its own type times a number other than 0; None if it is not written so."""
    found = matched(_scaled, expr, bindings)
    if found is None or found[_inner].ty != expr.ty:
        return None
    number = number_of(found[_number])
    if number is None or number == 0.0 or not np.isfinite(number):
        return None
    return found[_inner], number if _times in found else 1.0 / number


def without_factors(expr: Expr, bindings: Bindings) -> tuple[Expr, float]:
    """``expr`` as a tensor times a number, which is 1 where none is written."""
    factor = 1.0
    while (found := without_factor(expr, bindings)) is not None:
        expr, factor = found[0], factor * found[1]
    return expr, factor


# --- taking scores apart


class Scale(NamedTuple):
    """The scores so far, times ``factor``."""

    factor: float


class Add(NamedTuple):
    """The scores so far, plus ``mask``."""

    mask: Expr


class Hide(NamedTuple):
    """``fill`` where ``condition`` is not ``kept``, the scores so far elsewhere."""

    condition: Expr
    fill: Constant
    kept: bool


Step: TypeAlias = Scale | Add | Hide


class Scores(NamedTuple):
    """The product of ``query`` and ``keys`` (transposed), bound to ``product``, and the steps from it, first first."""

    product: Var
    query: Expr
    keys: Expr
    steps: tuple[Step, ...]


_first, _second, _third = wildcard(), wildcard(), wildcard()
_sum = is_op("relax.add")(_first, _second)
_difference = is_op("relax.subtract")(_first, _second)
_chosen = is_op("relax.where")(_first, _second, _third)
_cast = is_op("relax.astype")(_first)
_product = is_op("relax.matmul")(_first, _second)
_step = _sum | _difference | _chosen | _cast | _product


def read_scores(scores: Expr, bindings: Bindings) -> Scores | str:
    """``scores`` taken apart, or why they cannot be.

    Nothing but the next step may use a step. A sum of two products is read with the first one as the scores.
    Cost: the values that are used by nothing but ``scores``.
    """
    pending: list[tuple[Expr, tuple[Step, ...]]] = [(scores, ())]
    reasons: list[tuple[int, str]] = []
    while pending:
        expr, steps = pending.pop()
        leaf = resolve(bindings, expr)
        if not isinstance(leaf, Var) or leaf not in bindings:
            reasons.append((len(steps), "the scores are no product of queries and keys in the same block"))
            continue
        if bindings.is_output(leaf) or len(bindings.users_of(leaf)) != 1:
            reasons.append((len(steps), f"{leaf.name_hint} is needed elsewhere, too"))
            continue
        factored = without_factor(leaf, bindings)
        if factored is not None:
            pending.append((factored[0], (Scale(factored[1]), *steps)))
            continue
        found = matched(_step, leaf, bindings)
        if found is not None and _product in found:
            if leaf.ty == scores.ty or _is_widened(leaf, scores):
                return Scores(leaf, found[_first], found[_second], steps)
            reasons.append((len(steps), f"{leaf.name_hint} is broadcast by a mask, or its shape is not known"))
            continue
        inner = [] if found is None else _inner_steps(found, bindings)
        if not inner:
            reasons.append(
                (len(steps), f"{leaf.name_hint} is neither a product of queries and keys nor a scaled or masked one")
            )
        pending.extend((value, (*step, *steps)) for value, step in reversed(inner))
    return max(reasons, key=itemgetter(0))[1]


def _inner_steps(found: Mapping[Any, Any], bindings: Bindings) -> list[tuple[Expr, tuple[Step, ...]]]:
    """The operands that may be the scores one step further in, and that step."""
    first: Expr = found[_first]
    if _cast in found:
        return [(first, ())] if _is_widened(first, found[_cast]) or first.ty == found[_cast].ty else []
    second: Expr = found[_second]
    if _chosen in found:
        chosen, other = resolve(bindings, second), resolve(bindings, found[_third])
        if isinstance(other, Constant) and other.data.size == 1:
            return [(chosen, (Hide(first, other, True),))]
        if isinstance(chosen, Constant) and chosen.data.size == 1:
            return [(other, (Hide(first, chosen, False),))]
        return []
    if resolve(bindings, first) is resolve(bindings, second):
        return []
    if _difference in found:
        return [(first, (Add(ops.negative(second)),))]
    return [(first, (Add(second),)), (second, (Add(first),))]


def _is_widened(narrow: Expr, wide: Expr) -> bool:
    """Whether ``wide`` has the shape of ``narrow`` and float32 in the place of half precision."""
    before, after = narrow.ty, wide.ty
    return (
        isinstance(before, TensorType)
        and isinstance(after, TensorType)
        and before.shape is not None
        and before.shape == after.shape
        and before.dtype in _HALF
        and after.dtype == "float32"
    )


# --- what the steps are together


class Mask(NamedTuple):
    """``scale``, what is added to the scores after it, and the causal mask; ``doubt``: why rows may be all hidden."""

    scale: float
    bias: Expr | None
    causal: str | None
    doubt: str | None


_AS_GOOD_AS_INFINITE: Final = -1e30
"""A number so low that adding a score to it in float32 gives the number again."""
_HIDES: Final = -1e4
"""No score of use is that low: the exponential of the difference is 0."""


def mask_of(scores: Scores, bindings: Bindings, weights: Mapping[Var, None]) -> Mask | str:
    """The steps of ``scores`` as one scale and one bias, or why they are not.

    ``weights`` are parameters whose values are taken to be finite.
    """
    scale, bias, causal = 1.0, None, None
    doubts: list[str | None] = []
    alone = sum(not isinstance(step, Scale) for step in scores.steps) == 1
    for step in scores.steps:
        if isinstance(step, Scale):
            if step.factor < 0 and (causal is not None or doubts):
                return "the scores are turned around after they were masked"
            scale *= step.factor
            bias = bias if bias is None or step.factor == 1.0 else ops.multiply(bias, _like(step.factor, bias))
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
            bias = _chosen_bias(step, bias)
        else:
            bias = step.mask if bias is None else ops.add(_in_dtype_of(step.mask, bias), step.mask)
        doubts += _doubts(step, bindings, weights)
    named = [doubt for doubt in doubts if doubt is not None]
    if not named and len(doubts) > 1:
        named = ["two masks together"]
    return Mask(scale, bias, causal, named[0] if named else None)


def dtype_of(tensor: Expr) -> str | None:
    """The dtype of a tensor; None if it is not known."""
    return tensor.ty.dtype if isinstance(tensor.ty, TensorType) else None


def _like(number: float, tensor: Expr) -> Constant:
    return const(number, dtype_of(tensor))


def _in_dtype_of(other: Expr, tensor: Expr) -> Expr:
    """``tensor`` as scores were cast between two masks."""
    dtype = dtype_of(other)
    return tensor if dtype is None or dtype == dtype_of(tensor) else ops.astype(tensor, dtype)


def _chosen_bias(step: Hide, bias: Expr | None) -> Expr:
    kept = _like(0.0, step.fill) if bias is None else _in_dtype_of(step.fill, bias)
    fill = _like(number_of(step.fill) or 0.0, step.fill)
    return ops.where(step.condition, kept, fill) if step.kept else ops.where(step.condition, fill, kept)


def _visible(step: Step, bindings: Bindings) -> np.ndarray[Any, Any] | None:
    """Where a constant mask that hides leaves scores as they are; None if it is not constant, or also adds numbers."""
    if isinstance(step, Scale):
        return None
    mask = resolve(bindings, step.condition if isinstance(step, Hide) else step.mask)
    if not isinstance(mask, Constant):
        return None
    values = np.asarray(mask.data.numpy())
    if isinstance(step, Hide):
        return values if step.kept else ~values
    kept = values == 0
    return kept if bool(np.all(kept | (values <= _AS_GOOD_AS_INFINITE))) else None


def _causal_kind(step: Step, product: Var, *, alone: bool, bindings: Bindings) -> str | None:
    """Which causal mask ``step`` is, exactly; None if it is none, or one that leaves a query without keys."""
    visible = _visible(step, bindings)
    shape = product.ty.shape if isinstance(product.ty, TensorType) else None
    if visible is None or shape is None or visible.ndim < 2 or visible.shape[-2:] != shape[-2:]:
        return None
    hidden = _fill(step, bindings)
    if hidden is None or (hidden > _AS_GOOD_AS_INFINITE if alone else hidden != -np.inf):
        return None
    queries, keys = visible.shape[-2:]
    for kind, offset in (("TopLeft", 0), ("BottomRight", keys - queries)):
        expected = np.tri(queries, keys, offset, dtype=bool)
        if offset >= 0 and keys and bool(np.all(visible == expected)):
            return kind
    return None


def _fill(step: Step, bindings: Bindings) -> float | None:
    """The highest number that hidden scores become, or that is added to them; None if nothing is hidden."""
    if isinstance(step, Hide):
        return number_of(step.fill)
    assert isinstance(step, Add)
    mask = resolve(bindings, step.mask)
    assert isinstance(mask, Constant)
    values = np.asarray(mask.data.numpy(), dtype="float64")
    hidden = values[values != 0]
    return float(hidden.max()) if hidden.size else None


# --- rows in which nothing is visible

_FINITE_OPS: Final = frozenset(
    {
        *("arange", "astype", "broadcast_to", "concat", "expand_dims", "flatten", "flip", "full", "full_like"),
        *("gather_elements", "gather_nd", "index_tensor", "ones", "ones_like", "permute_dims", "repeat", "reshape"),
        *("split", "squeeze", "stack", "strided_slice", "take", "tile", "tril", "triu", "where", "zeros"),
        *("zeros_like"),
        *("abs", "add", "clip", "cos", "cumsum", "matmul", "max", "maximum", "mean", "min", "minimum", "multiply"),
        *("negative", "nn.gelu", "nn.relu", "nn.silu", "nn.softmax", "sigmoid", "sin", "sqrt", "square"),
        *("subtract", "sum", "tanh"),
    }
)
"""Operators that give finite numbers for finite ones, unless these overflow."""


def _doubts(step: Add | Hide, bindings: Bindings, weights: Mapping[Var, None]) -> list[str | None]:
    """Why ``step`` may hide all keys from a query; None in the list if it hides keys, but not all; empty if none.

    A finite number that is added hides nothing for good: where all scores of a query are that low, they are compared
    with each other, by the softmax and by ``nn.attention`` alike.
    """
    all_hidden = "a constant mask hides all keys from a query"
    if isinstance(step, Add):
        if _is_finite(step.mask, bindings, weights):
            return []
        mask = resolve(bindings, step.mask)
        if isinstance(mask, Constant):
            visible = ~np.isneginf(np.asarray(mask.data.numpy(), dtype="float64"))
            return [None if _each_row_sees(visible) else all_hidden]
        return [f"the mask {_name(mask)} may be -inf"]
    fill = number_of(step.fill)
    if fill is not None and -np.inf < fill <= _AS_GOOD_AS_INFINITE and dtype_of(step.fill) not in _HALF:
        return []
    visible = _visible(step, bindings)
    if visible is None:
        return [f"the mask {_name(resolve(bindings, step.condition))} puts {fill} in the place of scores"]
    return [None if _each_row_sees(visible) else all_hidden]


def _each_row_sees(visible: np.ndarray[Any, Any]) -> bool:
    return visible.ndim > 0 and bool(visible.any(axis=-1).all())


def _name(expr: Expr) -> str:
    return expr.name_hint if isinstance(expr, Var) else "that is computed in place"


def _is_finite(value: Expr, bindings: Bindings, weights: Mapping[Var, None]) -> bool:
    """Whether ``value`` holds finite numbers only, if weights do; cost: the bindings that it is computed from."""
    pending: list[Expr] = [value]
    seen: set[Expr] = set()
    while pending:
        leaf = resolve(bindings, pending.pop())
        if leaf in seen:
            continue
        seen.add(leaf)
        if isinstance(leaf, Constant):
            if not np.isfinite(np.asarray(leaf.data.numpy(), dtype="float64")).all():
                return False
            continue
        dtype = dtype_of(leaf)
        if (dtype is not None and not is_float(dtype)) or isinstance(leaf, ShapeExpr | PrimValue):
            continue
        bound = bindings.get(leaf) if isinstance(leaf, Var) else leaf
        if bound is None:
            if leaf not in weights:
                return False
        elif isinstance(bound, TupleGetItem | Tuple) or _keeps_finite(bound):
            pending.extend(leaves_of(bound))
        else:
            return False
    return True


def _keeps_finite(value: Expr) -> bool:
    return isinstance(value, Call) and isinstance(value.op, Op) and value.op.name.removeprefix("relax.") in _FINITE_OPS
