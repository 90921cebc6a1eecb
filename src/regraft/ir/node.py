"""The common base class of all objects of the language: slots, and fields that never change.

Expressions, types, bindings, blocks, functions and modules are all `Node`. They can be shared between programs
and used as keys. To change a program, build a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple, NoReturn

init_field: Final[Callable[[Any, str, Any], None]] = object.__setattr__
"""Sets a field while a node is being built; not to be used on a finished node."""


def init_span(node: Node, span: Any) -> None:
    """Store the place in a text that a node is made with, if any. Frequent nodes check for None before the call."""
    if span is not None:
        init_field(node, "_span", span)


_NO_PARTS: Final = frozenset({"__weakref__", "_hash", "_span"})

_MOST_LINES, _WIDEST = 100, 300
"""The greatest number of lines that a notebook shows, and of characters in a line."""


@cache
def slots_of(kind: type) -> tuple[str, ...]:
    """The fields of a node's class, without the internal ones that do not belong to its meaning."""
    names = [name for base in reversed(kind.__mro__) for name in base.__dict__.get("__slots__", ())]
    return tuple(name for name in dict.fromkeys(names) if name not in _NO_PARTS)


def folded(text: str, rest: str) -> str:
    """The first lines of ``text`` as HTML for a notebook, in a few kilobytes; ``rest`` says where to find the rest."""
    lines = text.strip().splitlines()
    shown = "\n".join([line if len(line) <= _WIDEST else f"{line[:_WIDEST]} …" for line in lines[:_MOST_LINES]])
    page = f"<pre>{_escaped(shown)}</pre>"
    more = len(lines) - _MOST_LINES
    if more <= 0:
        return page
    return f"<details open><summary>{len(lines):,} lines</summary>{page}</details><p>{more:,} more lines: {rest}</p>"


def _escaped(text: str) -> str:
    """``text`` as HTML."""
    from html import escape  # it loads a table of 2,000 names, which only notebooks need

    return escape(text)


class Shown:
    """Base of results of analyses: a notebook shows the first lines of the text."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The first lines of the text, with a note if there are more. Cost: that of the text."""
        return folded(str(self), "<code>print</code> gives all, <code>rx.view</code> the page")


class Definite:
    """Base of nodes that never stand for a number of a run: they are always true in Python."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return True


class TextOptions(NamedTuple):
    """Options for the text of a piece of program."""

    elide: bool = True
    """Large constants are shortened."""
    all_types: bool = True
    """Each binding has its type beside it, even if its value shows it."""
    declare: bool | None = False
    """Free variables and their types stand before every piece that is not a function; None: only before bindings,
    blocks and branches."""
    module_name: str = "Module"
    module_alias: str = "cls"
    """The name through which functions call others of the module; if empty, they use the name of its class."""
    ir_prefix: str = "I"
    """The name under which the text imports `regraft.script.ir`."""


class Node:
    """Base of all immutable objects of the language; equality and hash are by identity unless a class overrides them.

    ``text_of(node, options)`` prints the written form. It is defined in another package; the top module sets it.
    """

    __slots__ = ("__weakref__", "_span")
    _span: Any
    text_of: ClassVar[Callable[[Any, TextOptions], str]]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"{type(self).__name__} is immutable: cannot set {name!r}; build a new {type(self).__name__} instead"
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: cannot delete {name!r}")

    def _repr_html_(self) -> str:
        """The text of the node, for notebooks."""
        return f"<code>{_escaped(repr(self))}</code>"

    @property
    def span(self) -> Any:
        """The place in a text that the node was made with; None by default.

        The parser, the passes and the readers of files set none. Variables have origins instead.
        """
        return getattr(self, "_span", None)

    def same_as(self, other: object) -> bool:
        """True if ``other`` is the same object."""
        return self is other

    def __copy__(self) -> Node:
        return self

    def __deepcopy__(self, memo: object) -> Node:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {slot: getattr(self, slot) for slot in slots_of(type(self))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for slot, value in state.items():
            init_field(self, slot, value)

    def script(
        self,
        *,
        show_meta: bool = True,
        show_all_ty: bool = True,
        verbose_expr: bool = False,
        name: str | None = None,
        indent_spaces: int = 4,
        print_line_numbers: bool = False,
        extra_config: Mapping[str, Any] | None = None,
        module_alias: str = "cls",
        ir_prefix: str = "I",
        **_relax_options: Any,
    ) -> str:
        """The text of this piece of program; it parses back to an equal one.

        With ``show_meta=False``, large constants are elided, as in `show`, and the text is for reading only. Without
        ``show_all_ty``, a binding has its type beside it only if its value does not show it. The free variables of a
        binding, block or branch stand before its lines, with their types; ``verbose_expr`` does the same for other
        expressions. ``name`` is the name of a module's class, ``module_alias`` the name that its functions use for it
        (``""``: ``name``), and ``ir_prefix`` replaces ``I``. ``indent_spaces`` and ``print_line_numbers`` set the
        layout. ``extra_config`` may hold ``"relax.show_all_ty"``, as in Relax. Relax's other options are accepted and
        ignored. Cost: linear in the size of the program.
        """
        all_types = show_all_ty and bool((extra_config or {}).get("relax.show_all_ty", True))
        options = TextOptions(not show_meta, all_types, verbose_expr or None, name or "Module", module_alias, ir_prefix)
        text = Node.text_of(self, options)
        if indent_spaces == 4 and not print_line_numbers:
            return text
        lines = text.split("\n")
        digits = len(str(len(lines)))
        for place, line in enumerate(lines):
            inner = line.lstrip(" ")
            start = f"{place + 1:>{digits}} " if print_line_numbers else ""
            lines[place] = f"{start}{' ' * ((len(line) - len(inner)) // 4 * indent_spaces)}{inner}"
        return "\n".join(lines)

    def show(self, *_relax_arguments: Any, **_relax_options: Any) -> None:
        """Print the text to standard output, highlighted on a terminal, with large constants elided."""
        show_text(str(self))

    def __str__(self) -> str:
        """The text with large constants elided; the free variables of a binding, block or branch stand before it."""
        return Node.text_of(self, TextOptions(declare=None))

    def __repr__(self) -> str:
        """The text of `str` without the free variables, as messages show it."""
        return Node.text_of(self, TextOptions())


def show_text(text: str) -> None:
    """Print script text to standard output, in colour if that is a terminal."""
    import sys

    if sys.stdout.isatty():
        from rich.console import Console
        from rich.syntax import Syntax

        Console().print(Syntax(text, "python", background_color="default", word_wrap=True))
    else:
        print(text)


class Folded(Node):
    """Base of programs: a notebook shows the first lines of their text, in a few kilobytes."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The first lines of the text, with a note if there are more. Cost: that of printing the program."""
        rest = "<code>.script()</code> gives all, <code>rx.view(program)</code> the page"
        return folded(self.script(show_meta=False), rest)
