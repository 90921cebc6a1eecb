"""Resizing of images and volumes, one axis at a time, from a few elements near each source position.

Source positions are computed as fractions of whole numbers, so a position between two elements, or on one, is never
moved by rounding. float16 and bfloat16 are computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ...ir.dims import Dim, dim_max, dim_min
from ...ir.dtypes import is_float
from ...ir.errors import OpTypeError
from ...ir.expr import Expr, PrimValue, ShapeExpr
from ...ir.op import Call, Precision, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, Type
from ..adjoints import converted_like, known_shape
from ..adjoints import widened as widened_expr
from ..axis_maps import map_axis, rearranged
from ..layouts import SPATIAL_NAMES, arranged_type, canonical_dims, data_letters, from_canonical, to_canonical
from ..primitive.reshaping import reshape
from ..public_function import ResultDtype, SpatialSizes, declares, operator_of
from ..rules import shape_operand, tensor_operand
from ..semantics import along, cast, dtype_name, positions, widened, with_attrs

__all__ = ["resize2d", "resize3d"]

_METHODS: Final = ("nearest_neighbor", "linear", "cubic")
_CROP: Final = "tf_crop_and_resize"

# --- source positions


class _Axis(NamedTuple):
    """One axis that is resized; ``start`` to ``end``, as shares of it, is the part that the mode `_CROP` takes."""

    size: Dim
    target: Dim
    start: float
    end: float


_Ratio: TypeAlias = tuple[Any, Any]
"""The source positions of the result's elements: a numerator for each, and the denominator of all."""


def _half_pixel(places: Any, axis: _Axis) -> _Ratio:
    return (places * 2 + 1) * axis.size - axis.target, axis.target * 2


def _pytorch_half_pixel(places: Any, axis: _Axis) -> _Ratio:
    numerator, denominator = _half_pixel(places, axis)
    return numerator * dim_min(axis.target - 1, 1), denominator


_COORDINATES: Final[dict[str, Callable[[Any, _Axis], _Ratio]]] = {
    "half_pixel": _half_pixel,
    "align_corners": lambda places, axis: (places * (axis.size - 1), dim_max(axis.target - 1, 1)),
    "asymmetric": lambda places, axis: (places * axis.size, axis.target),
    "pytorch_half_pixel": _pytorch_half_pixel,
    "tf_half_pixel_for_nn": lambda places, axis: ((places * 2 + 1) * axis.size, axis.target * 2),
}
"""The modes whose source positions are fractions of whole numbers, which are exact."""


def _cropped(xp: Any, places: Any, axis: _Axis) -> _Ratio:
    """Source positions within a part of the axis; they are floats, since its start and end are."""
    last = cast(xp, positions(xp, 1, places) + (axis.size - 1), "float64")
    if axis.target == 1:
        return last * ((axis.start + axis.end) / 2), 1.0
    return last * axis.start + cast(xp, places, "float64") * last * (axis.end - axis.start) / (axis.target - 1), 1.0


def _to_even(numerator: Any, denominator: Any) -> Any:
    doubled, period = numerator * 2 + denominator, denominator * 2
    up = doubled // period
    return up - (doubled % period == 0) * (up % 2)


_ROUNDING: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "round": _to_even,
    "round_prefer_floor": lambda numerator, denominator: -((numerator * -2 + denominator) // (denominator * 2)),
    "round_prefer_ceil": lambda numerator, denominator: (numerator * 2 + denominator) // (denominator * 2),
    "floor": lambda numerator, denominator: numerator // denominator,
    "ceil": lambda numerator, denominator: -(-numerator // denominator),
}


def _nearest(xp: Any, source: _Ratio, size: Dim, rounded: Callable[[Any, Any], Any]) -> Any:
    return xp.clip(cast(xp, rounded(*source), "int64"), 0, size - 1)


def nearest_elements(size: int, target: int, coordinates: str, rounding: str) -> np.ndarray:
    """The index, on an axis of ``size``, that "nearest_neighbor" takes for each of ``target`` elements."""
    source = _COORDINATES[coordinates](np.arange(target), _Axis(size, target, 0.0, 0.0))
    return _nearest(np, source, size, _ROUNDING[rounding])


# --- interpolated elements, and their weights


def cubic_near(distance: Any, alpha: float) -> Any:
    """Keys' piecewise cubic: the weight of an element at a ``distance`` of at most 1."""
    return ((alpha + 2) * distance - (alpha + 3)) * distance * distance + 1.0


def cubic_far(distance: Any, alpha: float) -> Any:
    """Keys' piecewise cubic for a ``distance`` from 1 to 2."""
    return ((distance - 5.0) * distance + 8.0) * distance * alpha - 4.0 * alpha


def cubic_weights(share: Any, alpha: float) -> list[Any]:
    """The weights of the elements at -1, 0, 1 and 2 from the left neighbour of a position, ``share`` to its right."""
    near = (cubic_near(share, alpha), cubic_near(1.0 - share, alpha))
    return [cubic_far(share + 1.0, alpha), *near, cubic_far(2.0 - share, alpha)]


def _taps(xp: Any, source: _Ratio, size: Dim, alpha: float | None, exclude: bool) -> list[tuple[Any, Any]]:
    """The indices of the elements that contribute to each value, and their weights in float64.

    Two for linear interpolation, four for cubic (which has an ``alpha``). Beyond the ends of the axis, the last
    elements are repeated or, with ``exclude``, get no weight.
    """
    numerator, denominator = source
    left = numerator // denominator
    share = cast(xp, numerator - left * denominator, "float64") / denominator
    left = cast(xp, left, "int64")
    if alpha is None:
        return [(left, 1.0 - share), (left + 1, share)]
    taps = [(left + tap - 1, weight) for tap, weight in enumerate(cubic_weights(share, alpha))]
    if not exclude:
        return taps
    inside = [xp.logical_and(place >= 0, place < size) for place, _ in taps]
    kept = [xp.where(flag, weight, xp.zeros_like(weight)) for flag, (_, weight) in zip(inside, taps, strict=True)]
    total = kept[0] + kept[1] + kept[2] + kept[3]
    return [(place, weight / total) for (place, _), weight in zip(taps, kept, strict=True)]


def _mixed(xp: Any, x: Any, axis: int, taps: Sequence[tuple[Any, Any]]) -> Any:
    """The weighted sum of the elements along ``axis``, with the indices and weights in ``taps``."""
    total: Any = 0
    for places, weights in taps:
        part = xp.take(x, xp.clip(places, 0, x.shape[axis] - 1), axis=axis)
        total = total + part * along(xp, cast(xp, weights, dtype_name(x.dtype)), axis, x.ndim)
    return total


# --- the operators


def _resize_type(call: Call) -> Type:
    attrs = call.attrs
    rank = len(attrs.roi) // 2
    letters = data_letters(rank)
    for name, known in (
        ("method", _METHODS),
        ("coordinate_transformation_mode", (*_COORDINATES, _CROP)),
        ("rounding_method", ("", *_ROUNDING)),
    ):
        if attrs[name] not in known:
            raise wrong_attribute(call, name, f"one of {', '.join(map(repr, known))}")
    data, size = canonical_dims(call, 0, "layout", letters, blocks=True), shape_operand(call, 1)
    dtype = tensor_operand(call, 0).dtype
    if dtype == "bool" and attrs.method != "nearest_neighbor":
        raise wrong_operand(call, 0, 'numbers, not bool, for any method but "nearest_neighbor"')
    if size.ndim not in (UNKNOWN_NDIM, rank):
        raise wrong_operand(call, 1, f"{rank} sizes, one for each spatial axis")
    if data is not None and 0 in data[2:]:
        raise wrong_operand(call, 0, "spatial axes that have elements")
    dtype = attrs.out_dtype or dtype
    if data is None or size.values is None:
        return arranged_type(call, "layout", letters, None, dtype, blocks=True)
    return arranged_type(call, "layout", letters, (*data[:2], *size.values), dtype, blocks=True)


def _resize(xp: Any, attrs: Any, data: Any, size: Any) -> Any:
    rank = len(size)
    letters, name = data_letters(rank), dtype_name(data.dtype)
    x = to_canonical(xp, data, attrs.layout, letters)
    if attrs.method != "nearest_neighbor":
        x = widened(xp, x) if is_float(name) else cast(xp, x, "float64")
    mode, alpha = attrs.coordinate_transformation_mode, attrs.cubic_alpha if attrs.method == "cubic" else None
    rounded = _ROUNDING[attrs.rounding_method or ("round" if mode == "align_corners" else "floor")]
    beyond = xp.asarray(False)
    for axis in range(2, rank + 2):
        own = _Axis(x.shape[axis], size[axis - 2], attrs.roi[axis - 2], attrs.roi[axis - 2 + rank])
        places = positions(xp, own.target, x)
        source = _cropped(xp, places, own) if mode == _CROP else _COORDINATES[mode](places, own)
        if attrs.method == "nearest_neighbor":
            x = xp.take(x, _nearest(xp, source, own.size, rounded), axis=axis)
        else:
            x = _mixed(xp, x, axis, _taps(xp, source, own.size, alpha, bool(attrs.cubic_exclude)))
        if mode == _CROP:
            outside = xp.logical_or(source[0] < 0, source[0] > own.size - 1)
            beyond = xp.logical_or(beyond, along(xp, outside, axis, x.ndim))
    if mode == _CROP:
        x = xp.where(beyond, xp.full_like(x, attrs.extrapolation_value), x)
    return from_canonical(xp, cast(xp, x, attrs.out_dtype or name), attrs.layout, letters)


_Region: TypeAlias = float | PrimValue | Sequence[float | PrimValue] | None
"""The starts and ends of the taken part of each axis."""


def _numbers(count: int, roi: _Region, op_name: str, name: str) -> tuple[float, ...]:
    """The attribute ``roi`` as ``count`` floats; None gives zeros, and a single number is used for all."""
    parts = [0.0] if roi is None else list(roi) if isinstance(roi, Sequence) else [roi]
    values = [part.value if isinstance(part, PrimValue) else part for part in parts]
    values = values * count if len(values) == 1 else values
    if len(values) != count or not all(isinstance(value, int | float) for value in values):
        raise OpTypeError(f"{op_name}: {name}={roi!r}; expected {count} numbers: all starts, then all ends")
    return tuple(float(value) for value in values)


def _resize_of(rank: int, rounding: str):
    sizes = SPATIAL_NAMES[rank - 1]

    @declares(
        f"relax.image.resize{rank}d",
        rank=rank,
        forms={"_Region": partial(_numbers, 2 * rank)},
        infer=_resize_type,
        reference=with_attrs(_resize),
        precision=Precision.FOLLOWS,
        doc=f"""``data`` (batch, channels, {sizes}) resized to other spatial sizes; follows ONNX ``Resize``.

    Operands: ``data``, in ``layout`` (any order of the letters); ``size``, the {rank} new sizes, or one for
    all.
    Attributes: ``method``: "nearest_neighbor", "linear" or "cubic". The cubic kernel is Keys', with coefficient
    ``cubic_alpha``; with ``cubic_exclude``, elements beyond the edge get no weight, otherwise the edge is repeated.
    ``coordinate_transformation_mode``, the map from positions in the result to positions in ``data``: "half_pixel",
    "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn", or "tf_crop_and_resize",
    which takes the region ``roi`` of the image (all starts, then all ends, as fractions of each axis) and
    ``extrapolation_value`` outside of the image. ``rounding_method``, for the nearest element: "round" (half to
    even), "round_prefer_floor", "round_prefer_ceil", "floor", "ceil", or "" ("round" for "align_corners",
    otherwise "floor"). ``out_dtype``, by default ``data``'s dtype.
    Result: (batch, channels, ``size``) in ``layout``. Integers are interpolated in float64 and rounded towards zero.
    Raises `OpTypeError` for a rank that differs from the layout's, a wrong number of sizes, or an unknown name.
    """,
    )
    def function(
        data: Expr,
        size: SpatialSizes,
        roi: _Region = None,
        layout: str = data_letters(rank),
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = rounding,
        cubic_alpha: float = -0.75,
        cubic_exclude: int = 0,
        extrapolation_value: float = 0.0,
        out_dtype: ResultDtype = None,
    ) -> Call: ...

    return function


resize2d = _resize_of(2, "round")
resize3d = _resize_of(3, "")
RESIZE2D: Final = operator_of(resize2d)


# --- gradients


def _resampled(attrs: Any, axis: int, size: Dim, target: Dim, rows: Expr) -> Expr:
    """``rows`` with each row, of ``size`` elements, resized to ``target`` in the same way as spatial ``axis``."""
    start, end = attrs.roi[axis], attrs.roi[axis + len(attrs.roi) // 2]
    own = {"layout": "NCHW", "roi": (start, 0.0, end, 0.0), "extrapolation_value": 0.0, "out_dtype": None}
    image = reshape(rows, ShapeExpr([size, 1, size, 1]))
    return reshape(RESIZE2D(image, ShapeExpr([target, 1]), **{**attrs, **own}), ShapeExpr([size, target]))


@RESIZE2D.define_gradient
@operator_of(resize3d).define_gradient
def _resize_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    """The gradient of resizing: the transposed weights, applied to one axis after the other."""
    data, layout = call.args[0], call.attrs.layout
    letters = data_letters(len(layout) - 2)
    sizes, targets = known_shape(call, data, "data"), known_shape(call, output, "its result")
    share = widened_expr(converted_like(rearranged(adjoint, layout, letters), data))
    for axis, letter in enumerate(letters[2:]):
        place: int = layout.index(letter)
        resample = partial(_resampled, call.attrs, axis, sizes[place], targets[place])
        share = map_axis(call, share, axis + 2, sizes[place], resample)
    return [rearranged(converted_like(share, data), letters, layout), None]
