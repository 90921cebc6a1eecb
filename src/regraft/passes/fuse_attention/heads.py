"""The layout of ``nn.attention``, (batch, sequence, heads, size), whose consecutive heads may share their keys.

Attention that is one operator already, over keys and values that were repeated for several heads each, is given those
from before: the values are the same to the bit, and the keys of a long text are read as they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ... import op as ops
from ...analysis import axes
from ...analysis.axes import Arrangement, AxisGroup, Groups, View, atoms, axis_of, nearest, sources, together
from ...analysis.tensors import dtype_of, same_sizes, shape_of
from ...analysis.values import resolve
from ...ir.expr import Constant, Expr, const
from ...ir.op import Call
from ...pattern import is_op, wildcard
from ...rewrite import Bindings, Decline, Rule, decline


class NoAttention(Exception):
    """Why something that looks like attention is none, or is left as it is."""


class HeadLayout(NamedTuple):
    """What batch, queries, heads and keys are made of; its methods raise `NoAttention` for what has no place in it."""

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
        groups = [group for at, group in enumerate(softmax) if at not in (along, place)]
        lead = [[axis for axis in atoms(group) if axis not in rows] for group in groups]
        lead = [[axis] for axis in lead[0]] if len(lead) == 1 else lead
        count = 2 if len(groups) == 3 and {*lead[2]} <= {*together(keys.groups)} else 1
        return cls(together(lead[:count]), rows, together(lead[count:]), softmax[along])

    def queries(self, views: Sequence[View | None], size: AxisGroup) -> Arrangement:
        """The operand whose `sources` are ``views``, in this layout."""
        found = nearest(views, [self.batch, self.rows, self.heads, size])
        if found is None:
            raise NoAttention("batch or heads of queries, keys and values are not known to be the same")
        return found

    def shared(self, keys: Sequence[View | None], values: Sequence[View | None], sizes: Groups) -> list[Arrangement]:
        """Keys and values, with the fewest heads that consecutive heads of the queries may share."""
        heads = atoms(self.heads)
        for count in range(len(heads) + 1):
            lead = [self.batch, self.columns, heads[:count]]
            found = [nearest(views, [*lead, size]) for views, size in zip((keys, values), sizes, strict=True)]
            placed = [one for one in found if one is not None]
            if len(placed) == 2:
                return placed
        raise NoAttention("batch or heads of queries, keys and values are not known to be the same")

    def of_heads(self, value: Expr, scores: Groups, bindings: Bindings) -> Expr:
        """``value``, (*all axes of ``scores`` but the keys, 1), as the number that it is for each head: (heads,)."""
        known = resolve(bindings, value)
        view = View(known, [*scores[:-1], ()])
        if isinstance(known, Constant):
            placed = axes.arrangement(view, [self.heads, self.batch, self.rows])
            numbers = placed.of_array(np.asarray(known.data.numpy()))
            if numbers is not None and (numbers == numbers[:, :1, :1]).all():
                return const(numbers[:, 0, 0], dtype_of(known))
        elif (found := nearest(sources(view, bindings, multiples=False), [self.heads])) is not None:
            return found.written()
        raise NoAttention("the sinks are not one number for each head")

    def mask(self, mask: Expr, scores: Groups) -> Arrangement:
        """``mask``, which broadcasts to ``scores``, with the four axes that a bias of ``nn.attention`` has."""
        return self._broadcast(mask, scores, [self.batch, self.heads, self.rows, self.columns])

    def factor(self, factor: Expr, scores: Groups) -> Expr:
        """``factor``, which broadcasts to ``scores``, as one of the queries."""
        try:
            return self._broadcast(factor, scores, [self.batch, self.rows, self.heads, ()]).written()
        except ValueError:
            raise NoAttention("the scores are multiplied by a tensor that differs from key to key") from None

    @staticmethod
    def _broadcast(mask: Expr, scores: Groups, wanted: Groups) -> Arrangement:
        sizes = shape_of(mask)
        own = scores[len(scores) - len(sizes) :]
        groups = [group if axis_of(size) else () for size, group in zip(sizes, own, strict=True)]
        wide = [axes.size_of(group) for group in groups]
        # An axis of another size than it is known to have is 1, or that size.
        placed = mask if same_sizes(sizes, wide) else ops.broadcast_to(mask, wide)
        return axes.arrangement(View(placed, groups), wanted)


_key, _value = wildcard(), wildcard()
_attention = is_op("relax.nn.attention")(wildcard(), _key, _value)
_biased = is_op("relax.nn.attention_bias")(wildcard(), _key, _value, wildcard())


def _shared(attention: Call, matchings: dict[Any, Any], bindings: Bindings) -> Expr | Decline:
    operands = [matchings[_key], matchings[_value]]
    if any(len(shape_of(operand)) != 4 for operand in operands):
        return decline("the sizes of keys and values are not known")
    shape, last = shape_of(operands[0]), shape_of(operands[1])[3]
    batch, sequence, heads, *sizes = [axis_of(size, divisible=at == 2) for at, size in enumerate((*shape, last))]
    views = [View(one, [batch, sequence, heads, size]) for one, size in zip(operands, sizes, strict=True)]
    keys, values = (sources(view, bindings, multiples=False) for view in views)
    written = [one.written() for one in HeadLayout(batch, (), heads, sequence).shared(keys, values, sizes)]
    if shape_of(written[0])[2] == shape[2]:
        return attention
    return attention.with_args([attention.args[0], *written, *attention.args[3:]])


SHARE_HEADS: Final = Rule(_attention | _biased, _shared, "share_repeated_heads")
"""Attention of keys and values from before each of their heads was repeated."""
