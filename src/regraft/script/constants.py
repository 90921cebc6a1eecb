"""Constants as exact text: numbers inline, arrays as data after the program.

A small constant is written where it is used, ``R.const(2.0, "float32")``. Other constants are entries of
``metadata["constants"]``: larger ones, constants that decimal text cannot express (a NaN other than the ordinary one),
and constants with a name in a model. An entry holds the dtype, the shape, the little-endian bytes in base64 or their
offset in a file of weights, and the information of `TensorData`: its name, or the names that it was computed from.
Reading returns data; nothing is evaluated. Also reads the JSON that TVM prints after (or before) a module for the same
purpose.
"""

from __future__ import annotations

import ast
import base64
import binascii
import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast, final, overload

import numpy as np

from ..ir.dtypes import DTYPES, is_bool, is_float, is_unsigned, numpy_dtype
from ..ir.errors import IRError
from ..ir.expr import Constant
from ..ir.tensor_data import TensorData
from .source import SourceText

MOST_INLINE: Final = 16
"""The most elements of an array that is written where it is used."""


def little_endian(array: np.ndarray) -> np.ndarray:
    """The elements in C order, least significant byte first."""
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)


def inline_text(data: TensorData) -> str | None:
    """``R.const(...)`` that returns ``data`` bit by bit; None if it is too large or text cannot express it."""
    if data.size > MOST_INLINE or data.dtype.startswith("complex") or (0 in data.shape[:-1]):
        return None
    array = data.numpy()
    kind = np.float64 if is_float(data.dtype) else np.uint64 if is_unsigned(data.dtype) else np.int64
    wide = array if is_bool(data.dtype) else array.astype(kind)
    if not np.isfinite(wide).all():
        return _special_text(array, float(wide), data.dtype) if array.ndim == 0 else None
    return f'R.const({wide.tolist()!r}, "{data.dtype}")'


def _special_text(array: np.ndarray, number: float, dtype: str) -> str | None:
    name = "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"
    same = np.asarray(float(name)).astype(array.dtype)
    return f'R.const("{name}", "{dtype}")' if same.tobytes() == array.tobytes() else None


@dataclass(frozen=True, slots=True)
class Named:
    """The names of a constant in a text; see `TensorData`."""

    name: str | None = None
    sources: tuple[str, ...] = ()


LoadBytes = Callable[[str, tuple[int, ...], int, Named], TensorData]
"""``load(dtype, shape, offset, named)``: a constant that is stored in a file of weights."""


@final
class ConstantWriter:
    """Collects the constants of one program that are not written inline.

    ``elide`` leaves their numbers out. ``store``, if given, stores a constant's bytes and returns their offset.
    ``header`` returns the entries of the section about that store, once all constants are stored.
    """

    __slots__ = ("_elide", "_entries", "_header", "_places", "_store")

    def __init__(
        self,
        *,
        elide: bool,
        store: Callable[[TensorData], int] | None = None,
        header: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._elide = elide
        self._store = store
        self._header = header
        self._entries: list[TensorData] = []
        self._places: dict[int, int] = {}

    def text(self, constant: Constant) -> str:
        """The text of the constant where it is used."""
        data = constant.data
        told = data.name is not None or data.sources
        inline = inline_text(data) if data.size <= MOST_INLINE and not told else None
        if inline is not None:
            return inline
        place = self._places.get(id(data))
        if place is None:
            place = self._places[id(data)] = len(self._entries)
            self._entries.append(data)
        return f'metadata["constants"][{place}]'

    def section(self) -> list[str]:
        """The lines after the program: the data of all collected constants."""
        if not self._entries:
            return []
        if self._elide:
            count = len(self._entries)
            what = "1 constant is" if count == 1 else f"{count} constants are"
            return ["", f"# The numbers of {what} left out here; .script() has them."]
        entries: list[str] = []
        for data in self._entries:
            if self._store is not None:
                stored = str(self._store(data))
            else:
                stored = f'"{base64.b64encode(little_endian(data.numpy()).tobytes()).decode("ascii")}"'
            told = data.name if data.name is not None else list(data.sources)
            known = f", {json.dumps(told, ensure_ascii=False)}" if told else ""
            entries.append(f'        ("{data.dtype}", {list(data.shape)}, {stored}{known}),')
        header = [f'    "{key}": {json.dumps(value)},' for key, value in self._header().items()]
        return ["", "metadata = {", *header, '    "constants": [', *entries, "    ],", "}"]


def data_from_bytes(
    content: bytes | memoryview, dtype: str, shape: tuple[int, ...], named: Named | None = None
) -> TensorData:
    """A tensor from its little-endian bytes.

    Raises `IRError` if their number does not fit dtype and shape.
    """
    element = numpy_dtype(dtype)
    count = math.prod(shape)
    if count * element.itemsize != len(content):
        raise IRError(
            f"a constant of shape {shape} and dtype {dtype} takes {count * element.itemsize} bytes, "
            f"but its data has {len(content)}"
        )
    array = np.frombuffer(content, dtype=element.newbyteorder("<")).reshape(shape)
    if is_bool(dtype) and np.frombuffer(content, dtype=np.uint8).max(initial=0) > 1:
        raise IRError("a constant of dtype bool has a byte that is neither 0 nor 1")
    named = named or Named()
    return TensorData(array.astype(element, copy=False), named.name, named.sources)


@final
class ConstantTable(Sequence[Constant]):
    """Constants by number, each decoded when it is first used."""

    __slots__ = ("_decoders", "_found")

    def __init__(self, decoders: Sequence[Callable[[], TensorData]]) -> None:
        self._decoders = decoders
        self._found: dict[int, Constant] = {}

    def __len__(self) -> int:
        return len(self._decoders)

    @overload
    def __getitem__(self, index: int) -> Constant: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Constant]: ...
    def __getitem__(self, index: int | slice) -> Constant | Sequence[Constant]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self._decoders):
            raise IRError(f"there is no constant {index}: the metadata has {len(self._decoders)}")
        found = self._found.get(index)
        if found is None:
            found = self._found[index] = Constant(self._decoders[index]())
        return found


def read_metadata(
    source: SourceText, node: ast.expr, load: Callable[[Mapping[str, str]], LoadBytes] | None
) -> Mapping[str, ConstantTable]:
    """The meaning of ``metadata[...]`` in a text: the tables of constants of its metadata section.

    ``load(header)`` opens the file of weights, if the text may have one.
    """
    match node:
        case ast.Dict():
            return _own_metadata(source, node, load)
        case ast.Call(func=ast.Attribute(attr="load_json"), args=[ast.Constant(value=str() as text)], keywords=[]):
            return _tvm_metadata(source, node, text)
        case _:
            raise source.error(node, 'metadata is a dictionary, {"constants": [(dtype, shape, base64 text), ...]}')


def _own_metadata(
    source: SourceText, node: ast.Dict, load: Callable[[Mapping[str, str]], LoadBytes] | None
) -> Mapping[str, ConstantTable]:
    header: dict[str, str] = {}
    entries: list[ast.expr] = []
    for key, value in zip(node.keys, node.values, strict=True):
        match key, value:
            case ast.Constant(value="constants"), ast.List(elts=elements):
                entries = elements
            case ast.Constant(value=str() as name), ast.Constant(value=str() as text):
                header[name] = text
            case _:
                raise source.error(value, "metadata holds constants and short strings only")
    weights = load(header) if load is not None and "weights" in header else None
    decoders = [_decoder(source, entry, weights) for entry in entries]
    return {"constants": ConstantTable(decoders)}


def _decoder(source: SourceText, node: ast.expr, weights: LoadBytes | None) -> Callable[[], TensorData]:
    match node:
        case ast.Tuple(
            elts=[
                ast.Constant(value=str() as dtype),
                ast.List(elts=sizes),
                ast.Constant(value=str() | int() as content),
                *told,
            ]
        ) if dtype in DTYPES:
            shape = tuple([size.value for size in sizes if isinstance(size, ast.Constant)])
        case _:
            raise source.error(node, 'a constant is written ("float32", [2, 3], "base64 of its bytes")')
    if len(shape) != len(sizes) or not all(type(size) is int and 0 <= size < 2**63 for size in shape):
        raise source.error(node, "the shape of a constant is a list of ints")
    dims = cast("tuple[int, ...]", shape)
    named = _named(source, told)

    def decode() -> TensorData:
        if isinstance(content, int):
            if weights is None:
                raise source.error(node, "this constant is in a file of weights; read the program with load_script")
            return weights(dtype, dims, content, named)
        try:
            return data_from_bytes(base64.b64decode(content, validate=True), dtype, dims, named)
        except (binascii.Error, ValueError) as error:
            raise source.error(node, f"the data of a constant is damaged: {error}") from None

    return decode


def _named(source: SourceText, told: Sequence[ast.expr]) -> Named:
    match told:
        case []:
            return Named()
        case [ast.Constant(value=str() as name)]:
            return Named(name)
        case [ast.List(elts=[*elements])] if all(
            isinstance(each, ast.Constant) and isinstance(each.value, str) for each in elements
        ):
            return Named(None, tuple([str(each.value) for each in elements if isinstance(each, ast.Constant)]))
        case _:
            raise source.error(told[0], "after the data of a constant comes its name, or a list of names")


# --- TVM's metadata

_TENSOR_MAGIC: Final = 0xDD5E40F096B4A13F
_TENSOR_HEADER: Final = struct.Struct("<QQiiiBBH")
_DLPACK_NAMES: Final[Mapping[tuple[int, int], str]] = {
    **{(0, bits): f"int{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)},
    (4, 16): "bfloat16",
    (5, 64): "complex64",
    (5, 128): "complex128",
    (6, 8): "bool",
    (8, 8): "float8_e4m3",
    (9, 8): "float8_e4m3b11fnuz",
    (10, 8): "float8_e4m3fn",
    (11, 8): "float8_e4m3fnuz",
    (12, 8): "float8_e5m2",
    (13, 8): "float8_e5m2fnuz",
    (14, 8): "float8_e8m0fnu",
}
"""Dtypes by (type code, bits) in DLPack's header, as TVM saves tensors."""


def _tvm_metadata(source: SourceText, node: ast.expr, text: str) -> Mapping[str, ConstantTable]:
    try:
        graph: Any = json.loads(text)
        nodes: list[Any] = graph["nodes"]
        pairs: list[int] = nodes[graph["root_index"]]["data"]
        tables: dict[str, ConstantTable] = {}
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            places: list[int] = nodes[value]["data"]
            tables[str(nodes[key]["data"])] = ConstantTable(
                [_tvm_decoder(source, node, nodes, place) for place in places]
            )
        return tables
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        raise source.error(
            node,
            "this metadata is not of the form that TVM 0.27 prints; print the module again with TVM 0.27",
        ) from None


def _tvm_decoder(source: SourceText, node: ast.expr, nodes: Sequence[Any], place: int) -> Callable[[], TensorData]:
    def decode() -> TensorData:
        try:
            tensor = nodes[nodes[place]["data"]["value"]]
            return _tvm_tensor(base64.b64decode(tensor["data"], validate=True))
        except (ValueError, KeyError, IndexError, TypeError, struct.error) as error:
            raise source.error(node, f"constant {place} of TVM's metadata cannot be read: {error}") from None

    return decode


def _tvm_tensor(content: bytes) -> TensorData:
    magic, _, _, _, ndim, code, bits, lanes = _TENSOR_HEADER.unpack_from(content)
    dtype = _DLPACK_NAMES.get((code, bits))
    if magic != _TENSOR_MAGIC or dtype is None or lanes != 1 or not 0 <= ndim <= 64:
        raise IRError("it is not a tensor of a known dtype")
    end = _TENSOR_HEADER.size + 8 * ndim
    shape = struct.unpack_from(f"<{ndim}q", content, _TENSOR_HEADER.size)
    (size,) = struct.unpack_from("<q", content, end)
    if min(shape, default=0) < 0:
        raise IRError("its shape is negative")
    return data_from_bytes(content[end + 8 : end + 8 + size], dtype, shape)
