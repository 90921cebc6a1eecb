"""Quantization in PyTorch's own operators, ``quantized_decomposed``, which its compilers look for.

Only for programs that go out as PyTorch modules: PyTorch multiplies by the reciprocal of the scale where
`relax.quantize` divides, so that a value which lies just at a half may be rounded to the other side.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import torch

from ...formats.torch.tensors import torch_dtype
from .. import torch_namespace as xp
from ..kernel_table import with_references

_LIMITS: Final = {
    torch.int8: (-128, 127),
    torch.uint8: (0, 255),
    torch.int16: (-(1 << 15), (1 << 15) - 1),
}


def _operators() -> Any:
    import_module("torch.ao.quantization.fx._decomposed")  # declares them
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
    if limits is None or out_dtype != "float32" or scale.dtype != torch.float32 or is_trained:
        return NotImplemented
    if scale.ndim == 0 and zero_point.ndim == 0:
        return _operators().dequantize_per_tensor.tensor(data, scale, zero_point, *limits, data.dtype)
    if scale.ndim != 1 or zero_point.shape != scale.shape or scale.shape[0] != data.shape[axis]:
        return NotImplemented
    offset = zero_point.to(torch.int64)  # PyTorch subtracts in the integers that it is given
    return _operators().dequantize_per_channel(data, scale, offset, axis % data.ndim, *limits, data.dtype)


_OWN: Final[dict[str, Callable[..., Any]]] = {"relax.quantize": _quantize, "relax.dequantize": _dequantize}
KERNELS: Final = with_references([_OWN], xp)
"""The kernels, by the names of their operators."""
