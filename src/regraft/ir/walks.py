"""Walks that keep an explicit stack, so Python's recursion limit does not apply."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def inner_first(root: T, parts_of: Callable[[T], Iterable[T]]) -> list[T]:
    """``root`` and all its parts, each object once, from left to right. Parts come before the object they belong to.

    Cost: linear in the number of parts.
    """
    found: dict[int, T] = {}
    stack: list[tuple[T, bool]] = [(root, False)]
    while stack:
        current, parts_are_found = stack.pop()
        if parts_are_found:
            found[id(current)] = current
        elif id(current) not in found:
            stack.append((current, True))
            stack.extend([(part, False) for part in reversed([*parts_of(current)])])
    return list(found.values())


def reached(roots: Iterable[T], onward: Callable[[T], Iterable[T]], known: Container[object] = ()) -> Iterator[T]:
    """``roots`` and all that ``onward`` reaches from them, each once, depth first; skips those in ``known``.

    Cost: linear in the reached items and the items that ``onward`` returns for them.
    """
    found: set[T] = set()
    pending = list(roots)
    while pending:
        current = pending.pop()
        if current not in found and current not in known:
            found.add(current)
            yield current
            pending.extend(onward(current))


def needs_first(roots: Iterable[T], needs_of: Callable[[T], Iterable[T]], done: Container[object]) -> Iterator[T]:
    """``roots`` and all items that they need, each once and after its own needs; skips the items in ``done``.

    The caller must add each item to ``done`` before it takes the next. ``needs_of`` is called again after the needs of
    an item are done, and may then return fewer items. Cost: linear in the number of needs.
    """
    pending = [*roots][::-1]
    while pending:
        current = pending[-1]
        missing = [] if current in done else [need for need in needs_of(current) if need not in done]
        if missing:
            pending.extend(reversed(missing))
            continue
        pending.pop()
        if current not in done:
            yield current
