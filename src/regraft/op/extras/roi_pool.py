"""Pooling of regions of an image that begin and end on elements, and its adjoint.

The first and the last element of a bin are computed in whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...ir.dims import dims_equal
from ...ir.expr import Expr
from ...ir.op import Call, wrong_operand
from ...ir.types import TensorType, Type
from ..adjoints import GradientError
from ..composite.backward import require_adjoint
from ..layouts import arranged_type, canonical_dims, data_letters, from_canonical, to_canonical
from ..primitive.row_updates import fold_into_rows
from ..primitive.windows import require_at_least
from ..public_function import Spatial, declares, operator_of
from ..rules import common_dtype, require_float, require_rank
from ..semantics import cast, dtype_name, filled, positions, widened, with_attrs

__all__ = ["roi_pool", "roi_pool_backward"]

_LETTERS: Final = data_letters(2)


def pooled_type(call: Call, data: int) -> TensorType:
    """The type of the pooled regions; operand number ``data`` is the image, and the operand after it the regions."""
    require_at_least(call, "pooled_size", 1)
    rois, dtype = require_float(call, data + 1), require_float(call, data).dtype
    common_dtype(call, (data, data + 1))
    dims = canonical_dims(call, data, "layout", _LETTERS)
    require_rank(call, data + 1, "a tensor of 2 dimensions: (regions, 5)", 2)
    if rois.shape is not None and dims_equal(rois.shape[1], 5) is False:
        raise wrong_operand(call, data + 1, "5 columns: the number in the batch, and x and y of two corners")
    if dims is not None and 0 in dims[2:]:
        raise wrong_operand(call, data, "spatial axes that have elements")
    if dims is None or rois.shape is None:
        return TensorType(None, dtype, 4)
    return arranged_type(call, "layout", _LETTERS, (rois.shape[0], dims[1], *call.attrs.pooled_size), dtype)


def _inside(xp: Any, start: Any, end: Any, bins: int, size: int) -> Any:
    """True for the elements of an axis in each bin of regions from ``start`` to ``end``, both included."""

    def column(x: Any) -> Any:
        return xp.reshape(x, (-1, 1, 1))

    extent = column(xp.maximum(end - start + 1, xp.ones_like(start)))
    place = xp.reshape(positions(xp, bins, start), (1, -1, 1))
    element = xp.reshape(positions(xp, size, start), (1, 1, -1))
    first = column(start) + (place * extent) // bins
    last = column(start) + ((place + 1) * extent + (bins - 1)) // bins
    return xp.logical_and(element >= first, element < last)


def _bins(xp: Any, rois: Any, sizes: Sequence[int], attrs: Any) -> tuple[Any, Any]:
    """For each region, the masks of the image's rows and columns in each bin, both (regions, bins, elements)."""
    left, top, right, bottom = (
        cast(xp, xp.floor(rois[:, place] * attrs.spatial_scale + 0.5), "int64") for place in (1, 2, 3, 4)
    )
    down, across = attrs.pooled_size
    return _inside(xp, top, bottom, down, sizes[0]), _inside(xp, left, right, across, sizes[1])


def _bin(xp: Any, rows: Any, columns: Any) -> Any:
    """True for elements that are in a row and a column of a bin; the last two axes are those of an image."""
    return xp.logical_and(xp.expand_dims(rows, axis=2), xp.expand_dims(columns, axis=1))


def _roi_pool(xp: Any, attrs: Any, data: Any, rois: Any) -> Any:
    x = widened(xp, to_canonical(xp, data, attrs.layout, _LETTERS))
    rows, columns = _bins(xp, widened(xp, rois), x.shape[2:], attrs)
    images = xp.take(x, cast(xp, rois[:, 0], "int64"), axis=0)
    lowest = float("-inf")

    def greatest(values: Any, mask: Any, axis: int) -> Any:
        # the mask (regions, bins, elements) is reshaped to broadcast with (regions, channels, ...)
        shape = [mask.shape[0], 1, 1, 1]
        shape[axis] = mask.shape[2]
        parts: list[Any] = []
        for place in range(mask.shape[1]):
            chosen = xp.reshape(mask[:, place, :], tuple(shape))
            parts.append(xp.max(xp.where(chosen, values, xp.full_like(values, lowest)), axis=axis))
        return xp.stack(parts, axis=axis)

    pooled = greatest(greatest(images, columns, 3), rows, 2)
    some = _bin(xp, xp.any(rows, axis=2), xp.any(columns, axis=2))
    pooled = xp.where(xp.expand_dims(some, axis=1), pooled, xp.zeros_like(pooled))
    return from_canonical(xp, cast(xp, pooled, dtype_name(data.dtype)), attrs.layout, _LETTERS)


@declares("relax.vision.roi_pool", rank=2, infer=lambda call: pooled_type(call, 0), reference=with_attrs(_roi_pool))
def roi_pool(data: Expr, rois: Expr, pooled_size: Spatial, spatial_scale: float, layout: str = "NCHW") -> Call:
    """The maximum over bins of regions of images; follows ``MaxRoiPool`` of ONNX and Fast R-CNN (Girshick 2015).

    Operands: ``data`` (batch, channels, height, width) in ``layout``, floating; ``rois`` (regions, 5), of the same
    dtype: the number of the image in the batch, and x1, y1, x2, y2, both ends of which belong to the region.
    Attributes: ``pooled_size``: height and width of the result, the numbers of bins into which a region is divided;
    two bins share an element if their border goes through it; ``spatial_scale``: the factor from coordinates to
    positions in ``data``, which are then rounded (half up).
    Result: (regions, channels, *pooled_size) in ``layout``; 0 for a bin beyond the image. No gradient goes to
    ``rois``. Raises `OpTypeError` for ranks, sizes or dtypes that do not agree.
    """
    ...


# --- the adjoint


def _backward_type(call: Call) -> Type:
    pooled = pooled_type(call, 1)
    common_dtype(call)
    require_adjoint(call, pooled.shape, pooled.ndim)
    return require_float(call, 1)


def _roi_pool_backward(xp: Any, attrs: Any, output_grad: Any, data: Any, rois: Any) -> Any:
    x = widened(xp, to_canonical(xp, data, attrs.layout, _LETTERS))
    adjoint = widened(xp, to_canonical(xp, output_grad, attrs.layout, _LETTERS))
    batch, channels, height, width = x.shape
    regions = rois.shape[0]
    rows, columns = _bins(xp, widened(xp, rois), (height, width), attrs)
    numbers = cast(xp, rois[:, 0], "int64")
    images = xp.reshape(xp.take(x, numbers, axis=0), (regions, channels, height * width))
    planes = xp.reshape(numbers, (-1, 1)) * channels + xp.reshape(positions(xp, channels, numbers), (1, -1))
    total = filled(xp, (batch * channels * height * width, 1), 0, x)
    for down in range(attrs.pooled_size[0]):
        for across in range(attrs.pooled_size[1]):
            mask = xp.reshape(_bin(xp, rows[:, down, :], columns[:, across, :]), (regions, 1, height * width))
            best = xp.argmax(xp.where(mask, images, xp.full_like(images, float("-inf"))), axis=2)
            share = xp.where(xp.any(mask, axis=2), adjoint[:, :, down, across], xp.zeros_like(adjoint[:, :, 0, 0]))
            places = xp.reshape(planes * (height * width) + best, (-1,))
            total = fold_into_rows(xp, total, places, xp.reshape(share, (-1, 1)), "add")
    image = xp.reshape(total, (batch, channels, height, width))
    return from_canonical(xp, cast(xp, image, dtype_name(data.dtype)), attrs.layout, _LETTERS)


@declares("relax.vision.roi_pool_backward", rank=2, infer=_backward_type, reference=with_attrs(_roi_pool_backward))
def roi_pool_backward(
    output_grad: Expr,
    data: Expr,
    rois: Expr,
    pooled_size: Spatial,
    spatial_scale: float,
    layout: str = "NCHW",
) -> Call:
    """The adjoint of the data of `roi_pool`, from ``output_grad``, the adjoint of its result.

    Operands: ``output_grad``, of the result's type; the other operands and the attributes are those of `roi_pool`. The
    first of equal elements gets the adjoint of a bin. Result: the type of ``data``. Raises `OpTypeError` for dtypes or
    shapes that do not agree.
    """
    ...


@operator_of(roi_pool).define_gradient
def _roi_pool_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    return [operator_of(roi_pool_backward)(adjoint, *call.args, **call.attrs), None]


@operator_of(roi_pool_backward).define_gradient
def _backward_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    raise GradientError("relax.vision.roi_pool_backward: no second derivative; roi_pool can be differentiated once")
