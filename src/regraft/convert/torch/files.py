"""Exported programs from files."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import torch
from torch.export import ExportedProgram

from ..errors import ConvertError


def load_exported(path: str | os.PathLike[str]) -> ExportedProgram:
    """The program in a ``.pt2`` file. Raises `ConvertError` for a file that is missing, damaged or something else.

    PyTorch reads the file; a file from a source that you do not trust may run code of its own.
    """
    target = Path(path)
    if not target.is_file():
        raise ConvertError(f"{target}: there is no such file")
    if not zipfile.is_zipfile(target):
        raise ConvertError(f"{target}: this is no exported program of PyTorch, or it is damaged: it is no zip archive")
    try:
        return torch.export.load(target)
    except Exception as error:  # PyTorch raises whatever its parts raise
        reason = str(error).strip().splitlines()
        raise ConvertError(
            f"{target}: PyTorch {torch.__version__} cannot load this program: {reason[0] if reason else error!r}"
        ) from error
