"""The array API of PyTorch, as reference semantics use it: `array_api_compat`'s, but for what would stop gradients."""

from __future__ import annotations

from typing import Any

import array_api_compat.torch as _compat
import torch

globals().update({name: value for name, value in vars(_compat).items() if not name.startswith("_")})


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor stays the tensor it is, with its graph of gradients, which `torch.asarray` may cut off."""
    if isinstance(obj, torch.Tensor) and dtype in (None, obj.dtype) and device is None and not copy:
        return obj
    if isinstance(obj, torch.Tensor) and device is None and not copy:
        return obj.to(dtype)
    return torch.asarray(obj, dtype=dtype, device=device, copy=copy)


# The helpers of `array_api_compat` tell libraries apart by the name of the namespace.
__name__ = _compat.__name__
