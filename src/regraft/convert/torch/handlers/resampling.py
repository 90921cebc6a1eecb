"""Handlers of ATen's resizing and sampling of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import ops as R
from ....ir.dims import Dim
from ....ir.expr import Expr
from ..context import Context, converts, rank, shape_of


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
