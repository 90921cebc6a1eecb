"""Chains: patterns of a run of calls, each computed from the next, that ends in a given value."""

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
    """In the pattern of a link: the operand from which the chain continues. It matches any value."""

    __slots__ = ()

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return "below"


NO_PLACE: Final = NotPattern | FunctionPattern | IfPattern | RepeatPattern
"""The kinds of patterns that must not contain the hole of a link."""


@final
class ChainPattern(DFPattern):
    """A value that a run of links computes from ``until``; see `chain`. Each link matches ``links.pattern``.

    After a link is matched, the search continues with the operand that ``hole`` stands for. So neither the pattern nor
    the search is nested as deep as the chain is long. ``text`` describes the links in messages.
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
    """Raise `PatternError` unless ``hole`` is an operand in every match of ``link``."""
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
