"""A walk over the blocks of a function that opens an editing session on each; several passes use it."""

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
    """Opens a session on each block, including blocks of branches, and calls `edit` on it.

    Writing a changed block drops the bindings that nothing needs. Functions defined inside are visited, too.
    """

    shares: ClassVar[bool] = True
    """If True, a new value that the block already computes is not computed again: the existing value is used."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.merged: dict[Var, Var] = {}
        """Variables of the edited block that later blocks must know under the name of another, plain `Var`."""

    def transformed(self) -> Function:
        """The function with each block edited; the same object if nothing changed. Cost: linear, plus the edits."""
        with collection_paused():
            return self.run()

    def edit(self, session: EditSession, scope: Scope) -> bool:
        """Edit one block and return True if anything changed. ``scope`` holds the variables visible before it."""
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
