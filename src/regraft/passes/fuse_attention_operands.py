"""The operands of a written-out attention, in the layout of ``nn.attention``: (batch, sequence, heads, size).

Written out, scores have axes (batch, heads, queries, keys); or (batch * heads, queries, keys), where the first two were
made one; or five, where heads that share a key are a group of their own, or the batch is two axes. Every list of axes
is looked at, and every reshape is checked by sizes: one that means something else stays, and the layout is made from
its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .. import op as ops
from ..analysis.values import resolve
from ..ir.dims import Dim, dim_product, dims_equal
from ..ir.expr import Expr, Var
from ..ir.op import Call
from ..op.primitive.manipulate import permutation
from ..pattern import is_op, wildcard
from ..rewrite import Bindings
from .fuse_attention_products import Operand, matched, same_sizes, shape_of
from .fuse_attention_scores import without_factors

_data = wildcard()
_permuted = is_op("relax.permute_dims")(_data)
_reshaped = is_op("relax.reshape")(_data, wildcard())
_widened = wildcard()
_spread = is_op("relax.broadcast_to")(_widened, wildcard())
_expanded = is_op("relax.expand_dims")(_data)
_spread_out = is_op("relax.reshape")(_spread, wildcard())
_repeated = is_op("relax.repeat")(_data)


class Heads(NamedTuple):
    """How many batches and heads the leading axes of scores are; a batch only, if ``heads`` is None.

    Of three leading axes, the first ``batch_axes`` are the batch, and the rest are heads.
    """

    batch: Dim
    heads: Dim | None
    batch_axes: int = 1

    def of(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """Batch and heads of scores with two leading axes or three."""
        lead = shape[:-2]
        count = self.batch_axes if len(lead) == 3 else 1
        return (dim_product(lead[:count]), dim_product(lead[count:]))


# --- where operands come from


def peeled(operand: Operand, bindings: Mapping[Var, Expr]) -> Operand:
    """``operand`` before the permutations that it comes from; new axes of size 1 come after them then."""
    value, axes = operand
    while True:
        widened = _widening(value, bindings)
        found = matched(_permuted, value if widened is None else widened[0], bindings)
        order = None if found is None else permutation(found[_permuted])
        if found is None or order is None:
            return Operand(value, axes)
        value = found[_data]
        if widened is not None:
            order = [axis + 1 for axis in order]
            order.insert(widened[1], 0)
            value = ops.expand_dims(value, 0)
        axes = tuple(order[axis] for axis in axes)


def _widening(value: Expr, bindings: Mapping[Var, Expr]) -> tuple[Expr, int] | None:
    """What ``value`` is with one more axis of size 1, and where that is; None if it is not made so."""
    found = matched(_expanded, value, bindings)
    axes: tuple[int, ...] = () if found is None else found[_expanded].attrs.axis
    if found is None or len(axes) != 1:
        return None
    return found[_data], axes[0] % len(shape_of(value))


def unscaled(operand: Operand, bindings: Bindings) -> tuple[Operand, float]:
    """``operand`` before the permutations and the constant factors that it comes from, and the product of these."""
    factor = 1.0
    while True:
        value, more = without_factors(operand.value, bindings)
        inner = peeled(Operand(value, operand.axes), bindings)
        factor *= more
        if inner.value is operand.value:
            return inner, factor
        operand = inner


def _apart(operand: Operand, bindings: Bindings) -> Operand | None:
    """``operand``, of three axes, before its leading axis was made of two."""
    found = matched(_reshaped, operand.value, bindings)
    if found is None:
        return None
    shape, whole, at = shape_of(found[_data]), shape_of(operand.value), operand.axes[0]
    if len(shape) != 4 or not same_sizes((*shape[:at], dim_product(shape[at : at + 2]), *shape[at + 2 :]), whole):
        return None
    later = [axis + (axis > at) for axis in operand.axes[1:]]
    return peeled(Operand(found[_data], (at, at + 1, *later)), bindings)


def _joined(operand: Operand, bindings: Bindings) -> Operand | None:
    """``operand``, of four axes, before its leading axes were made of one, as in ONNX exports."""
    found = matched(_reshaped, operand.value, bindings)
    at, second, *later = operand.axes
    if found is None or second != at + 1:
        return None
    shape, whole = shape_of(operand.value), shape_of(found[_data])
    if not same_sizes((*shape[:at], dim_product(shape[at : at + 2]), *shape[at + 2 :]), whole):
        return None
    return Operand(found[_data], (at, *(axis - (axis > at) for axis in later)))


def keys_of(keys: Operand, bindings: Bindings) -> tuple[Operand, float] | str:
    """Where ``keys`` come from, and a number they are multiplied by; or why they are no rows of keys."""
    found, factor = unscaled(keys, bindings)
    if _are_rows(found):
        return found, factor
    shape = shape_of(found.value)
    inner = _apart(found, bindings) if len(shape) == 3 else _joined(found, bindings) if len(shape) == 4 else None
    if inner is not None:
        inner, more = unscaled(inner, bindings)
        if _are_rows(inner):
            if len(shape) == 4:
                inner = _split(inner, tuple(shape[axis] for axis in found.axes[:2]), bindings)
            return inner, factor * more
    turned = matched(_permuted, keys.value, bindings)
    order = None if turned is None else permutation(turned[_permuted])
    how = "not transposed by permute_dims" if order is None else f"permuted by {list(order)}"
    return f"the keys are {how}; expected their last two axes exchanged, so that each key is a row"


def _are_rows(operand: Operand) -> bool:
    return operand.axes[-1] == len(operand.axes) - 1


def _split(operand: Operand, lead: Sequence[Dim], bindings: Bindings) -> Operand:
    """``operand``, of three axes, with its leading axis split into ``lead``."""
    whole = _apart(operand, bindings)
    if whole is not None and same_sizes([shape_of(whole.value)[axis] for axis in whole.axes[:2]], lead):
        return whole
    at, shape = operand.axes[0], shape_of(operand.value)
    later = [axis + (axis > at) for axis in operand.axes[1:]]
    return Operand(ops.reshape(operand.value, [*shape[:at], *lead, *shape[at + 1 :]]), (at, at + 1, *later))


def _repetition(value: Expr, bindings: Bindings) -> Mapping[Any, Any] | None:
    """The match of `_spread_out` at ``value``, or at what it is a reshape of: only the last of reshapes counts."""
    while True:
        found = matched(_spread_out, value, bindings)
        outer = matched(_reshaped, value, bindings) if found is None else None
        if outer is None:
            return found
        value = outer[_data]


def unrepeated(operand: Operand, bindings: Bindings) -> tuple[Operand, Dim] | None:
    """``operand``, of four axes, before each of its heads was repeated, and how many times; None if they were not."""
    if len(operand.axes) != 4:
        return None
    at, shape = operand.axes[1], shape_of(operand.value)
    found = matched(_repeated, operand.value, bindings)
    if found is not None:
        attrs = found[_repeated].attrs
        if attrs.axis is None or attrs.axis % 4 != at:
            return None
        return peeled(Operand(found[_data], operand.axes), bindings), attrs.repeats
    found = _repetition(operand.value, bindings)
    if found is None:
        return None
    before, spread = shape_of(found[_widened]), shape_of(found[_spread])
    # (..., heads, 1, ...) to (..., heads, times, ...) to (..., heads * times, ...)
    if len(before) != 5 or len(spread) != 5 or dims_equal(before[at + 1], 1) is not True:
        return None
    rest = [axis for axis in range(5) if axis != at + 1]
    if not same_sizes([before[axis] for axis in rest], [spread[axis] for axis in rest]):
        return None
    if not same_sizes((*spread[:at], dim_product(spread[at : at + 2]), *spread[at + 2 :]), shape):
        return None
    widened = matched(_expanded, found[_widened], bindings) or matched(_reshaped, found[_widened], bindings)
    whole = None if widened is None else widened[_data]
    if whole is None or not same_sizes(shape_of(whole), [before[axis] for axis in rest]):
        whole = ops.squeeze(found[_widened], [at + 1])
    return peeled(Operand(whole, operand.axes), bindings), spread[at + 1]


# --- batch and heads


def heads_of(
    scores: Iterable[Sequence[Dim]], operands: Sequence[Operand], keys: Operand, bindings: Bindings
) -> Heads | str:
    """What is batch and what heads, from the shapes that the scores have on their way and from the operands."""
    shapes = list(scores)
    batch_axes = 1
    five = next((shape for shape in shapes if len(shape) == 5), None)
    if five is not None and len(keys.axes) == 5:
        own = shape_of(keys.value)[keys.axes[2]]
        batch_axes = 2 if dims_equal(own, five[2]) is True else 1
    form = Heads(shapes[0][0], None, batch_axes)
    found = [form.of(shape) for shape in shapes if len(shape) >= 4]
    for operand in operands:
        whole = _apart(operand, bindings) if len(operand.axes) == 3 else operand
        if whole is not None and len(shapes[0]) == 3:
            found.append(tuple(shape_of(whole.value)[axis] for axis in whole.axes[:2]))
    if any(not same_sizes(found[0], other) for other in found):
        return "queries and keys are split into batch and heads differently"
    return form._replace(batch=found[0][0], heads=found[0][1]) if found else form


def placed(operand: Operand, form: Heads, bindings: Bindings) -> Expr:
    """The operand with axes (batch, sequence, heads, size); one head, if ``form`` has none."""
    if len(operand.axes) == 3 and form.heads is not None:
        operand = _split(operand, (form.batch, form.heads), bindings)
    widened = _widening(operand.value, bindings) if len(operand.axes) == 5 and form.batch_axes == 1 else None
    if widened is not None and widened[1] == operand.axes[2]:
        rest = (*operand.axes[:2], *operand.axes[3:])
        operand = peeled(Operand(widened[0], tuple(axis - (axis > widened[1]) for axis in rest)), bindings)
    value, axes = operand
    count = form.batch_axes if len(axes) == 5 else 1
    order = (*axes[:count], axes[-2], *axes[count:-2], axes[-1])
    if order != tuple(range(len(order))):
        value = ops.permute_dims(value, order)
    if len(axes) == 3:
        return ops.expand_dims(value, 2)
    if len(axes) == 4:
        return value
    shape = shape_of(value)
    return ops.reshape(value, [dim_product(shape[:count]), shape[count], dim_product(shape[count + 1 : -1]), shape[-1]])


def shares_heads(keys: Operand, scores: Sequence[Dim], form: Heads) -> bool:
    """Whether the leading axes of ``keys`` are those of the scores, but for heads that consecutive queries share."""
    own = [shape_of(keys.value)[axis] for axis in keys.axes[:-2]]
    lead = scores[:-2] if form.heads is None or len(own) != 2 else (form.batch, form.heads)
    if len(own) != len(lead):
        return False
    count = form.batch_axes if len(own) == 3 else 1
    same = [dims_equal(a, b) is True for a, b in zip(own, lead, strict=True)]
    first_shared = next((at for at in range(count, len(own)) if not same[at]), len(own))
    return all(same[:count]) and all(dims_equal(size, 1) is True for size in own[first_shared:])


# --- masks


def placed_mask(mask: Expr, scores: Sequence[Dim], form: Heads) -> Expr:
    """``mask``, which broadcasts to ``scores``, with the four axes that a bias of ``nn.attention`` has."""
    shape = shape_of(mask)
    if len(shape) <= 2 or len(scores) == 4:
        return mask if len(shape) == 4 else ops.expand_dims(mask, list(range(4 - len(shape))))
    if len(shape) < len(scores):
        mask = ops.expand_dims(mask, list(range(len(scores) - len(shape))))
        shape = shape_of(mask)
    if len(scores) == 3:
        is_shared = dims_equal(shape[0], 1) is True
        lead = (shape[0], 1) if form.heads is None or is_shared else (form.batch, form.heads)
        return ops.reshape(mask, [*lead, *shape[1:]])
    parts: list[Dim] = []
    for first, last in ((0, form.batch_axes), (form.batch_axes, len(scores) - 2)):
        own, full = shape[first:last], scores[first:last]
        if any(dims_equal(size, 1) is not True for size in own) and not same_sizes(own, full):
            mask = ops.broadcast_to(mask, [*shape[:first], *full, *shape[last:]])
            shape, own = shape_of(mask), full
        parts.append(dim_product(own))
    return ops.reshape(mask, [*parts, *shape[-2:]])


def along_keys(bias: Expr, keys: Dim) -> Expr:
    """``bias``, of four axes, with all ``keys``."""
    shape = shape_of(bias)
    return bias if dims_equal(shape[3], keys) is True else ops.broadcast_to(bias, [*shape[:3], keys])


# --- results


def results(
    attended: Call, product: Var, axes: Sequence[int], form: Heads, lead: Sequence[Dim], bindings: Bindings
) -> dict[Var, Expr]:
    """The replacements for ``product``, the weights times the values, by ``attended``.

    ``product`` is (\\*lead, queries, size) permuted by ``axes``, where ``lead`` may be batch times heads. Where it is
    only brought to the layout of ``attended``, that is replaced, and nothing moves.
    """
    batch, rows, heads, size = shape_of(attended)
    count = form.batch_axes if len(lead) == 3 else 1
    is_joined = len(lead) == 1 and form.heads is not None
    apart: Sequence[Dim] = (batch, heads) if is_joined else lead
    # All axes of the result, still in the order of `attended`: (*batch, queries, *heads, size).
    whole = attended if len(apart) == 2 else ops.reshape(attended, [*apart[:count], rows, *apart[count:], size])
    forward = (*range(count), *range(count + 1, len(apart) + 1), count, len(apart) + 1)
    order = forward if is_joined else tuple(forward[axis] for axis in axes)
    sizes = (*apart, rows, size)
    back = _Way(product, order, sizes if is_joined else None, axes)
    ends, is_seen_otherwise = back.ends(bindings)
    edits: dict[Var, Expr] = {}
    for end in ends:
        edits[end] = ends[0] if edits else whole
    if is_seen_otherwise or not ends:
        full = ops.permute_dims(ends[0] if ends else whole, order)
        if is_joined:
            full = ops.reshape(full, (*lead, rows, size))
            full = full if tuple(axes) == (0, 1, 2) else ops.permute_dims(full, axes)
        edits[product] = full
    return edits


class _Way(NamedTuple):
    """How ``product`` may be brought back to what permuted by ``order`` gives it.

    ``split``: the shape that it has to get before, or None; it is permuted by ``axes`` then.
    """

    product: Var
    order: tuple[int, ...]
    split: tuple[Dim, ...] | None
    axes: Sequence[int]

    def ends(self, bindings: Bindings) -> tuple[list[Var], bool]:
        """The values that are back, and whether the product is seen in another way, too."""
        along = tuple(range(len(self.order)))
        if self.split is None and self.order == along:
            return [self.product], False
        ends: list[Var] = []
        is_seen_otherwise = False
        pending = [(self.product, self.split is None)]
        while pending:
            value, is_apart = pending.pop()
            is_seen_otherwise = is_seen_otherwise or bindings.is_output(value)
            for user in bindings.users_of(value):
                turned = matched(_permuted, user, bindings) if is_apart else None
                axes = None if turned is None else permutation(turned[_permuted])
                if axes is not None and tuple(self.order[axis] for axis in axes) == along:
                    ends.append(user)
                elif not is_apart and self._splits(user, bindings):
                    pending.append((user, True))
                else:
                    is_seen_otherwise = True
        return ends, is_seen_otherwise

    def _splits(self, user: Var, bindings: Bindings) -> bool:
        found = matched(_reshaped, user, bindings)
        if found is None or self.split is None or tuple(self.axes) != (0, 1, 2):
            return False
        return resolve(bindings, found[_data]) is self.product and same_sizes(shape_of(user), self.split)
