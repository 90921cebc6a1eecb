"""Output files that are written completely or not at all, and never over an input."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from hashlib import sha256
from mmap import ACCESS_READ, mmap
from pathlib import Path
from secrets import token_hex
from typing import Final

from ..ir.errors import RegraftError
from ..ir.whole_file import flush_to_disk, is_device
from .errors import OutputError, UsageError

_WEIGHT_SUFFIXES: Final = (".data", ".weights", ".safetensors")
"""The suffixes of files with a model's weights."""

_BEFORE: Final = ".before"
"""The suffix of an older file while a newer one takes its place."""


def companions(output: Path) -> tuple[Path, ...]:
    """The files that may be written beside ``output``."""
    if output.suffix.lower() == ".xml":
        return (output.with_suffix(".bin"),)
    return tuple(output.with_name(output.name + suffix) for suffix in _WEIGHT_SUFFIXES)


def sizes_of(output: Path) -> dict[str, int]:
    """The sizes in bytes of ``output`` and of the files beside it, by name, if they exist."""
    return {path.name: path.stat().st_size for path in (output, *companions(output)) if os.path.exists(path)}


def sizes_of_files(paths: Iterable[Path]) -> list[int]:
    """The sizes in bytes of the existing files in ``paths``, each file once."""
    return [path.stat().st_size for path in dict.fromkeys(path.resolve() for path in paths) if path.exists()]


def check_name(path: Path) -> None:
    """Raise `UsageError` for a name that is not valid text, which the engines and the formats cannot hold."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{str(path).encode(errors='backslashreplace').decode()}: this name is not valid UTF-8; rename it "
            "(if it is UTF-8, but the locale is not, set PYTHONUTF8=1)"
        ) from None


def check_output(output: Path, inputs: Iterable[Path]) -> None:
    """Raise unless ``output`` can be written without touching any of ``inputs``.

    Raises `UsageError` for the path of an input, however it is spelled or linked, for a folder, for a device or a pipe,
    which a file cannot replace, and for a name that is not text. Raises `OutputError` if the folder does not exist or
    may not be written to, and for a write-protected file.
    """
    check_name(output)
    if output.is_dir():
        raise UsageError(f"{output} is a folder; give the name of a file in it")
    if is_device(output):
        raise UsageError(f"{output} is a device or a pipe, and no file; give the name of a file")
    read = [path for path in inputs if path.exists()]
    for written in (output, *companions(output)):
        if os.path.exists(written) and any(written.samefile(path) for path in read):
            raise UsageError(f"writing {output} would overwrite the input {written}; give another name")
    folder = output.parent
    if not folder.is_dir():
        raise OutputError(f"{output} cannot be written: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise OutputError(f"{output} cannot be written: no permission to write in {folder}")
    for written in (output, *companions(output)):
        if os.path.exists(written) and not os.access(written, os.W_OK):
            raise OutputError(f"{written} is write-protected; give another name, or take the protection off")


@contextmanager
def staged(output: Path) -> Generator[Path]:
    """A path to write to in place of ``output``. At the end, the file there replaces ``output``, with its companions.

    Old companions go too, if the old file has its weights in them. If anything is raised inside, nothing is left behind
    and the old files stay unchanged. Raises `OutputError` if writing fails. A single file is replaced in one step; of
    several, all are replaced or none.
    """
    try:
        prefix = _staging_prefix(output)
        _sweep(output, prefix)
        folder = output.parent / f"{prefix}{os.getpid()}-{token_hex(4)}"
        # Making a folder with a random name can be interrupted before the name is known; this name is known before.
        try:
            folder.mkdir(mode=0o700)
            staging = folder / output.name
            yield staging
            _put_in_place(staging, output)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except (OutputError, UsageError):  # a UsageError is about a file that the user gave
        raise
    except OSError as error:
        raise _refused(output, error) from error
    except RegraftError as error:  # a library may report a failed write as such an error
        if isinstance(error.__cause__, OSError):
            raise _refused(output, error.__cause__) from error
        raise


def _staging_prefix(output: Path) -> str:
    """The prefix of the names of folders in which ``output`` is written; short even if the output's name is long."""
    return f".regraft-{sha256(os.fsencode(output.name)).hexdigest()[:12]}-"


def bytes_staged(output: Path) -> int:
    """The number of bytes of ``output`` and its companions that have been written so far."""
    written = 0
    for path in output.parent.glob(f"{_staging_prefix(output)}*/*"):
        with suppress(OSError):  # it has been moved in the meantime
            written += path.stat().st_size
    return written


def _sweep(output: Path, prefix: str) -> None:
    """Remove what killed runs left behind while writing the same output."""
    for left in output.parent.glob(f"{prefix}*"):
        process = left.name.removeprefix(prefix).partition("-")[0]
        if process.isdecimal() and not _is_running(int(process)):
            _give_back(left, output)
            shutil.rmtree(left, ignore_errors=True)


def _give_back(left: Path, output: Path) -> None:
    """Restore the old files after an interrupted replacement: the new model is staged, and its place is still empty."""
    if output.exists() or not (left / output.name).exists():
        return
    for before in left.glob(f"*{_BEFORE}"):
        os.replace(before, output.with_name(before.name.removesuffix(_BEFORE)))


def _is_running(process: int) -> bool:
    if os.name == "nt":
        return True  # on Windows, asking would end it
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it belongs to another user
    return True


def _put_in_place(staging: Path, output: Path) -> None:
    """Move the written files to their places; if that fails, restore the old ones."""
    pairs = [*zip(companions(staging), companions(output), strict=True), (staging, output)]
    # If a name has the maximal length, the names of its companions are too long to exist.
    pairs = [(part, target) for part, target in pairs if os.path.exists(part)]
    for part, _ in pairs:
        flush_to_disk(part)
    written = {target for _, target in pairs}
    left = [each for each in companions(output) if each not in written and _is_named_in(output, each)]
    if len(pairs) == 1 and not left:
        os.replace(*pairs[0])
        return
    kept = [(target, staging.with_name(target.name + _BEFORE)) for target in (*left, *[each for _, each in pairs])]
    try:
        # The model is removed first and put in place last, so that it never stands beside another model's weights.
        for target, before in reversed(kept):
            if target.exists():
                os.replace(target, before)
        for part, target in pairs:
            os.replace(part, target)
    except BaseException:
        for part, target in pairs:
            if not part.exists():
                target.unlink(missing_ok=True)
        for target, before in kept:
            if before.exists():
                os.replace(before, target)
        raise


def _is_named_in(output: Path, companion: Path) -> bool:
    """True if the file ``output`` mentions ``companion``, and that file exists."""
    if not os.path.isfile(companion) or not os.path.isfile(output) or not output.stat().st_size:
        return False
    name = os.fsencode(companion.name)
    # The byte before the name is one that no name contains, or the name's length; else this is the end of another name.
    wanted = b"(?:[^\\w.-]|" + re.escape(bytes([len(name)])) + b")" + re.escape(name)
    with output.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        return re.search(wanted, content) is not None


def _refused(output: Path, error: OSError) -> OutputError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return OutputError(f"{output} cannot be written: there is no room ({error.strerror}). Nothing was written")
    return OutputError(f"{output} cannot be written: {error.strerror or error}. Nothing was written")


def write_text(output: Path, text: str) -> None:
    """Write a text file, completely or not at all."""
    with staged(output) as path:
        path.write_text(text, encoding="utf-8")
