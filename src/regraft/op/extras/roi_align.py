"""Pooling of regions of an image, sampled at positions between its elements.

The gradient is that of the decomposition. float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from ...ir.expr import Expr
from ...ir.op import Call, wrong_attribute
from ...ir.types import TensorType
from ..layouts import data_letters, from_canonical, to_canonical
from ..primitive.markers import no_grad
from ..public_function import Spatial, declares, operator_of
from ..rules import as_int
from ..semantics import apply, cast, dtype_name, filled, positions, size_of, widened, with_attrs
from .roi_pool import pooled_type

__all__ = ["roi_align"]

_LETTERS: Final = data_letters(2)
_MODES: Final = ("avg", "max", "max_corner")

# --- positions of the samples


class _Taps(NamedTuple):
    """The samples along one axis; each field has the axes (regions, bins, samples).

    ``low`` and ``high`` are the indices of the elements on both sides of a sample, and ``share`` is the weight of
    ``high``. ``inside`` is 0 for a sample beyond the image. ``real`` is False for a sample that does not exist, because
    its region has fewer samples than others.
    """

    low: Any
    high: Any
    share: Any
    inside: Any
    real: Any


def _axis_taps(xp: Any, start: Any, extent: Any, bins: int, sample_ratio: int, size: int) -> tuple[_Taps, Any]:
    """The samples of regions that begin at ``start`` and have the length ``extent``, and their number in a bin."""
    step = extent / bins
    if sample_ratio > 0:
        count, most = xp.full_like(step, float(sample_ratio)), sample_ratio
    else:
        count = xp.ceil(step)
        most = size_of(xp, xp.max(xp.concat([count, filled(xp, (1,), 1.0, count)])))

    def column(x: Any) -> Any:
        return xp.reshape(x, (-1, 1, 1))

    place = cast(xp, xp.reshape(positions(xp, bins, start), (1, -1, 1)), dtype_name(start.dtype))
    number = cast(xp, xp.reshape(positions(xp, most, start), (1, 1, -1)), dtype_name(start.dtype))
    real = number < column(count)
    safe = xp.where(count > 0, count, xp.ones_like(count))
    where = column(start) + place * column(step) + (number + 0.5) * column(step) / column(safe)
    inside = cast(xp, (where >= -1.0) & (where <= size), dtype_name(start.dtype))
    where = xp.clip(where, 0.0, size - 1)
    low = xp.floor(where)
    high = xp.clip(low + 1.0, 0.0, size - 1)
    real = xp.broadcast_to(real, where.shape)
    return _Taps(cast(xp, low, "int64"), cast(xp, high, "int64"), where - low, inside, real), count


class _RegionSamples:
    """The samples of all regions: weighted elements of a matrix that has a row for each element of the images.

    ``data`` is (batch, channels, height, width). The last row of the matrix is 0; elements of weight 0 use it, so that
    they do not contribute even if they are infinite.

    Arrays over samples have the axes (regions, bins down, bins across, samples of a bin).
    """

    def __init__(self, xp: Any, data: Any, rois: Any, attrs: Any) -> None:
        self.xp = xp
        batch, channels, height, width = data.shape
        rows = batch * height * width
        matrix = xp.reshape(xp.permute_dims(data, (0, 2, 3, 1)), (rows, channels))
        self.matrix = xp.concat([matrix, filled(xp, (1, channels), 0.0, matrix)], axis=0)
        self.nothing = rows
        self.width = width
        self.first = xp.reshape(cast(xp, rois[:, 0], "int64"), (-1, 1, 1, 1)) * (height * width)
        offset = 0.5 if attrs.aligned else 0.0
        left, top, right, bottom = (rois[:, place] * attrs.spatial_scale - offset for place in (1, 2, 3, 4))
        extents = [bottom - top, right - left]
        if not attrs.aligned:
            extents = [xp.maximum(extent, xp.ones_like(extent)) for extent in extents]
        self.down, tall = _axis_taps(xp, top, extents[0], attrs.pooled_size[0], attrs.sample_ratio, height)
        self.across, wide = _axis_taps(xp, left, extents[1], attrs.pooled_size[1], attrs.sample_ratio, width)
        total = tall * wide
        self.count = xp.reshape(xp.maximum(total, xp.ones_like(total)), (-1, 1, 1, 1))
        self.is_even = attrs.sample_ratio > 0
        self.real = self._over(self.down.real, self.across.real, xp.logical_and)

    def _over(self, down: Any, across: Any, function: Any) -> Any:
        """``function`` of the values of each pair of samples, one from ``down`` and one from ``across``."""
        xp = self.xp
        pairs = function(
            xp.expand_dims(xp.expand_dims(down, axis=2), axis=4),
            xp.expand_dims(xp.expand_dims(across, axis=1), axis=3),
        )
        regions, tall, wide = pairs.shape[:3]
        return xp.reshape(pairs, (regions, tall, wide, pairs.shape[3] * pairs.shape[4]))

    def taps(self) -> Iterator[tuple[Any, Any]]:
        """The four elements around each sample: their rows in the matrix, and their weights."""
        xp = self.xp
        for upper in (True, False):
            rows = self.down.low if upper else self.down.high
            down = (1.0 - self.down.share if upper else self.down.share) * self.down.inside
            for left in (True, False):
                columns = self.across.low if left else self.across.high
                across = (1.0 - self.across.share if left else self.across.share) * self.across.inside
                place = self._over(rows * self.width, columns, xp.add) + self.first
                weight = self._over(down, across, xp.multiply)
                yield xp.where(weight == 0, xp.zeros_like(place) + self.nothing, place), weight

    def corners(self) -> Iterator[Any]:
        """For each of the four taps, its contribution to all samples, with the channels as the last axis."""
        xp = self.xp
        for place, weight in self.taps():
            elements = xp.take(self.matrix, xp.reshape(place, (-1,)), axis=0)
            yield xp.reshape(elements, (*place.shape, self.matrix.shape[1])) * xp.expand_dims(weight, axis=-1)

    def lacking(self, values: Any, instead: float) -> Any:
        """``values`` with the number ``instead`` for samples that a region does not have."""
        xp = self.xp
        if self.is_even:
            return values
        return xp.where(xp.expand_dims(self.real, axis=-1), values, xp.full_like(values, instead))


# --- the operator


def _roi_align_type(call: Call) -> TensorType:
    if call.attrs.mode not in _MODES:
        raise wrong_attribute(call, "mode", f"one of {', '.join(_MODES)}")
    return pooled_type(call, 0)


def _roi_align(xp: Any, attrs: Any, data: Any, rois: Any) -> Any:
    x = widened(xp, to_canonical(xp, data, attrs.layout, _LETTERS))
    samples = _RegionSamples(xp, x, widened(xp, apply(xp, operator_of(no_grad), rois)), attrs)
    corners = list(samples.corners())
    if attrs.mode == "max_corner":
        values = xp.max(xp.stack(corners), axis=0)
    else:
        values = corners[0] + corners[1] + corners[2] + corners[3]
    if attrs.mode == "avg":
        pooled = xp.sum(samples.lacking(values, 0.0), axis=3) / samples.count
    else:
        greatest = xp.max(samples.lacking(values, float("-inf")), axis=3)
        # a bin without samples is 0, as in ONNX
        empty = xp.expand_dims(xp.logical_not(xp.any(samples.real, axis=3)), axis=-1)
        pooled = xp.where(empty, xp.zeros_like(greatest), greatest)
    result = cast(xp, xp.permute_dims(pooled, (0, 3, 1, 2)), dtype_name(data.dtype))
    return from_canonical(xp, result, attrs.layout, _LETTERS)


_SampleRatio: TypeAlias = int
"""The number of samples of a bin along each axis; below 1, as many as it has elements."""


@declares(
    "relax.vision.roi_align",
    rank=2,
    forms={"_SampleRatio": lambda value, op_name, name: max(as_int(value, op_name, name), -1) or -1},
    infer=_roi_align_type,
    reference=with_attrs(_roi_align),
)
def roi_align(
    data: Expr,
    rois: Expr,
    pooled_size: Spatial,
    spatial_scale: float,
    sample_ratio: _SampleRatio = -1,
    aligned: bool = False,
    layout: str = "NCHW",
    mode: str = "avg",
) -> Call:
    """Regions of images, each pooled to one size; follows ``RoiAlign`` of ONNX and Mask R-CNN (He et al. 2017).

    Operands: ``data`` (batch, channels, height, width) in ``layout``, floating; ``rois`` (regions, 5), of the same
    dtype: the number of the image in the batch, and x1, y1, x2, y2.
    Attributes: ``pooled_size``: height and width of the result; ``spatial_scale``: the factor from coordinates to
    positions in ``data``; ``sample_ratio``: the number of samples of a bin along each axis, by default its number of
    elements, rounded up; ``aligned``: True if an element is at the middle of its pixel (otherwise regions are at least
    one element wide); ``mode``: the reduction of the samples of a bin: "avg", "max", or "max_corner", the maximum of
    the weighted elements around them, which is ONNX's max. A sample more than one element beyond the
    image is 0.
    Result: (regions, channels, *pooled_size) in ``layout``. No gradient goes to ``rois``.
    Raises `OpTypeError` for ranks, sizes or dtypes that do not agree, or an unknown mode.
    """
    ...
