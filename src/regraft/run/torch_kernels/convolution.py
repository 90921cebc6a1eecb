"""Convolutions and their transposes over 1, 2 and 3 spatial axes; other layouts are permuted first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from torch.nn import functional as F

from ...op.layouts import SPATIAL, data_letters

_CONVOLUTIONS: Final = (F.conv1d, F.conv2d, F.conv3d)
_TRANSPOSES: Final = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)


def arranged(x: Any, layout: str, letters: str) -> Any:
    """``x``, kept in ``layout``, with its axes in the order of ``letters``."""
    return x if layout == letters else x.permute([layout.index(letter) for letter in letters])


def symmetric_padding(x: Any, padding: Sequence[int]) -> tuple[Any, list[int]]:
    """Padding that PyTorch's layers take, the same before and after; ``x`` is padded with zeros where it is not."""
    rank = len(padding) // 2
    before, after = list(padding[:rank]), list(padding[rank:])
    if before == after:
        return x, before
    widths = [width for axis in reversed(range(rank)) for width in (before[axis], after[axis])]
    return F.pad(x, widths), [0] * rank


def _arranged_like(kernel: Any, x: Any) -> Any:
    """``x`` in row-major order, if ``kernel`` is: PyTorch would copy the kernel into the data's order in every call."""
    return x.contiguous() if kernel.is_contiguous() else x


def _is_covered(data: Any, weight: Any, out_dtype: str | None) -> bool:
    same = data.dtype == weight.dtype and data.dtype.is_floating_point
    return same and out_dtype in (None, str(data.dtype).removeprefix("torch."))


def _convolve(rank: int, data: Any, weight: Any, **attrs: Any) -> Any:
    if not _is_covered(data, weight, attrs["out_dtype"]):
        return NotImplemented
    letters = data_letters(rank)
    x, margin = symmetric_padding(arranged(data, attrs["data_layout"], letters), attrs["padding"])
    kernel = arranged(weight, attrs["kernel_layout"], "OI" + SPATIAL[rank - 1])
    if 0 in x.shape:
        return NotImplemented
    result = _CONVOLUTIONS[rank - 1](
        _arranged_like(kernel, x), kernel, None, attrs["strides"], margin, attrs["dilation"], attrs["groups"]
    )
    return arranged(result, letters, attrs["out_layout"])


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
