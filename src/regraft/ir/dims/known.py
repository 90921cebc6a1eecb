"""Known sizes as programs read them: ints that answer what Relax's programs ask of a size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..types import PrimType
    from .symbolic import Dim


class KnownSize(int):
    """A known size as Relax's programs read it: an int that has ``value``, ``dtype`` and ``ty``."""

    __slots__ = ()

    @property
    def value(self) -> int:
        """The size as a plain int."""
        return int(self)

    @property
    def dtype(self) -> str:
        """The dtype of all known sizes."""
        return "int64"

    @property
    def ty(self) -> PrimType:
        """The type of the size as a scalar."""
        from ..types import PrimType

        return PrimType("int64")

    def __array_ufunc__(self, function: Any, method: str, *operands: Any, **options: Any) -> Any:
        """NumPy's result for plain ints: these keep float32, and an int of another class would be an int64."""
        plain = [int(one) if type(one) is KnownSize else one for one in operands]
        return getattr(function, method)(*plain, **options)

    def __reduce__(self) -> tuple[object, ...]:
        return (known_size, (int(self),))


_KNOWN: Final[dict[int, KnownSize]] = {}
_MOST_KNOWN: Final = 65_536


def known_size(value: int) -> KnownSize:
    """A size that is an int of at least 0, as shapes hold it; one object for each of those in use."""
    found = _KNOWN.get(value)
    if found is None:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        found = _KNOWN[value] = KnownSize(value)
    return found


def as_read(dim: Dim) -> Dim:
    """``dim`` as Relax's programs read it: an int has a ``value``."""
    return known_size(dim) if type(dim) is int else dim
