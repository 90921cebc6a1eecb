"""Large model files, read and written without parsing the bytes of their constants.

Otherwise a model of 1.9 GB with its weights inside would be in memory four times: as the file, parsed, taken out of
the parsed message, and as the message to write. This module walks over the fields of the file instead, as Protocol
Buffers encode them (https://protobuf.dev/programming-guides/encoding). `read_model` replaces each large constant by a
reference to its bytes in the same file. `write_model` copies each large constant from its file into the new one. This
module knows ONNX's field numbers; the reader knows what a model means.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import onnx
import onnx_ir as ir

from ..errors import ConvertError
from ..reading import tell_read
from .sparse_attributes import as_message

LEAST_FILE: Final = 1 << 26
"""Smaller files are parsed whole: this is as fast, and leaves nothing to read later."""
_LEAST_CONSTANT: Final = 1 << 16

_GRAPH: Final = onnx.ModelProto.GRAPH_FIELD_NUMBER
_INITIALIZER: Final = onnx.GraphProto.INITIALIZER_FIELD_NUMBER
_RAW_DATA: Final = onnx.TensorProto.RAW_DATA_FIELD_NUMBER
_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
"""The encoding of a field's content, from its tag."""


class _Field(NamedTuple):
    """A field of a message: its number, the start of its tag, and the start and end of its content."""

    number: int
    start: int
    content: int
    end: int


def read_model(path: str) -> onnx.ModelProto:
    """The model in a file, with large initializers as references to the file itself. Cost: the size of the graph alone.

    Raises `ConvertError` for a file that is cut short or not in the format of Protocol Buffers. Raises protobuf's own
    errors if it is in that format but not a model.
    """
    proto = onnx.ModelProto()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        location = os.path.basename(path)
        parts: list[bytes] = []
        for field in _fields(content, 0, len(content), path):
            if field.number == _GRAPH:
                parts.append(_nested(_GRAPH, _graph(content, field, path, location)))
            else:
                parts.append(content[field.start : field.end])
    proto.ParseFromString(b"".join(parts))
    return proto


def _graph(content: mmap.mmap, graph: _Field, path: str, location: str) -> bytes:
    parts: list[bytes] = []
    for field in _fields(content, graph.content, graph.end, path):
        tell_read(field.end, len(content))
        if field.number == _INITIALIZER and field.end - field.content >= _LEAST_CONSTANT:
            parts.append(_nested(_INITIALIZER, _initializer(content, field, path, location)))
        else:
            parts.append(content[field.start : field.end])
    return b"".join(parts)


def _initializer(content: mmap.mmap, tensor: _Field, path: str, location: str) -> bytes:
    fields = list(_fields(content, tensor.content, tensor.end, path))
    raw = [field for field in fields if field.number == _RAW_DATA]
    if len(raw) != 1 or raw[0].end - raw[0].content < _LEAST_CONSTANT:
        return content[tensor.content : tensor.end]
    parts = [content[field.start : field.end] for field in fields if field.number != _RAW_DATA]
    return b"".join([*parts, _reference(location, raw[0].content, raw[0].end - raw[0].content)])


def _reference(location: str, offset: int, length: int) -> bytes:
    """The fields of a tensor that refers to bytes in a file."""
    tensor = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    return tensor.SerializeToString()


def _fields(content: mmap.mmap, start: int, end: int, path: str) -> Iterator[_Field]:
    """The fields of the message at ``content[start:end]``."""
    position = start
    while position < end:
        tag, after = _varint(content, position, end, path)
        kind = tag & 7
        begin = stop = after
        if kind == _VARINT:
            _, stop = _varint(content, after, end, path)
        elif kind == _LENGTH:
            length, begin = _varint(content, after, end, path)
            stop = begin + length
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            stop = after + (8 if kind == _EIGHT_BYTES else 4)
        if stop == after or stop > end:
            raise _damaged(path, position)
        yield _Field(tag >> 3, position, begin, stop)
        position = stop


def _varint(content: mmap.mmap, position: int, end: int, path: str) -> tuple[int, int]:
    """An integer of variable length, and the position after it."""
    value = 0
    for index in range(10):
        if position + index >= end:
            break
        byte = content[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, position + index + 1
    raise _damaged(path, position)


def _damaged(path: str, position: int) -> ConvertError:
    return ConvertError(f"{path}: this is no ONNX model, or it is damaged: it cannot be read from byte {position:,} on")


# --- out


def write_model(model: ir.Model, path: Path) -> None:
    """Write ``model`` into one file, large initializers last, copied one by one. Memory: the largest of them."""
    initializers = model.graph.initializers
    large = {
        name: value
        for name, value in initializers.items()
        if value.const_value is not None and value.const_value.nbytes >= _LEAST_CONSTANT
    }
    for name in large:
        initializers.pop(name)
    try:
        proto = as_message(model)
    finally:
        initializers.update(large)
    graph = proto.graph.SerializeToString()
    proto.ClearField("graph")
    tensors = [(_heading(value), value.const_value) for value in large.values()]
    sizes = [len(heading) + (0 if tensor is None else tensor.nbytes) for heading, tensor in tensors]
    total = len(graph) + sum(len(_nesting(_INITIALIZER, size)) + size for size in sizes)
    with path.open("wb") as file:
        file.write(proto.SerializeToString() + _nesting(_GRAPH, total) + graph)
        for (heading, tensor), size in zip(tensors, sizes, strict=True):
            assert tensor is not None
            file.write(_nesting(_INITIALIZER, size) + heading)
            file.write(tensor.tobytes())


def _heading(value: ir.Value) -> bytes:
    """The bytes of an initializer before its raw data."""
    tensor = value.const_value
    assert tensor is not None
    facts = onnx.TensorProto(name=value.name, data_type=int(tensor.dtype), dims=tensor.shape.numpy())
    return facts.SerializeToString() + _nesting(_RAW_DATA, tensor.nbytes)


def _nested(number: int, content: bytes) -> bytes:
    """A field that holds a message or bytes."""
    return _nesting(number, len(content)) + content


def _nesting(number: int, size: int) -> bytes:
    """The header of such a field, before its ``size`` bytes."""
    return _varint_bytes(number << 3 | _LENGTH) + _varint_bytes(size)


def _varint_bytes(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
