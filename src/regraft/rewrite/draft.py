"""Edits before they are made: what each variable would stand for, and the values that this would add to the block.

The block knows nothing of a draft, so one that is refused leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.builder import flatten, operands_of, with_operands
from ..ir.expr import Expr, Tuple, TupleGetItem, Var
from ..ir.origin import Origins
from ..ir.walks import inner_first
from .session import EditSession, ValueKey


class Draft:
    """The ``edits`` of a block; ``known`` are calls that it binds already, by their identity.

    ``flat`` are the edits with leaves for operands, ``values`` what they need beside what is there, operands first.
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
                # One table for values that share expressions, so that these are added once for all.
                self.flat[var] = flatten(expr, bind, done=done)

    def _leaf(self, value: Expr, name: str, origins: Origins) -> Expr:
        """The variable for ``value``: one that holds it already, or a new one."""
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
        """Add the values to the block. They go again where nothing comes to use them."""
        for var, value in self.values.items():
            self._session.insert(var, value, self._keys[var])


def _name_known(value: Expr, known: Mapping[int, Var]) -> Expr:
    """``value`` with calls that are bound already replaced by their variables, wherever they stand inside it."""

    def is_known(current: Expr) -> bool:
        return current is not value and id(current) in known

    done: dict[int, Expr] = {}
    for current in inner_first(value, lambda expr: () if is_known(expr) else operands_of(expr)):
        if is_known(current):
            done[id(current)] = known[id(current)]
        else:
            done[id(current)] = with_operands(current, [done[id(operand)] for operand in operands_of(current)])
    return done[id(value)]
