"""Known sizes as ints that also have the attributes of Relax's integer sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..types import PrimType
    from .symbolic import Dim


class KnownSize(int):
    """A known size: an int with ``value``, ``dtype`` and ``ty``, which Relax's programs read."""

    __slots__ = ()

    @property
    def value(self) -> int:
        """The size as a plain int."""
        return int(self)

    @property
    def dtype(self) -> str:
        """The dtype of every known size, ``"int64"``."""
        return "int64"

    @property
    def ty(self) -> PrimType:
        """The type of the size as a scalar."""
        from ..types import PrimType

        return PrimType("int64")

    def __array_ufunc__(self, function: Any, method: str, *operands: Any, **options: Any) -> Any:
        """NumPy's result for a plain int, which keeps float32 arrays float32; a subclass of int would act as int64."""
        plain = [int(one) if type(one) is KnownSize else one for one in operands]
        return getattr(function, method)(*plain, **options)

    def __reduce__(self) -> tuple[object, ...]:
        return (known_size, (int(self),))


_KNOWN: Final[dict[int, KnownSize]] = {}
_MOST_KNOWN: Final = 65_536


def known_size(value: int) -> KnownSize:
    """The `KnownSize` of an int of at least 0, as shapes hold it; usually one shared object per value."""
    found = _KNOWN.get(value)
    if found is None:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        found = _KNOWN[value] = KnownSize(value)
    return found


def as_read(dim: Dim) -> Dim:
    """``dim`` with a plain int made a `KnownSize`, which has the attributes that Relax's programs read."""
    return known_size(dim) if type(dim) is int else dim
