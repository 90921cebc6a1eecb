"""The origins of the values of an exported program: the submodules of the model, by their dotted paths."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...ir.origin import Origin

_REPEATED: Final = re.compile(r"@\d+")
"""The mark that PyTorch adds to the path of a module that is called again."""


def module_path(node: Any) -> str:
    """The dotted path of the innermost submodule that made ``node``; the node's name if that is the model itself."""
    stack = node.meta.get("nn_module_stack")
    path = _REPEATED.sub("", next(reversed(stack.values()))[0]) if stack else ""
    return path or str(node.name)


def origin_of(node: Any, call: object = None) -> Origin:
    """The origin for the values of ``node``, with ``call``, its record, if there is one."""
    return Origin("torch", module_path(node), call)


def place_of(node: Any) -> str:
    """The place of ``node`` for messages: its submodule, and the line of the model's code if that is known."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    files = [line for line in lines if line.startswith('File "')]
    source = ""
    if files:
        name, _, rest = files[-1].removeprefix('File "').partition('", line ')
        source = f", {name}:{rest.partition(',')[0]}"
    return f"{module_path(node)}{source}"


def listed(places: Mapping[str, Sequence[str]]) -> str:
    """The lines of a message that lists for each entry its first places."""
    lines: list[str] = []
    for what, found in places.items():
        more = f", and {len(found) - _MOST_PLACES} more" if len(found) > _MOST_PLACES else ""
        lines.append(f"  {what}: at {'; '.join(found[:_MOST_PLACES])}{more}")
    return "\n".join(lines)


_MOST_PLACES: Final = 3
