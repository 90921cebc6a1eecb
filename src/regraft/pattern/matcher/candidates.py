"""The candidates for a root of a context: near which value that is known already it has to be sought."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...analysis.values import BlockView, definition, resolve
from ...ir.builder import operands_of
from ...ir.expr import Var
from ...ir.op import Op
from ..pattern import DFPattern
from .machine import MatchState
from .uses import held


class Near(NamedTuple):
    """The places of a root: at most ``height`` uses above the value of ``part``, or just below it if that is -1.

    Without a part: anywhere. ``ops`` are the operators that the root may call.
    """

    part: DFPattern | None
    height: int
    ops: tuple[Op, ...] | None

    def value(self, search: MatchState) -> Var | None:
        """The variable near which to look; None for the whole block, also where the part stands for a constant."""
        leaf = None if self.part is None else search.bound[self.part][0]
        return leaf if isinstance(leaf, Var) else None

    def cost(self, search: MatchState) -> float:
        """About how many candidates there are."""
        value = self.value(search)
        return float("inf") if value is None else len(search.block.users.get(value, ()))

    def candidates(self, search: MatchState) -> list[Var]:
        """The values to try, each under one name, in block order."""
        view, value = search.block, self.value(search)
        if value is None:
            return values_of(view, self.ops)
        if self.height < 0:
            operands = operands_of(definition(view.definitions, value))
            return [leaf for leaf in held(view.definitions, operands) if isinstance(leaf, Var)]
        reached: dict[Var, None] = {value: None}
        frontier: list[Var] = [value]
        for _ in range(self.height):
            frontier = [
                user for user in dict.fromkeys(u for v in frontier for u in view.users_of(v)) if user not in reached
            ]
            reached.update(dict.fromkeys(frontier))
        if self.ops is None:
            found = [v for v in reached if resolve(view.definitions, v) is v]
        else:
            calls = [view.by_op.get(op, {}) for op in self.ops]
            found = [v for v in reached if any(v in table for table in calls)]
        return sorted(found, key=view.rank)


def values_of(view: BlockView, ops: Iterable[Op] | None) -> list[Var]:
    """The calls of one of ``ops``, or else all values that the block binds or uses, in order."""
    if ops is not None:
        return view.candidates(ops)
    outside = [var for var in view.users if var not in view.position]
    found = (*outside, *sorted(view.position, key=view.rank))
    return [var for var in found if resolve(view.definitions, var) is var]
