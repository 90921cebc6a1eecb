"""The description of a model in its own terms, before it is read as a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class SourceFacts(NamedTuple):
    """The facts of a model's source.

    ``operators`` counts them under the names that they have there. ``versions`` are those of the format and of the sets
    of operators that it names.
    """

    format: str
    versions: Mapping[str, int | str]
    operators: Mapping[str, int]
    producer: str = ""
