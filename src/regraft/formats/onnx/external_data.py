"""Constants in files of their own, and model files that are written completely or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import onnx
import onnx_ir as ir

from ..errors import ConvertError
from . import wire
from .carried import with_ends, without_ends
from .scopes import with_bodies
from .sparse_attributes import as_message, with_sparse_attributes

MOST_IN_ONE_FILE: Final = 2**31 - 2**20
"""The most bytes of constants in one file; the format ends at 2 GB."""

_LEAST_OUTSIDE: Final = 1024
_ALIGNMENT: Final = 64
"""In a joint file, the content of each file of constants starts at a multiple of this many bytes."""
_PART: Final = 1 << 24

IN_OTHER_FILES: Final = "regraft: constants in other files"
"""Metadata of a model that was opened: True if some of its constants are in other files than its own."""


def copy_with_constants(source: Path, path: Path) -> None:
    """Copy the model file ``source`` to ``path``, and its files of constants to ``path.name + ".data"``.

    Several files of constants are concatenated there. Cost: the bytes of these files pass through memory in parts.
    """
    proto = onnx.load(source, load_external_data=False)  # pyright: ignore[reportUnknownMemberType]
    data = path.with_name(f"{path.name}.data")
    starts: dict[str, int] = {}
    tensors = list(_outside(proto))
    with data.open("wb") as file:
        for tensor in tensors:
            own = _location(source, tensor)
            if own not in starts:
                file.write(bytes(-file.tell() % _ALIGNMENT))
                starts[own] = file.tell()
                with open(own, "rb") as part:
                    shutil.copyfileobj(part, file, _PART)
    for tensor in tensors:
        own = _location(source, tensor)
        told = {entry.key: entry.value for entry in tensor.external_data}
        offset = int(told.get("offset", 0))
        if len(starts) > 1:
            told.setdefault("length", str(os.path.getsize(own) - offset))
        if starts[own]:
            told["offset"] = str(starts[own] + offset)
        del tensor.external_data[:]
        for key, value in {**told, "location": data.name}.items():
            tensor.external_data.add(key=key, value=value)
    path.write_bytes(proto.SerializeToString())


def write_model(model: ir.Model, path: Path, external_data: bool | str, carried: str | None = None) -> onnx.ModelProto:
    """Write ``model`` to ``path``, and constants that go outside to ``path.name + ".data"`` beside it.

    ``carried`` are the ends of the model that `regraft.formats.onnx.carried` took off.
    Both files are written under other names, checked, and then moved into place. Returns the model as the file holds
    it; for a large file, with references to the constants in it. Raises `ConvertError` if the constants do not fit into
    one file, the folder does not exist, the disk is full, or the model is not valid; nothing is left behind then.
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
        with tempfile.TemporaryDirectory(prefix=".regraft-", dir=path.parent) as folder:
            temporary = Path(folder) / path.name
            if size >= wire.LEAST_FILE and carried is None and not outside:
                wire.write_model(model, temporary)
                proto = wire.read_model(str(temporary))
                # Check without the bytes of the constants, which the checker would load.
                checked = temporary.with_name("checked.onnx")
            else:
                proto = _saved_beside(model, temporary, data_name) if outside else as_message(model)
                proto = proto if carried is None else with_ends(proto, carried)
                checked = temporary
            checked.write_bytes(proto.SerializeToString())
            check_file(checked, proto)
            if outside and (Path(folder) / data_name).exists():
                os.replace(Path(folder) / data_name, path.parent / data_name)
            os.replace(temporary, path)
        return proto
    except OSError as error:
        cause = _with_number(error)
        raise ConvertError(f"{path}: {cause.strerror or cause}; nothing was written") from cause
    except ir.serde.SerdeError as error:
        raise ConvertError(f"{path}: the model cannot be written: {error.__cause__ or error}") from error
    except onnx.checker.ValidationError as error:
        raise ConvertError(f"{path}: the model is not valid ONNX: {error}; nothing was written") from error


def _saved_beside(model: ir.Model, path: Path, data_name: str) -> onnx.ModelProto:
    """``model`` with the larger constants in the file ``data_name`` beside ``path``. Writes both files."""
    save: Any = ir.save  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    save(model, path, external_data=data_name, size_threshold_bytes=_LEAST_OUTSIDE)
    written = onnx.load(path, load_external_data=False)  # pyright: ignore[reportUnknownMemberType]
    return with_sparse_attributes(written)


def _with_number(error: OSError) -> OSError:
    """``error`` with its number: for a full disk, NumPy only says how many elements it wrote."""
    if error.errno is None and "requested and" in str(error):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return error


def check_file(path: Path, proto: onnx.ModelProto) -> None:
    """Raise onnx's `ValidationError` if the file ``path``, which holds ``proto``, is not valid with its other files."""
    check: Any = onnx.checker.check_model  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    ranked = as_checked(proto)
    if ranked is not proto:
        path = path.with_name(f"ranked_{path.name}")
        path.write_bytes(ranked.SerializeToString())
    check(str(path))


def as_checked(proto: onnx.ModelProto) -> onnx.ModelProto:
    """``proto`` for onnx's checker: inputs and outputs of unknown rank get an empty shape, because it requires one."""

    def without_rank(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
        ports = [*model.graph.input, *model.graph.output]
        return [one for one in ports if one.type.HasField("tensor_type") and not one.type.tensor_type.HasField("shape")]

    if not without_rank(proto):
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for port in without_rank(copy):
        port.type.tensor_type.shape.SetInParent()
    return copy


def check_external_data(graph: ir.Graph, path: str) -> bool:
    """Resolve the file of each constant outside the message of the model at ``path``, in its folder or below it.

    Returns True if some are in other files than the model's own. If the model is a link, as in caches of downloads, the
    folder of the linked file counts too. Raises `ConvertError` for a file that is missing, too short, unreadable, or
    outside of the folder. A second hard link counts as outside, except for the model's own file, from which large
    constants are read as well.
    """
    own = os.path.realpath(path)
    folder = os.path.dirname(os.path.abspath(path))
    roots = dict.fromkeys((os.path.realpath(folder), os.path.dirname(own)))
    in_others = False
    for scope in (graph, *graph.subgraphs()):
        for name, value in scope.initializers.items():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor):
                found = _checked(tensor, name, folder, roots)
                in_others = in_others or found != own
                if found != own and os.stat(found).st_nlink > 1:
                    raise ConvertError(
                        f"constant {name}: its data is in {found}, a file with several hard links, which may be one "
                        "from outside of the model's folder; refused. Put a copy of the file there"
                    )
                # The folder is empty here: the path was resolved and checked above.
                value.const_value = ir.ExternalTensor(
                    found, tensor.offset, tensor.length, tensor.dtype, shape=tensor.shape, name=tensor.name or name
                )
    return in_others


def _checked(tensor: ir.ExternalTensor, name: str, folder: str, roots: Iterable[str]) -> str:
    """The file that holds the bytes of ``tensor``, with all links resolved."""
    location = str(tensor.location)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    if "\0" in location:
        raise ConvertError(f"constant {name}: {location!r} is no path; the model is damaged")
    path = os.path.realpath(os.path.join(folder, location))
    root = next((root for root in roots if os.path.commonpath([root, path]) == root), None)
    if os.path.isabs(location) or root is None:
        raise ConvertError(f"constant {name}: its data is in {location}, outside of the model's folder; refused")
    if not os.path.isfile(path):
        raise ConvertError(f"constant {name}: its data should be in {path}, and there is no such file")
    end = (tensor.offset or 0) + (tensor.length or tensor.nbytes)
    if os.path.getsize(path) < end:
        raise ConvertError(f"constant {name}: {path} ends before byte {end}; the file is damaged")
    if not os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
        raise ConvertError(f"constant {name}: its data is in {path}, which may not be read: no permission")
    return path


def external_files(path: str | os.PathLike[str]) -> tuple[Path, ...]:
    """The files with constants outside of the message of the model at ``path``, each once.

    A large model file is one of them, because its own large constants are not read with the message. The model must be
    readable.
    """
    proto, _ = without_ends(read_proto(os.fspath(path)))
    return tuple(Path(one) for one in dict.fromkeys(_location(path, tensor) for tensor in _outside(proto)))


def _outside(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """The constants of a model whose bytes are not in its message."""
    for graph in with_bodies(proto.graph):
        yield from (one for one in graph.initializer if one.data_location == onnx.TensorProto.EXTERNAL)


def _location(path: str | os.PathLike[str], tensor: onnx.TensorProto) -> str:
    """The file with the bytes of ``tensor``, a constant of the model at ``path``."""
    location = next(entry.value for entry in tensor.external_data if entry.key == "location")
    return os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(path)), location))


def read_proto(path: str) -> onnx.ModelProto:
    """The model in a file. Constants in other files, and large ones in this file, are not read."""
    if os.path.getsize(path) >= wire.LEAST_FILE:
        return wire.read_model(path)
    return onnx.load(path, load_external_data=False)  # pyright: ignore[reportUnknownMemberType]
