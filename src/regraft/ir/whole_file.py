"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def beside(path: Path) -> Path:
    """A name in the same folder that no file has; what is opened there gets the permissions that files get there."""
    return path.with_name(f".regraft-{os.urandom(8).hex()}")


def is_device(path: Path) -> bool:
    """True for a device, a pipe or the like, whose place no file takes."""
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def whole_file(path: Path) -> Generator[IO[bytes]]:
    """A new file that takes the place of ``path`` at the end of the block.

    Whatever is raised inside, what was at ``path`` stays as it was, and nothing else is left. Raises `OSError` where
    the file cannot be written, and for a device or a pipe, whose place no file takes.
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
