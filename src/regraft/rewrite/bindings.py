"""A block as a rewriter sees it: values, users, outputs, and further matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..analysis.values import resolve
from ..ir.expr import Expr, Var
from ..pattern.matcher.match import compiled
from ..pattern.matchings import Matchings
from ..pattern.pattern import DFPattern
from .session import EditSession


class Bindings(Mapping[Var, Expr]):
    """The values of the variables of a block, as a rewriter sees them.

    Methods that take a value accept its variable or, for a value of a match, the expression that the match shows.
    """

    __slots__ = ("_session", "_shown")

    def __init__(self, session: EditSession, shown: Mapping[int, Var] = MappingProxyType({})) -> None:
        self._session = session
        self._shown = shown

    def _leaf(self, value: Expr) -> Expr:
        known = self._shown.get(id(value))
        return resolve(self._session.definitions, value) if known is None else known

    def __getitem__(self, var: Var) -> Expr:
        return self._session.definitions[var]

    def get(self, var: Any, default: Any = None) -> Any:
        """The value of ``var``; ``default`` if it has none. Faster than Mapping's ``get``, which catches an error."""
        return self._session.definitions.get(var, default)

    def __iter__(self) -> Iterator[Var]:
        return (var for var in self._session.position if var in self._session.definitions)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def depends_on(self, value: Expr, others: Iterable[Var]) -> bool:
        """True if ``value`` is computed from any of ``others``.

        Cost: the values between the first of ``others`` and ``value`` in the block.
        """
        leaf = self._leaf(value)
        return isinstance(leaf, Var) and self._session.depends_on(leaf, others)

    def depths(self, values: Iterable[Var]) -> dict[Var, int]:
        """For each of ``values``, variables of this block, the most others of them on a path of operands below it.

        Values of the same depth do not depend on each other. Cost: the values that they are computed from, as far as
        these come after the first of ``values``.
        """
        return self._session.depths(values)

    def matches(self, pattern: DFPattern, value: Expr) -> Iterator[Matchings]:
        """Each way in which ``value`` matches ``pattern``, with the users that values have in this block.

        For a rewriter that looks further than its own pattern. A match returns variables, as in `rewrite_bindings`.
        """
        definitions = self._session.definitions
        for search in compiled(pattern).searches(definitions, self._leaf(value), view=self._session):
            yield Matchings(search.shown(as_leaves=True), value, definitions)

    def users_of(self, value: Expr) -> tuple[Var, ...]:
        """The bindings that compute with ``value``, in block order."""
        return tuple(self._session.consumers(self._leaf(value))[0])

    def is_output(self, value: Expr) -> bool:
        """True if ``value`` is an output of the block: visible after a dataflow block, or used after a plain one."""
        return self._session.consumers(self._leaf(value))[1]

    def needed_elsewhere(self, parts: Sequence[Expr], results: Iterable[Expr]) -> Var | None:
        """The first of ``parts`` that is an output, or has a user outside ``parts`` and ``results``; None otherwise."""
        leaves = [leaf for part in parts if isinstance(leaf := self._leaf(part), Var)]
        known = {*leaves, *map(self._leaf, results)}
        return next((one for one in leaves if self.is_output(one) or not known.issuperset(self.users_of(one))), None)
