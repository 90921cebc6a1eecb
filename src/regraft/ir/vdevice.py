"""Virtual devices: the device on which a tensor is said to be, as in Relax's types.

Type rules, text, JSON and equality keep them. Engines ignore them: a program runs on the device of its engine.
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
    """The name of a kind of device, ``"llvm"`` or ``"cuda"``; Relax's programs read ``kind.name`` of it."""

    __slots__ = ()

    @property
    def kind(self) -> DeviceKind:
        """The device kind itself."""
        return self

    @property
    def name(self) -> str:
        """The name as a plain string."""
        return str(self)


_listed: Final[ContextVar[Sequence[VDevice]]] = ContextVar("the devices of the module that is being read", default=())


@contextmanager
def named_in(devices: Sequence[VDevice]) -> Generator[None]:
    """Let texts name ``devices`` inside the block: ``"vdevice:1"`` is the second, ``"cuda"`` the first of its kind."""
    before = _listed.set(devices)
    try:
        yield
    finally:
        _listed.reset(before)


class VDevice(Node):
    """A device: ``VDevice("cuda", 0, "global")``. Two are equal if kind, options, number and memory are equal.

    ``target`` is its kind, such as ``"llvm"`` or ``"cuda"``, an object with an attribute ``kind``, or a mapping with
    the key ``"kind"`` and options.
    """

    __slots__ = ("memory_scope", "options", "target", "vdevice_id")
    target: DeviceKind | None
    options: tuple[tuple[str, str], ...]
    vdevice_id: int
    memory_scope: str
    named: ClassVar[bool] = False
    """True once any device has been made. Until then no type has a device, so type inference skips the search."""

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
        """The device ``value``, or the one that ``"cuda"``, ``"cuda:1"`` or ``"cuda:1:global"`` names.

        Raises `IRError` for any other value.
        """
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
        """The text of the arguments that make an equal device."""
        kind = None if self.target is None else str(self.target)
        target = {"kind": kind, **dict(self.options)} if self.options else kind
        return f"{target!r}, {self.vdevice_id}, {self.memory_scope!r}".replace("'", '"')


class DummyGlobalInfo(Node):
    """An entry of a module's global infos without contents; all are equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DummyGlobalInfo)

    def __hash__(self) -> int:
        return hash(DummyGlobalInfo)

    def __repr__(self) -> str:
        return "DummyGlobalInfo()"
