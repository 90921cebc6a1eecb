"""The memory for running models, and texts for amounts of memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from .errors import UsageError

_UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", re.IGNORECASE)
_BESIDE: Final = 2.5
"""The memory for a model beside its result, in multiples of its weights: each engine has a copy."""


def parse_memory(text: str) -> int:
    """The bytes that ``text`` stands for: a number, perhaps followed by KB, MB, GB or TB; raises `UsageError` for other
    texts.
    """
    found = _SIZE.fullmatch(text.strip())
    count = 0 if found is None else int(float(found[1]) * _UNITS[found[2].upper()])
    if not count:
        raise UsageError(f"{text!r} is no amount of memory; give a number of bytes, or one like 8GB")
    return count


def in_gigabytes(count: int) -> str:
    """An amount of memory as a text for messages: in GB, or in a smaller unit below a hundredth of it."""
    unit, size = next(((unit, size) for unit, size in (("GB", 1e9), ("MB", 1e6)) if count >= size / 100), ("KB", 1e3))
    return f"{count / size:.3g} {unit}"


def needed_to_run(weights: int) -> int:
    """About the bytes needed to compare a model with another form of it, if its weights take ``weights`` bytes."""
    return int(weights * _BESIDE)


def free_memory() -> int | None:
    """The bytes that this process can still allocate, by the operating system and its limits; None if unknown."""
    found = [size for size in (_of_the_system(), _of_the_group(), _of_the_process()) if size is not None]
    return min(found, default=None)


def _of_the_system() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _of_the_process() -> int | None:
    """The address space that the limit of this process leaves (``ulimit -v``)."""
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
