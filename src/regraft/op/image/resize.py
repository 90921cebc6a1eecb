"""Resizing of images and volumes: each axis by itself, from a few elements near the place that it comes from.

Where a result's element comes from is worked out in exact fractions, so a place that falls between two
elements, or on one, is never moved by rounding. float16 and bfloat16 are computed in float32. Each operator
is declared whole here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from math import ceil, floor
from typing import Any, Final, NamedTuple

from ...ir.dims import Dim
from ...ir.dtypes import as_optional_dtype, is_float
from ...ir.errors import OpTypeError
from ...ir.expr import Expr, PrimValue, ShapeExpr
from ...ir.op import Call, Op, Precision, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, Type
from ..adjoints import converted_like, known_shape
from ..adjoints import widened as widened_expr
from ..axis_maps import map_axis, rearranged
from ..layouts import arranged_type, canonical_dims, data_letters, from_canonical, size_operand, to_canonical
from ..reshaping import reshape
from ..rules import shape_operand, tensor_operand
from ..semantics import cast, constant_array, dtype_name, index_array, widened

__all__ = ["resize2d", "resize3d"]

_METHODS: Final = ("nearest_neighbor", "linear", "cubic")
_CROP: Final = "tf_crop_and_resize"
_HALF: Final = Fraction(1, 2)

# --- where elements come from


class _Axis(NamedTuple):
    """One axis that is resized, and the part of it (``start`` to ``end``, in shares) that `_CROP` takes."""

    size: int
    target: int
    start: float
    end: float


def _half_pixel(axis: _Axis, place: int) -> Fraction:
    return (place + _HALF) * axis.size / axis.target - _HALF


def _pytorch_half_pixel(axis: _Axis, place: int) -> Fraction:
    return _half_pixel(axis, place) if axis.target > 1 else Fraction(0)


def _align_corners(axis: _Axis, place: int) -> Fraction:
    return Fraction(place * (axis.size - 1), max(axis.target - 1, 1))


def _asymmetric(axis: _Axis, place: int) -> Fraction:
    return Fraction(place * axis.size, axis.target)


def _tf_half_pixel_for_nn(axis: _Axis, place: int) -> Fraction:
    return (place + _HALF) * axis.size / axis.target


def _tf_crop_and_resize(axis: _Axis, place: int) -> Fraction:
    start, end = Fraction(axis.start), Fraction(axis.end)
    if axis.target == 1:
        return (start + end) / 2 * (axis.size - 1)
    return start * (axis.size - 1) + place * (end - start) * (axis.size - 1) / (axis.target - 1)


_COORDINATES: Final[dict[str, Callable[[_Axis, int], Fraction]]] = {
    "half_pixel": _half_pixel,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "tf_half_pixel_for_nn": _tf_half_pixel_for_nn,
    _CROP: _tf_crop_and_resize,
}
_ROUNDING: Final[dict[str, Callable[[Fraction], int]]] = {
    "round": round,
    "round_prefer_floor": lambda place: ceil(place - _HALF),
    "round_prefer_ceil": lambda place: floor(place + _HALF),
    "floor": floor,
    "ceil": ceil,
}

# --- the elements that are mixed, and their weights


def _cubic_weight(distance: float, alpha: float) -> float:
    """Keys' piecewise cubic: the weight of an element at that ``distance``, less than 2."""
    if distance <= 1:
        return ((alpha + 2) * distance - (alpha + 3)) * distance**2 + 1
    return ((distance - 5) * distance + 8) * distance * alpha - 4 * alpha


def _neighbours(place: Fraction, size: int, alpha: float | None, exclude: bool) -> list[tuple[int, float]]:
    """The elements of an axis that make up the value at ``place``, each with its weight.

    Two for linear interpolation, four for cubic (which has an ``alpha``). Beyond its ends the axis goes on
    with its last elements, or, with ``exclude``, with nothing.
    """
    left = floor(place)
    if alpha is None:
        share = float(place - left)
        taps = [(left, 1.0 - share), (left + 1, share)]
    else:
        taps = [(tap, _cubic_weight(float(abs(place - tap)), alpha)) for tap in range(left - 1, left + 3)]
        if exclude:
            taps = [(tap, weight if 0 <= tap < size else 0.0) for tap, weight in taps]
            total = sum(weight for _, weight in taps)
            taps = [(tap, weight / total) for tap, weight in taps]
    return [(min(max(tap, 0), size - 1), weight) for tap, weight in taps]


def _nearest(mode: str, rounding_method: str, place: Fraction, size: int) -> int:
    """The element of an axis that stands for ``place``."""
    rounded = _ROUNDING[rounding_method or ("round" if mode == "align_corners" else "floor")]
    return min(max(rounded(place), 0), size - 1)


def _mixed(xp: Any, x: Any, axis: int, neighbours: Sequence[Sequence[tuple[int, float]]]) -> Any:
    """For each list of ``neighbours``, the sum of those elements of ``axis`` times their weights."""
    total = 0
    for column in zip(*neighbours, strict=True):
        weights = constant_array(xp, [weight for _, weight in column], x)
        part = xp.take(x, index_array(xp, [source for source, _ in column], x), axis=axis)
        total = total + part * xp.reshape(weights, (-1, *(1,) * (x.ndim - axis - 1)))
    return total


def _outside(xp: Any, x: Any, axis: int, places: Sequence[Fraction], size: int) -> Any:
    """Where ``places`` lie beyond the elements of an axis, shaped to broadcast with ``x``."""
    flags = index_array(xp, [not 0 <= place <= size - 1 for place in places], x)
    return xp.reshape(flags, (-1, *(1,) * (x.ndim - axis - 1))) == 1


# --- the operators


def _resize_type(call: Call) -> Type:
    attrs = call.attrs
    rank = len(attrs.roi) // 2
    letters = data_letters(rank)
    for name, known in (
        ("method", _METHODS),
        ("coordinate_transformation_mode", tuple(_COORDINATES)),
        ("rounding_method", ("", *_ROUNDING)),
    ):
        if attrs[name] not in known:
            raise wrong_attribute(call, name, f"one of {', '.join(map(repr, known))}")
    data, size = canonical_dims(call, 0, "layout", letters), shape_operand(call, 1)
    dtype = tensor_operand(call, 0).dtype
    if dtype == "bool" and attrs.method != "nearest_neighbor":
        raise wrong_operand(call, 0, 'numbers, not bool, for any method but "nearest_neighbor"')
    if size.ndim not in (UNKNOWN_NDIM, rank):
        raise wrong_operand(call, 1, f"{rank} sizes, one for each spatial axis")
    if data is not None and 0 in data[2:]:
        raise wrong_operand(call, 0, "spatial axes that have elements")
    dtype = attrs.out_dtype or dtype
    if data is None or size.values is None:
        return TensorType(None, dtype, rank + 2)
    return arranged_type(call, "layout", letters, (*data[:2], *size.values), dtype)


def _resize(
    xp: Any,
    data: Any,
    size: tuple[int, ...],
    roi: tuple[float, ...],
    layout: str,
    method: str,
    coordinate_transformation_mode: str,
    rounding_method: str,
    cubic_alpha: float,
    cubic_exclude: int,
    extrapolation_value: float,
    out_dtype: str | None,
) -> Any:
    rank = len(size)
    letters, name = data_letters(rank), dtype_name(data.dtype)
    x = to_canonical(xp, data, layout, letters)
    if method != "nearest_neighbor":
        x = widened(xp, x) if is_float(name) else cast(xp, x, "float64")
    coordinate = _COORDINATES[coordinate_transformation_mode]
    alpha = cubic_alpha if method == "cubic" else None
    beyond = xp.asarray(False)
    for axis in range(2, rank + 2):
        extent, target = x.shape[axis], size[axis - 2]
        along = _Axis(extent, target, roi[axis - 2], roi[axis - 2 + rank])
        places = [coordinate(along, place) for place in range(target)]
        if method == "nearest_neighbor":
            sources = [_nearest(coordinate_transformation_mode, rounding_method, place, extent) for place in places]
            x = xp.take(x, index_array(xp, sources, x), axis=axis)
        else:
            x = _mixed(xp, x, axis, [_neighbours(place, extent, alpha, bool(cubic_exclude)) for place in places])
        if coordinate_transformation_mode == _CROP:
            beyond = xp.logical_or(beyond, _outside(xp, x, axis, places, extent))
    if coordinate_transformation_mode == _CROP:
        x = xp.where(beyond, xp.full_like(x, extrapolation_value), x)
    return from_canonical(xp, cast(xp, x, out_dtype or name), layout, letters)


def _declare(rank: int, rounding_method: str) -> Op:
    attributes: dict[str, Any] = {
        "roi": (0.0,) * (2 * rank),
        "layout": data_letters(rank),
        "method": "linear",
        "coordinate_transformation_mode": "half_pixel",
        "rounding_method": rounding_method,
        "cubic_alpha": -0.75,
        "cubic_exclude": 0,
        "extrapolation_value": 0.0,
        "out_dtype": None,
    }
    return Op(
        f"relax.image.resize{rank}d",
        ("data", "size"),
        attributes,
        infer=_resize_type,
        reference=_resize,
        precision=Precision.FOLLOWS,
    )


RESIZE2D: Final = _declare(2, "round")
RESIZE3D: Final = _declare(3, "")


def _numbers(
    roi: float | PrimValue | Sequence[float | PrimValue] | None, count: int, op_name: str
) -> tuple[float, ...]:
    """The attribute ``roi`` as ``count`` floats; None gives zeros, and one number stands for all."""
    parts = [0.0] if roi is None else list(roi) if isinstance(roi, Sequence) else [roi]
    values = [part.value if isinstance(part, PrimValue) else part for part in parts]
    values = values * count if len(values) == 1 else values
    if len(values) != count or not all(isinstance(value, int | float) for value in values):
        raise OpTypeError(f"{op_name}: roi={roi!r}; expected {count} numbers: all starts, then all ends")
    return tuple(float(value) for value in values)


def _call(op: Op, data: Expr, size: Expr | Dim | Sequence[Dim], roi: Any, **given: Any) -> Call:
    """A call with its attributes in canonical form, and one size standing for all axes."""
    count = len(op.attributes["roi"])
    given["roi"] = _numbers(roi, count, op.name)
    given["cubic_alpha"] = float(given["cubic_alpha"])
    given["cubic_exclude"] = int(given["cubic_exclude"])
    given["extrapolation_value"] = float(given["extrapolation_value"])
    given["out_dtype"] = as_optional_dtype(given["out_dtype"])
    return op(data, size_operand(size, count // 2, op.name), **given)


def resize2d(
    data: Expr,
    size: int | Dim | Expr | Sequence[Dim],
    roi: float | Sequence[float] | None = None,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round",
    cubic_alpha: float = -0.75,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Call:
    """``data`` (batch, channels, height, width) with other heights and widths; follows ``Resize`` of ONNX.

    Operands: ``data``, in ``layout`` (any order of the letters); ``size``, the two new sizes, or one for
    both.
    Attributes: ``method``: "nearest_neighbor", "linear" or "cubic" (with Keys' ``cubic_alpha``; with
    ``cubic_exclude`` elements beyond the edge get no weight, else the edge is repeated).
    ``coordinate_transformation_mode``: how a place in the result becomes one in ``data``: "half_pixel",
    "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn", or "tf_crop_and_resize",
    which takes the part of the image that ``roi`` gives (starts, then ends, as shares of each axis), and
    ``extrapolation_value`` beyond the image. ``rounding_method``, for the nearest element: "round" (half to
    even), "round_prefer_floor", "round_prefer_ceil", "floor", "ceil", or "" ("round" for "align_corners",
    else "floor"). ``out_dtype``, by default ``data``'s.
    Result: (batch, channels, ``size``) in ``layout``. Integers are mixed in float64 and rounded towards zero.
    Raises `OpTypeError` for a rank that is not the layout's, another number of sizes, or an unknown name.
    """
    return _call(
        RESIZE2D,
        data,
        size,
        roi,
        layout=layout,
        method=method,
        coordinate_transformation_mode=coordinate_transformation_mode,
        rounding_method=rounding_method,
        cubic_alpha=cubic_alpha,
        cubic_exclude=cubic_exclude,
        extrapolation_value=extrapolation_value,
        out_dtype=out_dtype,
    )


def resize3d(
    data: Expr,
    size: int | Dim | Expr | Sequence[Dim],
    roi: float | Sequence[float] | None = None,
    layout: str = "NCDHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.75,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Call:
    """``data`` (batch, channels, depth, height, width) with other spatial sizes; follows ``Resize`` of ONNX.

    Operands, attributes, result and errors: see `resize2d`, with three sizes, and six shares in ``roi``.
    """
    return _call(
        RESIZE3D,
        data,
        size,
        roi,
        layout=layout,
        method=method,
        coordinate_transformation_mode=coordinate_transformation_mode,
        rounding_method=rounding_method,
        cubic_alpha=cubic_alpha,
        cubic_exclude=cubic_exclude,
        extrapolation_value=extrapolation_value,
        out_dtype=out_dtype,
    )


# --- gradients


def _resampled(attrs: Any, axis: int, size: Dim, target: Dim, rows: Expr) -> Expr:
    """Each row of a matrix, an axis of ``size`` elements, resized to ``target`` as spatial ``axis`` is."""
    start, end = attrs.roi[axis], attrs.roi[axis + len(attrs.roi) // 2]
    own = {"layout": "NCHW", "roi": (start, 0.0, end, 0.0), "extrapolation_value": 0.0, "out_dtype": None}
    image = reshape(rows, ShapeExpr([size, 1, size, 1]))
    return reshape(RESIZE2D(image, ShapeExpr([target, 1]), **{**attrs, **own}), ShapeExpr([size, target]))


@RESIZE2D.define_gradient
@RESIZE3D.define_gradient
def _resize_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    """Each axis by itself, with the transposed weights."""
    data, layout = call.args[0], call.attrs.layout
    letters = data_letters(len(layout) - 2)
    sizes, targets = known_shape(call, data, "data"), known_shape(call, output, "its result")
    share = widened_expr(converted_like(rearranged(adjoint, layout, letters), data))
    for axis, letter in enumerate(letters[2:]):
        place: int = layout.index(letter)
        resample = partial(_resampled, call.attrs, axis, sizes[place], targets[place])
        share = map_axis(call, share, axis + 2, sizes[place], resample)
    return [rearranged(converted_like(share, data), letters, layout), None]
