"""Element types by their names here and in ONNX."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from ...ir.dtypes import DTYPES, numpy_dtype
from ..errors import ConvertError

_TO_ONNX: Final[dict[str, ir.DataType]] = {}
_FROM_ONNX: Final[dict[ir.DataType, str]] = {}
for _name in DTYPES:
    try:
        _TO_ONNX[_name] = ir.DataType.from_numpy(numpy_dtype(_name))
    except TypeError:
        continue  # ONNX has no such type
    _FROM_ONNX[_TO_ONNX[_name]] = _name


TENSOR_TYPES: Final = {f"tensor({data_type.name.lower()})": data_type for data_type in ir.DataType}
"""The tensor types by their names in ONNX's schemas."""


def dtype_of_text(text: str) -> str | None:
    """The dtype of a schema's text such as ``tensor(int64)``; None for a type parameter and for other types."""
    found = TENSOR_TYPES.get(text)
    return None if found is None else _FROM_ONNX.get(found)


def to_onnx_dtype(dtype: str) -> ir.DataType:
    """The ONNX type of ``dtype``; raises `ConvertError` when ONNX has none."""
    found = _TO_ONNX.get(dtype)
    if found is None:
        raise ConvertError(f"ONNX has no element type {dtype}; convert the tensor first: R.astype(x, ...)")
    return found


def from_onnx_dtype(data_type: ir.DataType | int, where: str) -> str:
    """The dtype of an ONNX type; raises `ConvertError`, which names ``where``, for strings and other types."""
    found = _FROM_ONNX.get(ir.DataType(data_type))
    if found is None:
        raise ConvertError(f"{where}: tensors of {ir.DataType(data_type).name.lower()} are not supported")
    return found
