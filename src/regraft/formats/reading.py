"""The number of bytes of a large file that have been read, told to whoever waits for it.

Inside `telling` the readers of files say how far they are; outside they count for nobody.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, final

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Told: TypeAlias = Callable[[int, int], None]
"""``told(done, total)``: so many bytes of so many have been read."""

_told: Final[ContextVar[Told | None]] = ContextVar("regraft_bytes_read", default=None)


@contextmanager
def telling(told: Told) -> Generator[None]:
    """Call ``told`` while files are read inside."""
    token = _told.set(told)
    try:
        yield
    finally:
        _told.reset(token)


def tell_read(done: int, total: int) -> None:
    """Say that ``done`` bytes of ``total`` have been read, or looked at."""
    told = _told.get()
    if told is not None:
        told(min(done, total), total)


@final
class CountedFile(io.FileIO):
    """A file to be read that tells how much of it has been."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self._total = path.stat().st_size
        self._done = 0

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        """As `io.FileIO.readinto`."""
        count = super().readinto(buffer)
        self._count(count or 0)
        return count

    def read(self, size: int | None = -1, /) -> bytes:
        """As `io.FileIO.read`."""
        content = super().read(-1 if size is None else size)
        self._count(len(content))
        return content

    def _count(self, more: int) -> None:
        self._done += more
        tell_read(self._done, self._total)
