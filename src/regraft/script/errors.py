"""The error of reading a program's text: the fault, its line and column, and the line itself.

Knows nothing of the language; a `SourceText` makes these errors from a position in its text.
"""

from __future__ import annotations

from functools import partial

from ..ir.errors import RegraftError

_WIDEST = 160
"""The most characters of an offending line that are shown; the rest is cut off around the fault."""


class ParseError(RegraftError, RuntimeError, ValueError, TypeError):
    """A text is not a program; the error points at the place.

    Relax raises RuntimeError, ValueError or TypeError for faults of a text, depending on which part finds them; this
    error is all three.

    ``line`` and ``column`` count from 1, ``source`` names the text (a file name, or ``<text>``), ``source_line`` is the
    offending line, and ``reason`` the message without the place. ``__cause__`` is the operator's own error, if an
    operator rejected the call.
    """

    line: int
    column: int
    source: str
    source_line: str
    reason: str

    def __init__(self, reason: str, *, source: str, line: int, column: int, source_line: str) -> None:
        self.reason = reason
        self.source = source
        self.line = line
        self.column = column
        self.source_line = source_line
        super().__init__(f"{source}:{line}:{column}: {reason}\n{_pointed(source_line, column)}")

    def __reduce__(self) -> tuple[object, ...]:
        place = {"source": self.source, "line": self.line, "column": self.column, "source_line": self.source_line}
        return partial(ParseError, **place), (self.reason,)


def _pointed(line: str, column: int) -> str:
    """The line, indented, with a caret under its ``column``; a long line is cut around the caret."""
    offset = max(column - 1, 0)
    start = 0 if len(line) <= _WIDEST else max(0, min(offset - _WIDEST // 2, len(line) - _WIDEST))
    before, after = ("…" if start else ""), ("…" if start + _WIDEST < len(line) else "")
    shown = line[start : start + _WIDEST].replace("\t", " ")
    return f"    {before}{shown}{after}\n    {' ' * (len(before) + offset - start)}^"
