"""The users of a value in the searched block, for the conditions of `UsersPattern`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...ir.expr import Expr, Var
from ..constrained_patterns import UsersPattern
from ..parts import describes_operands
from .machine import MatchState


def has_users(search: MatchState, pattern: UsersPattern, leaf: Expr) -> bool:
    """True if ``leaf`` has the users that ``pattern`` asks for."""
    found = users_of(search, pattern, leaf)
    if found is None:
        return False
    users, is_output = found
    return len(users) + is_output == (pattern.count or 0)


def users_of(search: MatchState, pattern: UsersPattern, leaf: Expr) -> tuple[list[Var], bool] | None:
    """The users of ``leaf`` that count for ``pattern``, and whether ``leaf`` is an output of the block.

    None if the block does not bind ``leaf``. If the pattern has no count, only users that the match does not describe
    count. Cost: then linear in the match.
    """
    if leaf not in search.block.position:
        return None
    users, is_output = search.block.consumers(leaf)
    if pattern.count is not None:
        return users, is_output
    described: set[Any] = set()
    for part, (found, _) in search.bound.items():
        if describes_operands(part):
            described.update(_flat(found))
    return [user for user in users if user not in described], is_output


def _flat(found: Any) -> Iterator[Any]:
    """The values of a pattern: a single value or, inside of repeats, the elements of nested lists."""
    pending = [found]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending.extend(one)  # pyright: ignore[reportUnknownArgumentType]
        else:
            yield one
