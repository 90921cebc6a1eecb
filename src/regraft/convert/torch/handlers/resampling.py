"""Handlers of ATen's pooling and of resizing, sampling and folding of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from .... import ops as R
from ....ir.dims import Dim
from ....ir.expr import Expr
from ..context import Context, converts, each_axis, rank, shape_of

# --- pooling

_MAX: Final[list[Callable[..., Expr]]] = [R.nn.max_pool1d, R.nn.max_pool2d, R.nn.max_pool3d]
_AVERAGE: Final[list[Callable[..., Expr]]] = [R.nn.avg_pool1d, R.nn.avg_pool2d, R.nn.avg_pool3d]
_ADAPTIVE: Final[list[Callable[..., Expr]]] = [
    R.nn.adaptive_avg_pool1d,
    R.nn.adaptive_avg_pool2d,
    R.nn.adaptive_avg_pool3d,
]


def _spatial_axes(context: Context) -> int:
    """How many axes a layer works along: the digit in its name."""
    return next(int(letter) for letter in context.operator() if letter.isdigit())


def _batched(x: Expr, count: int, function: Callable[[Expr], Expr]) -> Expr:
    """``function`` of ``x`` with a batch axis, which PyTorch lets people leave out."""
    if rank(x) == count + 2:
        return function(x)
    return R.squeeze(function(R.expand_dims(x, axis=0)), axis=0)


def _pooled(
    context: Context,
    function: Callable[..., Expr],
    x: Expr,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    **attributes: Any,
) -> Expr:
    count = _spatial_axes(context)
    kernel = each_axis(kernel_size, count)
    widths = each_axis(padding, count)
    attributes |= {
        "pool_size": kernel,
        "strides": each_axis(stride, count) if stride not in (None, []) else kernel,
        "padding": [*widths, *widths],
        "ceil_mode": ceil_mode,
    }
    return _batched(x, count, lambda x: function(x, **attributes))


@converts("max_pool1d", "max_pool2d", "max_pool3d")
def _max_pool(
    context: Context,
    x: Expr,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Expr:
    count = _spatial_axes(context)
    steps = each_axis(dilation, count)
    return _pooled(context, _MAX[count - 1], x, kernel_size, stride, padding, ceil_mode, dilation=steps)


@converts("max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool_with_indices(context: Context, x: Expr, *window: Any, **more: Any) -> tuple[Expr, Expr | None]:
    return _max_pool(context, x, *window, **more), None


@converts("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(
    context: Context,
    x: Expr,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Expr:
    count = _spatial_axes(context)
    if divisor_override is not None:
        context.unsupported("divisor_override; multiply the mean by the window's size over that number instead")
    function = _AVERAGE[count - 1]
    return _pooled(context, function, x, kernel_size, stride, padding, ceil_mode, count_include_pad=count_include_pad)


@converts(
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d",
)
def _adaptive_avg_pool(context: Context, x: Expr, output_size: Sequence[Dim]) -> Expr:
    count = _spatial_axes(context)
    sizes = list(context.output_shape()[-count:])
    return _batched(x, count, lambda x: _ADAPTIVE[count - 1](x, output_size=sizes))


@converts("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max_pool(context: Context, x: Expr, output_size: Sequence[int]) -> tuple[Expr, Expr | None]:
    count = _spatial_axes(context)
    kernel: list[int] = []
    for have, want in zip(shape_of(x)[-count:], context.output_shape()[-count:], strict=True):
        if not isinstance(have, int) or not isinstance(want, int) or have % want:
            context.unsupported(f"windows of different sizes: {want} of an axis of {have}")
        kernel.append(have // want)
    pooled = _batched(x, count, lambda x: _MAX[count - 1](x, pool_size=kernel, strides=kernel))
    return pooled, None


# --- resizing


def _resized(
    context: Context, x: Expr, method: str, coordinates: str, rounding: str, scales: Sequence[float | None] | None
) -> Expr:
    count = rank(x) - 2
    sizes = context.output_shape()[2:]
    given = [scale for scale in scales or () if scale is not None]
    if given and coordinates != "align_corners":
        _check_scales(context, shape_of(x)[2:], sizes, given)
    attributes: dict[str, Any] = {
        "method": method,
        "coordinate_transformation_mode": coordinates,
        "rounding_method": rounding,
    }
    if count == 1:
        # A line is an image of height 1, whose height stays.
        wide = R.image.resize2d(R.expand_dims(x, axis=2), [1, sizes[0]], **attributes)
        return R.squeeze(wide, axis=2)
    function = R.image.resize2d if count == 2 else R.image.resize3d
    return function(x, list(sizes), **attributes)


def _check_scales(context: Context, before: Sequence[Dim], after: Sequence[Dim], scales: Sequence[float]) -> None:
    """Decline factors that PyTorch would use as they are and that are not the ratio of the sizes."""
    for have, want, scale in zip(before, after, scales, strict=False):
        if isinstance(have, int):
            exact = want == have * scale
        else:
            exact = float(scale).is_integer() and want == have * int(scale)
        if not exact:
            context.unsupported(
                f"a scale factor of {scale} from size {have} to {want}, which is not its ratio; "
                f"give the size, or recompute_scale_factor=True"
            )


def _nearest(context: Context, x: Expr, scales: Sequence[float | None] | None) -> Expr:
    return _resized(context, x, "nearest_neighbor", "asymmetric", "floor", scales)


@converts("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec")
def _upsample_nearest_by(context: Context, x: Expr, output_size: Any, scale_factors: Any) -> Expr:
    return _nearest(context, x, scale_factors)


@converts("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def _upsample_nearest(context: Context, x: Expr, output_size: Any, *scales: Any) -> Expr:
    return _nearest(context, x, scales)


@converts("_upsample_nearest_exact1d.vec", "_upsample_nearest_exact2d.vec", "_upsample_nearest_exact3d.vec")
def _upsample_nearest_exact(context: Context, x: Expr, output_size: Any, scale_factors: Any) -> Expr:
    return _resized(context, x, "nearest_neighbor", "half_pixel", "round_prefer_ceil", scale_factors)


def _smooth(context: Context, x: Expr, method: str, align_corners: bool, scales: Any) -> Expr:
    coordinates = "align_corners" if align_corners else "half_pixel"
    return _resized(context, x, method, coordinates, "", scales)


@converts("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec")
def _upsample_linear_by(context: Context, x: Expr, output_size: Any, align_corners: bool, scale_factors: Any) -> Expr:
    return _smooth(context, x, "linear", align_corners, scale_factors)


@converts("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def _upsample_linear(context: Context, x: Expr, output_size: Any, align_corners: bool, *scales: Any) -> Expr:
    return _smooth(context, x, "linear", align_corners, scales)


@converts("upsample_bicubic2d.vec")
def _upsample_bicubic_by(context: Context, x: Expr, output_size: Any, align_corners: bool, scale_factors: Any) -> Expr:
    return _smooth(context, x, "cubic", align_corners, scale_factors)


@converts("upsample_bicubic2d")
def _upsample_bicubic(context: Context, x: Expr, output_size: Any, align_corners: bool, *scales: Any) -> Expr:
    return _smooth(context, x, "cubic", align_corners, scales)


@converts("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def _grid_sampler(
    context: Context, x: Expr, grid: Expr, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Expr:
    count = rank(x)
    places = R.permute_dims(grid, [0, count - 1, *range(1, count - 1)])
    return R.image.grid_sample(
        x,
        places,
        method=("bilinear", "nearest", "bicubic")[interpolation_mode],
        layout="NCHW" if count == 4 else "NCDHW",
        padding_mode=("zeros", "border", "reflection")[padding_mode],
        align_corners=align_corners,
    )
