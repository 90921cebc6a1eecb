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
from ...ir.dims import SymVar
from ...ir.expr import Constant, Expr, const
from ...ir.op import Call
from ...pattern import is_op, wildcard
from ...rewrite import Bindings, Rule


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

    def operands(
        self, rows: AxisGroup, views: Sequence[Sequence[View | None]], sizes: Groups, *, shared: bool
    ) -> list[Arrangement]:
        """Operands whose `sources` are ``views`` in this layout, whose sequences are ``rows`` and last axes ``sizes``.

        ``shared`` ones have the fewest heads that consecutive heads of the queries may share, others have all.
        """
        heads = atoms(self.heads)
        for count in range(0 if shared else len(heads), len(heads) + 1):
            lead = [self.batch, rows, heads[:count]]
            found = [nearest(own, [*lead, size]) for own, size in zip(views, sizes, strict=True)]
            placed = [one for one in found if one is not None]
            if len(placed) == len(views):
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

    def mask(self, mask: Expr, scores: Groups, *, of_queries: bool = False) -> Arrangement:
        """``mask``, which broadcasts to ``scores``, with the axes of a bias of ``nn.attention``, or ``of_queries``."""
        sizes = shape_of(mask)
        own = scores[len(scores) - len(sizes) :]
        groups = [group if axis_of(size) else () for size, group in zip(sizes, own, strict=True)]
        wide = [axes.size_of(group) for group in groups]
        # An axis of another size than it is known to have is 1, or that size.
        placed = mask if same_sizes(sizes, wide) else ops.broadcast_to(mask, wide)
        rest = [self.rows, self.heads, ()] if of_queries else [self.heads, self.rows, self.columns]
        try:
            return axes.arrangement(View(placed, groups), [self.batch, *rest])
        except ValueError:
            raise NoAttention("the scores are multiplied by a tensor that differs from key to key") from None


_key, _value = (wildcard().has_shape([SymVar("size") for _ in range(4)]) for _ in range(2))
_attention = is_op("relax.nn.attention")(wildcard(), _key, _value)
_biased = is_op("relax.nn.attention_bias")(wildcard(), _key, _value, wildcard())


def _shared(attention: Call, matchings: dict[Any, Any], bindings: Bindings) -> Expr:
    operands = [matchings[_key], matchings[_value]]
    batch, sequence, heads = (axis_of(size, divisible=at == 2) for at, size in enumerate(shape_of(operands[0])[:3]))
    sizes = [axis_of(shape_of(operand)[3]) for operand in operands]
    views = [View(one, [batch, sequence, heads, size]) for one, size in zip(operands, sizes, strict=True)]
    before = [sources(view, bindings, multiples=False) for view in views]
    layout = HeadLayout(batch, (), heads, sequence)
    key, value = (one.written() for one in layout.operands(sequence, before, sizes, shared=True))
    is_same = shape_of(key)[2] == shape_of(operands[0])[2]
    return attention if is_same else attention.with_args([attention.args[0], key, value, *attention.args[3:]])


SHARE_HEADS: Final = Rule(_attention | _biased, _shared, "share_repeated_heads")
"""Attention of keys and values from before each of their heads was repeated."""
