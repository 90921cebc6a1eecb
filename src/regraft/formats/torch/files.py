"""Exported programs from files.

A program may take or return values of a class that PyTorch knows only after its package is imported, such as the
outputs of a transformers model. Known packages of that kind are imported here.
"""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import torch
from torch.export import ExportedProgram

from ..errors import ConvertError
from ..quiet import quiet
from ..reading import CountedFile, tell_read
from .archive import code_in, plain_unpickling
from .mapped_weights import without_weights

_REGISTERING: Final = ("diffusers", "transformers")
"""Packages whose import registers their classes with PyTorch. A file cannot cause any other import."""

_NODE_CLASS: Final = re.compile(rb'\\"type\\": \\"([\w.]+)\.\w+\\"')


def load_exported(path: str | os.PathLike[str]) -> ExportedProgram:
    """The program in a ``.pt2`` file. Raises `ConvertError` for a file that is missing, damaged or something else.

    PyTorch reads the file, except its weights, which stay in the file and are read when they are used. A file is
    refused if PyTorch would run code in it: pickled objects, sizes that are not arithmetic, targets that are not
    operators, and modules to be imported for the nesting of its inputs and outputs.
    """
    target = Path(path)
    if not target.is_file():
        raise ConvertError(f"{target}: there is no such file")
    if not zipfile.is_zipfile(target):
        raise ConvertError(f"{target}: this is no exported program of PyTorch, or it is damaged: it is no zip archive")
    if not os.access(target, os.R_OK):
        raise ConvertError(f"{target} cannot be read: no permission")
    foreign = _register_classes(_texts(target))
    try:
        with quiet(), plain_unpickling():
            without = without_weights(target)
            if without is not None:
                program = torch.export.load(without.archive)
                without.put_into(program)
                tell_read(target.stat().st_size, target.stat().st_size)
                return program
            with CountedFile(target) as file:
                return torch.export.load(file)
    except ConvertError:
        raise
    except Exception as error:  # PyTorch raises errors of many kinds
        if foreign:
            raise ConvertError(
                f"{target}: its inputs or outputs are of classes of {', '.join(foreign)}, which PyTorch must know "
                "first: import them in Python, load the program with torch.export.load and give it to "
                "regraft.optimize; or export a model that takes and gives tuples"
            ) from error
        if "weights_only" in str(error):
            raise ConvertError(_REFUSED.format(path=target, code="pickled objects that are no tensors")) from error
        reason = str(error).strip().splitlines()
        raise ConvertError(
            f"{target}: PyTorch {torch.__version__} cannot load this program: {reason[0] if reason else error!r}"
        ) from error


_REFUSED: Final = (
    "{path}: loading this file would run code that is in it: {code}; refused. If you trust it, load it with "
    "torch.export.load and give the program to regraft.optimize"
)
_PROGRAMS: Final = re.compile(r"(.*/)?(models/\w+|serialized_exported_program)\.json")


def _texts(path: Path) -> list[bytes]:
    """The JSON texts of an exported program. Raises `ConvertError` for other files, and for one that would run code."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            texts = [archive.read(name) for name in names if name.endswith(".json")]
        is_program = any(map(_PROGRAMS.fullmatch, names))
        code = code_in(names, texts) if is_program else None
    except RecursionError as error:
        raise ConvertError(
            f"{path}: this is no exported program of PyTorch, or it is damaged: its JSON nests too deep"
        ) from error
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError, zlib.error) as error:
        raise ConvertError(f"{path}: this is no exported program of PyTorch, or it is damaged: {error}") from error
    if not is_program:
        raise ConvertError(f"{path}: this is a zip archive, but no exported program: write one with torch.export.save")
    if code is not None:
        raise ConvertError(_REFUSED.format(path=path, code=code))
    return texts


def _register_classes(texts: Iterable[bytes]) -> list[str]:
    """Import the modules of the classes in nested inputs and outputs; returns those that were not imported."""
    left: list[str] = []
    for module in dict.fromkeys(match.decode() for text in texts for match in _NODE_CLASS.findall(text)):
        package = module.partition(".")[0]
        if package in _REGISTERING and find_spec(package) is not None:
            import_module(module)
        elif module not in ("builtins", "collections"):
            left.append(module)
    return left
