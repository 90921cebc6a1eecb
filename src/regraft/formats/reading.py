"""Progress of reading large files, in bytes.

Inside `telling`, the readers of files report how many bytes they have read. Outside, they report nothing.
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
"""``told(done, total)`` is called when ``done`` of ``total`` bytes have been read."""

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
    """Report that ``done`` of ``total`` bytes have been read or skipped."""
    told = _told.get()
    if told is not None:
        told(min(done, total), total)


@final
class CountedFile(io.FileIO):
    """A file that reports how much of it has been read."""

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
