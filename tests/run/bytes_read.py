"""The bytes of a file that a program reads: by calls of the system, and as pages of it in its memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def bytes_read(path: Path, run: Callable[[], object]) -> int:
    """The bytes that ``run()`` reads by calls, of any file, and those of ``path`` that are mapped in memory after."""
    before = _by_calls()
    run()
    return _by_calls() - before + _in_memory(path)


def _by_calls() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def _in_memory(path: Path) -> int:
    total, is_of_path = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            is_of_path = line.endswith(str(path.resolve()))
        elif first == "Rss:" and is_of_path:
            total += int(rest[0]) * 1024
    return total
