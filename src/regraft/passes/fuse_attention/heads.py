"""The layout of ``nn.attention``, (batch, sequence, heads, size), whose consecutive heads may share their keys.

Attention that is one operator already, over keys and values that were repeated for several heads each, is given those
from before: the values are the same to the bit, and the keys of a long text are read as they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from ...analysis.axes import Arrangement, Group, Groups, View, arrangement, atoms, axis_of, nearest, sources
from ...analysis.tensors import shape_of
from ...ir.expr import Expr
from ...ir.op import Call
from ...pattern import is_op, wildcard
from ...rewrite import Bindings, Decline, Rule, decline

Views: TypeAlias = Sequence[View | None]
"""The `sources` of an operand, None for those that are not to be taken."""


class Layout(NamedTuple):
    """What batch and heads are made of."""

    batch: Group
    heads: Group

    def wanted(self, sequence: Group, size: Group, heads: Group | None = None) -> list[Group]:
        """The axes of an operand; of keys that consecutive heads share, with the ``heads`` that they have."""
        return [self.batch, sequence, self.heads if heads is None else heads, size]

    def queries(self, views: Views, sequence: Group, size: Group) -> tuple[Arrangement, float] | None:
        """How to write queries in this layout, and the factor that is left; None if they do not have these axes."""
        return self._placed(views, sequence, size, atoms(self.heads))

    def keys_and_values(
        self, keys: Views, values: Views, sequence: Group, sizes: Sequence[Group]
    ) -> list[tuple[Arrangement, float]] | None:
        """As `queries`, for keys and values with the fewest heads that both have."""
        alike = [own for own in map(self.heads_of, keys) if own is not None and own in map(self.heads_of, values)]
        heads = min(alike, key=len, default=())
        both = [self._placed(views, sequence, size, heads) for views, size in zip((keys, values), sizes, strict=True)]
        placed = [one for one in both if one is not None]
        return placed if alike and len(placed) == 2 else None

    def mask(self, mask: Expr, scores: Groups) -> Expr:
        """``mask``, which broadcasts to ``scores``, with the four axes that a bias of ``nn.attention`` has."""
        sizes = shape_of(mask)
        own = [
            group if axis_of(size) else ()
            for size, group in zip(sizes, scores[len(scores) - len(sizes) :], strict=True)
        ]
        return arrangement(View(mask, own), [self.batch, self.heads, *scores[-2:]]).written()

    def heads_of(self, view: View | None) -> Group | None:
        """The heads that ``view`` has, if it has all of the batch and consecutive heads share those; else None."""
        if view is None:
            return None
        own = {axis for group in view.groups for axis in atoms(group)}
        heads = atoms(self.heads)
        count = sum(axis in own for axis in heads)
        return heads[:count] if own.issuperset((*atoms(self.batch), *heads[:count])) else None

    def _placed(self, views: Views, sequence: Group, size: Group, heads: Group) -> tuple[Arrangement, float] | None:
        with_heads = [view if self.heads_of(view) == heads else None for view in views]
        return nearest(with_heads, self.wanted(sequence, size, heads))


_key, _value = wildcard(), wildcard()
_attention = is_op("relax.nn.attention")(wildcard(), _key, _value)
_biased = is_op("relax.nn.attention_bias")(wildcard(), _key, _value, wildcard())


def _shared(attention: Call, matchings: dict[Any, Any], bindings: Bindings) -> Expr | Decline:
    operands = [matchings[_key], matchings[_value]]
    if any(len(shape_of(operand)) != 4 for operand in operands):
        return decline("the sizes of keys and values are not known")
    shape, last = shape_of(operands[0]), shape_of(operands[1])[3]
    batch, sequence, heads, *sizes = [axis_of(size, divisible=at == 2) for at, size in enumerate((*shape, last))]
    layout = Layout(batch, heads)
    keys, values = (
        [view if view.factor == 1.0 else None for view in sources(View(one, layout.wanted(sequence, size)), bindings)]
        for one, size in zip(operands, sizes, strict=True)
    )
    if all(layout.heads_of(view) in (None, atoms(heads)) for view in (*keys, *values)):
        return decline("the heads of keys and values are not repeated")
    placed = layout.keys_and_values(keys, values, sequence, sizes)
    written = [operand.written() for operand, _ in placed or ()]
    if not written or shape_of(written[0])[2] == shape_of(operands[0])[2]:
        return decline("keys and values are not repeated alike")
    return attention.with_args([attention.args[0], *written, *attention.args[3:]])


SHARE_HEADS: Final = Rule(_attention | _biased, _shared, "share_repeated_heads")
"""Attention of keys and values from before each of their heads was repeated."""
