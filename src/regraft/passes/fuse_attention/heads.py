"""The layout of ``nn.attention``, (batch, sequence, heads, size), whose consecutive heads may share their keys.

Attention that is one operator already, over keys and values that were repeated for several heads each, is given those
from before: the values are the same to the bit, and the keys of a long text are read as they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

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
from ...analysis.tensors import same_sizes, shape_of
from ...ir.expr import Expr
from ...ir.op import Call
from ...pattern import is_op, wildcard
from ...rewrite import Bindings, Decline, Rule, decline

Views: TypeAlias = Sequence[View | None]
"""The `sources` of an operand, None for those that are not to be taken."""
PlacedOperand: TypeAlias = tuple[Arrangement, float]
"""An operand in the layout, and the number that it is to be multiplied by."""


class HeadLayout(NamedTuple):
    """What batch and heads are made of."""

    batch: AxisGroup
    heads: AxisGroup

    def placed(
        self, views: Views, sequence: AxisGroup, size: AxisGroup, heads: AxisGroup | None = None
    ) -> PlacedOperand | None:
        """An operand in this layout, with all ``heads`` or those that it has; None if it has other axes."""
        wanted = [self.batch, sequence, self.heads if heads is None else heads, size]
        axes = set(together(wanted))
        return nearest([view if view and set(together(view.groups)) == axes else None for view in views], wanted)

    def shared(
        self, keys: Views, values: Views, sequence: AxisGroup, sizes: Sequence[AxisGroup]
    ) -> tuple[PlacedOperand, PlacedOperand] | None:
        """Keys and values, with the fewest heads that consecutive heads of the queries may share."""
        heads = atoms(self.heads)
        for count in range(len(heads) + 1):
            key = self.placed(keys, sequence, sizes[0], heads[:count])
            value = None if key is None else self.placed(values, sequence, sizes[1], heads[:count])
            if key is not None and value is not None:
                return key, value
        return None

    def of_heads(self, value: Expr, scores: Groups, bindings: Bindings) -> Expr | None:
        """``value``, (*all axes of ``scores`` but the keys, 1), as (heads,); None if it is not one for each head."""
        views = sources(View(value, [*scores[:-1], ()]), bindings)
        found = nearest([view if view.factor == 1.0 else None for view in views], [self.heads])
        made = None if found is None else found[0].written()
        return made if made is not None and same_sizes(shape_of(made), [size_of(self.heads)]) else None

    def mask(self, mask: Expr, scores: Groups) -> Expr:
        """``mask``, which broadcasts to ``scores``, with the four axes that a bias of ``nn.attention`` has."""
        sizes = shape_of(mask)
        own = scores[len(scores) - len(sizes) :]
        wide = [size_of(group) if axis_of(size) else 1 for size, group in zip(sizes, own, strict=True)]
        # An axis of another size than it is known to have is 1, or that size.
        placed = mask if same_sizes(sizes, wide) else ops.broadcast_to(mask, wide)
        view = View(placed, [group if axis_of(size) else () for size, group in zip(sizes, own, strict=True)])
        return arrangement(view, [self.batch, self.heads, *scores[-2:]]).written()


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
        [view if view.factor == 1.0 else None for view in sources(View(one, [batch, sequence, heads, size]), bindings)]
        for one, size in zip(operands, sizes, strict=True)
    )
    placed = HeadLayout(batch, heads).shared(keys, values, sequence, sizes)
    written = [operand.written() for operand, _ in placed or ()]
    if not written:
        return decline("keys and values are not both repeated")
    if shape_of(written[0])[2] == shape[2]:
        return attention
    return attention.with_args([attention.args[0], *written, *attention.args[3:]])


SHARE_HEADS: Final = Rule(_attention | _biased, _shared, "share_repeated_heads")
"""Attention of keys and values from before each of their heads was repeated."""
