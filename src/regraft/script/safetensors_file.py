"""Weights in a safetensors file, which other tools read and write: tensors by name, and no code.

The format is https://github.com/huggingface/safetensors: the length of a header in eight bytes, the header as JSON, and
the bytes of the tensors. It is written here, and not by the safetensors library, so that a tensor is in memory only
while it is written, and so that bfloat16 needs no framework.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast, final

import numpy as np

from ..ir.dtypes import numpy_dtype
from ..ir.errors import RegraftError
from ..ir.tensor_data import TensorData
from ..ir.whole_file import whole_file
from .constants import LoadBytes, Named, data_from_bytes, little_endian

SUFFIX: Final = ".safetensors"
_NAMES: Final[Mapping[str, str]] = {
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
    **{f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
    "bfloat16": "BF16",
    "bool": "BOOL",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
"""The format's name for each dtype; other dtypes are not supported."""
_LONGEST_HEADER: Final = 100_000_000


@final
class SafetensorsFile:
    """A file of weights under construction, with the same methods as `files.WeightsFile`."""

    __slots__ = ("_names", "_tensors", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tensors: list[tuple[str, TensorData]] = []
        self._names: set[str] = set()

    def store(self, data: TensorData) -> int:
        """Take a tensor, to be written later; returns its number. Raises `RegraftError` for an unsupported dtype."""
        if data.dtype not in _NAMES:
            raise RegraftError(
                f"{self.path}: safetensors has no dtype {data.dtype}; write the weights in regraft's own form"
            )
        place = len(self._tensors)
        name = _name_of(place, data.name)
        if name in self._names:
            name = f"{name}.{place}"
        while name in self._names:
            name += "_"
        self._names.add(name)
        self._tensors.append((name, data))
        return place

    def header(self) -> dict[str, str]:
        """The entry of a text for this file."""
        return {"weights": self.path.name}

    def finish(self) -> None:
        """Write the file to its place."""
        if not self._tensors:
            return
        entries: dict[str, Any] = {"__metadata__": {"format": "regraft"}}
        end = 0
        for name, data in self._tensors:
            begin, end = end, end + data.nbytes
            entries[name] = {"dtype": _NAMES[data.dtype], "shape": list(data.shape), "data_offsets": [begin, end]}
        text = json.dumps(entries, ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)
        with whole_file(self.path) as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for _, data in self._tensors:
                file.write(little_endian(data.read()).reshape(-1).view(np.uint8).data)

    def discard(self) -> None:
        """Do nothing: before `finish` nothing has been written."""


def _name_of(place: int, name: str | None) -> str:
    return name or f"constant.{place}"


def open_safetensors(path: Path) -> LoadBytes:
    """The reader of a program's constants from a file; each constant is found by its name, and must have its type.

    Raises `RegraftError` for a file that cannot be read or is damaged, and later for a tensor that is missing or of
    another type.
    """
    entries, start = _header_of(path)
    content = np.memmap(path, dtype=np.uint8, mode="r")

    def load(dtype: str, shape: tuple[int, ...], place: int, named: Named) -> TensorData:
        name = _name_of(place, named.name)
        entry = entries.get(f"{name}.{place}", entries.get(name))
        if entry is None:
            raise RegraftError(f"{path} has no tensor {name!r}")
        begin, end = _checked(path, name, entry, dtype, shape, len(content) - start)
        return TensorData.lazy(
            shape,
            dtype,
            lambda: data_from_bytes(content[start + begin : start + end].data, dtype, shape).numpy(),
            named.name,
            named.sources,
        )

    return load


def _header_of(path: Path) -> tuple[dict[str, Any], int]:
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            text = file.read(length) if length <= _LONGEST_HEADER else b""
        entries: Any = json.loads(text) if len(text) == length else None
    except OSError as error:
        raise RegraftError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RegraftError(f"{path} is not a safetensors file, or it is damaged: {error}") from error
    if not isinstance(entries, dict):
        raise RegraftError(f"{path} is not a safetensors file, or it is damaged")
    return cast("dict[str, Any]", entries), 8 + length


def _checked(path: Path, name: str, entry: Any, dtype: str, shape: tuple[int, ...], size: int) -> tuple[int, int]:
    """The start and end of a tensor's bytes after the header. Raises `RegraftError` for an invalid entry."""
    match entry:
        case {"dtype": str() as found, "shape": [*sizes], "data_offsets": [int() as begin, int() as end]}:
            pass
        case _:
            raise RegraftError(f"{path}: the entry of {name!r} is damaged")
    if found != _NAMES.get(dtype) or tuple(sizes) != shape:
        raise RegraftError(f"{path}: {name!r} is {found} {sizes}; the program takes {dtype} {list(shape)}")
    if not 0 <= begin <= end <= size or end - begin != math.prod(shape) * numpy_dtype(dtype).itemsize:
        raise RegraftError(
            f"{path}: {name!r} needs bytes {begin} to {end}, but the file has {size}; the file is damaged"
        )
    return begin, end
