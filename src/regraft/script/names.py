"""The names that a text may use: the public names of the ``R``, ``I`` and ``T`` namespaces only.

The names of a text are looked up here and in the text itself; Python's own names, attributes and globals cannot be
reached. Also provides identifiers for the printer: valid, and each used once.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Final, final

from ..ir.errors import IRError
from ..ir.near_names import meant
from ..ir.op import Op

RESERVED: Final = frozenset(
    {"R", "I", "T", "cls", "metadata", "TypeVar", "tvm", "Module", *keyword.kwlist, *keyword.softkwlist} - {"_"}
)
"""Identifiers with a meaning in a script; no variable may be printed under them."""

_NAMESPACES: Final = ("R", "I", "T")
_NO_IDENTIFIER: Final = re.compile(r"[^0-9A-Za-z_]")


@final
class Namespace:
    """The names that a text may reach through ``R.``, ``R.nn.``, ``T.`` ...: a closed list."""

    __slots__ = ("members", "name")
    name: str
    members: Mapping[str, object]

    def __init__(self, name: str, members: Mapping[str, object]) -> None:
        self.name = name
        self.members = members

    @classmethod
    def of_module(cls, name: str, module: ModuleType) -> Namespace:
        """The public names (``__all__``) of a module.

        Its public submodules become namespaces.
        """
        members: dict[str, object] = {}
        public: Iterable[str] = module.__all__
        for member in public:
            value: object = getattr(module, member)
            members[member] = cls.of_module(f"{name}.{member}", value) if isinstance(value, ModuleType) else value
        return cls(name, members)

    def lookup(self, member: str) -> object:
        """The meaning of ``member``; raises `IRError` with similar names."""
        found = self.members.get(member)
        if found is None and self.name.partition(".")[0] == "R":
            found = declared_operator(f"{self.name}.{member}".removeprefix("R."))
        if found is None:
            near = meant(member, self.members, 3, f"{self.name}.{{}}".format)
            if not near and self.name.partition(".")[0] == "R":
                near = "declare your own operators with rx.operator before a program calls them"
            raise IRError(f"{self.name}.{member} does not exist{near and f'; {near}'}")
        return found

    def __repr__(self) -> str:
        return self.name


@final
class OperatorPath:
    """The beginning of names of operators that are declared outside the vocabulary: ``R.acme``."""

    __slots__ = ("_prefix",)

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def lookup(self, member: str) -> object:
        """The operator or the longer path for the name ``member``; raises `IRError` with similar names."""
        name = f"{self._prefix}.{member}"
        found = declared_operator(name)
        return Op.get(name) if found is None else found

    def __getattr__(self, name: str) -> object:
        try:
            return self.lookup(name)
        except IRError as error:
            raise AttributeError(str(error)) from None

    def __repr__(self) -> str:
        return f"R.{self._prefix}"


def declared_operator(name: str) -> Op | OperatorPath | None:
    """The operator of that name, or the `OperatorPath` of operators whose names begin with it; None otherwise."""
    found = Op.find(name)
    return found if found is not None else OperatorPath(name) if Op.has_prefix(name) else None


def identifier(hint: str) -> str:
    """A valid Python identifier similar to ``hint``; reserved words get an underscore, and ``R`` becomes ``R_1``."""
    name = _NO_IDENTIFIER.sub("_", hint) if not hint.isascii() or not hint.isidentifier() else hint
    if not name or name[0].isdigit():
        name = f"v{name}"
    if name in _NAMESPACES:
        return f"{name}_1"
    return f"{name}_" if name in RESERVED else name


@final
class IdentifierSupply:
    """Identifiers for one text: `identifier` of the hint, with ``_1``, ``_2`` ... appended while that is taken."""

    __slots__ = ("_ever", "_next", "_scopes", "_taken")

    def __init__(self) -> None:
        self._taken = set(RESERVED)
        self._ever = set(RESERVED)
        self._next: dict[str, int] = {}
        self._scopes: list[list[tuple[str, str, int]]] = []

    def fresh(self, hint: str, *, lasting: bool = False) -> str:
        """An identifier that is free here; it is free again after its scope ends. Cost: constant.

        A ``lasting`` identifier belongs to the whole text: no scope has used it before, and none will use it later.
        """
        stem = name = identifier(hint)
        count = 0
        while name in self._taken or (lasting and name in self._ever):
            count = max(count + 1, self._next.get(stem, 1))
            name = f"{stem}_{count}"
        if count:
            self._next[stem] = count + 1
        self._taken.add(name)
        self._ever.add(name)
        if self._scopes and not lasting:
            self._scopes[-1].append((name, stem, count))
        return name

    @contextmanager
    def scope(self) -> Generator[None]:
        """A scope: the identifiers given out inside are free again when it ends."""
        self._scopes.append([])
        yield
        for name, stem, count in self._scopes.pop():
            self._taken.discard(name)
            if count:
                self._next[stem] = min(count, self._next[stem])
