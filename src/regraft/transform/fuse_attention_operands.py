"""The operands of a written-out attention, in the layout of ``nn.attention``: (batch, sequence, heads, size).

Written out, the products are over (batch, heads, sequence, size), or over (batch * heads, sequence, size) where the
first two axes were made one. Every list of axes is looked at, and every reshape is checked by sizes: a reshape or
permutation that means something else stays, and the layout is made from its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .. import ops
from ..dpl import is_op, wildcard
from ..dpl.view import resolve
from ..ir.dims import Dim, dim_product, dims_equal
from ..ir.expr import Expr, Var
from ..ir.op import Call
from ..ir.types import TensorType
from ..ops.manipulate import permutation
from ..rewrite import Bindings
from .fuse_attention_scores import matched, without_factors

_data = wildcard()
_permuted = is_op("relax.permute_dims")(_data)
_reshaped = is_op("relax.reshape")(_data, wildcard())

_SWAP = (0, 2, 1, 3)
"""(batch, heads, sequence, size) to (batch, sequence, heads, size), and back."""


def shape_of(expr: Expr) -> tuple[Dim, ...]:
    """The shape of a tensor; none for what has no known shape."""
    return (expr.ty.shape or ()) if isinstance(expr.ty, TensorType) else ()


def same_sizes(ours: Sequence[Dim], theirs: Sequence[Dim]) -> bool:
    """Whether the sizes are certainly the same."""
    return len(ours) == len(theirs) and all(dims_equal(a, b) is True for a, b in zip(ours, theirs, strict=True))


def unpermuted(expr: Expr, axes: tuple[int, ...], bindings: Bindings) -> Expr | None:
    """What ``expr`` is the permutation of by exactly ``axes``; None if it is not."""
    found = matched(_permuted, expr, bindings)
    return found[_data] if found is not None and permutation(found[_permuted]) == axes else None


def _apart(expr: Expr, bindings: Bindings) -> Expr | None:
    """What ``expr``, of three axes, is with its first axis still two: (batch, heads, rows, columns)."""
    found = matched(_reshaped, expr, bindings)
    if found is None:
        return None
    shape, whole = shape_of(found[_data]), shape_of(expr)
    if len(shape) != 4 or len(whole) != 3 or not same_sizes((dim_product(shape[:2]), *shape[2:]), whole):
        return None
    return found[_data]


class Operand(NamedTuple):
    """Queries, keys or values. ``heads_last``: the axes are (batch, sequence, heads, size) already.

    Else they are (batch, heads, sequence, size), or (batch * heads, sequence, size).
    """

    value: Expr
    heads_last: bool = False

    def split(self, bindings: Bindings) -> tuple[Dim, Dim] | None:
        """The sizes of batch and heads; None if they are one axis."""
        shape = shape_of(self.value)
        if self.heads_last:
            return shape[0], shape[2]
        if len(shape) == 4:
            return shape[0], shape[1]
        whole = _apart(self.value, bindings)
        return None if whole is None else (shape_of(whole)[0], shape_of(whole)[1])

    def placed(self, split: tuple[Dim, Dim] | None, bindings: Bindings) -> Expr:
        """The operand with axes (batch, sequence, heads, size); one head if ``split`` is None."""
        value = self.value
        if self.heads_last:
            return value
        if len(shape_of(value)) == 3:
            if split is None:
                return ops.expand_dims(value, 2)
            whole = _apart(value, bindings)
            fits = whole is not None and same_sizes(shape_of(whole)[:2], split)
            value = whole if fits and whole is not None else ops.reshape(value, [*split, *shape_of(value)[1:]])
        turned = unpermuted(value, _SWAP, bindings)
        return ops.permute_dims(value, _SWAP) if turned is None else turned


def keys_of(transposed: Expr, bindings: Bindings) -> tuple[Operand, float] | str:
    """The keys whose last two axes are exchanged in ``transposed``, and a number they are multiplied by; or why not."""
    transposed, factor = without_factors(transposed, bindings)
    found = _keys(transposed, bindings)
    if found is None:
        axes = matched(_permuted, transposed, bindings)
        order = None if axes is None else permutation(axes[_permuted])
        how = "not transposed by permute_dims" if order is None else f"permuted by {list(order)}"
        return f"the keys are {how}; expected their last two axes exchanged, and no others"
    value, more = without_factors(found.value, bindings)
    return Operand(value, found.heads_last), factor * more


def _keys(transposed: Expr, bindings: Bindings) -> Operand | None:
    rank = len(shape_of(transposed))
    if rank == 4:
        return _keys_apart(transposed, bindings) or _keys_joined_between(transposed, bindings)
    if rank != 3:
        return None
    value = unpermuted(transposed, (0, 2, 1), bindings)
    if value is not None:
        return Operand(value)
    value = unpermuted(transposed, (1, 2, 0), bindings)
    if value is not None:  # (sequence, batch * heads, size), as recurrent layers have it
        return Operand(ops.permute_dims(value, (1, 0, 2)))
    whole = _apart(transposed, bindings)
    return None if whole is None else _keys_apart(whole, bindings)


def _keys_apart(transposed: Expr, bindings: Bindings) -> Operand | None:
    """From (batch, heads, size, keys): as they were before heads came forward, or before the transposition alone."""
    value = unpermuted(transposed, (0, 2, 3, 1), bindings)
    if value is not None:
        return Operand(value, heads_last=True)
    value = unpermuted(transposed, (0, 1, 3, 2), bindings)
    return None if value is None else Operand(value)


def _keys_joined_between(transposed: Expr, bindings: Bindings) -> Operand | None:
    """From (batch, heads, size, keys) that were one axis less while they were transposed, as ONNX exports do it."""
    found = matched(_reshaped, transposed, bindings)
    if found is None:
        return None
    shape, joined = shape_of(transposed), found[_data]
    if not same_sizes((dim_product(shape[:2]), *shape[2:]), shape_of(joined)):
        return None
    value = unpermuted(joined, (0, 2, 1), bindings)
    if value is None:
        return None
    whole = _apart(value, bindings)
    if whole is not None and same_sizes(shape_of(whole)[:2], shape[:2]):
        return Operand(whole)
    return Operand(ops.reshape(value, [shape[0], shape[1], shape[3], shape[2]]))


def placed_bias(bias: Expr, product: Expr, split: tuple[Dim, Dim] | None) -> Expr:
    """``bias``, which broadcasts to the scores ``product``, with the four axes that ``nn.attention`` wants."""
    scores, shape = shape_of(product), shape_of(bias)
    if len(scores) == 3 and len(shape) == 3 and dims_equal(shape[0], 1) is not True:
        lead = (shape[0], 1) if split is None else split
        bias = ops.reshape(bias, [*lead, *shape[1:]])
    elif len(shape) < 4:
        bias = ops.expand_dims(bias, list(range(4 - len(shape))))
    shape = shape_of(bias)
    if dims_equal(shape[3], scores[-1]) is not True:
        bias = ops.broadcast_to(bias, [*shape[:3], scores[-1]])
    return bias


def results(attended: Call, product: Var, split: tuple[Dim, Dim] | None, bindings: Bindings) -> dict[Var, Expr]:
    """The replacements for ``product``, the values times the weights, by ``attended``.

    Where ``product`` is only brought to (batch, sequence, heads, size), that is replaced, and nothing moves.
    """
    shape = shape_of(product)
    if len(shape) == 3 and split is None:
        return {product: ops.reshape(attended, shape)}
    turned = ops.permute_dims(attended, _SWAP)
    ends, is_seen_otherwise = _brought_back(product, shape_of(turned), bindings)
    edits: dict[Var, Expr] = {}
    for end in ends:
        edits[end] = ends[0] if edits else attended
    if is_seen_otherwise or not ends:
        whole = ops.permute_dims(ends[0], _SWAP) if ends else turned
        edits[product] = whole if len(shape) == 4 else ops.reshape(whole, shape)
    return edits


def _brought_back(product: Var, apart: Sequence[Dim], bindings: Bindings) -> tuple[list[Var], bool]:
    """The permutations of ``product`` to (batch, sequence, heads, size), and whether it is seen in another way, too.

    Before them it may be reshaped to the sizes ``apart`` of (batch, heads, sequence, size).
    """
    ends: list[Var] = []
    is_seen_otherwise = False
    pending = [product]
    while pending:
        value = pending.pop()
        is_seen_otherwise = is_seen_otherwise or bindings.is_output(value)
        for user in bindings.users_of(value):
            if len(shape_of(value)) == 4 and unpermuted(user, _SWAP, bindings) is not None:
                ends.append(user)
            elif value is product and _is_split(user, product, apart, bindings):
                pending.append(user)
            else:
                is_seen_otherwise = True
    return ends, is_seen_otherwise


def _is_split(user: Var, product: Var, apart: Sequence[Dim], bindings: Bindings) -> bool:
    found = matched(_reshaped, user, bindings)
    if found is None or resolve(bindings, found[_data]) is not product:
        return False
    return len(shape_of(product)) == 3 and same_sizes(shape_of(user), apart)
