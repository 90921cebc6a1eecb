"""The scores of a written-out attention, read from the softmax inwards to the product of queries and keys.

Around the product may stand, in any order: times or divided by a constant number, a mask added or subtracted, a boolean
mask that puts a constant in the place of scores, a floor, a cast of half precision to float32, and a reshape that makes
two of the leading axes one or the other way round. What these steps are together, says `fuse_attention_masks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from .. import op as ops
from ..analysis.values import resolve
from ..ir.expr import Constant, Expr, PrimValue, Var, const
from ..ir.op import Call, Op
from ..pattern import is_const, is_op, wildcard
from ..rewrite import Bindings
from .fuse_attention_axes import Axes, Group, size_of
from .fuse_attention_products import ANY_PRODUCT, Product, read_product
from .read_values import dtype_of, matched, number_of, same_sizes, shape_of, without_factor

HALF: Final = ("float16", "bfloat16")

# --- numbers

_number = is_const()
_filled = is_op("relax.broadcast_to")(_number, wildcard()) | is_op("relax.full")(wildcard(), _number)


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
    """The scores so far, whose axes are ``groups``, plus ``mask``."""

    mask: Expr
    groups: tuple[Group, ...]


class Hide(NamedTuple):
    """``fill`` where ``condition`` is not ``kept``; elsewhere the scores so far, whose axes are ``groups``."""

    condition: Expr
    fill: Constant
    kept: bool
    groups: tuple[Group, ...]


class Floor(NamedTuple):
    """The scores so far, but no less than ``number``."""

    number: float


ScoreStep: TypeAlias = Scale | Add | Hide | Floor


class Scores(NamedTuple):
    """The product of queries and keys, and the steps from it to the softmax, first first."""

    product: Product
    steps: tuple[ScoreStep, ...]


class _Pending(NamedTuple):
    """A value that may be the scores one step further in: its axes should be ``groups``."""

    value: Expr
    steps: tuple[ScoreStep, ...]
    groups: tuple[Group, ...]


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


def read_scores(scores: Expr, groups: tuple[Group, ...], axes: Axes, bindings: Bindings) -> Scores | str:
    """``scores``, whose axes are ``groups``, taken apart, or why they cannot be.

    Nothing but the next step may use a step. A sum of two products is read with the first one as the scores.
    Cost: the values that are used by nothing but ``scores``.
    """
    pending = [_Pending(scores, (), groups)]
    reasons: list[tuple[int, str]] = []
    while pending:
        at = pending.pop()
        found = _read(at, axes, bindings, scores)
        if isinstance(found, Scores):
            return found
        if isinstance(found, str):
            reasons.append((len(at.steps), found))
        else:
            pending.extend(reversed(found))
    return max(reasons, key=itemgetter(0))[1]


def _read(at: _Pending, axes: Axes, bindings: Bindings, scores: Expr) -> Scores | list[_Pending] | str:
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
    if matched(ANY_PRODUCT, leaf, bindings) is not None:
        sizes = [size_of(group) for group in at.groups]
        if not same_sizes(shape_of(leaf), sizes) or not _is_precise_enough(leaf, scores):
            return f"{name} is broadcast by a mask, or its shape is not known"
        product = read_product(leaf, at.groups, bindings)
        return product if isinstance(product, str) else Scores(product, at.steps)
    found = matched(_step, leaf, bindings)
    inner = [] if found is None else _inner_steps(found, at, axes, bindings)
    if inner:
        return inner
    call = bindings[leaf]
    how = f", made by {call.op.name.removeprefix('relax.')}," if isinstance(call, Call) and type(call.op) is Op else ""
    return f"{name}{how} is neither a product of queries and keys nor a scaled or masked one"


def _inner_steps(found: Mapping[Any, Any], at: _Pending, axes: Axes, bindings: Bindings) -> list[_Pending]:
    """The operands that may be the scores one step further in, and that step."""
    first: Expr = found[_first]
    groups = at.groups

    def inner(value: Expr, step: ScoreStep) -> _Pending:
        return _Pending(value, (step, *at.steps), groups)

    if _cast in found:
        return [at._replace(value=first)] if _is_precise_enough(first, found[_cast]) else []
    if _reshaped in found:
        before = shape_of(first)
        is_lead = len(before) >= 3 and same_sizes(before[-2:], [size_of(group) for group in groups[-2:]])
        regrouped = axes.regrouped(groups, before) if is_lead else None
        return [] if regrouped is None else [at._replace(value=first, groups=regrouped)]
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
            return [inner(second, Hide(first, fill, True, groups))]
        fill = _fill_of(second, bindings)
        return [] if fill is None else [inner(found[_third], Hide(first, fill, False, groups))]
    if resolve(bindings, first) is resolve(bindings, second):
        return []
    if _difference in found:
        return [inner(first, Add(ops.negative(second), groups))]
    return [inner(first, Add(second, groups)), inner(second, Add(first, groups))]


def _prim_number(expr: Expr) -> float | None:
    if not isinstance(expr, PrimValue) or not isinstance(expr.value, int | float):
        return None
    return float(expr.value)


def _is_precise_enough(narrow: Expr, wide: Expr) -> bool:
    """True if the dtype of ``narrow`` is that of ``wide``, or half precision where that is float32."""
    before, after = dtype_of(narrow), dtype_of(wide)
    return before is not None and (before == after or (before in HALF and after == "float32"))
