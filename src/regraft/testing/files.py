"""Temporary files of a test."""

from __future__ import annotations

import tempfile
from pathlib import Path


class TempDirectory(tempfile.TemporaryDirectory[str]):
    """A temporary folder. It is removed with this object, or at the end of a ``with``, which binds this object."""

    @property
    def path(self) -> Path:
        """The path of the folder."""
        return Path(self.name)

    def __enter__(self) -> TempDirectory:  # pyright: ignore[reportIncompatibleMethodOverride] - Relax's gives itself
        return self

    def __truediv__(self, other: str | Path) -> Path:
        return self.path / other

    def remove(self) -> None:
        """Remove the folder now."""
        self.cleanup()

    def relpath(self, name: str) -> str:
        """The path of a file in the folder."""
        return str(self / name)

    def listdir(self) -> list[str]:
        """The names of the files in the folder."""
        return [path.name for path in self.path.iterdir()]


def tempdir() -> TempDirectory:
    """A new temporary folder."""
    return TempDirectory()
