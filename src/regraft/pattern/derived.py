"""Copies, outlines and short texts of patterns."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Final, cast

from .parts import inner_first
from .pattern import DFPattern, RepeatPattern


def duplicate(pattern: DFPattern, done: dict[DFPattern, DFPattern]) -> DFPattern:
    """A copy of ``pattern`` and all of its parts. A part in several places is copied once."""
    for part in inner_first(pattern):
        if part not in done:
            copy = done[part] = type(part).__new__(type(part))
            for name, value in part.fields_of():
                setattr(copy, name, _with_copies(value, done))
    return done[pattern]


def form_of(parts: Sequence[DFPattern], fixed: Container[DFPattern]) -> list[Any]:
    """An outline of a pattern. Two patterns with equal outlines differ only in the identity of their own parts.

    ``parts`` are all parts of the pattern. ``fixed`` parts and repeats are listed themselves, other parts by kind.
    """
    numbers = {part: number for number, part in enumerate(parts)}
    return [
        part
        if part in fixed or isinstance(part, RepeatPattern)
        else (type(part), [_with_copies(value, numbers) for _, value in part.fields_of()])
        for part in parts
    ]


def _with_copies(value: Any, copies: Mapping[DFPattern, Any]) -> Any:
    """A field of a pattern, with each pattern in it replaced by its copy."""
    if isinstance(value, tuple):
        return tuple([_with_copies(item, copies) for item in cast("tuple[Any, ...]", value)])
    return copies[value] if isinstance(value, DFPattern) else value


_LONGEST_PART: Final = 200
"""The most characters that are shown of a part. Without it, the text of shared parts could grow exponentially."""


def describe(pattern: DFPattern) -> str:
    """A short text such as ``add(*, const)``, for messages."""
    texts: dict[DFPattern, str] = {}
    for part in inner_first(pattern):
        text = part.text_with(texts)
        texts[part] = text if len(text) <= _LONGEST_PART or part is pattern else text[: _LONGEST_PART - 3] + "..."
    return texts[pattern]


def text_with_parts(pattern: DFPattern, texts: Mapping[DFPattern, str]) -> str:
    """As `describe`, with the given ``texts`` for some of the parts."""
    others = {part: describe(part) for part in pattern.children() if part not in texts}
    return pattern.text_with({**others, **texts})
