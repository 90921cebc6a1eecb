"""Ways to damage a file: bytes, fields, wires and graphs of a model, words of a text, members of an archive, headers of
weights and arrays. Each by a seed."""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from collections.abc import Callable, Iterator
from typing import Any, Final

import onnx

EVIL_NUMBERS: Final = (-(2**63), -(2**31), -1, 0, 1, 2, 7, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1)
EVIL_TEXTS: Final = (
    b"",
    b"\x00",
    b"\xff\xfe\x80",
    b"x" * 300,
    b"../" * 40,
    b"?",
    b"N",
    b"\n",
    b"no_such_operator",
    b"If",
)


def _bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, cut out, doubled, cut off or joined by others."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if not found:
            break
        place = rng.randrange(len(found))
        match rng.randrange(5):
            case 0:
                found[place] = rng.randrange(256)
            case 1:
                del found[place : place + rng.choice((1, 2, 8, 64))]
            case 2:
                found[place:place] = found[place : place + rng.choice((1, 8, 64))]
            case 3:
                del found[place:]
            case _:
                found[place:place] = bytes([rng.randrange(256) for _ in range(rng.choice((1, 4, 16)))])
    return bytes(found)


def _messages(message: Any) -> Iterator[Any]:
    """A message of Protocol Buffers and all inside it."""
    pending = [message]
    while pending:
        one = pending.pop()
        yield one
        for field, value in one.ListFields():
            if field.message_type is not None:
                pending.extend(value if field.is_repeated else [value])


def _fields(data: bytes, rng: random.Random) -> bytes:
    """A field of a model left out, doubled, or with another value; the message stays one that parses."""
    model = onnx.ModelProto.FromString(data)
    messages = list(_messages(model))
    for _ in range(rng.choice((1, 1, 2, 3))):
        message = rng.choice(messages)
        fields = [field for field, _ in message.ListFields()] or list(message.DESCRIPTOR.fields)
        _changed(message, rng.choice(fields), rng)
    return model.SerializePartialToString()


def _changed(message: Any, field: Any, rng: random.Random) -> None:
    value = getattr(message, field.name)
    if field.is_repeated:
        if not len(value) or field.message_type is not None:
            if len(value) and rng.random() < 0.5:
                value.append(rng.choice(list(value))) if rng.random() < 0.5 else value.pop(rng.randrange(len(value)))
            else:
                message.ClearField(field.name)
            return
        place = rng.randrange(len(value))
        value[place] = _evil(field, value[place], rng)
    elif field.message_type is not None or rng.random() < 0.2:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _evil(field, value, rng))


def _evil(field: Any, value: Any, rng: random.Random) -> Any:
    if field.cpp_type == field.CPPTYPE_STRING:
        evil = rng.choice(EVIL_TEXTS)
        return evil if field.type == field.TYPE_BYTES else evil.decode("utf-8", "replace")
    if field.cpp_type == field.CPPTYPE_ENUM:
        return rng.choice([one.number for one in field.enum_type.values])
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e30))
    number = rng.choice(EVIL_NUMBERS)
    return number % 2**31 if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else number


def _wires(data: bytes, rng: random.Random) -> bytes:
    """A tag of the encoding itself changed: another kind of wire, another field, a length that is no length.

    The tag is one of the model or of its graph, which is the longest of its fields.
    """
    tags = list(_tags(data, 0, len(data)))
    first, last = max(((body, end) for _, body, end in tags), key=lambda part: part[1] - part[0])
    place, body, end = rng.choice([*tags, *_tags(data, first, last)])
    long = rng.choice(
        (b"\xff" * 9 + b"\x01", b"\x80" * 12, b"\xff\xff\xff\xff\x0f", b"\x00", bytes([min(127, end - body + 1)]))
    )
    found = bytearray(data)
    match rng.randrange(4):
        case 0:
            found[place] = (found[place] & 0xF8) | rng.randrange(8)
        case 1:
            found[place] = rng.randrange(32) << 3 | (found[place] & 7)
        case 2:
            found[place + 1 : body] = long
        case _:
            found[place:place] = data[place:end]
    return bytes(found)


def _tags(data: bytes, place: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The places of the tags in a part of a message, each with where its value begins, without its length, and ends."""
    while place < end:
        kind, body = data[place] & 7, _behind_number(data, place)
        if kind == 2:
            length, start = 0, body
            body = _behind_number(data, body)
            for byte in reversed(data[start:body]):
                length = length << 7 | (byte & 0x7F)
            after = body + length
        else:
            after = {0: _behind_number(data, body), 1: body + 8, 5: body + 4}[kind]
        yield place, body, after
        place = after


def _behind_number(data: bytes, place: int) -> int:
    while data[place] & 0x80:
        place += 1
    return place + 1


def _graphs(data: bytes, rng: random.Random) -> bytes:
    """Another wiring: values renamed, cycles, doubled names, other operators, attributes, functions, places."""
    model = onnx.ModelProto.FromString(data)
    graph = model.graph
    nodes = [one for one in _messages(model) if isinstance(one, onnx.NodeProto)]
    names = [name for node in nodes for name in (*node.input, *node.output)]
    for _ in range(rng.choice((1, 1, 2, 4))):
        node, other = rng.choice(nodes), rng.choice(nodes)
        match rng.randrange(9):
            case 0 if node.input:
                node.input[rng.randrange(len(node.input))] = rng.choice(names)
            case 1 if node.output:
                node.output[rng.randrange(len(node.output))] = rng.choice(names)
            case 2:
                node.op_type, node.domain = rng.choice([(other.op_type, other.domain), ("If", ""), ("Scan", "")])
            case 3:
                node.attribute.extend(other.attribute)
            case 4:
                node.attribute.append(onnx.helper.make_attribute("body", graph))
            case 5 if model.functions:
                rng.choice(model.functions).node.append(node)
            case 6 if graph.initializer:
                _put_outside(rng.choice(graph.initializer), rng)
            case 7:
                model.opset_import.append(
                    onnx.helper.make_opsetid(rng.choice(("", "own", "ai.onnx.ml")), rng.choice((-1, 0, 1, 9, 999)))
                )
            case _:
                graph.output.append(rng.choice([*graph.input, *graph.output]))
    return model.SerializePartialToString()


def _put_outside(tensor: onnx.TensorProto, rng: random.Random) -> None:
    """Say that the numbers of ``tensor`` are in a file, which there is not, or at places which it does not have."""
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key in rng.sample(("location", "offset", "length", "checksum", "location"), rng.randrange(6)):
        places = ("model.onnx", "../model.onnx", "/dev/zero", "", ".", "no.data", "a\0b")
        value = rng.choice(places) if key == "location" else str(rng.choice((*EVIL_NUMBERS, "x", "1e3")))
        tensor.external_data.add(key=key, value=value)


def _header(data: bytes, rng: random.Random) -> bytes:
    """A file of weights with other names, dtypes, sizes or places in its header, or of another length."""
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    entry = header[rng.choice([name for name in header if name != "__metadata__"])]
    match rng.randrange(7):
        case 0:
            entry["data_offsets"] = rng.choice(([-1, 8], [0, 10**30], [16, 0], [], [0], None, ["0", "16"], [0.5, 2]))
        case 1:
            entry["shape"] = rng.choice(([-1], [2**63], [2**32, 2**32], [1] * 500, None, "x", [[1]], [0, 2**62], []))
        case 2:
            entry["dtype"] = rng.choice(("F8", "", "BOOL", "I64", 5, None, "F4"))
        case 3:
            entry.pop(rng.choice(sorted(entry)))
        case 4:
            header = rng.choice(([], None, 5, "x", {}, {"__metadata__": {"x": {"y": 1}}}, {"w": 5}))
        case 5:
            body = rng.choice((b"", body[: len(body) // 2], body + b"x"))
        case _:
            pass
    text = rng.choice(
        (json.dumps(header).encode(),) * 4 + (b"[" * 200_000, b"\xff{}", json.dumps(header).encode()[:-1])
    )
    told = rng.choice((len(text),) * 5 + (0, len(text) + 1, 2**63, 2**64 - 1))
    return told.to_bytes(8, "little") + text + body


def _words(data: bytes, rng: random.Random) -> bytes:
    """Words of a text exchanged, left out, nested or made large."""
    words = data.decode().split(" ")
    for _ in range(rng.choice((1, 2, 4))):
        place = rng.randrange(len(words))
        match rng.randrange(5):
            case 0:
                words[place] = rng.choice(words)
            case 1:
                del words[place]
            case 2:
                words[place] = "(" * rng.choice((1, 50, 5000)) + words[place]
            case 3:
                words[place] = str(rng.choice(EVIL_NUMBERS))
            case _:
                words[place] = words[place][::-1]
        words = words or [""]
    return " ".join(words).encode()


_STRANGE_TOKENS: Final = (
    "None", "True", "-1", "1e400", "1j", "2**70", "...", "()", "[]", "{}", "''", "b'x'", "f'{x}'", "lambda: 0",
    "*", "**", "=", ":", "@", "#", "\\", "R.", "T.int64()", "R.Object", "R.shape([])", "R.Tensor", "R.prim_value(1)",
    "R.call_packed('f')", "metadata", "metadata['constants'][10**9]", "__import__", "print", "self", "\x0c", "\u212b",
)  # fmt: skip


def _tokens(data: bytes, rng: random.Random) -> bytes:
    """Words and signs of a text exchanged for others of the text or for strange ones, and its lines moved."""
    parts = re.split(r"(\w+|\s+)", data.decode())
    places = [place for place, part in enumerate(parts) if part.strip()]
    for _ in range(rng.choice((1, 1, 2, 3))):
        place = rng.choice(places)
        parts[place] = rng.choice((rng.choice(_STRANGE_TOKENS), parts[rng.choice(places)], ""))
    lines = "".join(parts).split("\n")
    match rng.randrange(6):
        case 0:
            lines.insert(rng.randrange(len(lines)), rng.choice(lines))
        case 1:
            del lines[rng.randrange(len(lines))]
        case 2:
            place = rng.randrange(len(lines))
            lines[place] = rng.choice(("    ", "\t", "")) + lines[place].lstrip()
        case 3:
            rng.shuffle(lines)
        case _:
            pass
    return "\n".join(lines).encode()


def _members(data: bytes, rng: random.Random) -> bytes:
    """A member of an archive damaged, left out, or taken for another; the archive stays one."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    name = rng.choice(sorted(members))
    match rng.randrange(4):
        case 0:
            del members[name]
        case 1:
            members[name] = members[rng.choice(sorted(members))]
        case 2:
            members[name] = rng.choice((b"", b"[" * 200_000, b"{}", b"null", b"\x80\x04N.", b"\0" * 10**7))
        case _:
            members[name] = _bytes(members[name], rng)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return out.getvalue()


MUTATIONS: Final[dict[str, tuple[Callable[[bytes, random.Random], bytes], ...]]] = {
    ".npz": (_bytes, _members, _members),
    ".onnx": (_bytes, _fields, _fields, _wires, _graphs),
    ".relax": (_bytes, _words, _tokens, _tokens),
    ".pt2": (_bytes, _members, _members),
    ".safetensors": (_bytes, _header, _header),
}
"""For each suffix of a model's file, the ways to damage one."""


def damaged(suffix: str, data: bytes, seed: int) -> bytes:
    """``data``, a file of that suffix, damaged in the way that ``seed`` says."""
    rng = random.Random(seed)
    return rng.choice(MUTATIONS[suffix])(data, rng)
