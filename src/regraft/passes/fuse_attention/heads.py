"""The layout of ``nn.attention``, (batch, sequence, heads, size), whose consecutive heads may share their keys.

Attention that is one operator already, over keys and values that were repeated for several heads each, is given those
from before: the values are the same to the bit, and the keys of a long text are read as they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ... import op as ops
from ...analysis.axes import (
    Arrangement,
    AxisGroup,
    Groups,
    View,
    arrangement,
    atoms,
    axis_of,
    nearest,
    size_of,
    sources,
    together,
)
from ...analysis.tensors import dtype_of, same_sizes, shape_of
from ...analysis.values import resolve
from ...ir.expr import Constant, Expr, const
from ...ir.op import Call
from ...pattern import is_op, wildcard
from ...rewrite import Bindings, Decline, Rule, decline

Views: TypeAlias = Sequence[View | None]
"""The `sources` of an operand, None for those that are not to be taken."""
PlacedOperand: TypeAlias = tuple[Arrangement, float]
"""An operand in the layout, and the number that it is to be multiplied by."""


class HeadLayout(NamedTuple):
    """What batch, queries, heads and keys are made of."""

    batch: AxisGroup
    rows: AxisGroup
    heads: AxisGroup
    columns: AxisGroup

    @classmethod
    def of(cls, softmax: Groups, along: int, rows: AxisGroup, keys: View) -> HeadLayout:
        """That of scores whose axes at the softmax, which is ``along`` one, are ``softmax``.

        ``rows`` are what only the queries have. Where the softmax has an axis for a part of these, it is one of heads
        that share a key, and the last such axis is that of the queries. Of the others, what ``keys`` have tells the
        batch from the heads.
        """
        own = {*atoms(rows)}
        places = [at for at, group in enumerate(softmax) if bool(group) is bool(own) and own.issuperset(atoms(group))]
        place = max((at for at in places if at != along), default=along)
        rows = atoms(softmax[place] if place != along else rows)
        lead = [
            [axis for axis in atoms(group) if axis not in rows]
            for at, group in enumerate(softmax)
            if at not in (along, place)
        ]
        if len(lead) == 1:
            batch, heads = lead[0][:1], lead[0][1:]
        else:
            count = 2 if len(lead) == 3 and {*lead[2]} <= {*together(keys.groups)} else 1
            batch, heads = together(lead[:count]), together(lead[count:])
        return cls(tuple(batch), rows, tuple(heads), softmax[along])

    def placed(
        self, views: Views, sequence: AxisGroup, size: AxisGroup, heads: AxisGroup | None = None
    ) -> PlacedOperand | None:
        """An operand in this layout, with all ``heads`` or those that it has; None if it has other axes."""
        wanted = [self.batch, sequence, self.heads if heads is None else heads, size]
        axes = set(together(wanted))
        return nearest([view if view and set(together(view.groups)) == axes else None for view in views], wanted)

    def shared(
        self, keys: Views, values: Views, sizes: Sequence[AxisGroup]
    ) -> tuple[PlacedOperand, PlacedOperand] | None:
        """Keys and values, with the fewest heads that consecutive heads of the queries may share."""
        heads = atoms(self.heads)
        for count in range(len(heads) + 1):
            key = self.placed(keys, self.columns, sizes[0], heads[:count])
            value = None if key is None else self.placed(values, self.columns, sizes[1], heads[:count])
            if key is not None and value is not None:
                return key, value
        return None

    def of_heads(self, value: Expr, scores: Groups, bindings: Bindings) -> Expr | None:
        """``value``, (*all axes of ``scores`` but the keys, 1), as (heads,); None if it is not one for each head."""
        known = resolve(bindings, value)
        if isinstance(known, Constant):
            return self._constant_of_heads(known, together(scores[:-1]))
        found = nearest(sources(View(value, [*scores[:-1], ()]), bindings, multiples=False), [self.heads])
        made = None if found is None else found[0].written()
        return made if made is not None and same_sizes(shape_of(made), [size_of(self.heads)]) else None

    def _constant_of_heads(self, value: Constant, axes: AxisGroup) -> Expr | None:
        """A constant with these axes as (heads,); None if it is not the same along all others."""
        numbers = np.asarray(value.data.numpy()).reshape([axis.size for axis in axes])
        others = [at for at, axis in enumerate(axes) if axis not in atoms(self.heads)]
        first = numbers[tuple([slice(1) if at in others else slice(None) for at in range(numbers.ndim)])]
        return const(first.reshape(-1), dtype_of(value)) if (numbers == first).all() else None

    def mask(self, mask: Expr, scores: Groups) -> Arrangement:
        """``mask``, which broadcasts to ``scores``, with the four axes that a bias of ``nn.attention`` has."""
        return self._broadcast(mask, scores, [self.batch, self.heads, self.rows, self.columns])

    def factor(self, factor: Expr, scores: Groups) -> Expr | None:
        """``factor``, which broadcasts to ``scores``, as one of the queries; None if it differs from key to key."""
        try:
            return self._broadcast(factor, scores, [self.batch, self.rows, self.heads, ()]).written()
        except ValueError:
            return None

    @staticmethod
    def _broadcast(mask: Expr, scores: Groups, wanted: Groups) -> Arrangement:
        sizes = shape_of(mask)
        own = scores[len(scores) - len(sizes) :]
        groups = [group if axis_of(size) else () for size, group in zip(sizes, own, strict=True)]
        wide = [size_of(group) for group in groups]
        # An axis of another size than it is known to have is 1, or that size.
        placed = mask if same_sizes(sizes, wide) else ops.broadcast_to(mask, wide)
        return arrangement(View(placed, groups), wanted)


_key, _value = wildcard(), wildcard()
_attention = is_op("relax.nn.attention")(wildcard(), _key, _value)
_biased = is_op("relax.nn.attention_bias")(wildcard(), _key, _value, wildcard())


def _shared(attention: Call, matchings: dict[Any, Any], bindings: Bindings) -> Expr | Decline:
    operands = [matchings[_key], matchings[_value]]
    if any(len(shape_of(operand)) != 4 for operand in operands):
        return decline("the sizes of keys and values are not known")
    shape, last = shape_of(operands[0]), shape_of(operands[1])[3]
    batch, sequence, heads, *sizes = [axis_of(size, divisible=at == 2) for at, size in enumerate((*shape, last))]
    keys, values = (
        sources(View(one, [batch, sequence, heads, size]), bindings, multiples=False)
        for one, size in zip(operands, sizes, strict=True)
    )
    placed = HeadLayout(batch, (), heads, sequence).shared(keys, values, sizes)
    written = [operand.written() for operand, _ in placed or ()]
    if not written:
        return decline("keys and values are not both repeated")
    if shape_of(written[0])[2] == shape[2]:
        return attention
    return attention.with_args([attention.args[0], *written, *attention.args[3:]])


SHARE_HEADS: Final = Rule(_attention | _biased, _shared, "share_repeated_heads")
"""Attention of keys and values from before each of their heads was repeated."""
