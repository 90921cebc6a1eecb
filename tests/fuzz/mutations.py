"""Ways to damage a file: bytes, fields of a model, words of a text, members of an archive. Each by a seed."""

from __future__ import annotations

import io
import random
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
            members[name] = rng.choice((b"", b"[" * 200_000, b"{}", b"null", b"\x80\x04N."))
        case _:
            members[name] = _bytes(members[name], rng)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return out.getvalue()


MUTATIONS: Final[dict[str, tuple[Callable[[bytes, random.Random], bytes], ...]]] = {
    ".onnx": (_bytes, _fields, _fields, _fields),
    ".relax": (_bytes, _words, _words),
    ".pt2": (_bytes, _members, _members),
}
"""For each suffix of a model's file, the ways to damage one."""


def damaged(suffix: str, data: bytes, seed: int) -> bytes:
    """``data``, a file of that suffix, damaged in the way that ``seed`` says."""
    rng = random.Random(seed)
    return rng.choice(MUTATIONS[suffix])(data, rng)
