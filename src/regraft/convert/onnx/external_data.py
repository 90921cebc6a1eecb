"""Constants in files of their own, and model files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

import onnx
import onnx_ir as ir

from ..errors import ConvertError

MOST_IN_ONE_FILE: Final = 2**31 - 2**20
"""Bytes of constants that fit into one file, whose format ends at 2 GB."""

_LEAST_OUTSIDE: Final = 1024


def write_model(model: ir.Model, path: Path, external_data: bool | str) -> None:
    """Write ``model`` to ``path``, with ``path.name + ".data"`` beside it where constants go outside.

    Both files are written under other names, checked, and then moved into place. Raises `ConvertError` when the
    folder does not exist or the disk is full; nothing is left behind then.
    """
    constants = [value.const_value for value in model.graph.initializers.values() if value.const_value is not None]
    size = sum(tensor.nbytes for tensor in constants)
    outside = size > MOST_IN_ONE_FILE if external_data == "auto" else bool(external_data)
    if not outside and size > MOST_IN_ONE_FILE:
        raise ConvertError(f"{path}: {size} bytes of constants do not fit into one file; pass external_data=True")
    if not path.parent.is_dir():
        raise ConvertError(f"{path}: there is no folder {path.parent}")
    data_name = f"{path.name}.data"
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            temporary = Path(folder) / path.name
            if outside:
                ir.save(model, temporary, external_data=data_name, size_threshold_bytes=_LEAST_OUTSIDE)
            else:
                ir.save(model, temporary)
            onnx.checker.check_model(str(temporary))
            if outside and (Path(folder) / data_name).exists():
                os.replace(Path(folder) / data_name, path.parent / data_name)
            os.replace(temporary, path)
    except OSError as error:
        raise ConvertError(f"{path}: {error.strerror or error}; nothing was written") from error
    except onnx.checker.ValidationError as error:
        raise ConvertError(f"{path}: the model is not valid ONNX: {error}; nothing was written") from error
