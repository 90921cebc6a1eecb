"""The checks of shardings: every sharding of a program is checked here before JAX sees it.

JAX silently replicates a tensor whose size does not divide, ignores names that match nothing, and names neither tensor
nor model in its errors. So names, axes and sizes are checked here, and each error names the tensor, its origin, and
alternatives that fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple, cast

from ..ir.dims import Dim, SymExpr
from .errors import BuildError
from .mesh import CutAxes, Mesh

_MOST_NEAREST: Final = 3
_SPECIAL: Final = frozenset("*?[")


class ShardedTensor(NamedTuple):
    """A tensor that a sharding may be given for: its name, its sizes, and its origin."""

    name: str
    dims: tuple[Dim, ...] | None
    dtype: str | None
    origin: str = ""

    def __str__(self) -> str:
        sizes = "of unknown rank" if self.dims is None else f"({', '.join(map(str, self.dims))})"
        return f'"{self.name}" is {self.dtype} {sizes}{f" (from {self.origin})" if self.origin else ""}'


def resolved(
    argument: str, given: Mapping[str, Any] | None, tensors: Sequence[ShardedTensor], mesh: Mesh
) -> dict[str, CutAxes]:
    """The complete spec of each of ``tensors`` that ``given`` covers, by name.

    ``given`` maps names and globs to specs. An exact name takes precedence, else the first matching glob. Raises
    `BuildError`, which starts with ``argument``, for a name or glob that matches nothing, an axis that the mesh lacks
    or that is used twice, a spec longer than the tensor's rank, and a size that does not divide.
    """
    names = [tensor.name for tensor in tensors]
    known = set(names)
    exact = {name: spec for name, spec in (given or {}).items() if name in known or not _SPECIAL & set(name)}
    globs = {name: spec for name, spec in (given or {}).items() if name not in exact}
    for name in exact:
        if name not in known:
            raise BuildError(f'{argument}: "{name}" is none of {_many(names)}{_nearest(name, names)}')
    for pattern in globs:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise BuildError(f'{argument}: "{pattern}" matches none of {_many(names)}{_nearest(pattern, names)}')
    specs: dict[str, CutAxes] = {}
    for tensor in tensors:
        spec = exact.get(tensor.name)
        if spec is None:
            spec = next((s for pattern, s in globs.items() if fnmatchcase(tensor.name, pattern)), None)
        if spec is not None:
            specs[tensor.name] = checked_spec(argument, spec, tensor, mesh)
    return specs


def checked_spec(argument: str, spec: Any, tensor: ShardedTensor, mesh: Mesh) -> CutAxes:
    """``spec``, completed for ``tensor``; raises `BuildError` if it does not fit. Symbolic sizes are checked at each
    call.
    """
    entries = _entries(argument, spec, tensor)
    if tensor.dims is None:
        raise BuildError(f"{argument}: {tensor}; only a tensor of known rank can be cut")
    if len(entries) > len(tensor.dims):
        raise BuildError(
            f"{argument}: {tensor}, of {len(tensor.dims)} axes; the spec {spec!r} has {len(entries)} entries"
        )
    seen: dict[str, int] = {}
    for index, axes in enumerate(entries):
        for axis in axes:
            if axis not in mesh:
                raise BuildError(f"{argument}: {tensor}; the mesh ({mesh}) has no axis {axis!r}")
            if axis in seen:
                raise BuildError(
                    f"{argument}: {tensor}; the mesh axis {axis!r} cuts axis {seen[axis]} and axis {index}; "
                    f"it can cut one axis of a tensor, once"
                )
            seen[axis] = index
    full = (*entries, *[()] * (len(tensor.dims) - len(entries)))
    check_sizes(argument, full, tensor, tensor.dims, mesh)
    return full


def check_sizes(argument: str, spec: CutAxes, tensor: ShardedTensor, sizes: Sequence[Dim], mesh: Mesh) -> None:
    """Raise `BuildError` if a known size does not divide by the number of parts that its axis is cut into."""
    for index, (axes, size) in enumerate(zip(spec, sizes, strict=True)):
        ways = mesh.ways(axes)
        if isinstance(size, SymExpr) or size % ways == 0:
            continue
        raise BuildError(
            f"{argument}: {tensor._replace(dims=tuple(sizes))}; axis {index} = {size} does not divide over "
            f"{' × '.join([f'{axis} = {mesh[axis]}' for axis in axes])}; {_what_fits(axes, size, ways)}"
        )


def _what_fits(axes: tuple[str, ...], size: int, ways: int) -> str:
    fits = [str(count) for count in range(2, ways) if size % count == 0][-2:]
    return f"take {' × '.join(axes)} = {' or '.join(fits)}, or leave the axis whole" if fits else "leave the axis whole"


def _entries(argument: str, spec: Any, tensor: ShardedTensor) -> CutAxes:
    """Each entry as a tuple of names. Raises `BuildError` for other specs, such as a string or None by itself."""
    if isinstance(spec, tuple | list):
        entries: list[tuple[str, ...]] = []
        for entry in cast("Iterable[Any]", spec):
            names = () if entry is None else (entry,) if isinstance(entry, str) else entry
            if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in cast("Any", names)):
                break
            entries.append(tuple(cast("Iterable[str]", names)))
        else:
            return tuple(entries)
    raise BuildError(
        f'{argument}: "{tensor.name}": {spec!r} is no spec; expected a tuple with an entry for each axis: a mesh axis, '
        f'a tuple of them, or None, such as ("data", None)'
    )


def _many(names: Sequence[str]) -> str:
    return f"{len(names)} tensors" if len(names) != 1 else f'the one tensor, "{names[0]}"'


def _nearest(pattern: str, names: Sequence[str]) -> str:
    plain = "".join(character for character in pattern if character not in "*?[]")
    inside = [name for name in names if plain and plain in name]
    near = [*inside, *get_close_matches(plain, names, n=_MOST_NEAREST, cutoff=0.3)]
    if not near:
        parts = {part for name in names for part in name.split(".")}
        close = get_close_matches(plain, sorted(parts), n=_MOST_NEAREST, cutoff=0.3)
        near = [name for name in names if any(part in name.split(".") for part in close)]
    shown = [f'"{name}"' for name in dict.fromkeys(near)][:_MOST_NEAREST]
    return f"; nearest: {', '.join(shown)}" if shown else ""
