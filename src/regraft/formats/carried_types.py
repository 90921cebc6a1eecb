"""The types of the values that a loop body carries, for the readers of all formats."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.dims import Dim, SymVar, dims_equal
from ..ir.types import UNKNOWN_NDIM, TensorType, Type


class CarriedTypes:
    """The types of the values that a loop body carries. A reader reads the body until these types no longer change.

    They start as the types of the initial values. A size that a step changes becomes a new symbolic variable, which
    stands for any size. If a step changes the rank, the type states no shape.
    """

    def __init__(self, names: Sequence[str], starts: Sequence[Type]) -> None:
        self._names = names
        self.types = list(starts)
        self._own: set[SymVar] = set()

    def widen(self, given: Sequence[Type]) -> bool:
        """Widen the types so that they hold ``given``, the types after a step; False if they hold it already."""
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
