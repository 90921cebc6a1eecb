"""Large constants that are written out in a text are removed from it before it is parsed.

Python's parser makes an object for every number, so a constant of ten million elements would take gigabytes. A list of
plain numbers in ``R.const`` is also JSON: it is read as JSON, and a name replaces it in the text. Lines and columns of
everything else stay the same.
"""

from __future__ import annotations

import ast
import json
from typing import Any, Final, NamedTuple

LONG: Final = 20_000
"""A list of numbers is removed if its text has at least this many characters."""

_CONST: Final = "const("
_NUMBERS: Final = b"0123456789 \t\r\n.,+-eE[]"
_SURE_DIGITS: Final = 18
"""An integer of this many digits fits 64 bits. The ordinary reader checks longer ones, and reports their place."""


class Reduced(NamedTuple):
    """A text in which names replace large lists, and the value of each name."""

    text: str
    values: dict[str, Any]

    def is_whole(self, tree: ast.Module) -> bool:
        """True if every name occurs in ``tree`` as a name, and not inside a string or a comment."""
        found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        return all(name in found for name in self.values)


def without_large_literals(text: str) -> Reduced:
    """``text`` with a name for each long list of numbers in ``const([...])``. Cost: linear in the text."""
    if len(text) < LONG:
        return Reduced(text, {})
    stem = "large_literal_"
    while stem in text:
        stem += "_"
    pieces: list[str] = []
    values: dict[str, Any] = {}
    done = place = 0
    while (first := text.find(_CONST, place)) >= 0 and (place := text.find(")", first)) >= 0:
        # A list of numbers contains neither of the two, so that each part of the text is examined once.
        begin = text.rfind(_CONST, first, place) + len(_CONST)
        start, end = text.find("[", begin, place), text.rfind("]", begin, place) + 1
        if start < 0 or end - start < LONG or text[begin:start].strip():
            continue
        literal = text[start:end]
        value = _value(literal) if literal.isascii() and not literal.encode().translate(None, _NUMBERS) else None
        if value is not None:
            name = f"{stem}{len(values)}"
            values[name] = value
            pieces.extend((text[done:start], _in_place_of(literal, name)))
            done = end
    return Reduced("".join((*pieces, text[done:])), values)


def _value(literal: str) -> list[Any] | None:
    """The list; None if it is not JSON (a plus sign, ``1.``) or has an integer that may not fit 64 bits."""
    try:
        return json.loads(literal, parse_int=_integer)
    except (ValueError, RecursionError):
        return None


def _integer(digits: str) -> int:
    if len(digits) > _SURE_DIGITS:
        raise ValueError
    return int(digits)


def _in_place_of(literal: str, name: str) -> str:
    """``name``, padded with blanks and line ends so that the text after it keeps its line and column."""
    first, *others = literal.split("\n")
    return "\n".join([name.ljust(len(first)), *(" " * len(line) for line in others)])
