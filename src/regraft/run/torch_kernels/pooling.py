"""Maximum, mean and adaptive pooling over 1, 2 and 3 spatial axes, for the windows that PyTorch's layers know."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from torch.nn import functional as F

from ...op.layouts import data_letters
from .convolution import arranged

_MAX: Final = (F.max_pool1d, F.max_pool2d, F.max_pool3d)
_AVERAGE: Final = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)
_ADAPTIVE: Final = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)


def _is_covered(data: Any, pool_size: tuple[int, ...], padding: tuple[int, ...]) -> bool:
    """Floats, the same padding before and after, and at most half a window of it."""
    rank = len(pool_size)
    halves = all(width <= size // 2 for width, size in zip(padding[:rank], pool_size, strict=True))
    return data.dtype.is_floating_point and padding[:rank] == padding[rank:] and halves and 0 not in data.shape


def _max_pool(
    rank: int,
    data: Any,
    *,
    pool_size: tuple[int, ...],
    strides: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    ceil_mode: bool,
    count_include_pad: bool,
    layout: str,
    out_layout: str,
) -> Any:
    if not _is_covered(data, pool_size, padding):
        return NotImplemented
    letters = data_letters(rank)
    x = arranged(data, layout, letters)
    pooled = _MAX[rank - 1](x, pool_size, strides, list(padding[:rank]), dilation, ceil_mode)
    return arranged(pooled, letters, out_layout)


def _avg_pool(
    rank: int,
    data: Any,
    *,
    pool_size: tuple[int, ...],
    strides: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    ceil_mode: bool,
    count_include_pad: bool,
    layout: str,
    out_layout: str,
) -> Any:
    if not _is_covered(data, pool_size, padding) or set(dilation) != {1}:
        return NotImplemented
    letters = data_letters(rank)
    x = arranged(data, layout, letters)
    pooled = _AVERAGE[rank - 1](x, pool_size, strides, list(padding[:rank]), ceil_mode, count_include_pad)
    return arranged(pooled, letters, out_layout)


def _adaptive_avg_pool(
    rank: int, data: Any, *, output_size: tuple[int, ...] | None, layout: str, out_layout: str
) -> Any:
    if output_size is None or not data.dtype.is_floating_point or 0 in data.shape:
        return NotImplemented
    letters = data_letters(rank)
    pool: Callable[..., Any] = _ADAPTIVE[rank - 1]
    return arranged(pool(arranged(data, layout, letters), output_size), letters, out_layout)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    **{f"relax.nn.max_pool{rank}d": partial(_max_pool, rank) for rank in (1, 2, 3)},
    **{f"relax.nn.avg_pool{rank}d": partial(_avg_pool, rank) for rank in (1, 2, 3)},
    **{f"relax.nn.adaptive_avg_pool{rank}d": partial(_adaptive_avg_pool, rank) for rank in (1, 2, 3)},
}
