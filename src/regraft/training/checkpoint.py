"""Checkpoints: directories of safetensors files and an index, written atomically.

A checkpoint directory holds one directory for each saved step. A step is written to a temporary directory; each process
writes its own parts of the tensors. The directory is renamed when everything is on disk, so the last complete step is
intact even if the program is killed. Tensors keep their names and are read slice by slice, so that they can be placed
on another mesh, or on none.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ..ir.dtypes import as_dtype, numpy_dtype
from ..ir.errors import MissingDependencyError
from ..ir.whole_file import flush_to_disk
from .errors import TrainingError

_FORMAT: Final = "regraft-checkpoint-1"
_INDEX: Final = "index.json"
_STEP: Final = re.compile(r"step-(\d{8,})(?:\.(\d+))?")
"""The name of a step's directory. A number follows if the step was saved before."""
_ASIDE: Final = ".writing-"
_WIDE: Final = "complex128"

Region = tuple[slice, ...]


class SavedPiece(NamedTuple):
    """A piece of a tensor: its start along each axis, and its values."""

    start: tuple[int, ...]
    array: np.ndarray


class SavedTensor(NamedTuple):
    """A tensor to be saved: its dtype, its full shape, and the pieces that this process has to write."""

    dtype: str
    shape: tuple[int, ...]
    parts: tuple[SavedPiece, ...]


def whole(array: np.ndarray) -> SavedTensor:
    """The tensor to be saved for an array that this process holds completely."""
    return SavedTensor(as_dtype(array.dtype), array.shape, (SavedPiece((0,) * array.ndim, array),))


def _no_wait(name: str) -> None:
    del name


def write_checkpoint(
    path: str | os.PathLike[str],
    step: int,
    tensors: Mapping[str, SavedTensor],
    *,
    keep: int = 2,
    process: int = 0,
    processes: int = 1,
    barrier: Callable[[str], None] = _no_wait,
) -> Path:
    """Save ``tensors`` as ``step`` under the directory ``path``, and remove all but the ``keep`` latest steps.

    If the step was saved before, the old one is removed after the new one is complete. Programs that write to the same
    directory wait for each other. If there are several processes, each calls this function with its own pieces;
    ``barrier`` returns when all processes have reached it. Returns the directory of the step. Raises `TrainingError` if
    the checkpoint cannot be written; older steps are intact in this case.
    """
    root = Path(path)
    aside = root / f"{_ASIDE}{step:08d}"
    target = root / f"step-{step:08d}"
    try:
        with _alone(root) if process == 0 else nullcontext():
            if process == 0:
                for left in root.glob(f"{_ASIDE}*"):
                    shutil.rmtree(left, ignore_errors=True)
                aside.mkdir()
            barrier("made")
            _write_part(aside, process, tensors)
            barrier("written")
            if process == 0:
                index = _whole_index(aside, processes, step)
                _write_text(aside / _INDEX, json.dumps(index))
                flush_to_disk(aside)
                target = _free(target)
                os.rename(aside, target)
                flush_to_disk(root)
                _forget(root, keep)
            barrier("renamed")
    except OSError as error:
        raise TrainingError(f"{root} cannot be written: {error.strerror}; what was there is unchanged") from error
    return target


@contextmanager
def _alone(root: Path) -> Generator[None]:
    """Create the directory if it is missing, and hold a lock on it: other programs wait to write checkpoints there.

    There is no lock if the operating system or the file system has none.
    """
    root.mkdir(parents=True, exist_ok=True)
    handle = os.open(root, os.O_RDONLY)
    try:
        with suppress(ImportError, OSError):
            fcntl = import_module("fcntl")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _free(target: Path) -> Path:
    """``target``, or with a new number after its name if the step exists: the old directory is not overwritten."""
    taken = [match for path in target.parent.iterdir() if (match := _STEP.fullmatch(path.name)) is not None]
    earlier = [int(match[2] or 0) for match in taken if match[0].partition(".")[0] == target.name]
    return target.with_name(f"{target.name}.{max(earlier) + 1}") if earlier else target


def _forget(root: Path, keep: int) -> None:
    """Remove all but the ``keep`` latest steps (at least one), and all but the last save of each step."""
    kept: set[int] = set()
    for step, path in reversed(_numbered(root)):
        if step in kept or len(kept) == max(keep, 1):
            shutil.rmtree(path, ignore_errors=True)
        kept.add(step)


class Checkpoint:
    """A saved step, open for reading. Tensors are read only when `read` is called.

    ``path`` is the directory of a step, or a checkpoint directory, whose latest complete step is opened. Raises
    `TrainingError` if there is no step, or if one of its files is missing or has the wrong size.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        root = Path(path)
        found = [root] if (root / _INDEX).exists() else _steps(root)
        if not found:
            raise TrainingError(f"{root} holds no checkpoint; give a directory that save_checkpoint wrote")
        self.path: Final = found[-1]
        try:
            index: dict[str, Any] = json.loads((self.path / _INDEX).read_text(encoding="utf-8"))
            if index["format"] != _FORMAT:
                raise KeyError("format")
            self.step: Final[int] = index["step"]
            self._tensors: Final[dict[str, Any]] = index["tensors"]
            sizes: dict[str, int] = index["files"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TrainingError(f"{self.path} is damaged: its {_INDEX} cannot be read: {error}") from error
        for name, size in sizes.items():
            file = self.path / name
            have = file.stat().st_size if file.exists() else None
            if have != size:
                state = "is missing" if have is None else f"has {have} bytes of {size}"
                raise TrainingError(f"{self.path} is damaged: {name} {state}; take another step, or save it anew")

    def types(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The dtype and the shape of each tensor."""
        return {name: (entry["dtype"], tuple(entry["shape"])) for name, entry in self._tensors.items()}

    def read(self, name: str, region: Region | None = None) -> np.ndarray:
        """The part of a tensor in ``region``, which has a slice for each axis. By default the whole tensor."""
        entry = self._tensors[name]
        shape = tuple(entry["shape"])
        region = region or (slice(None),) * len(shape)
        bounds = [part.indices(size)[:2] for part, size in zip(region, shape, strict=True)]
        result = np.empty([stop - start for start, stop in bounds], numpy_dtype(entry["dtype"]))
        for part in entry["parts"]:
            inside: list[slice] = []
            outside: list[slice] = []
            for start, size, (low, high) in zip(part["start"], part["shape"], bounds, strict=True):
                first, last = max(start, low), min(start + size, high)
                inside.append(slice(first - start, max(last, first) - start))
                outside.append(slice(first - low, max(last, first) - low))
            if all(piece.stop > piece.start for piece in inside):
                result[tuple(outside)] = self._piece(part, tuple(inside), entry["dtype"])
        return result

    def _piece(self, part: Mapping[str, Any], region: Region, dtype: str) -> np.ndarray:
        file = self.path / part["file"]
        try:
            with _safetensors().safe_open(file, framework="np") as tensors:
                found = tensors.get_slice(part["key"])[region] if region else tensors.get_tensor(part["key"])
        except Exception as error:
            raise TrainingError(f"{file} cannot be read: {error}") from error
        array = np.asarray(found)
        if dtype == _WIDE:
            return np.ascontiguousarray(array).view(dtype)[..., 0]
        return array if _is_plain(dtype) else array.view(numpy_dtype(dtype))


def _steps(root: Path) -> list[Path]:
    """The directories of the complete steps in a checkpoint directory, the latest last."""
    return [path for _, path in _numbered(root)]


def _numbered(root: Path) -> list[tuple[int, Path]]:
    """The complete steps in a checkpoint directory, as pairs of the step's number and its directory, in order."""
    if not root.is_dir():
        return []
    matches = [(path, match) for path in root.iterdir() if (match := _STEP.fullmatch(path.name)) is not None]
    found = sorted([(int(match[1]), int(match[2] or 0), path) for path, match in matches])
    return [(step, path) for step, _, path in found if (path / _INDEX).exists()]


def _is_plain(dtype: str) -> bool:
    """True if the dtype is NumPy's own and not complex, so that safetensors can store it."""
    return bool(numpy_dtype(dtype).isbuiltin) and not dtype.startswith("complex")


def _stored(array: np.ndarray, dtype: str) -> np.ndarray:
    """``array`` with the same bits in a dtype of safetensors. Complex128 becomes float64 with a last axis of size 2."""
    plain = np.ascontiguousarray(array).reshape(array.shape)
    if dtype == _WIDE:
        return plain[..., None].view(np.float64)
    return plain if _is_plain(dtype) else plain.view(f"u{plain.dtype.itemsize}")


def _write_part(directory: Path, process: int, tensors: Mapping[str, SavedTensor]) -> None:
    """Write the file of one process, and the list of its contents."""
    name = f"part-{process:05d}.safetensors"
    arrays: dict[str, np.ndarray] = {}
    entries: dict[str, Any] = {}
    for tensor, (dtype, shape, parts) in tensors.items():
        pieces: list[dict[str, Any]] = []
        for number, (start, array) in enumerate(parts):
            key = tensor if len(parts) == 1 else f"{tensor}@{number}"
            arrays[key] = _stored(array, dtype)
            pieces.append({"file": name, "key": key, "start": list(start), "shape": list(array.shape)})
        entries[tensor] = {"dtype": dtype, "shape": list(shape), "parts": pieces}
    file = directory / name
    _safetensors().numpy.save_file(arrays, file)
    flush_to_disk(file)
    _write_text(directory / f"part-{process:05d}.json", json.dumps({"file": name, "tensors": entries}))


def _whole_index(directory: Path, processes: int, step: int) -> dict[str, Any]:
    tensors: dict[str, Any] = {}
    files: dict[str, int] = {}
    for process in range(processes):
        listing = directory / f"part-{process:05d}.json"
        own = json.loads(listing.read_text(encoding="utf-8"))
        files[own["file"]] = (directory / own["file"]).stat().st_size
        for name, entry in own["tensors"].items():
            tensors.setdefault(name, {**entry, "parts": []})["parts"].extend(entry["parts"])
        listing.unlink()
    return {"format": _FORMAT, "step": step, "files": files, "tensors": tensors}


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    flush_to_disk(path)


def _safetensors() -> Any:
    """The package ``safetensors``, with its NumPy module imported. Raises `MissingDependencyError` without it."""
    try:
        import_module("safetensors.numpy")
    except ImportError:
        raise MissingDependencyError("checkpoints need the package safetensors: pip install 'regraft[xla]'") from None
    return import_module("safetensors")
