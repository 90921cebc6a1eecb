"""The array API of PyTorch for reference semantics: `array_api_compat`'s, without its extra work.

The extra work would stop gradients, and convert operands to the dtype that they already have.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import array_api_compat.torch as _compat
import torch

globals().update({name: value for name, value in vars(_compat).items() if not name.startswith("_")})


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
    """``obj`` as a tensor. A tensor keeps its autograd graph, which `torch.asarray` might cut off."""
    if isinstance(obj, torch.Tensor) and dtype in (None, obj.dtype) and device is None and not copy:
        return obj
    if isinstance(obj, torch.Tensor) and device is None and not copy:
        return obj.to(dtype)
    return torch.asarray(obj, dtype=dtype, device=device, copy=copy)


def _without_conversions(plain: Callable[..., Any], promoting: Callable[..., Any]) -> Callable[..., Any]:
    """``plain`` for two operands of one dtype, of any rank; ``promoting`` for others."""

    @wraps(promoting)
    def function(*operands: Any, **options: Any) -> Any:
        first, second = operands[-2:]
        is_one = isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor) and first.dtype == second.dtype
        return (plain if is_one else promoting)(*operands, **options)

    return function


_OF_TWO = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "pow", "maximum", "minimum"),
    *("less", "less_equal", "greater", "greater_equal", "not_equal", "where"),
)
globals().update({name: _without_conversions(getattr(torch, name), getattr(_compat, name)) for name in _OF_TWO})
equal = _without_conversions(torch.eq, globals()["equal"])  # `torch.equal` compares whole tensors


# `array_api_compat`'s helpers identify a library by the name of the namespace.
__name__ = _compat.__name__
