"""The table of backends' patterns by name, ``"backend.operation"``: a backend fills it once, and fusion reads it.

There is one table per process. A name stands for one pattern, the last one that was registered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from .fuse_by_pattern import FusionPattern

_PATTERNS: Final[dict[str, FusionPattern]] = {}


def register_patterns(patterns: Iterable[FusionPattern | tuple[Any, ...]]) -> None:
    """Add patterns to the table; a tuple holds the arguments of `FusionPattern`. Later patterns take precedence.

    Raises `TypeError` for anything else.
    """
    for item in patterns:
        if not isinstance(item, FusionPattern | tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"register_patterns: a {type(item).__name__} is no pattern; expected a FusionPattern, or a tuple of a "
                "name and a pattern, then perhaps its parts and a check"
            )
        entry = item if isinstance(item, FusionPattern) else FusionPattern(*item)
        _PATTERNS.pop(entry.name, None)
        _PATTERNS[entry.name] = entry


def get_patterns_with_prefix(prefix: str) -> list[FusionPattern]:
    """The patterns whose names begin with ``prefix``, by precedence, highest first. Cost: linear in the table."""
    return [entry for name, entry in reversed(_PATTERNS.items()) if name.startswith(prefix)]


def get_pattern(name: str) -> FusionPattern | None:
    """The pattern of a name; None if there is none."""
    return _PATTERNS.get(name)
