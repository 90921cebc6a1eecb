"""Handlers of ATen's resizing and sampling of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from typing import cast as cast_to

import torch

from .... import op as R
from ....ir.dims import Dim
from ....ir.expr import Expr, const
from ....op.axis_maps import matmul_along
from ..context import Context, arguments_of, cast, converts, converts_by_name, dtype_of, rank, shape_of


def _resized(
    context: Context, x: Expr, method: str, coordinates: str, rounding: str, scales: Sequence[float | None] | None
) -> Expr:
    count = rank(x) - 2
    sizes = context.output_shape()[2:]
    given = [scale for scale in scales or () if scale is not None]
    if given and coordinates != "align_corners" and not _are_ratios(shape_of(x)[2:], sizes, given):
        if method == "nearest_neighbor" or not all(isinstance(size, int) for size in (*shape_of(x)[2:], *sizes)):
            context.unsupported(
                f"scale factors of {given} from sizes {shape_of(x)[2:]} to {sizes}, which are not their ratios; "
                f"give the sizes, or recompute_scale_factor=True"
            )
        return _weighted(context, x, False, given)
    how: dict[str, Any] = {"method": method, "rounding_method": rounding}
    how["coordinate_transformation_mode"] = coordinates
    if count == 1:
        # A line is an image of height 1, which keeps its height.
        wide = R.image.resize2d(R.expand_dims(x, axis=2), [1, sizes[0]], **how)
        return R.squeeze(wide, axis=2)
    function = R.image.resize2d if count == 2 else R.image.resize3d
    return function(x, list(sizes), **how)


def _are_ratios(before: Sequence[Dim], after: Sequence[Dim], scales: Sequence[float]) -> bool:
    """True if the scale factors, which PyTorch uses as they are, equal the ratios of the sizes."""
    return all(
        want == have * scale if isinstance(have, int) else float(scale).is_integer() and want == have * int(scale)
        for have, want, scale in zip(before, after, scales, strict=False)
    )


def _weighted(context: Context, x: Expr, align_corners: bool, scales: Sequence[float | None]) -> Expr:
    """A resize as one product for each axis, for modes that the operators here lack, such as antialiasing.

    The weights are PyTorch's own results for unit vectors. Sizes must be known.
    """
    operator = cast_to("Any", context.node.target)
    function = operator.overloadpacket.default
    count = rank(x) - 2
    for axis in range(count):
        have, want = shape_of(x)[2 + axis], context.output_shape()[2 + axis]
        if not isinstance(have, int) or not isinstance(want, int):
            context.unsupported(f"resizing so from size {have} to {want}, which are known at run time only")
        # Other axes keep a size of 2: with a size of 1, PyTorch 2.13 mixes up the rows of antialiasing.
        line = torch.eye(have, dtype=torch.float64).reshape(1, have, *[have if i == axis else 1 for i in range(count)])
        units = line.expand(1, have, *[have if i == axis else 2 for i in range(count)]).contiguous()
        sizes = [want if i == axis else 2 for i in range(count)]
        own = [scale if i == axis else None for i, scale in enumerate(scales or [None] * count)]
        found = function(units, sizes, align_corners, *own)[0]
        weights = found[(slice(None), *[slice(None) if i == axis else 0 for i in range(count)])]
        matrix = weights.numpy() if dtype_of(x) == "float64" else weights.float().numpy()
        product = matmul_along(cast(x, str(matrix.dtype)), 2 + axis, const(matrix))
        x = context.emit(cast(product, dtype_of(x)))
    return x


def _image(given: Any) -> Expr:
    """The image that a call resizes; overloads have two names for it."""
    return given.self if hasattr(given, "self") else given.input


def _scales(given: Any) -> Sequence[float | None]:
    """The scale factors of a call, with None for a missing one.

    Overloads have one argument for all axes or one for each axis.
    """
    listed: Sequence[float] | None = getattr(given, "scale_factors", None)
    own = [value for name, value in arguments_of(given).items() if name == "scales" or name.startswith("scales_")]
    return listed or own


@converts_by_name("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
def _upsample_antialiased(context: Context, given: Any) -> Expr:
    return _weighted(context, _image(given), given.align_corners, _scales(given))


@converts_by_name("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec")
@converts_by_name("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
@converts_by_name("_upsample_nearest_exact1d.vec", "_upsample_nearest_exact2d.vec", "_upsample_nearest_exact3d.vec")
def _upsample_nearest(context: Context, given: Any) -> Expr:
    is_exact = "exact" in context.operator()
    places = ("half_pixel", "round_prefer_ceil") if is_exact else ("asymmetric", "floor")
    return _resized(context, _image(given), "nearest_neighbor", *places, _scales(given))


@converts_by_name("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec")
@converts_by_name("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
@converts_by_name("upsample_bicubic2d.vec", "upsample_bicubic2d")
def _upsample_smooth(context: Context, given: Any) -> Expr:
    method = "cubic" if "bicubic" in context.operator() else "linear"
    coordinates = "align_corners" if given.align_corners else "half_pixel"
    return _resized(context, _image(given), method, coordinates, "", _scales(given))


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
