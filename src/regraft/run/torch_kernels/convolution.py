"""Convolutions and their transposes over 1, 2 and 3 spatial axes; other layouts are permuted first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import torch
from torch.nn import functional as F

from ...op.layouts import SPATIAL, data_letters
from ..torch_arrays import tensor_dtype

_CONVOLUTIONS: Final = (F.conv1d, F.conv2d, F.conv3d)
_FEWEST: Final = 2
"""The number of channels from which a kernel's gradient is faster than a convolution of one long image."""
_TRANSPOSES: Final = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)


def arranged(x: Any, layout: str, letters: str) -> Any:
    """``x``, stored in ``layout``, with its axes permuted to the order of ``letters``."""
    return x if layout == letters else x.permute([layout.index(letter) for letter in letters])


def symmetric_padding(x: Any, padding: Sequence[int]) -> tuple[Any, list[int]]:
    """Padding for PyTorch's layers, equal before and after; if it is not, ``x`` is padded with zeros instead."""
    rank = len(padding) // 2
    before, after = list(padding[:rank]), list(padding[rank:])
    if before == after:
        return x, before
    widths = [width for axis in reversed(range(rank)) for width in (before[axis], after[axis])]
    return F.pad(x, widths), [0] * rank


def _arranged_like(kernel: Any, x: Any) -> Any:
    """``x``, made contiguous if ``kernel`` is: else PyTorch would copy the kernel to the data's layout every time."""
    return x.contiguous() if kernel.is_contiguous() else x


def _is_covered(data: Any, weight: Any, out_dtype: str | None) -> bool:
    same = data.dtype == weight.dtype and data.dtype.is_floating_point
    return same and out_dtype in (None, tensor_dtype(data))


def _convolve(rank: int, data: Any, weight: Any, **attrs: Any) -> Any:
    if not _is_covered(data, weight, attrs["out_dtype"]):
        return NotImplemented
    letters = data_letters(rank)
    x, margin = symmetric_padding(arranged(data, attrs["data_layout"], letters), attrs["padding"])
    kernel = arranged(weight, attrs["kernel_layout"], "OI" + SPATIAL[rank - 1])
    if 0 in x.shape:
        return NotImplemented
    if rank == 2 and attrs["groups"] == 1:
        found = _as_share_of_kernel(x, kernel, attrs["strides"], margin, attrs["dilation"])
        if found is not None:
            return arranged(found, letters, attrs["out_layout"])
    result = _CONVOLUTIONS[rank - 1](
        _arranged_like(kernel, x), kernel, None, attrs["strides"], margin, attrs["dilation"], attrs["groups"]
    )
    return arranged(result, letters, attrs["out_layout"])


def _as_share_of_kernel(
    x: Any, kernel: Any, strides: Sequence[int], margin: Sequence[int], dilation: Sequence[int]
) -> Any:
    """A convolution of one image whose kernel is larger than its result, in the form that PyTorch has: a kernel's
    gradient.

    The last axis of the image is split into places and channels, (1, batch, height, width * channels); dilation, margin
    and result are multiples of the number of channels. None if they are not.
    """
    _, batch, height, long = x.shape
    outs, _, *windows = kernel.shape
    sizes = [
        size + 2 * pad - step * (width - 1)
        for size, pad, step, width in zip((height, long), margin, dilation, windows, strict=True)
    ]
    channels = math.gcd(dilation[1], margin[1], long, sizes[1])
    is_larger = min(sizes) > 0 and math.prod(windows) > math.prod(sizes) // max(channels, 1)
    if x.shape[0] != 1 or channels < _FEWEST or strides[1] != 1 or not is_larger:
        return None
    deep = x.reshape(batch, height, long // channels, channels).permute(0, 3, 1, 2)
    rows, columns = -(-sizes[0] // strides[0]), sizes[1] // channels
    share = torch.ops.aten.convolution_backward(
        kernel.transpose(0, 1),
        deep,
        deep.new_empty(outs, channels, rows, columns),
        None,
        [dilation[0], dilation[1] // channels],
        [margin[0], margin[1] // channels],
        [strides[0], 1],
        False,
        [0, 0],
        1,
        [False, True, False],
    )[1]
    return share.permute(0, 2, 3, 1).reshape(1, outs, rows, columns * channels)


def _convolve_transposed(rank: int, data: Any, weight: Any, **attrs: Any) -> Any:
    padding, extra, strides = attrs["padding"], attrs["output_padding"], attrs["strides"]
    same_sides = padding[:rank] == padding[rank:]
    smaller = all(more < stride for more, stride in zip(extra, strides, strict=True))
    if not _is_covered(data, weight, attrs["out_dtype"]) or not same_sides or not smaller or 0 in data.shape:
        return NotImplemented
    letters, margin = data_letters(rank), list(padding[:rank])
    x = arranged(data, attrs["data_layout"], letters)
    kernel = arranged(weight, attrs["kernel_layout"], "IO" + SPATIAL[rank - 1])
    result = _TRANSPOSES[rank - 1](
        _arranged_like(kernel, x), kernel, None, strides, margin, list(extra), attrs["groups"], attrs["dilation"]
    )
    return arranged(result, letters, attrs["out_layout"])


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    **{f"relax.nn.conv{rank}d": partial(_convolve, rank) for rank in (1, 2, 3)},
    **{f"relax.nn.conv{rank}d_transpose": partial(_convolve_transposed, rank) for rank in (1, 2, 3)},
}
