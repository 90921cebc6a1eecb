"""Checks of nested lists, tuples and dictionaries that a type checker understands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard


def is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    """True for a list or a tuple."""
    return isinstance(value, list | tuple)


def is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """True for a dictionary."""
    return isinstance(value, dict)
