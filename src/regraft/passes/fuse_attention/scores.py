"""The scores of a written-out attention, read from the softmax inwards to the product of queries and keys.

Around the product may stand, in any order: times or divided by a constant number, a mask added or subtracted, a boolean
mask that puts a constant in the place of scores, a floor, a cast of half precision to float32, and a reshape that joins
or splits leading axes. What these steps are together, says `masks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from ... import op as ops
from ...analysis.axes import Group, Groups, View, axis_of, regrouped, size_of
from ...analysis.contraction import Contraction, contraction_of
from ...analysis.tensors import dtype_of, same_sizes, shape_of, without_factor
from ...analysis.uniform import uniform_of
from ...analysis.values import resolve
from ...ir.expr import Expr, Var
from ...ir.op import Call, Op
from ...pattern import is_op, wildcard
from ...pattern.matcher.match import compiled
from ...rewrite import Bindings

HALF: Final = ("float16", "bfloat16")
AS_GOOD_AS_INFINITE: Final = -1e30
"""A number so low that adding a score to it in float32 gives the number again."""


class NoAttention(Exception):
    """Why something that looks like attention is none, or is left as it is."""


class Scale(NamedTuple):
    """The scores so far, times ``factor``."""

    factor: float


class Floor(NamedTuple):
    """The scores so far, but no less than ``number``."""

    number: float


class Mask(NamedTuple):
    """The scores so far, whose axes are ``groups``, plus ``term``.

    With a ``fill``, ``term`` is a condition, and scores become that number, of ``dtype``, where it is not ``kept``.
    """

    term: Expr
    groups: Groups
    fill: float | None = None
    dtype: str | None = None
    kept: bool = True


Step: TypeAlias = Scale | Floor | Mask


class Scores(NamedTuple):
    """Queries times keys, bound to ``product``; ``size`` is the axis that they share; then the steps, first first."""

    product: Var
    query: View
    keys: View
    size: Group
    steps: Sequence[Step]


class _Place(NamedTuple):
    """A value that may be the scores one step further in: its axes should be ``groups``."""

    value: Expr
    groups: Groups
    steps: Sequence[Step] = ()

    def inner(self, value: Expr, step: Step) -> _Place:
        return _Place(value, self.groups, (step, *self.steps))


_inner, _other, _condition = wildcard(), wildcard(), wildcard()
_plus = is_op("relax.add")(_inner, _other)
_minus = is_op("relax.subtract")(_inner, _other)
_where = is_op("relax.where")(_condition, _inner, _other)
_where_not = is_op("relax.where")(_condition, _other, _inner)
_no_less = is_op("relax.maximum")(_inner, _other)
_clipped = is_op("relax.clip")(_inner, _other, wildcard())
_cast = is_op("relax.astype")(_inner)
_reshaped = is_op("relax.reshape")(_inner, wildcard())
_STEP: Final = _plus | _minus | _where | _where_not | _no_less | _clipped | _cast | _reshaped
"""One step over the scores so far, ``_inner``. Several of these, and either operand, may fit one value."""


def read_scores(scores: Expr, groups: Groups, bindings: Bindings) -> Scores:
    """``scores``, whose axes are ``groups``, taken apart; raises `NoAttention` where they cannot be.

    Nothing but the next step may use a step. A sum of two products is read with the first one as the scores.
    Cost: the values that are used by nothing but ``scores``.
    """
    pending = [_Place(scores, groups)]
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


def _read(place: _Place, bindings: Bindings) -> Scores | list[_Place]:
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


def _further(found: Mapping[Any, Any], outer: Var, place: _Place, bindings: Bindings) -> _Place | None:
    """The scores one step inwards of ``outer``, in one way in which `_STEP` matches; None if it is none."""
    inner: Expr = found[_inner]
    if dtype_of(inner) != dtype_of(outer) and not (dtype_of(inner) in HALF and dtype_of(outer) == "float32"):
        return None
    if _cast in found:
        return place._replace(value=inner)
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


def _queries_and_keys(var: Var, product: Contraction, place: _Place) -> Scores:
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
