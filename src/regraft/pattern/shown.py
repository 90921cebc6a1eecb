"""Patterns as HTML for notebooks: a tree, with a number for each part that stands in several places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from .derived import text_with_parts
from .parts import fixed_op
from .pattern import DFPattern, all_patterns

_CODE = "font-family:monospace;white-space:pre-wrap"


def html_of(roots: Sequence[DFPattern], ties: Sequence[tuple[str, Sequence[DFPattern]]] = ()) -> str:
    """``roots`` as nested lists of HTML, followed by ``ties``. A tie is a text with ``{}`` for each of its patterns.

    Cost: linear in the parts.
    """
    parts = dict.fromkeys(part for root in roots for part in all_patterns(root) if fixed_op(part) is None)
    places = Counter(child for part in parts for child in part.children())
    places.update(roots)
    places.update(part for _, tied in ties for part in tied)
    numbers: dict[DFPattern, int] = {}
    for part in parts:
        if places[part] > 1:
            numbers[part] = len(numbers) + 1
    told: set[DFPattern] = set()

    def name(part: DFPattern) -> str:
        return f"#{numbers[part]}" if part in numbers else "·" if part.children() else repr(part)

    lines: list[str] = []
    pending: list[DFPattern | None] = list(reversed(roots))
    while pending:
        part = pending.pop()
        if part is None:
            lines.append("</ul></li>")
            continue
        mark = f"#{numbers[part]} = " if part in numbers else ""
        if part in told:
            continue
        told.add(part)
        inner = [child for child in dict.fromkeys(part.children()) if child in numbers or child.children()]
        inner = [child for child in inner if fixed_op(child) is None and child not in told]
        text = text_with_parts(part, {child: name(child) for child in part.children() if fixed_op(child) is None})
        lines.append(f"<li>{escape(mark + text)}<ul>")
        pending.append(None)
        pending.extend(reversed(inner))
    below = "".join(f"<div>{escape(text.format(*map(name, tied)))}</div>" for text, tied in ties)
    return f'<div style="{_CODE}"><ul>{"".join(lines).replace("<ul></ul>", "")}</ul>{below}</div>'
