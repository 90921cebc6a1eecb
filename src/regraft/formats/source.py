"""The description of a model in its own terms, before it is read as a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class StoredTensor(NamedTuple):
    """A tensor that a model stores, as its file describes it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


class SourceFacts(NamedTuple):
    """The facts of a model's source.

    ``operators`` counts the operators, by their names in the source. ``versions`` has the versions of the format and of
    its operator sets. ``stored`` lists the named tensors, if the format lists them.
    """

    format: str
    versions: Mapping[str, int | str]
    operators: Mapping[str, int]
    producer: str = ""
    stored: tuple[StoredTensor, ...] = ()
