"""PyTorch tensors and NumPy arrays over the same memory, and the names of dtypes in both libraries.

Nothing is copied if both libraries can read the same bits. Floats that NumPy lacks go through ``ml_dtypes``. Knows
dtypes only.
"""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np
import torch

from ...ir.dtypes import DTYPES, SUB_BYTE, numpy_dtype
from ..errors import ConvertError

_TORCH_DTYPES: Final[dict[str, torch.dtype]] = {
    name: found  # PyTorch packs the others, if it has them; here each element takes a byte
    for name in DTYPES
    if name not in SUB_BYTE and isinstance(found := getattr(torch, name, None), torch.dtype)
}
_NAMES: Final = {dtype: name for name, dtype in _TORCH_DTYPES.items()}
_BITS: Final = {1: torch.uint8, 2: torch.int16}


PARTS: Final = {"complex64": "float32", "complex128": "float64"}
"""The dtypes of the real and imaginary parts of complex numbers."""


def dtype_name(dtype: torch.dtype) -> str:
    """The Relax name of a PyTorch dtype; raises `ConvertError` for quantized and other unsupported dtypes."""
    name = _NAMES.get(dtype)
    if name is None:
        kinds = PARTS if dtype.is_complex else _NAMES.values()
        raise ConvertError(
            f"a tensor of {dtype} has no counterpart here; convert it in the model, with x.to(dtype), to one of "
            f"{', '.join(kinds)}"
        )
    return name


def torch_dtype(name: str) -> torch.dtype:
    """The PyTorch dtype of a Relax name; raises `ConvertError` for a dtype that PyTorch lacks."""
    found = _TORCH_DTYPES.get(name)
    if found is None:
        raise ConvertError(f"PyTorch has no dtype {name}; convert the tensor first, with R.astype")
    return found


def said(size: Any) -> Any:
    """A size of a traced tensor as an int or an expression, which can be compared without a guard."""
    return size if isinstance(size, int) else size.node.expr


def have_one_shape(first: torch.Tensor, second: torch.Tensor) -> bool:
    """True if two traced tensors have the same shape for all values of their symbolic sizes."""
    return [*map(said, first.shape)] == [*map(said, second.shape)]


def default_device() -> torch.device:
    """PyTorch's device for new tensors.

    While a model is compiled, it is the device of an empty tensor: PyTorch's own function cannot be compiled.
    """
    return torch.empty(0).device if torch.compiler.is_dynamo_compiling() else torch.get_default_device()


def to_numpy(tensor: torch.Tensor, what: str) -> np.ndarray:
    """``tensor`` as an array over the same memory; a copy if it is on another device or has lazy conjugation.

    Raises `ConvertError`, which names ``what``, for a tensor without plain elements (sparse, quantized, meta).
    """
    if tensor.layout is not torch.strided:
        raise ConvertError(f"{what} is a sparse tensor ({tensor.layout}); make it a dense one: {what}.to_dense()")
    if tensor.is_quantized:
        raise ConvertError(f"{what} is a packed tensor of {tensor.dtype}; make it one of floats: {what}.dequantize()")
    if tensor.device.type == "meta":
        raise ConvertError(f"{what} has no numbers: it is on the meta device; load the model's weights first")
    name = dtype_name(tensor.dtype)
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    scalar = getattr(ml_dtypes, name, None)
    if scalar is None:
        return plain.numpy()
    bits = _BITS[np.dtype(scalar).itemsize]
    # A view of another dtype keeps strides only if the element sizes are equal, which they are here.
    return plain.view(bits).numpy().view(scalar)


def from_numpy(array: np.ndarray, name: str) -> torch.Tensor:
    """``array``, of the dtype of that Relax name, as a tensor over the same memory, which must not be written.

    It is a copy if PyTorch cannot use the memory as it is: negative strides, another byte order.
    """
    dtype = torch_dtype(name)
    if any(stride < 0 for stride in array.strides) or not array.dtype.isnative:
        array = np.ascontiguousarray(array.astype(numpy_dtype(name), copy=False))
    is_foreign = array.dtype.type.__module__ == ml_dtypes.__name__
    plain = array.view("u1" if array.itemsize == 1 else "i2") if is_foreign else array
    if not plain.flags.writeable:
        # PyTorch has no read-only tensors and warns about each; users of the tensor must not write to it.
        plain = np.asarray(_Memory(plain))
    tensor = torch.from_numpy(plain)  # pyright: ignore[reportUnknownMemberType]
    return tensor.view(dtype) if is_foreign else tensor


class _Memory:
    """The memory of an array in the array interface, declared writeable; keeps the array alive."""

    __slots__ = ("__array_interface__", "_array")
    __array_interface__: dict[str, Any]

    def __init__(self, array: np.ndarray) -> None:
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface
        self._array = array
