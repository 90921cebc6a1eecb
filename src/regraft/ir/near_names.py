"""Hints for messages about a name that does not exist: similar names, or all existing names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches


def meant(name: str, known: Iterable[str], most: int = 1, shown: Callable[[str], str] = str) -> str:
    """The question "did you mean ...?" with at most ``most`` similar names of ``known``; empty if none is similar."""
    near = get_close_matches(name, list(known), n=most)
    return f"did you mean {' or '.join(map(shown, near))}?" if near else ""


def hint(name: str, known: Iterable[str], most: int = 1) -> str:
    """The question of `meant`; if no name is similar, the list of all ``known`` names."""
    names = list(known)
    return meant(name, names, most) or f"there are: {', '.join(names) or 'none'}"
