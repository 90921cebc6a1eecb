"""Quantization: bytes as floats, and PyTorch's own operators, ``quantized_decomposed``, which its compilers recognize.

The latter are only for programs that are exported as PyTorch modules: PyTorch multiplies by the reciprocal of the
scale, and `relax.quantize` divides, so a value exactly at a half may be rounded to the other side.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import torch

from ...formats.torch.tensors import torch_dtype
from .. import torch_namespace as xp
from ..kernel_table import with_references

_AT_ONCE: Final = 1 << 18
"""The number of elements that are computed together if there are many: a megabyte of floats."""
_LIMITS: Final = {
    torch.int8: (-128, 127),
    torch.uint8: (0, 255),
    torch.int16: (-(1 << 15), (1 << 15) - 1),
}


def _operators() -> Any:
    import_module("torch.ao.quantization.fx._decomposed")  # declares the operators
    return torch.ops.quantized_decomposed


def _quantize(data: Any, scale: Any, zero_point: Any, *, axis: int, out_dtype: str) -> Any:
    dtype = torch_dtype(out_dtype)
    limits = _LIMITS.get(dtype)
    if limits is None or data.dtype != torch.float32 or scale.dtype != torch.float32:
        return NotImplemented
    if scale.ndim == 0 and zero_point.ndim == 0:
        return _operators().quantize_per_tensor.tensor(data, scale, zero_point, *limits, dtype)
    if scale.ndim != 1 or zero_point.shape != scale.shape or scale.shape[0] != data.shape[axis]:
        return NotImplemented
    return _operators().quantize_per_channel(data, scale, zero_point, axis % data.ndim, *limits, dtype)


def _dequantize(data: Any, scale: Any, zero_point: Any, *, axis: int, out_dtype: str) -> Any:
    limits = _LIMITS.get(data.dtype)
    is_trained = scale.requires_grad and torch.is_grad_enabled()  # PyTorch's operators have no gradient
    if limits is None or out_dtype != "float32" or scale.dtype != torch.float32 or is_trained or scale.ndim > 1:
        return _bytes_as_floats(data, scale, zero_point, axis=axis, out_dtype=out_dtype)
    if scale.ndim == 0 and zero_point.ndim == 0:
        return _operators().dequantize_per_tensor.tensor(data, scale, zero_point, *limits, data.dtype)
    if scale.ndim != 1 or zero_point.shape != scale.shape or scale.shape[0] != data.shape[axis]:
        return NotImplemented
    offset = zero_point.to(torch.int64)  # PyTorch subtracts in the integer dtype of the zero points
    return _operators().dequantize_per_channel(data, scale, offset, axis % data.ndim, *limits, data.dtype)


def _bytes_as_floats(data: Any, scale: Any, zero_point: Any, *, axis: int, out_dtype: str) -> Any:
    """The reference's values, computed in float32, which holds any difference of two bytes exactly."""
    dtypes = data.dtype, zero_point.dtype, scale.dtype
    if out_dtype != "float32" or dtypes[2] != torch.float32 or not {*dtypes[:2]} <= {torch.int8, torch.uint8}:
        return NotImplemented
    place, sizes = axis % max(1, data.ndim), tuple(data.shape)
    whole, each = data, (-1, *[1] * (data.ndim - 1 - place))
    if scale.ndim > 1:  # an axis of blocks, and one of the elements of a block
        blocks = tuple(scale.shape)
        whole = data.reshape(*sizes[:place], blocks[place], -1, *sizes[place + 1 :])
        each = (*blocks[: place + 1], 1, *blocks[place + 1 :])
    elif whole.numel() == 0:
        return NotImplemented
    factor, offset = (part.reshape(each) if part.ndim else part for part in (scale, zero_point))
    by_rows = [part for part in (factor, offset) if part.ndim == whole.ndim and len(part) == len(whole)]
    is_trained = factor.requires_grad and torch.is_grad_enabled()
    if torch.compiler.is_compiling() or is_trained or whole.numel() <= _AT_ONCE or len(by_rows) < 2:
        return _scaled(whole, factor, offset).reshape(sizes)
    # Compute some rows at a time, which stay in the processor's cache.
    found, step = torch.empty(whole.shape, device=data.device), max(1, _AT_ONCE * len(whole) // whole.numel())
    for first in range(0, len(whole), step):
        rows = slice(first, first + step)
        _scaled(whole[rows], factor[rows], offset[rows], out=found[rows])
    return found.reshape(sizes)


def _scaled(data: Any, factor: Any, offset: Any, out: Any = None) -> Any:
    distance = data.to(torch.float32)
    distance -= offset.to(torch.float32)
    return torch.mul(distance, factor, out=out)


KERNELS: Final[dict[str, Callable[..., Any]]] = {"relax.dequantize": _bytes_as_floats}
GOING_OUT: Final = with_references([{"relax.quantize": _quantize, "relax.dequantize": _dequantize}], xp)
"""The kernels of exported programs, by the names of their operators."""
