"""The weights of a ``.pt2`` file, mapped into memory, so that only the parts that are used are read.

PyTorch reads all weights of a program together with the program. Here it reads a copy of the archive without weights,
and the program then gets its weights as tensors over the file.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch.export import ExportedProgram

from ..errors import ConvertError
from .tensors import from_numpy

_CONFIG: Final = re.compile(r"(.*/)?data/weights/\w+_weights_config\.json")
_LOCAL_HEADER: Final = struct.Struct("<26xHH")
"""The fields of a zip record's header with the lengths of its name and of its extra field."""


class _FileWeight(NamedTuple):
    """A weight in the file: the offset and the size of its memory, and the layout of its elements."""

    offset: int
    size: int
    place: Mapping[str, Any]
    is_parameter: bool


class WithoutWeights(NamedTuple):
    """An archive without its weights, and the weights by name."""

    archive: io.BytesIO
    path: Path
    weights: Mapping[str, _FileWeight]

    def put_into(self, program: ExportedProgram) -> None:
        """Give ``program``, which was read from the archive, its weights. Raises `ConvertError` for a damaged file."""
        content = np.memmap(self.path, dtype=np.uint8, mode="c")  # a program may write into its buffers: into a copy
        memory: dict[tuple[int, int], torch.Tensor] = {}
        for name, weight in self.weights.items():
            found = program.state_dict.get(name)
            if found is None:
                continue
            key = weight.offset, weight.size
            if key not in memory:
                memory[key] = _flat(content[weight.offset : weight.offset + weight.size], found.dtype)
            sizes, strides, start = _layout(weight.place)
            try:
                tensor = torch.as_strided(memory[key], sizes, strides, start)
            except RuntimeError as error:
                raise ConvertError(f"{self.path} is damaged: weight {name}: {str(error).splitlines()[0]}") from error
            if weight.is_parameter:
                tensor = torch.nn.Parameter(tensor, requires_grad=bool(weight.place["requires_grad"]))
            program.state_dict[name] = tensor


def without_weights(path: Path) -> WithoutWeights | None:
    """The archive at ``path`` without its weights; None if it stores them in another way, which only PyTorch reads.

    Cost: the rest of the archive is read. Raises the errors of `zipfile` and `json` for a damaged file.
    """
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        names = [name for name in archive.namelist() if _CONFIG.fullmatch(name)]
        if len(names) != 1:
            return None
        settings = json.loads(archive.read(names[0]))
        try:
            plain = {name: entry for name, entry in settings["config"].items() if _is_plain(entry)}
            folder = names[0].rpartition("/")[0]
            records = {name: archive.getinfo(f"{folder}/{entry['path_name']}") for name, entry in plain.items()}
            weights = {name: _weight(file, records[name], entry) for name, entry in plain.items()}
            for index, entry in enumerate(plain.values()):
                entry["path_name"] = f"weight_left_out_{index}"
                entry["tensor_meta"] |= _dense(entry["tensor_meta"])
        except (AttributeError, KeyError, TypeError, ValueError):
            return None  # PyTorch reports the error
        left_out = {record.filename for record in records.values()}
        copy = io.BytesIO()
        with zipfile.ZipFile(copy, "w") as made:
            for record in archive.infolist():
                if record.filename not in left_out and record.filename != names[0]:
                    made.writestr(record.filename, archive.read(record))
            for entry in plain.values():
                made.writestr(f"{folder}/{entry['path_name']}", b"")
            made.writestr(names[0], json.dumps(settings))
    copy.seek(0)
    return WithoutWeights(copy, path, weights)


def _is_plain(entry: Mapping[str, Any]) -> bool:
    """True if a weight consists of elements in CPU memory and is not pickled."""
    return not entry["use_pickle"] and entry["tensor_meta"]["device"]["type"] == "cpu"


def _weight(file: Any, record: zipfile.ZipInfo, entry: Mapping[str, Any]) -> _FileWeight:
    if record.compress_type != zipfile.ZIP_STORED:
        raise ValueError("compressed")
    file.seek(record.header_offset)
    name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    offset = record.header_offset + _LOCAL_HEADER.size + name + extra
    sizes, strides, start = _layout(entry["tensor_meta"])
    if min([*sizes, *strides, start, 0]) < 0:
        raise ValueError("negative")
    if start + sum([(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)]) > record.file_size:
        raise ValueError("too short")
    return _FileWeight(offset, record.file_size, dict(entry["tensor_meta"]), bool(entry["is_param"]))


def _layout(place: Mapping[str, Any]) -> tuple[list[int], list[int], int]:
    """The sizes, the strides and the offset of the first element."""
    sizes, strides = [[int(size["as_int"]) for size in place[key]] for key in ("sizes", "strides")]
    return sizes, strides, int(place["storage_offset"]["as_int"])


def _dense(place: Mapping[str, Any]) -> dict[str, Any]:
    """The strides of a tensor of the same sizes without gaps, which PyTorch makes for an empty record."""
    sizes, _, _ = _layout(place)
    strides = [int(np.prod(sizes[axis + 1 :], dtype=np.int64)) for axis in range(len(sizes))]
    return {"strides": [{"as_int": stride} for stride in strides], "storage_offset": {"as_int": 0}}


def _flat(content: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    """The bytes of a record as a vector, in the same memory if that is aligned for its dtype."""
    width = dtype.itemsize
    whole = content[: len(content) // width * width]
    if whole.ctypes.data % width:
        whole = whole.copy()
    return from_numpy(whole, "uint8").view(dtype)
