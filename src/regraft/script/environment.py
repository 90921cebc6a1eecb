"""The meaning of the names of one function while it is being read, with scopes that open and close.

A dataflow block and each branch of an `if` is a scope. When it closes, its names get back their earlier meaning, and
the environment remembers why a lost name is not visible, for error messages. Constant time per name.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import Any, Final, cast, final

from ..ir.near_names import meant
from .sizes import SizeScope

_ABSENT: Final = object()


@final
class Environment:
    """The names of a function: its variables and sizes, and the names around it (``outer``, which is never changed)."""

    __slots__ = ("_hidden", "_names", "_outer", "_undo", "sizes")

    def __init__(self, outer: Mapping[str, Any], sizes: SizeScope) -> None:
        self.sizes = sizes
        self._outer = outer
        self._names: dict[str, Any] = {}
        self._undo: list[list[tuple[str, Any]]] = []
        self._hidden: dict[str, str] = {}

    def get(self, name: str, default: Any) -> Any:
        """The meaning of ``name``, or ``default``."""
        found = self._names.get(name, _ABSENT)
        return self._outer.get(name, default) if found is _ABSENT else found

    def visible(self) -> Mapping[str, Any]:
        """All visible names with their meanings, as a view that changes as scopes open and close."""
        return ChainMap(self._names, cast("dict[str, Any]", self._outer))

    def items(self) -> list[tuple[str, Any]]:
        """The names of the function itself, with their meanings."""
        return list(self._names.items())

    def bind(self, name: str, value: Any) -> None:
        """Give ``name`` the meaning ``value`` until the current scope closes, or it is bound again."""
        if self._undo:
            self._undo[-1].append((name, self._names.get(name, _ABSENT)))
        self._names[name] = value

    def open(self) -> None:
        """Open a scope."""
        self._undo.append([])

    def close(self, reason: str) -> None:
        """Close the innermost scope; ``reason`` says why its names can no longer be used."""
        for name, before in reversed(self._undo.pop()):
            if before is _ABSENT:
                self._names.pop(name, None)
                self._hidden[name] = reason
            else:
                self._names[name] = before

    def why_unknown(self, name: str) -> str:
        """The message about a name that has no meaning here."""
        if name in self._hidden:
            return f"{name!r} is not visible here: {self._hidden[name]}"
        if name == "metadata":
            return (
                "the text has no metadata section: print the program with .script() "
                "(in TVM, with script(show_meta=True))"
            )
        near = meant(name, self.visible())
        return f"the name {name!r} is not defined{near and f'; {near}'}"
