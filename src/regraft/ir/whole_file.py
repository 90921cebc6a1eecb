"""Atomic writing of files: a file is written completely or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def beside(path: Path) -> Path:
    """An unused random name in the same folder as ``path``. A file opened there gets the folder's usual permissions."""
    return path.with_name(f".regraft-{os.urandom(8).hex()}")


def is_device(path: Path) -> bool:
    """True for a device, a pipe or the like, which must not be replaced by a file."""
    return path.exists() and not path.is_file() and not path.is_dir()


def flush_to_disk(path: Path) -> None:
    """Have the system write a file or a folder to the disk now."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def whole_file(path: Path) -> Generator[IO[bytes]]:
    """A new file that replaces ``path`` at the end of the ``with`` block.

    If an exception is raised inside, the old file at ``path`` stays and the new one is removed. Raises `OSError` if
    the file cannot be written, or if ``path`` is a device or a pipe.
    """
    if is_device(path):
        raise OSError(errno.EINVAL, "a device or a pipe, and no file", str(path))
    temporary = beside(path)
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
