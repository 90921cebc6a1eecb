"""The difference of two programs, line by line, as text for people."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import unified_diff
from html import escape
from typing import Any, Final

_COLORS: Final = {"-": "color:#b34700", "+": "color:#006d50", "@": "color:#5b6472"}


@dataclass(frozen=True, slots=True)
class Diff:
    """The lines of two programs: lines of the first only begin with ``-``, lines of the second only with ``+``."""

    lines: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.lines)

    def __str__(self) -> str:
        return "\n".join(self.lines) or "the programs are the same"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = [f'<span style="{_COLORS.get(line[:1], "")}">{escape(line)}</span>' for line in str(self).splitlines()]
        return f"<pre>{'<br>'.join(lines)}</pre>"


def diff(before: Any, after: Any, context: int = 2) -> Diff:
    """The difference of the printed forms of two programs, or pieces of them; empty, and false, if they are equal.

    ``context`` lines around each change are included. Names count: a variable with another name is a difference. Cost:
    printing both and comparing the lines.
    """
    for program in (before, after):
        if not hasattr(program, "script"):
            raise TypeError(f"diff compares programs and parts of programs, not {program!r}")
    old: list[str] = before.script(show_meta=False).splitlines()
    new: list[str] = after.script(show_meta=False).splitlines()
    return Diff(tuple(unified_diff(old, new, "before", "after", lineterm="", n=context)))
