"""The memory for running models, and the treatment of those that do not fit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from .errors import UsageError

_UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", re.IGNORECASE)
_BESIDE: Final = 2.5
"""The memory of a model beside its result, in multiples of its weights: each engine has a copy."""


def parse_memory(text: str) -> int:
    """The bytes that ``text`` says: a number, with KB, MB, GB or TB after it; raises `UsageError` for another text."""
    found = _SIZE.fullmatch(text.strip())
    count = 0 if found is None else int(float(found[1]) * _UNITS[found[2].upper()])
    if not count:
        raise UsageError(f"{text!r} is no amount of memory; give a number of bytes, or one like 8GB")
    return count


def in_gigabytes(count: int) -> str:
    """An amount of memory for a message, in gigabytes, or in a smaller unit where it is less than a hundredth."""
    unit, size = next(((unit, size) for unit, size in (("GB", 1e9), ("MB", 1e6)) if count >= size / 100), ("KB", 1e3))
    return f"{count / size:.3g} {unit}"


def needed_to_run(weights: int) -> int:
    """About the bytes that it takes to hold a model of so many bytes of weights against another form of it."""
    return int(weights * _BESIDE)


def free_memory() -> int | None:
    """The bytes that this process can still have, by the operating system and its limits; None where nothing says."""
    found = [size for size in (_of_the_system(), _of_the_group(), _of_the_process()) if size is not None]
    return min(found, default=None)


def _of_the_system() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _of_the_process() -> int | None:
    """The addresses that the limit of this process leaves (``ulimit -v``)."""
    try:
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        pages = Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]
    except (ImportError, OSError):
        return None
    return None if most == resource.RLIM_INFINITY else max(0, most - int(pages) * resource.getpagesize())


def _of_the_group() -> int | None:
    """The memory that a container's limit leaves (cgroup v2)."""
    folder = Path("/sys/fs/cgroup")
    try:
        most, taken = ((folder / name).read_text(encoding="utf-8").strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return None
    return int(most) - int(taken) if most.isdecimal() and taken.isdecimal() else None
