"""Files of named arrays, written atomically. A trainer saves its state in this form.

The format is NumPy's ``.npz``, without pickles. Dtypes that NumPy does not have (bfloat16, float8) are stored as
unsigned integers with the same bits, together with the names of the dtypes.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from ..ir.dtypes import numpy_dtype
from ..ir.whole_file import whole_file
from .errors import TrainingError

_FORMAT: Final = "regraft-training-1"
_FORMAT_KEY: Final = "format"
_DTYPES_KEY: Final = "dtypes"


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray]) -> None:
    """Write ``arrays`` to ``path``. If this is interrupted, an existing file stays as it was.

    Raises `TrainingError` if the file cannot be written.
    """
    target = Path(path)
    content: dict[str, np.ndarray] = {_FORMAT_KEY: np.array(_FORMAT)}
    foreign: list[tuple[str, str]] = []
    for name, array in arrays.items():
        if array.dtype.kind == "V" or not array.dtype.isbuiltin:
            foreign.append((name, array.dtype.name))
            array = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)
        content[f"array/{name}"] = array
    content[_DTYPES_KEY] = np.array(foreign, dtype="U").reshape(-1, 2)
    try:
        with whole_file(target) as file:
            np.savez(file, allow_pickle=False, **content)
    except OSError as error:
        raise TrainingError(f"{target} cannot be written: {error.strerror}; what was there is unchanged") from error


def read_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays in a file of `write_arrays`. Raises `TrainingError` if it is missing, damaged or of another kind."""
    target = Path(path)
    try:
        with np.load(target, allow_pickle=False) as file:
            content: dict[str, np.ndarray] = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise TrainingError(f"{target} cannot be read as the saved state of a trainer: {error}") from error
    if _FORMAT_KEY not in content or str(content[_FORMAT_KEY]) != _FORMAT:
        raise TrainingError(f"{target} is not the saved state of a trainer; give a file that Trainer.save wrote")
    dtypes = {str(name): str(dtype) for name, dtype in content[_DTYPES_KEY]}
    arrays = {name.removeprefix("array/"): array for name, array in content.items() if name.startswith("array/")}
    return {
        name: array.view(numpy_dtype(dtypes[name])).reshape(array.shape) if name in dtypes else array
        for name, array in arrays.items()
    }
