"""The uses of a value in the block that is searched: who computes with it, and who else than the match describes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...analysis.values import BlockView, Definitions, arguments_of, definition, resolve
from ...ir.expr import Expr, Tuple, Var
from ..constrained_patterns import UsersPattern
from ..parts import describes_operands
from .machine import MatchState


def uses(view: BlockView, user: Expr, source: Expr, index: int) -> bool:
    """True if ``source`` is argument ``index`` (any, if -1) of ``user``, by itself or in a tuple."""
    operands = arguments_of(view.definitions, user)
    operands = operands if index < 0 else operands[index : index + 1]
    return any(leaf is source for leaf in held(view.definitions, operands))


def held(definitions: Definitions, operands: Sequence[Expr], beside: Expr | None = None) -> Iterator[Expr]:
    """The leaves of ``operands`` and of what tuples written out among them hold, each once; nothing of ``beside``."""
    found: set[Expr] = set() if beside is None else {beside}
    pending = [*reversed(operands)]
    while pending:
        leaf = resolve(definitions, pending.pop())
        if leaf not in found:
            found.add(leaf)
            yield leaf
            whole = definition(definitions, leaf)
            pending += reversed(whole.fields) if type(whole) is Tuple else ()


def other_users(view: BlockView, source: Expr, user: Expr | None = None) -> tuple[list[Var], bool]:
    """The bindings that compute with ``source`` beside ``user``, and whether it is handed out of the block beside it.

    Aliases, and tuples that hold it, are not uses by themselves. Cost: linear in the users of its names.
    """
    definitions = view.definitions
    others: dict[Var, None] = {}
    is_output = False
    names: dict[Var, None] = {source: None} if isinstance(source, Var) else {}
    pending = list(names)
    while pending:
        name = pending.pop()
        # A field taken out of `user`, where that is a tuple, may be the source again, so names of it are followed too.
        is_source = any(leaf is source for leaf in held(definitions, [name], beside=user))
        is_output = is_output or (is_source and name in view.outputs)
        for other in view.users.get(name, ()):
            is_name = resolve(definitions, other) is not other or type(definitions.get(other)) is Tuple
            if is_name and other not in names:
                names[other] = None
                pending.append(other)
            elif is_source and not is_name and other is not user:
                others[other] = None
    return list(others), is_output


def has_users(search: MatchState, pattern: UsersPattern, leaf: Expr) -> bool:
    """True if ``leaf`` has the users that ``pattern`` asks for."""
    found = users_of(search, pattern, leaf)
    if found is None:
        return False
    users, is_output = found
    return len(users) + is_output == (pattern.count or 0)


def users_of(search: MatchState, pattern: UsersPattern, leaf: Expr) -> tuple[list[Var], bool] | None:
    """The users of ``leaf`` that ``pattern`` counts, and whether it is seen after the block; None if not bound there.

    Where it gives no number these are the ones that what is matched so far does not describe. Cost: then linear in the
    match.
    """
    if leaf not in search.block.position:
        return None
    users, is_output = other_users(search.block, leaf)
    if pattern.count is not None:
        return users, is_output
    described: set[Any] = set()
    for part, (found, _) in search.bound.items():
        if describes_operands(part):
            described.update(_flat(found))
    return [user for user in users if user not in described], is_output


def _flat(found: Any) -> Iterator[Any]:
    """The values that a pattern stands for: one, or, inside of repeats, lists of them."""
    pending = [found]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending.extend(one)  # pyright: ignore[reportUnknownArgumentType]
        else:
            yield one
