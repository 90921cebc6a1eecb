"""The description of a model in its own terms, before it is read as a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class StoredTensor(NamedTuple):
    """A tensor that a model stores, as its file says it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


class SourceFacts(NamedTuple):
    """The facts of a model's source.

    ``operators`` counts them under the names that they have there. ``versions`` are those of the format and of the sets
    of operators that it names. ``stored`` are the tensors that have names, where the format lists them.
    """

    format: str
    versions: Mapping[str, int | str]
    operators: Mapping[str, int]
    producer: str = ""
    stored: tuple[StoredTensor, ...] = ()
