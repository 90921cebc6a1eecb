"""A mesh of devices with names and sizes, and the layout of a tensor over it; no framework and no devices are needed.

A **spec** says for each axis of a tensor along which axes of the mesh it is cut: ``("data", None)`` cuts axis 0 along
``data`` and leaves axis 1 whole. An entry may be a tuple of mesh axes. Axes beyond the length of a spec are whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Final, TypeAlias, final

from .errors import BuildError

Spec: TypeAlias = "tuple[str | tuple[str, ...] | None, ...]"
"""One entry for each axis of a tensor: a mesh axis, several of them, or None for an axis that stays whole."""

CutAxes: TypeAlias = "tuple[tuple[str, ...], ...]"
"""A complete spec: the mesh axes that cut each axis of the tensor."""


@final
class Mesh(Mapping[str, int]):
    """Devices in a grid with named axes: ``Mesh(data=2, model=4)`` is 2 × 4 devices.

    A mesh consists of names and sizes. `regraft.build` takes the first available devices, in order; the last axis
    varies fastest. A mesh is a mapping from axis to size. Raises `BuildError` for a size below 1 or no axis.
    """

    __slots__ = ("_sizes",)

    def __init__(self, **sizes: int) -> None:
        if not sizes:
            raise BuildError("Mesh() has no axis; name one or more: Mesh(data=2, model=4)")
        for name, size in sizes.items():
            if type(size) is not int or size < 1:
                raise BuildError(f"Mesh({name}={size!r}): an axis has 1 or more devices")
        self._sizes: Final = dict(sizes)

    @staticmethod
    def parse(text: str) -> Mesh:
        """The mesh for a text such as ``"data=2,model=4"``. Raises `BuildError` for anything else."""
        sizes: dict[str, int] = {}
        for part in text.split(","):
            name, equals, size = (piece.strip() for piece in part.partition("="))
            if not (equals and name.isidentifier() and size.isdecimal()) or name in sizes:
                raise BuildError(f"{text!r} is no mesh; expected axes with sizes, each once, such as data=2,model=4")
            sizes[name] = int(size)
        return Mesh(**sizes)

    @property
    def devices(self) -> int:
        """The number of devices of the mesh."""
        return prod(self._sizes.values())

    def ways(self, axes: tuple[str, ...]) -> int:
        """The number of parts that an axis is cut into along ``axes``."""
        return prod([self._sizes[axis] for axis in axes])

    def __getitem__(self, axis: str) -> int:
        return self._sizes[axis]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def __hash__(self) -> int:
        return hash(tuple(self._sizes.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and tuple(self._sizes.items()) == tuple(other._sizes.items())

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in self._sizes.items())

    def __repr__(self) -> str:
        return f"Mesh({self})"


def parse_spec(text: str) -> Spec:
    """The spec for a text such as ``"model,-"``: an entry for each axis, ``-`` for a whole axis, ``a+b`` for two mesh
    axes.
    """
    entries: list[str | tuple[str, ...] | None] = []
    for part in text.split(","):
        names = tuple([name.strip() for name in part.split("+")])
        if not all(name == "-" or name.isidentifier() for name in names) or ("-" in names and len(names) > 1):
            raise BuildError(f"{text!r} is no spec; expected an entry for each axis, such as model,- or -,data+model")
        entries.append(None if names == ("-",) else names[0] if len(names) == 1 else names)
    return tuple(entries)


def placement_text(spec: CutAxes, mesh: Mesh) -> str:
    """A spec in the form of ``annotate_sharding``: the axis of the tensor that each axis of the mesh cuts."""
    cut = {axis: index for index, axes in enumerate(spec) for axis in axes}
    return ", ".join([f"S[{cut[axis]}]" if axis in cut else "R" for axis in mesh])


def spec_text(spec: CutAxes) -> str:
    """A spec as it is written on the command line."""
    return ",".join("+".join(axes) or "-" for axes in spec)
