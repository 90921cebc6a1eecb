"""Chains: a run of links, each computed from the next, down to a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from .pattern import (
    AndPattern,
    ConstrainedPattern,
    DFPattern,
    FunctionPattern,
    IfPattern,
    NotPattern,
    OrPattern,
    PatternError,
    RepeatPattern,
    all_patterns,
)


@final
class HolePattern(DFPattern):
    """The place in the pattern of a link where the value below it stands; any value by itself."""

    __slots__ = ()

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return "below"


NO_PLACE: Final = NotPattern | FunctionPattern | IfPattern | RepeatPattern
"""The patterns inside of which the value below a link cannot stand."""


@final
class ChainPattern(DFPattern):
    """A value computed from ``until`` by links one on the other, each a match of ``links.pattern``; see `chain`.

    A match of a link gives the next operand as what ``hole`` stands for; so no part of a pattern or of a search is
    nested as deep as a chain is long. ``text`` says which values are links, for messages.
    """

    __slots__ = ("hole", "links", "text", "until")

    def __init__(self, links: RepeatPattern, hole: HolePattern, until: DFPattern, text: str) -> None:
        self.links = links
        self.hole = hole
        self.until = until
        self.text = text
        _check_hole(links.pattern, hole, text)

    def children(self) -> tuple[DFPattern, ...]:
        """The links, as a repeat, and the end."""
        return (self.links, self.until)

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"chain({self.text}, until={parts[self.until]})"


def _check_hole(link: DFPattern, hole: HolePattern, text: str) -> None:
    """Raise `PatternError` unless a match of ``link`` gives a value further down for ``hole``."""
    same_value: list[DFPattern] = [link]
    while same_value:
        part = same_value.pop()
        if part is hole:
            raise PatternError(f"{text} is no link of a chain: it computes nothing from the value below it")
        if isinstance(part, OrPattern | AndPattern | ConstrainedPattern):
            same_value.extend(part.children())
    for part in all_patterns(link):
        if isinstance(part, NO_PLACE) and hole in all_patterns(part):
            raise PatternError(f"{text} is no link of a chain: the value below it stands inside of {part!r}")
    if hole not in all_patterns(link):
        raise PatternError(f"{text} is no link of a chain: put a wildcard where the value below it stands")
