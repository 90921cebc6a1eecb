"""Values that depend on places only, such as cosines and sines, as tables with one row for each place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from ...analysis.values import resolve
from ...ir.dims import SymVar
from ...ir.expr import Expr, Var
from ...ir.program import Function
from ...ir.visitor import iter_bindings
from ...op.evaluate import EvaluationError, Evaluator

_ANY: Final = 1 << 40
"""The limit of an evaluation: tables are computed however large they are."""


class PositionTables:
    """Tables of a function in which ``count`` places, or one, follow ``past`` places."""

    def __init__(self, function: Function, past: SymVar, count: SymVar | None, longest: int) -> None:
        self._values: Final[Mapping[Var, Expr]] = {binding.var: binding.value for binding in iter_bindings(function)}
        self._past: Final = past
        self._count: Final = count
        self.is_of_one: Final = count is None
        self.longest: Final = longest
        self._found: dict[Expr, np.ndarray | None] = {}

    def table_of(self, value: Expr) -> np.ndarray | None:
        """``value`` for the first ``longest`` places; None if it depends on inputs, or on more than its place.

        The latter is checked at the beginning, in the middle and at the end. Cost: computing the value.
        """
        leaf = resolve(self._values, value)
        if leaf not in self._found:
            self._found[leaf] = self._computed(leaf)
        return self._found[leaf]

    def rows(self, value: Expr, first: int, count: int) -> np.ndarray | None:
        """``value`` if ``count`` places follow ``first`` places; None if it depends on inputs or on other sizes.

        If the function takes one place at a time, the results are concatenated on the axis before the last one.
        """
        if self._count is None and count != 1:
            return self._together([self.rows(value, place, 1) for place in range(first, first + count)])
        return self._value(value, first, count, {})

    def of_rows(self, value: Expr, joined: Mapping[Var, np.ndarray]) -> np.ndarray | None:
        """``value`` if the ``joined`` caches have the given contents, (batch, heads, rows, size).

        None if it depends on other inputs, too.
        """
        count = next(iter(joined.values())).shape[2]
        new = 1 if self._count is None else count
        return self._value(value, count - new, new, joined)

    def _value(self, value: Expr, first: int, count: int, joined: Mapping[Var, np.ndarray]) -> np.ndarray | None:
        sizes = {self._past: first, **({} if self._count is None else {self._count: count})}
        evaluator = Evaluator(self._values, most=_ANY, most_elements=_ANY)
        evaluator.values.update(joined)
        evaluator.sizes.update(sizes)
        try:
            return np.asarray(evaluator.value(value))
        except (EvaluationError, ArithmeticError, IndexError, TypeError, ValueError):
            return None  # a table of the model may have fewer places

    def _together(self, parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
        known = [part for part in parts if part is not None and part.ndim > 1 and part.shape[-2] == 1]
        same = len(known) == len(parts) and len({part.shape for part in known}) == 1
        return np.concatenate(known, axis=-2) if same else None

    def _computed(self, leaf: Expr) -> np.ndarray | None:
        table = self.rows(leaf, 0, self.longest)
        if table is None or self.longest not in table.shape:
            return None
        axis = table.shape.index(self.longest)
        for first, count in ((1, 1), (self.longest // 2, 2), (self.longest - 1, 1)):
            rows = self.rows(leaf, first, count)
            if rows is None or not np.array_equal(rows, np.take(table, range(first, first + count), axis=axis)):
                return None
        return table
