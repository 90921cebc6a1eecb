"""Virtual devices: where a program says that a tensor lives, as Relax writes it in types.

They are kept through type rules, text, JSON and equality. No engine reads them: a program runs where its engine runs.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Final, cast, final

from .errors import IRError
from .node import Node, init_field


@final
class DeviceKind(str):
    """The name of a kind of device, ``"llvm"`` or ``"cuda"``; Relax asks it for ``kind.name``."""

    __slots__ = ()

    @property
    def kind(self) -> DeviceKind:
        """Itself."""
        return self

    @property
    def name(self) -> str:
        """The name alone."""
        return str(self)


_listed: Final[ContextVar[Sequence[VDevice]]] = ContextVar("the devices of the module that is being read", default=())


@contextmanager
def named_in(devices: Sequence[VDevice]) -> Generator[None]:
    """Inside, a text may mean one of ``devices``: ``"vdevice:1"`` the second one, ``"cuda"`` the first of that kind."""
    before = _listed.set(devices)
    try:
        yield
    finally:
        _listed.reset(before)


class VDevice(Node):
    """A device: ``VDevice("cuda", 0, "global")``. Equal when kind, options, number and memory are.

    ``target`` is its kind, ``"llvm"`` or ``"cuda"``, what has one as ``kind``, or a mapping with the entry
    ``"kind"`` and options beside it.
    """

    __slots__ = ("memory_scope", "options", "target", "vdevice_id")
    target: DeviceKind | None
    options: tuple[tuple[str, str], ...]
    vdevice_id: int
    memory_scope: str
    named: ClassVar[bool] = False
    """True once a device was made: until then no type names one, and nothing looks for it."""

    def __init__(
        self,
        target: object = None,
        vdevice_id: int = 0,
        memory_scope: str = "global",
    ) -> None:
        given: Mapping[str, Any] = cast("Mapping[str, Any]", target) if isinstance(target, Mapping) else {}
        options = {str(key): str(value) for key, value in given.items()}
        kind = options.pop("kind", None) if options else getattr(cast(Any, target), "kind", cast(Any, target))
        if not (kind is None or isinstance(kind, str)) or (options and kind is None):
            raise IRError(f'a device is a kind such as "llvm" or "cuda", or {{"kind": "cuda", ...}}; got {target!r}')
        init_field(self, "target", None if kind is None else DeviceKind(kind))
        init_field(self, "options", tuple(sorted(options.items())))
        init_field(self, "vdevice_id", int(vdevice_id))
        init_field(self, "memory_scope", str(memory_scope))
        VDevice.named = True

    @classmethod
    def of(cls, value: object) -> VDevice:
        """A device, or one written ``"cuda"``, ``"cuda:1"`` or ``"cuda:1:global"``. Raises `IRError` for others."""
        if isinstance(value, VDevice):
            return value
        if not isinstance(value, str) or not value:
            raise IRError(f'{value!r} is no device; give a VDevice, or a text such as "cuda:0:global"')
        kind, _, rest = value.partition(":")
        number, _, memory = rest.partition(":")
        if kind.isdigit() or (number and not number.removeprefix("-").isdigit()):
            raise IRError(f'{value!r} is no device; expected its kind, number and memory: "cuda:0:global"')
        index = max(0, int(number or 0))
        listed = _listed.get()
        if kind == "vdevice" and index < len(listed):
            return listed[index]
        alike = (d for d in listed if d.target == kind and d.vdevice_id == index and memory in ("", d.memory_scope))
        return next(alike, None) or cls(kind, index, memory or "global")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        VDevice.named = True

    def _key(self) -> tuple[object, ...]:
        return (self.target, self.options, self.vdevice_id, self.memory_scope)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, VDevice) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        return f"{self.target}:{self.vdevice_id}:{self.memory_scope}"

    def __repr__(self) -> str:
        return f"VDevice({self.described()})"

    def described(self) -> str:
        """The arguments that make an equal device."""
        kind = None if self.target is None else str(self.target)
        target = {"kind": kind, **dict(self.options)} if self.options else kind
        return f"{target!r}, {self.vdevice_id}, {self.memory_scope!r}".replace("'", '"')


class DummyGlobalInfo(Node):
    """A piece of information on a module that says nothing; all are equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DummyGlobalInfo)

    def __hash__(self) -> int:
        return hash(DummyGlobalInfo)

    def __repr__(self) -> str:
        return "DummyGlobalInfo()"
