"""A program in files: its text, and next to it one file of weights, whose tensors are read when they are used.

``model.relax`` is the text. ``model.relax.weights`` holds the bytes of the constants that are not in the text, each
aligned to 64 bytes. Both files contain a digest of these bytes, so that a text is never read with another program's
weights. Each file is written completely or not at all. The weights may also be in ``model.relax.safetensors``.

Elements of 2 and 4 bits are packed into bytes, the first element in the lowest bits. A file with such elements begins
with another magic text than a file without. Files with one such element per byte, as earlier versions wrote them, are
read as well.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final, final

import numpy as np

from ..ir.dtypes import SUB_BYTE, numpy_dtype
from ..ir.errors import RegraftError
from ..ir.module import IRModule
from ..ir.program import Function
from ..ir.tensor_data import TensorData, numbers_in_bytes, packed
from ..ir.whole_file import beside, whole_file
from .constants import ConstantWriter, LoadBytes, Named, data_from_bytes, little_endian
from .program_text import function_text, module_text
from .safetensors_file import SUFFIX, SafetensorsFile, open_safetensors
from .text import read_program

_ALIGNMENT: Final = 64
_MAGIC: Final = b"regraft weights\n"
_MAGIC_PACKED: Final = b"regraft weights2"
_DIGEST_BYTES: Final = 16


@final
class _WeightsFile:
    """A file of weights under construction; it is moved to its place when the program's text is complete."""

    __slots__ = ("_digest", "_end", "_file", "_magic", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None
        from hashlib import blake2b  # here and below, so that importing regraft stays quick

        self._digest = blake2b(digest_size=_DIGEST_BYTES)
        self._end = _ALIGNMENT
        self._magic = _MAGIC

    def store(self, data: TensorData) -> int:
        """Append the bytes of a tensor; returns their offset."""
        if self._file is None:
            self._file = beside(self.path).open("x+b")
        bits = SUB_BYTE.get(data.dtype, 8)
        if bits < 8:
            self._magic = _MAGIC_PACKED
        content = _bytes_of(data, bits).data
        start = -(-self._end // _ALIGNMENT) * _ALIGNMENT
        self._file.seek(start)
        self._file.write(content)
        self._digest.update(start.to_bytes(8, "little"))
        self._digest.update(content)
        self._end = start + content.nbytes
        return start

    def header(self) -> dict[str, str]:
        """The entries of a text for this file: its name, and the digest of the stored bytes."""
        return {"weights": self.path.name, "digest": self._digest.hexdigest()}

    def finish(self) -> None:
        """Complete the file and move it to its place."""
        if self._file is None:
            return
        self._file.seek(0)
        self._file.write(self._magic + self._digest.digest())
        self._file.flush()
        self._file.truncate(max(self._end, _ALIGNMENT))
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._file.name, self.path)

    def discard(self) -> None:
        """Remove the unfinished file."""
        if self._file is not None:
            self._file.close()
            Path(self._file.name).unlink(missing_ok=True)


def _bytes_of(data: TensorData, bits: int) -> np.ndarray:
    """The bytes of a tensor, little-endian; elements of fewer than 8 ``bits`` are packed."""
    found = little_endian(data.read()).reshape(-1).view(np.uint8)
    return found if bits == 8 else packed(found & np.uint8(2**bits - 1), bits)


def _elements_in(content: np.ndarray, dtype: str, shape: tuple[int, ...], bits: int) -> np.ndarray:
    """The elements of bytes written by `_bytes_of`."""
    if bits == 8:
        return data_from_bytes(content.data, dtype, shape).numpy()
    codes = numbers_in_bytes(content, bits).reshape(-1)[: math.prod(shape)].reshape(shape)
    target = numpy_dtype(dtype)
    if dtype.startswith("int"):
        return ((codes << np.uint8(8 - bits)).view(np.int8) >> np.int8(8 - bits)).astype(target)
    return codes.astype(target) if dtype.startswith("uint") else codes.view(target)


def save_script(program: IRModule | Function, path: str | os.PathLike[str], *, safetensors: bool = False) -> None:
    """Write ``program`` to ``path``, and its large constants to the same path with the suffix ``.weights``.

    With ``safetensors`` they are written to a safetensors file, the path with the suffix ``.safetensors``, by their
    names. Other tools may read it, and replace the numbers by others of the same types. Read back with `load_script`.
    Each file is written completely or not at all. Memory: that of the largest constant.
    """
    target = Path(path)
    if safetensors:
        weights = SafetensorsFile(target.with_name(f"{target.name}{SUFFIX}"))
    else:
        weights = _WeightsFile(target.with_name(f"{target.name}.weights"))
    constants = ConstantWriter(elide=False, store=weights.store, header=weights.header)
    try:
        is_module = isinstance(program, IRModule)
        text = module_text(program, constants) if is_module else function_text(program, constants)
        with whole_file(target) as file:
            file.write(f"{text}\n".encode())
            weights.finish()
    except BaseException:
        weights.discard()
        raise


def load_script(path: str | os.PathLike[str]) -> IRModule | Function:
    """The program in the file ``path``; constants in its file of weights are read when they are first used.

    Raises `ParseError` for a text that is not a program, and `RegraftError` for a file of weights that is missing, too
    short, or of another program.
    """
    target = Path(path)
    try:
        text = target.read_bytes()
    except OSError as error:
        raise RegraftError(f"{target} cannot be read: {error.strerror}") from error
    return read_program(text, str(target), lambda header: _open_weights(target, header))


def _open_weights(target: Path, header: Mapping[str, str]) -> LoadBytes:
    name, digest = header["weights"], header.get("digest", "")
    if Path(name).name != name:
        raise RegraftError(f"{target} names the file of weights {name!r}; that file must be in the folder of the text")
    path = target.with_name(name)
    if path.suffix == SUFFIX:
        return open_safetensors(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            begins = file.read(len(_MAGIC) + _DIGEST_BYTES)
    except OSError as error:
        raise RegraftError(f"{target} needs its file of weights, {path}: {error.strerror}") from error
    magic, is_packed = begins[: len(_MAGIC)], begins.startswith(_MAGIC_PACKED)
    if magic not in (_MAGIC, _MAGIC_PACKED) or begins != magic + bytes.fromhex(digest):
        raise RegraftError(f"{path} does not hold the weights of {target}: keep the two files as they were saved")
    content = np.memmap(path, dtype=np.uint8, mode="r")

    def load(dtype: str, shape: tuple[int, ...], offset: int, named: Named) -> TensorData:
        bits = SUB_BYTE.get(dtype, 8) if is_packed else 8
        count = -(-math.prod(shape) * numpy_dtype(dtype).itemsize * bits // 8)
        if not 0 <= offset <= offset + count <= size:
            raise RegraftError(
                f"{path} is too short: a constant needs bytes {offset} to {offset + count}, but the file has {size}"
            )
        return TensorData.lazy(
            shape,
            dtype,
            lambda: _elements_in(content[offset : offset + count], dtype, shape, bits),
            named.name,
            named.sources,
        )

    return load
