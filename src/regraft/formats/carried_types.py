"""The types that the body of a loop takes, as the readers of all formats find them."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.dims import Dim, SymVar, dims_equal
from ..ir.types import UNKNOWN_NDIM, TensorType, Type


class CarriedTypes:
    """The types that a body is to take for what it carries, found by reading it until it gives what it takes.

    They begin as the types of the first values. A size that a step changes becomes a variable of its own, which stands
    for any size; where a step changes the rank, no shape is stated.
    """

    def __init__(self, names: Sequence[str], starts: Sequence[Type]) -> None:
        self._names = names
        self.types = list(starts)
        self._own: set[SymVar] = set()

    def widen(self, given: Sequence[Type]) -> bool:
        """Make room for what a step gives; False where it fits already."""
        wider = [self._wider(*row) for row in zip(self._names, self.types, given, strict=True)]
        changed = any(new is not old for new, old in zip(wider, self.types, strict=True))
        self.types = wider
        return changed

    def _wider(self, name: str, before: Type, after: Type) -> Type:
        if not isinstance(before, TensorType) or not isinstance(after, TensorType):
            return before
        if before.ndim == UNKNOWN_NDIM or before == after:
            return before
        if before.ndim != after.ndim:
            return TensorType(None, before.dtype)
        old: Sequence[Dim | None] = before.shape or [None] * before.ndim
        new: Sequence[Dim | None] = after.shape or [None] * before.ndim
        dims = [self._size(f"{name}_{axis}", *pair) for axis, pair in enumerate(zip(old, new, strict=True))]
        return before if before.shape is not None and tuple(dims) == before.shape else TensorType(dims, before.dtype)

    def _size(self, name: str, old: Dim | None, new: Dim | None) -> Dim:
        if old is not None and (old in self._own or (new is not None and dims_equal(old, new) is True)):
            return old
        own = SymVar(name)
        self._own.add(own)
        return own
