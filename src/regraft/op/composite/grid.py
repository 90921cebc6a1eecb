"""Sampling of images at the positions in a grid, and grids of affine maps.

Grids have the coordinates of a position on axis 1, (x, y) or (x, y, z), each from -1 to 1 across the image. float16 and
bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

from functools import reduce
from itertools import product
from typing import Any, Final

from ...ir.dims import Dim, dim_max, dim_product, dims_equal
from ...ir.expr import Expr
from ...ir.op import Call, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, Type
from ..layouts import arranged_type, canonical_dims, data_letters, from_canonical, to_canonical
from ..public_function import SpatialSizes, declares
from ..rules import require_float, require_rank, shape_operand
from ..semantics import along, cast, dtype_name, positions, widened, with_attrs
from .resize import cubic_weights

__all__ = ["affine_grid", "grid_sample"]

# --- grid_sample

_METHODS: Final = ("bilinear", "nearest", "bicubic")
_PADDING_MODES: Final = ("zeros", "border", "reflection")


def _grid_sample_type(call: Call) -> Type:
    attrs = call.attrs
    rank = len(attrs.layout) - 2
    if rank not in (2, 3):
        raise wrong_attribute(call, "layout", 'an order of the letters NCHW or NCDHW, such as "NCHW"')
    for name, known in (("method", _METHODS), ("padding_mode", _PADDING_MODES)):
        if attrs[name] not in known:
            raise wrong_attribute(call, name, f"one of {', '.join(known)}")
    if rank == 3 and attrs.method == "bicubic":
        raise wrong_attribute(call, "method", '"bilinear" or "nearest" for three spatial axes')
    letters = data_letters(rank)
    ty, grid = require_float(call, 0), require_float(call, 1)
    data = canonical_dims(call, 0, "layout", letters)
    require_rank(call, 1, f"a tensor of {rank + 2} dimensions: (batch, {rank}, spatial sizes of the result)", rank + 2)
    if grid.shape is not None and dims_equal(grid.shape[1], rank) is False:
        raise wrong_operand(call, 1, f"{rank} coordinates on axis 1")
    if data is None or grid.shape is None:
        return TensorType(None, ty.dtype, rank + 2)
    if dims_equal(grid.shape[0], data[0]) is False:
        raise wrong_operand(call, 1, f"the batch size of data, {data[0]}")
    if 0 in data[2:]:
        raise wrong_operand(call, 0, "spatial axes that have elements")
    return arranged_type(call, "layout", letters, (*data[:2], *grid.shape[2:]), ty.dtype)


def _padded(xp: Any, attrs: Any, place: Any, size: Dim) -> Any:
    """``place``, a position relative to an axis of ``size`` elements, moved onto the axis by the padding mode."""
    if attrs.padding_mode == "zeros":
        return place
    if attrs.padding_mode == "reflection":
        # With a single element there is nothing to reflect; any span other than 0 works.
        low, span = (0.0, dim_max(size - 1, 1)) if attrs.align_corners else (-0.5, size)
        distance = xp.remainder(xp.abs(place - low), 2 * span)
        place = xp.where(distance > span, 2 * span - distance, distance) + low
    return xp.clip(place, 0, size - 1)


_CUBIC_ALPHA: Final = -0.75
"""PyTorch's parameter of Keys' cubic."""


def _taps(xp: Any, attrs: Any, coordinate: Any, size: Dim) -> list[tuple[Any, Any]]:
    """The positions on one axis that contribute to each sample, as whole numbers in floats, with their weights."""
    extent = (coordinate + 1.0) * (size - 1) / 2.0 if attrs.align_corners else ((coordinate + 1.0) * size - 1.0) / 2.0
    if attrs.method == "bicubic":
        left = xp.floor(extent)
        weights = cubic_weights(extent - left, _CUBIC_ALPHA)
        return [(_padded(xp, attrs, left + float(tap - 1), size), weight) for tap, weight in enumerate(weights)]
    place = _padded(xp, attrs, extent, size)
    if attrs.method == "nearest":
        return [(xp.round(place), xp.ones_like(place))]
    left = xp.floor(place)
    return [(left, left + 1.0 - place), (left + 1.0, place - left)]


def _grid_sample(xp: Any, attrs: Any, data: Any, grid: Any) -> Any:
    rank = len(attrs.layout) - 2
    letters = data_letters(rank)
    x = widened(xp, to_canonical(xp, data, attrs.layout, letters))
    batch, channels, *sizes = x.shape
    targets = grid.shape[2:]
    flat = xp.reshape(x, (batch, channels, dim_product(sizes)))
    coordinates = cast(xp, grid, dtype_name(x.dtype))
    coordinates = xp.reshape(coordinates, (batch, rank, dim_product(targets)))
    axes = [_taps(xp, attrs, coordinates[:, rank - 1 - axis, :], sizes[axis]) for axis in range(rank)]
    total: Any = 0
    for taps in product(*axes):
        weight = reduce(xp.multiply, [share for _, share in taps])
        bounds = [(place >= 0) & (place <= size - 1) for (place, _), size in zip(taps, sizes, strict=True)]
        source: Any = 0
        for (place, _), size in zip(taps, sizes, strict=True):
            source = source * size + cast(xp, xp.clip(place, 0, size - 1), "int64")
        index = xp.broadcast_to(xp.expand_dims(source, axis=1), (batch, channels, source.shape[1]))
        picked = xp.take_along_axis(flat, index, axis=2)
        # positions beyond the image count as 0, even if the element at the edge is infinite
        inside = xp.expand_dims(reduce(xp.logical_and, bounds), axis=1)
        total = total + xp.where(inside, picked, xp.zeros_like(picked)) * xp.expand_dims(weight, axis=1)
    result = cast(xp, xp.reshape(total, (batch, channels, *targets)), dtype_name(data.dtype))
    return from_canonical(xp, result, attrs.layout, letters)


@declares("relax.image.grid_sample", infer=_grid_sample_type, reference=with_attrs(_grid_sample))
def grid_sample(
    data: Expr,
    grid: Expr,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Call:
    """``data`` sampled at the positions in ``grid``; follows ``torch.nn.functional.grid_sample``.

    Operands: ``data`` (batch, channels, height, width) in ``layout``, floating; ``grid`` (batch, 2, new
    height, new width), floating, with x and y on axis 1 (PyTorch has them last), each from -1 to 1 across the
    image. A layout of five letters, such as NCDHW, and three coordinates sample a volume.
    Attributes: ``method``: "bilinear", "nearest" (half to even), or "bicubic", for images only;
    ``padding_mode``, for positions beyond the image: "zeros", "border" (the nearest element) or "reflection";
    ``align_corners``: if True, -1 and 1 are the centres of the outermost elements, otherwise their outer edges.
    Result: (batch, channels, new height, new width) in ``layout``, of ``data``'s dtype.
    Raises `OpTypeError` for dtypes, ranks or sizes that do not agree, or an unknown name.
    """
    ...


# --- affine_grid


def _affine_grid_type(call: Call) -> Type:
    theta, size = require_float(call, 0), shape_operand(call, 1)
    unknown = TensorType(None, theta.dtype, size.ndim if size.ndim == UNKNOWN_NDIM else size.ndim + 2)
    require_rank(call, 0, "a tensor of 3 dimensions: (batch, 2, 3) or (batch, 3, 4)", 3)
    if theta.shape is None:
        return unknown
    batch, rows, columns = theta.shape
    if isinstance(rows, int) and rows not in (2, 3):
        raise wrong_operand(call, 0, "shape (batch, 2, 3) or (batch, 3, 4)")
    if dims_equal(columns, rows + 1) is False:
        raise wrong_operand(call, 0, f"one column more than rows, {rows + 1}")
    if size.ndim != UNKNOWN_NDIM and dims_equal(rows, size.ndim) is False:
        raise wrong_operand(call, 1, f"{rows} sizes, one for each row of data")
    return unknown if size.values is None else TensorType((batch, rows, *size.values), theta.dtype)


def _affine_grid(xp: Any, theta: Any, size: tuple[int, ...], align_corners: bool) -> Any:
    wide = widened(xp, theta)
    rank, work = len(size), dtype_name(wide.dtype)
    shape = (theta.shape[0], rank, *size)
    ending = (1,) * rank
    total = xp.reshape(wide[:, :, rank], (*shape[:2], *ending))
    for axis, extent in enumerate(size):
        places = cast(xp, positions(xp, extent, wide) * 2 - (extent - 1), work)
        length = dim_max(extent - 1, 1) if align_corners else extent
        shares = xp.reshape(wide[:, :, rank - 1 - axis], (*shape[:2], *ending))
        total = total + shares * along(xp, places / length, axis, rank)
    return cast(xp, xp.broadcast_to(total, shape), dtype_name(theta.dtype))


@declares("relax.image.affine_grid", rank=2, infer=_affine_grid_type, reference=_affine_grid)
def affine_grid(data: Expr, size: SpatialSizes, align_corners: bool = True) -> Call:
    """The grid of an affine map of an image, for `grid_sample`; follows ``torch.nn.functional.affine_grid``.

    Operands: ``data`` (batch, 2, 3), floating, the map from (x, y, 1) in the result to (x, y) in the image
    (or (batch, 3, 4) for volumes); ``size``, height and width of the result, or one int for both.
    Attributes: ``align_corners``: see `grid_sample`. Result: (batch, 2, height, width), of ``data``'s dtype,
    with the coordinates on axis 1. Raises `OpTypeError` for another shape of ``data``, or another number of
    sizes.
    """
    ...
