"""Values made of a pattern: a copy with new identities, and a short text for messages."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Final, cast

from .parts import inner_first
from .pattern import DFPattern, RepeatPattern


def duplicate(pattern: DFPattern, done: dict[DFPattern, DFPattern]) -> DFPattern:
    """A copy of ``pattern`` with new identities; parts that stand in several places stay one part."""
    for part in inner_first(pattern):
        if part not in done:
            copy = done[part] = type(part).__new__(type(part))
            for name, value in part.fields_of():
                setattr(copy, name, _with_copies(value, done))
    return done[pattern]


def form_of(parts: Sequence[DFPattern], fixed: Container[DFPattern]) -> list[Any]:
    """An outline of a pattern of ``parts``: of the ``fixed`` ones, and repeats, which they are, of others what kind."""
    numbers = {part: number for number, part in enumerate(parts)}
    return [
        part
        if part in fixed or isinstance(part, RepeatPattern)
        else (type(part), [_with_copies(value, numbers) for _, value in part.fields_of()])
        for part in parts
    ]


def _with_copies(value: Any, copies: Mapping[DFPattern, Any]) -> Any:
    """A field of a pattern, with copies in the place of patterns."""
    if isinstance(value, tuple):
        return tuple([_with_copies(item, copies) for item in cast("tuple[Any, ...]", value)])
    return copies[value] if isinstance(value, DFPattern) else value


_LONGEST_PART: Final = 200
"""The number of characters of a part that are shown; parts in many places would make the text grow without limit."""


def describe(pattern: DFPattern) -> str:
    """A short text: ``add(*, const)``; for messages, not for parsing."""
    texts: dict[DFPattern, str] = {}
    for part in inner_first(pattern):
        text = part.text_with(texts)
        texts[part] = text if len(text) <= _LONGEST_PART or part is pattern else text[: _LONGEST_PART - 3] + "..."
    return texts[pattern]


def text_with_parts(pattern: DFPattern, texts: Mapping[DFPattern, str]) -> str:
    """`describe`, with ``texts`` in the places of the parts that it has one for."""
    others = {part: describe(part) for part in pattern.children() if part not in texts}
    return pattern.text_with({**others, **texts})
