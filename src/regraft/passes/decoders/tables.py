"""Values that depend on places only, such as cosines and sines, as tables: one row for each place of a longest text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...analysis import get_var2val
from ...analysis.values import leaves_of, resolve
from ...ir.binding_values import bind_sizes
from ...ir.dims import SymVar
from ...ir.expr import Constant, Expr, Var
from ...ir.module import IRModule
from ...ir.program import DataflowBlock, Function, SeqExpr, VarBinding
from ...ir.types import TensorType
from ..fold_constant import FoldConstant


class Places:
    """Tables of a function in which ``count`` places follow ``past`` ones; ``values`` says what is bound to what."""

    def __init__(self, values: Mapping[Var, Expr], past: SymVar, count: SymVar, longest: int) -> None:
        self._values = values
        self._past = past
        self._count = count
        self._longest = longest
        self._found: dict[Expr, np.ndarray | None] = {}

    def table_of(self, value: Expr) -> np.ndarray | None:
        """``value`` for the places 0 to ``longest``; None if it depends on inputs, or on more than its place.

        The second is tried out at the beginning, in the middle and at the end. Cost: what computing it takes.
        """
        leaf = resolve(self._values, value)
        if leaf not in self._found:
            self._found[leaf] = self._computed(leaf)
        return self._found[leaf]

    def _computed(self, leaf: Expr) -> np.ndarray | None:
        needed = self._needed(leaf)
        if needed is None:
            return None
        probe = Var("probe", TensorType((self._count, self._past), "float32"))
        result = Var("table", leaf.ty)
        bindings = [VarBinding(var, self._values[var]) for var in needed]
        function = Function([probe], SeqExpr([DataflowBlock([*bindings, VarBinding(result, leaf)])], result))
        table = self._at(function, 0, self._longest)
        if table is None or self._longest not in table.shape:
            return None
        for first, count in ((1, 1), (self._longest // 2, 2), (self._longest - 1, 1)):
            rows = self._at(function, first, count)
            if rows is None or not np.array_equal(rows, self._rows(table, first, count)):
                return None
        return table

    def _rows(self, table: np.ndarray, first: int, count: int) -> np.ndarray:
        axis = table.shape.index(self._longest)
        return np.take(table, range(first, first + count), axis=axis)

    def _at(self, function: Function, first: int, count: int) -> np.ndarray | None:
        bound = bind_sizes(function, {self._past: first, self._count: count})
        most = 1 << 40  # all of it is computed, however large
        folded = FoldConstant(most)(IRModule({"main": bound}))["main"]
        result = resolve(get_var2val(folded), folded.body.body)
        return np.asarray(result.data.numpy()) if isinstance(result, Constant) else None

    def _needed(self, leaf: Expr) -> list[Var] | None:
        """The values that ``leaf`` is computed from, in order; None if a parameter is among them."""
        order: dict[Var, None] = {}
        pending: list[tuple[Expr, bool]] = [(leaf, False)]
        while pending:
            current, is_done = pending.pop()
            if not isinstance(current, Var) or current in order:
                continue
            if is_done:
                order[current] = None
            elif current not in self._values:
                return None
            else:
                pending.append((current, True))
                pending += [(part, False) for part in leaves_of(self._values[current])]
        return list(order)
