"""A walk through a function block by block, with an editing session open on each, shared by several passes."""

from __future__ import annotations

from typing import ClassVar

from ..ir.collection import collection_paused
from ..ir.expr import Expr, Var
from ..ir.mutator import same_items
from ..ir.program import BindingBlock, Function
from ..rewrite.emission import Emission
from ..rewrite.session import EditSession
from ..rewrite.walk import FunctionWalk, Scope


class SessionWalk(FunctionWalk):
    """Opens a session on each block, those of branches included; `edit` says what happens in it.

    Bindings that nothing needs go when a block is written again. Those of functions defined inside, too.
    """

    shares: ClassVar[bool] = True
    """A value that the block computes already is used, and not computed twice."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.merged: dict[Var, Var] = {}
        """Variables of the block under edit that later blocks are to know under another name, that of a plain `Var`."""

    def transformed(self) -> Function:
        """The function with each block edited; the same object if nothing changed. Cost: linear, plus the edits."""
        with collection_paused():
            return self.run()

    def edit(self, session: EditSession, scope: Scope) -> bool:
        """Edit one block, and say whether anything changed. ``scope`` are the variables visible before it."""
        raise NotImplementedError

    def block(self, block: BindingBlock, outer: dict[Var, Expr], scope: Scope, later: Scope) -> BindingBlock:
        """The replacement of ``block``."""
        session = EditSession(block, outer, later, self.fresh_name, sizes=self.sizes, share=self.shares)
        changed = self.edit(session, scope)
        bindings = Emission(session, self.renames).run() if changed or self.renames else block.bindings
        session.release()
        for var, other in self.merged.items():
            self.renames[var] = self.renames.get(other, other)
        self.merged.clear()
        if same_items(bindings, block.bindings):
            return block
        return type(block)(bindings)
