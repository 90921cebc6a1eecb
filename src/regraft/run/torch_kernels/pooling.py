"""Maximum, mean and adaptive pooling over 1, 2 and 3 spatial axes, for the windows that PyTorch's layers support."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from math import prod
from typing import Any, Final

import torch
from torch.nn import functional as F

from ...op.layouts import data_letters
from .convolution import arranged

_MAX: Final = (F.max_pool1d, F.max_pool2d, F.max_pool3d)
_AVERAGE: Final = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)
_ADAPTIVE: Final = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)


def _is_covered(data: Any, size: tuple[int, ...], padding: tuple[int, ...]) -> bool:
    """True for floats with equal padding before and after, of at most half a window."""
    rank = len(size)
    halves = all(width <= extent // 2 for width, extent in zip(padding[:rank], size, strict=True))
    return data.dtype.is_floating_point and padding[:rank] == padding[rank:] and halves and 0 not in data.shape


def _pool(rank: int, is_max: bool, data: Any, **attrs: Any) -> Any:
    size, strides, padding, dilation = (attrs[name] for name in ("pool_size", "strides", "padding", "dilation"))
    if not _is_covered(data, size, padding) or (not is_max and set(dilation) != {1}):
        return NotImplemented
    letters, margin = data_letters(rank), list(padding[:rank])
    x = arranged(data, attrs["layout"], letters)
    if is_max:
        pooled = _MAX[rank - 1](x, size, strides, margin, dilation, attrs["ceil_mode"])
    else:
        pooled = _AVERAGE[rank - 1](x, size, strides, margin, attrs["ceil_mode"], attrs["count_include_pad"])
    return arranged(pooled, letters, attrs["out_layout"])


def _max_pool_backward(output_grad: Any, data: Any, **attrs: Any) -> Any:
    size, strides, padding, dilation = (attrs[name] for name in ("pool_size", "strides", "padding", "dilation"))
    if not _is_covered(data, size, padding):
        return NotImplemented
    x, adjoint = arranged(data, attrs["layout"], "NCHW"), arranged(output_grad, attrs["out_layout"], "NCHW")
    if torch.compiler.is_compiling() and _are_tiles(x, size, strides, padding, dilation):
        return arranged(_max_tiles_backward(adjoint, x, size), "NCHW", attrs["layout"])
    windows = list(size), list(strides), list(padding[:2]), list(dilation), attrs["ceil_mode"]
    _, places = torch.ops.aten.max_pool2d_with_indices(x, *windows)
    share = torch.ops.aten.max_pool2d_with_indices_backward(adjoint, x, *windows, places)
    return arranged(share, "NCHW", attrs["layout"])


_MOST_IN_TILE: Final = 9
"""The largest window for which all comparisons, of each element with the earlier ones, are written out."""


def _are_tiles(
    x: Any, size: tuple[int, ...], strides: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...]
) -> bool:
    """True if windows of ``size``, with few elements each, tile ``x``: each element is in exactly one of them."""
    covers = all(extent % width == 0 for extent, width in zip(x.shape[2:], size, strict=True))
    return covers and strides == size and not any(padding) and set(dilation) == {1} and prod(size) <= _MOST_IN_TILE


def _max_tiles_backward(adjoint: Any, x: Any, size: tuple[int, ...]) -> Any:
    """The gradient of the maxima of tiles, as comparisons of whole tensors.

    PyTorch's compiler scatters the elements of its own operator one by one, but vectorizes these comparisons.
    """
    height, width = size
    tiles = x.unflatten(3, (-1, width)).unflatten(2, (-1, height))
    elements = [tiles[:, :, :, row, :, column] for row in range(height) for column in range(width)]
    greatest = reduce(torch.maximum, elements)
    shares: list[Any] = []
    is_taken = torch.zeros_like(greatest, dtype=torch.bool)
    for element in elements:
        is_greatest = (element == greatest) | (element != element)
        shares.append(torch.where(is_greatest & ~is_taken, adjoint, 0.0))
        is_taken = is_taken | is_greatest
    rows = [torch.stack(shares[row * width : (row + 1) * width], -1) for row in range(height)]
    return torch.stack(rows, 3).flatten(4, 5).flatten(2, 3)


def _adaptive_avg_pool(
    rank: int, data: Any, *, output_size: tuple[int, ...] | None, layout: str, out_layout: str
) -> Any:
    if output_size is None or not data.dtype.is_floating_point or 0 in data.shape:
        return NotImplemented
    letters = data_letters(rank)
    pool: Callable[..., Any] = _ADAPTIVE[rank - 1]
    return arranged(pool(arranged(data, layout, letters), output_size), letters, out_layout)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    **{f"relax.nn.max_pool{rank}d": partial(_pool, rank, True) for rank in (1, 2, 3)},
    **{f"relax.nn.avg_pool{rank}d": partial(_pool, rank, False) for rank in (1, 2, 3)},
    "relax.grad.max_pool2d_backward": _max_pool_backward,
    **{f"relax.nn.adaptive_avg_pool{rank}d": partial(_adaptive_avg_pool, rank) for rank in (1, 2, 3)},
}
