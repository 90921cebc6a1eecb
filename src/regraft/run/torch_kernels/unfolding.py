"""Images as columns, and back, where PyTorch pads both sides alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch.nn import functional as F


def _is_covered(data: Any, kernel_size: tuple[int, ...], padding: tuple[int, ...]) -> bool:
    """True if PyTorch's functions take the windows: images of floats, padded alike before and after."""
    rank = len(kernel_size)
    return rank == 2 and padding[:rank] == padding[rank:] and data.dtype.is_floating_point and 0 not in data.shape


def _im2col(data: Any, *, kernel_size: Any, strides: Any, padding: Any, dilation: Any) -> Any:
    if not _is_covered(data, kernel_size, padding):
        return NotImplemented
    return F.unfold(data, kernel_size, dilation, padding[:2], strides)


def _col2im(data: Any, size: Any, *, kernel_size: Any, strides: Any, padding: Any, dilation: Any) -> Any:
    if not _is_covered(data, kernel_size, padding):
        return NotImplemented
    wide = data.float() if data.dtype.itemsize < 4 else data
    return F.fold(wide, size, kernel_size, dilation, padding[:2], strides).to(data.dtype)


KERNELS: Final[dict[str, Callable[..., Any]]] = {"relax.nn.im2col": _im2col, "relax.nn.col2im": _col2im}
