"""The scores of a written-out attention, read from the softmax inwards to the product of queries and keys.

Around the product may stand, in any order: times or divided by a constant number, a mask added or subtracted, a boolean
mask that puts a constant in the place of scores, a floor, a cast of half precision to float32, and a reshape that makes
two of the leading axes one or the other way round. What these steps are together, says `fuse_attention_masks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from .. import op as ops
from ..analysis.values import resolve
from ..ir.dims import Dim, dim_product
from ..ir.expr import Constant, Expr, PrimValue, Var, const
from ..ir.op import Call, Op
from ..pattern import is_const, is_op, wildcard
from ..rewrite import Bindings
from .fuse_attention_products import Product, dtype_of, matched, read_product, same_sizes, shape_of

HALF: Final = ("float16", "bfloat16")

# --- numbers

_inner, _number = wildcard(), is_const()
_times = is_op("relax.multiply")(_inner, _number)
_over = is_op("relax.divide")(_inner, _number)
_scaled = _times | _over
_filled = is_op("relax.broadcast_to")(_number, wildcard()) | is_op("relax.full")(wildcard(), _number)


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


def _fill_of(expr: Expr, bindings: Bindings) -> Constant | None:
    """The one number that all elements of ``expr`` are, as a constant; None if they are not known to be one."""
    leaf = resolve(bindings, expr)
    found = matched(_filled, leaf, bindings)
    if found is not None:
        leaf = found[_number]
    if not isinstance(leaf, Constant) or leaf.data.size == 0:
        return None
    if leaf.data.size == 1:
        return const(number_of(leaf), dtype_of(expr))
    values = np.asarray(leaf.data.numpy())
    return const(values.flat[0], dtype_of(expr)) if bool((values == values.flat[0]).all()) else None


# --- taking scores apart


class Scale(NamedTuple):
    """The scores so far, times ``factor``."""

    factor: float


class Add(NamedTuple):
    """The scores so far, of the shape ``scores``, plus ``mask``."""

    mask: Expr
    scores: tuple[Dim, ...]


class Hide(NamedTuple):
    """``fill`` where ``condition`` is not ``kept``, the scores so far, of the shape ``scores``, elsewhere."""

    condition: Expr
    fill: Constant
    kept: bool
    scores: tuple[Dim, ...]


class Floor(NamedTuple):
    """The scores so far, but no less than ``number``."""

    number: float


ScoreStep: TypeAlias = Scale | Add | Hide | Floor


class Scores(NamedTuple):
    """The product of queries and keys, and the steps from it to the softmax, first first.

    ``shapes``: those that the scores have on their way, the product's first.
    """

    product: Product
    steps: tuple[ScoreStep, ...]
    shapes: tuple[tuple[Dim, ...], ...]


class _Pending(NamedTuple):
    """A value that may be the scores one step further in: it should have the shape ``shapes[0]``."""

    value: Expr
    steps: tuple[ScoreStep, ...]
    shapes: tuple[tuple[Dim, ...], ...]


_first, _second, _third = wildcard(), wildcard(), wildcard()
_sum = is_op("relax.add")(_first, _second)
_difference = is_op("relax.subtract")(_first, _second)
_chosen = is_op("relax.where")(_first, _second, _third)
_greater = is_op("relax.maximum")(_first, _second)
_limited = is_op("relax.clip")(_first, _second, _third)
_cast = is_op("relax.astype")(_first)
_reshaped = is_op("relax.reshape")(_first, wildcard())
_step = _sum | _difference | _chosen | _greater | _limited | _cast | _reshaped

AS_GOOD_AS_INFINITE: Final = -1e30
"""A number so low that adding a score to it in float32 gives the number again."""


def read_scores(scores: Expr, bindings: Bindings) -> Scores | str:
    """``scores`` taken apart, or why they cannot be.

    Nothing but the next step may use a step. A sum of two products is read with the first one as the scores.
    Cost: the values that are used by nothing but ``scores``.
    """
    pending = [_Pending(scores, (), (shape_of(scores),))]
    reasons: list[tuple[int, str]] = []
    while pending:
        at = pending.pop()
        found = _read(at, bindings, scores)
        if isinstance(found, Scores):
            return found
        if isinstance(found, str):
            reasons.append((len(at.steps), found))
        else:
            pending.extend(reversed(found))
    return max(reasons, key=itemgetter(0))[1]


def _read(at: _Pending, bindings: Bindings, scores: Expr) -> Scores | list[_Pending] | str:
    """The scores, if ``at`` is their product; else what may be one step further in, or why nothing can be."""
    leaf = resolve(bindings, at.value)
    if not isinstance(leaf, Var) or leaf not in bindings:
        return "the scores are no product of queries and keys in the same block"
    name = leaf.name_hint
    if bindings.is_output(leaf) or len(bindings.users_of(leaf)) != 1:
        return f"{name} is needed elsewhere, too"
    factored = without_factor(leaf, bindings)
    if factored is not None:
        return [at._replace(value=factored[0], steps=(Scale(factored[1]), *at.steps))]
    product = read_product(leaf, bindings)
    if isinstance(product, str):
        return product
    if product is not None:
        if not same_sizes(shape_of(leaf), at.shapes[0]) or not _is_precise_enough(leaf, scores):
            return f"{name} is broadcast by a mask, or its shape is not known"
        return Scores(product, at.steps, at.shapes)
    found = matched(_step, leaf, bindings)
    inner = [] if found is None else _inner_steps(found, at, bindings)
    if inner:
        return inner
    call = bindings[leaf]
    how = f", made by {call.op.name.removeprefix('relax.')}," if isinstance(call, Call) and type(call.op) is Op else ""
    return f"{name}{how} is neither a product of queries and keys nor a scaled or masked one"


def _inner_steps(found: Mapping[Any, Any], at: _Pending, bindings: Bindings) -> list[_Pending]:
    """The operands that may be the scores one step further in, and that step."""
    first: Expr = found[_first]
    shape = at.shapes[0]

    def inner(value: Expr, step: ScoreStep) -> _Pending:
        return _Pending(value, (step, *at.steps), at.shapes)

    if _cast in found:
        return [at._replace(value=first)] if _is_precise_enough(first, found[_cast]) else []
    if _reshaped in found:
        before = shape_of(first)
        return [at._replace(value=first, shapes=(before, *at.shapes))] if _is_regrouped(before, shape) else []
    second: Expr = found[_second]
    if _limited in found:
        low, high = _prim_number(second), _prim_number(found[_third])
        is_floor = low is not None and high is not None and low <= AS_GOOD_AS_INFINITE and high >= -AS_GOOD_AS_INFINITE
        return [inner(first, Floor(low))] if is_floor and low is not None else []
    if _greater in found:
        for value, other in ((first, second), (second, first)):
            number = _fill_of(other, bindings)
            low = None if number is None else number_of(number)
            if low is not None and low <= AS_GOOD_AS_INFINITE:
                return [inner(value, Floor(low))]
        return []
    if _chosen in found:
        fill = _fill_of(found[_third], bindings)
        if fill is not None:
            return [inner(second, Hide(first, fill, True, shape))]
        fill = _fill_of(second, bindings)
        return [] if fill is None else [inner(found[_third], Hide(first, fill, False, shape))]
    if resolve(bindings, first) is resolve(bindings, second):
        return []
    if _difference in found:
        return [inner(first, Add(ops.negative(second), shape))]
    return [inner(first, Add(second, shape)), inner(second, Add(first, shape))]


def _prim_number(expr: Expr) -> float | None:
    if not isinstance(expr, PrimValue) or not isinstance(expr.value, int | float):
        return None
    return float(expr.value)


def _is_regrouped(before: Sequence[Dim], after: Sequence[Dim]) -> bool:
    """Whether a reshape between these only makes leading axes one, or one several."""
    return (
        min(len(before), len(after)) >= 3
        and same_sizes(before[-2:], after[-2:])
        and same_sizes([dim_product(before[:-2])], [dim_product(after[:-2])])
    )


def _is_precise_enough(narrow: Expr, wide: Expr) -> bool:
    """Whether the dtype of ``narrow`` is that of ``wide``, or half precision where that is float32."""
    before, after = dtype_of(narrow), dtype_of(wide)
    return before is not None and (before == after or (before in HALF and after == "float32"))
