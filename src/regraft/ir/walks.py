"""Walks with a stack of their own, so that depth is no limit."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def inner_first(root: T, parts_of: Callable[[T], Iterable[T]]) -> list[T]:
    """``root`` and all that it is made of, each object once, parts before what they are part of, from left to right.

    Cost: linear in the parts.
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
    """``roots`` and all that ``onward`` leads to from them, each once, those that were met last first; none ``known``.

    Cost: linear in what is reached and where that leads to.
    """
    found: set[T] = set()
    pending = list(roots)
    while pending:
        current = pending.pop()
        if current not in found and current not in known:
            found.add(current)
            yield current
            pending.extend(onward(current))
