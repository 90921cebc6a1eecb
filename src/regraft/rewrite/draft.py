"""Edits before they are made: the new value of each variable, and the values that would be added to the block.

A draft does not change the block, so a rejected draft leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.builder import flatten, operands_of, with_operands
from ..ir.expr import Expr, Tuple, TupleGetItem, Var
from ..ir.origin import Origins
from ..ir.walks import inner_first
from .session import EditSession, ValueKey


class Draft:
    """The ``edits`` of a block. ``known`` are calls that the block already binds, by their identity.

    ``flat`` are the edits with leaves as operands; ``values`` are the further values that they need, operands first.
    """

    def __init__(
        self, session: EditSession, edits: Mapping[Var, Expr], known: Mapping[int, Var], origins: Origins
    ) -> None:
        self.values: dict[Var, Expr] = {}
        self.flat: dict[Var, Expr] = {}
        self._session = session
        self._edits = edits
        self._keys: dict[Var, ValueKey] = {}
        self._by_key: dict[ValueKey, Var] = {}
        done: dict[int, Expr] = {}
        for var, expr in edits.items():

            def bind(value: Expr, name: str = var.name_hint) -> Expr:
                return self._leaf(value, name, origins)

            if id(expr) in known:
                self.flat[var] = known[id(expr)]
            elif known:
                self.flat[var] = flatten(_name_known(expr, known), bind)
            else:
                # One table for all edits, so that expressions that they share are added once.
                self.flat[var] = flatten(expr, bind, done=done)

    def _leaf(self, value: Expr, name: str, origins: Origins) -> Expr:
        """The variable for ``value``: one that is already bound to an equal value, or a new one."""
        if type(value) is TupleGetItem and type(value.tuple_value) is Tuple:
            return value.tuple_value.fields[value.index]
        session = self._session
        key = session.key(value)
        var = self._by_key.get(key)
        if var is None:
            var = session.find_same(value, key)
            if var is None or var in self._edits or var in self.values:
                var = session.new_variable(value, name, origins)
            if var not in session.definitions:
                self.values[var] = value
                self._keys[var] = key
                if session.share and session.is_pure(value):
                    self._by_key[key] = var
        return var

    def make(self) -> None:
        """Add the values to the block. They are removed again if nothing uses them in the end."""
        for var, value in self.values.items():
            self._session.insert(var, value, self._keys[var])


def _name_known(value: Expr, known: Mapping[int, Var]) -> Expr:
    """``value`` with calls inside it that are already bound replaced by their variables."""

    def is_known(current: Expr) -> bool:
        return current is not value and id(current) in known

    done: dict[int, Expr] = {}
    for current in inner_first(value, lambda expr: () if is_known(expr) else operands_of(expr)):
        if is_known(current):
            done[id(current)] = known[id(current)]
        else:
            done[id(current)] = with_operands(current, [done[id(operand)] for operand in operands_of(current)])
    return done[id(value)]
