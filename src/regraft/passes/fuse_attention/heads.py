"""The layout of ``nn.attention``, (batch, sequence, heads, size), derived from the axes of written-out scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...analysis.axes import Arrangement, AxisGroup, Groups, View, alone, arrangement, atoms, nearest, spread, together
from ...ir.expr import Expr
from ...rewrite import Bindings
from ..attention_operands import NoAttention, of_fewest_heads


class HeadLayout(NamedTuple):
    """The axes of batch, queries, heads and keys; methods raise `NoAttention` for any other axis."""

    batch: AxisGroup
    rows: AxisGroup
    heads: AxisGroup
    columns: AxisGroup

    @classmethod
    def of(cls, softmax: Groups, along: int, rows: AxisGroup, keys: View) -> HeadLayout:
        """The layout of scores whose axes at the softmax are ``softmax``; the softmax is along axis ``along``.

        ``rows`` are the axes that only the queries have. If the softmax has separate axes for parts of ``rows``, the
        last of them is the axis of the queries, and the others are axes of heads that share a key. The remaining axes
        are split into batch and heads by the axes of ``keys``.
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
        self, query: Sequence[View], keys: Sequence[View | None], values: Sequence[View], sizes: Groups
    ) -> list[Arrangement]:
        """Queries, keys and values from their `sources`, with as few heads of keys and values as can be shared.

        ``sizes`` are two groups of axes: the axes that only queries and keys have, and the axes that only the values
        have.
        """
        first = nearest(query, [self.batch, self.rows, self.heads, sizes[0]])
        shared = of_fewest_heads([self.batch, self.columns], self.heads, [keys, values], sizes)
        if first is None or shared is None:
            raise NoAttention("batch or heads of queries, keys and values are not known to be the same")
        return [first, *shared]

    def of_heads(self, value: Expr, scores: Groups, bindings: Bindings) -> Expr:
        """``value``, (all axes of ``scores`` except the keys, 1), as one number for each head: (heads,)."""
        found = alone(View(value, [*scores[:-1], ()]), self.heads, bindings)
        if found is None:
            raise NoAttention("the sinks are not one number for each head")
        return found

    def mask(self, mask: Expr, scores: Groups) -> Arrangement:
        """``mask``, which broadcasts to ``scores``, with the four axes of a bias of ``nn.attention``."""
        return arrangement(spread(mask, scores), [self.batch, self.heads, self.rows, self.columns])

    def factor(self, factor: Expr, scores: Groups) -> Expr:
        """``factor``, which broadcasts to ``scores``, as a factor of the queries."""
        try:
            return arrangement(spread(factor, scores), [self.batch, self.rows, self.heads, ()]).written()
        except ValueError:
            raise NoAttention("the scores are multiplied by a tensor that differs from key to key") from None
