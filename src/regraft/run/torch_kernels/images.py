"""Resizing, padding and columns of images, for the cases in which PyTorch and ONNX agree."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from torch.nn import functional as F

from ..torch_arrays import tensor_dtype
from .convolution import arranged

_LINEAR: Final = {1: "linear", 2: "bilinear", 3: "trilinear"}


def _resize(
    rank: int, data: Any, size: tuple[int, ...], *, layout: str, method: str, out_dtype: str | None, **attrs: Any
) -> Any:
    same_dtype, mode = out_dtype in (None, tensor_dtype(data)), attrs["coordinate_transformation_mode"]
    if not data.dtype.is_floating_point or not same_dtype or 0 in (*data.shape, *size):
        return NotImplemented
    letters = "NCHW" if rank == 2 else "NCDHW"
    x = arranged(data, layout, letters)
    # PyTorch rounds the ratio of sizes where ours divides exactly, so the nearest elements agree only for whole ratios.
    whole = all(int(new) % int(old) == 0 for new, old in zip(size, x.shape[2:], strict=True))
    if method == "nearest_neighbor":
        if mode != "asymmetric" or attrs["rounding_method"] not in ("floor", "") or not whole:
            return NotImplemented
        result = F.interpolate(x, size, mode="nearest")
    elif mode not in ("half_pixel", "align_corners"):
        return NotImplemented
    elif method == "linear":
        result = F.interpolate(x, size, mode=_LINEAR[rank], align_corners=mode == "align_corners")
    elif method == "cubic" and rank == 2 and attrs["cubic_alpha"] == -0.75 and not attrs["cubic_exclude"]:
        result = F.interpolate(x, size, mode="bicubic", align_corners=mode == "align_corners")
    else:
        return NotImplemented
    return arranged(result, letters, layout)


def _pad(data: Any, *, pad_width: tuple[int, ...], pad_mode: str, pad_value: float) -> Any:
    if pad_mode != "constant" or not data.dtype.is_floating_point:
        return NotImplemented
    axes = reversed(range(data.ndim))
    return F.pad(data, [width for axis in axes for width in pad_width[2 * axis : 2 * axis + 2]], value=pad_value)


def _takes_windows(data: Any, kernel_size: tuple[int, ...], padding: tuple[int, ...]) -> bool:
    """True if PyTorch's functions support the windows: images of floats, with equal padding before and after."""
    rank = len(kernel_size)
    return rank == 2 and padding[:rank] == padding[rank:] and data.dtype.is_floating_point and 0 not in data.shape


def _im2col(data: Any, *, kernel_size: Any, strides: Any, padding: Any, dilation: Any) -> Any:
    if not _takes_windows(data, kernel_size, padding):
        return NotImplemented
    return F.unfold(data, kernel_size, dilation, padding[:2], strides)


def _col2im(data: Any, size: Any, *, kernel_size: Any, strides: Any, padding: Any, dilation: Any) -> Any:
    if not _takes_windows(data, kernel_size, padding):
        return NotImplemented
    wide = data.float() if data.dtype.itemsize < 4 else data
    return F.fold(wide, size, kernel_size, dilation, padding[:2], strides).to(data.dtype)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "relax.image.resize2d": partial(_resize, 2),
    "relax.image.resize3d": partial(_resize, 3),
    "relax.nn.pad": _pad,
    "relax.nn.im2col": _im2col,
    "relax.nn.col2im": _col2im,
}
