"""Hints in messages about a name that does not exist: the names that look like it, or all that there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches


def meant(name: str, known: Iterable[str], most: int = 1, shown: Callable[[str], str] = str) -> str:
    """The question for at most ``most`` of the ``known`` names that look like ``name``; empty where none does."""
    near = get_close_matches(name, list(known), n=most)
    return f"did you mean {' or '.join(map(shown, near))}?" if near else ""


def hint(name: str, known: Iterable[str], most: int = 1) -> str:
    """The same, or else the list of all ``known`` names."""
    names = list(known)
    return meant(name, names, most) or f"there are: {', '.join(names) or 'none'}"
