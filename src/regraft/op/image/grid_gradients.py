"""Gradients of `grid_sample` and `affine_grid`.

They stand apart from the operators, in `grid`, for their length. A sample is a sum over a few elements near a place,
each times the weights of that place on every axis: an element gets the adjoint times these weights, a coordinate what
the sum would gain if its weights moved.
"""

from __future__ import annotations

from functools import reduce
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...ir.dims import Dim, dim_product
from ...ir.expr import Expr, ShapeExpr, const
from ...ir.op import Call
from ..adjoints import converted_like, count_of, known_shape, ones_of, reshape_like, tensor_type, widened, zeros_of
from ..axis_maps import rearranged, settled
from ..binary import add, floor_mod, maximum, minimum, multiply
from ..broadcast import broadcast_to
from ..comparison import greater, greater_equal, less, less_equal
from ..datatype import astype
from ..gather import gather_elements
from ..indexing import strided_slice
from ..join import concat
from ..layouts import data_letters
from ..linear_algebra import matmul
from ..logical import logical_and
from ..manipulate import permute_dims
from ..reduction import sum
from ..reshaping import reshape
from ..scatter import scatter_elements
from ..ternary import clip, where
from ..unary import abs, floor, round
from .grid import AFFINE_GRID, CUBIC_ALPHA, GRID_SAMPLE


class _Tap(NamedTuple):
    """One of the places on an axis that make up each sample: a whole number as a float, (batch, 1, samples)."""

    place: Expr
    weight: Expr
    slope: Expr
    """How much the weight gains for each unit of the coordinate."""


# --- places and weights on one axis


_Size: TypeAlias = float | Expr
"""How many elements an axis has: a number, or a scalar that is worked out when the program runs."""


def _as_number(size: Dim, dtype: str | None) -> _Size:
    return float(size) if isinstance(size, int) else count_of([size], dtype)


def _clamped(place: Expr, size: _Size) -> Expr:
    """``place``, not beyond the elements of an axis of ``size``."""
    if isinstance(size, Expr):
        return minimum(maximum(place, 0.0), size - 1.0)
    return clip(place, 0.0, size - 1.0)


def _padded(place: Expr, size: _Size, attrs: Any) -> tuple[Expr, Expr]:
    """``place`` brought onto an axis of ``size`` elements by the padding mode, and how fast it moves with it."""
    one = ones_of(place)
    if attrs.padding_mode == "zeros":
        return place, one
    slope: Expr = one
    if attrs.padding_mode == "reflection":
        low, span = (0.0, size - 1.0) if attrs.align_corners else (-0.5, size)
        # Between the ends of a single element there is nothing to be reflected: any span will do.
        span = maximum(span, 1.0) if isinstance(span, Expr) else max(span, 1.0)
        distance = floor_mod(abs(place - low), 2 * span)
        turned = greater(distance, span)
        slope = where(less(place, low), -one, one) * where(turned, -one, one)
        place = where(turned, 2 * span - distance, distance) + low
    inside = logical_and(greater(place, 0.0), less(place, size - 1.0))
    return _clamped(place, size), where(inside, slope, 0.0)


def _cubic_taps(extent: Expr, size: _Size, attrs: Any) -> list[_Tap]:
    """Keys' four elements with their weights, polynomials in the distance, and the slopes of these."""
    left = floor(extent)
    share = extent - left
    taps: list[_Tap] = []
    for tap, (distance, sign) in enumerate([(share + 1.0, 1), (share, 1), (1.0 - share, -1), (2.0 - share, -1)]):
        if tap in (0, 3):
            weight = ((distance - 5.0) * distance + 8.0) * distance * CUBIC_ALPHA - 4.0 * CUBIC_ALPHA
            slope = ((distance * 3.0 - 10.0) * distance + 8.0) * CUBIC_ALPHA
        else:
            weight = ((CUBIC_ALPHA + 2.0) * distance - (CUBIC_ALPHA + 3.0)) * distance * distance + 1.0
            slope = (distance * (3.0 * (CUBIC_ALPHA + 2.0)) - 2.0 * (CUBIC_ALPHA + 3.0)) * distance
        taps.append(_Tap(_padded(left + float(tap - 1), size, attrs)[0], weight, slope * sign))
    return taps


def _taps(coordinate: Expr, size: _Size, attrs: Any) -> list[_Tap]:
    """The places on an axis of ``size`` elements that make up each sample."""
    rate = (size - 1.0) / 2.0 if attrs.align_corners else size / 2.0
    extent = (coordinate + 1.0) * rate if attrs.align_corners else (coordinate + 1.0) * rate - 0.5
    if attrs.method == "bicubic":
        return [tap._replace(slope=tap.slope * rate) for tap in _cubic_taps(extent, size, attrs)]
    place, speed = _padded(extent, size, attrs)
    if attrs.method == "nearest":
        return [_Tap(round(place), ones_of(place), zeros_of(place))]
    left, speed = floor(place), speed * rate
    return [_Tap(left, left + 1.0 - place, -speed), _Tap(left + 1.0, place - left, speed)]


# --- the rules


@GRID_SAMPLE.define_gradient
def _grid_sample_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    (data, grid), attrs = call.args, call.attrs
    rank = len(attrs.layout) - 2
    letters = data_letters(rank)
    x, share = [widened(rearranged(value, attrs.layout, letters)) for value in (data, adjoint)]
    batch, channels, *extents = known_shape(call, x, "data")
    sizes = [_as_number(extent, tensor_type(x).dtype) for extent in extents]
    samples = dim_product(known_shape(call, grid, "grid")[2:])
    x = reshape(x, ShapeExpr([batch, channels, dim_product(extents)]))
    share = reshape(share, ShapeExpr([batch, channels, samples]))
    coordinates = reshape(converted_like(grid, x), ShapeExpr([batch, rank, samples]))
    axes: list[list[_Tap]] = []
    for axis, size in enumerate(sizes):
        number = rank - 1 - axis
        axes.append(_taps(strided_slice(coordinates, [1], [number], [number + 1]), size, attrs))
    found = [_TapShares.of(taps, extents, x, share, (batch, channels, samples)) for taps in product(*axes)]
    places = concat([part.source for part in found], axis=2)
    data_share = scatter_elements(zeros_of(x), places, concat([part.data_share for part in found], axis=2), 2, "add")
    grid_share = concat([reduce(add, parts) for parts in zip(*[part.axis_shares for part in found], strict=True)], 1)
    in_order = rearranged(reshape(data_share, ShapeExpr([batch, channels, *extents])), letters, attrs.layout)
    return [converted_like(in_order, data), converted_like(reshape_like(grid_share, grid), grid)]


class _TapShares(NamedTuple):
    """What goes back through one element of each sample."""

    source: Expr
    """Where the elements are, (batch, channels, samples)."""
    data_share: Expr
    axis_shares: list[Expr]
    """What each coordinate gets, in the order of the grid: (batch, 1, samples)."""

    @staticmethod
    def of(
        taps: tuple[_Tap, ...], extents: list[Dim], x: Expr, adjoint: Expr, dims: tuple[Dim, Dim, Dim]
    ) -> _TapShares:
        source: Expr | None = None
        bounds: list[Expr] = []
        for tap, extent in zip(taps, extents, strict=True):
            size = _as_number(extent, tensor_type(x).dtype)
            bounds += [greater_equal(tap.place, 0.0), less_equal(tap.place, size - 1.0)]
            place = astype(_clamped(tap.place, size), "int64")
            source = place if source is None else source * count_of([extent], "int64") + place
        assert source is not None
        inside = reduce(logical_and, bounds)
        index = broadcast_to(source, ShapeExpr(dims))
        weight = reduce(multiply, [tap.weight for tap in taps])
        picked = where(inside, gather_elements(x, index, 2), 0.0)
        gained = sum(adjoint * picked, 1, keepdims=True)
        axis_shares: list[Expr] = []
        for axis, tap in reversed(list(enumerate(taps))):
            others = [other.weight for number, other in enumerate(taps) if number != axis]
            axis_shares.append(reduce(multiply, others, gained * tap.slope))
        return _TapShares(index, where(inside, adjoint * weight, 0.0), axis_shares)


@AFFINE_GRID.define_gradient
def _affine_grid_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    """Coordinates are sums of places times theta; theta with a single 1 says which places these are."""
    (theta, size), attrs = call.args, call.attrs
    batch, rows, *extents = known_shape(call, output, "its result")
    rank, samples = len(extents), dim_product(extents)
    share = widened(reshape(adjoint, ShapeExpr([batch, rows, samples])))
    single = np.repeat(np.eye(rank + 1)[:, None], rank, axis=1)
    places = strided_slice(AFFINE_GRID(const(single, tensor_type(share).dtype), size, **attrs), [1], [0], [1])
    places = settled(permute_dims(reshape(places, ShapeExpr([rank + 1, samples]))))
    return [converted_like(matmul(share, places), theta), None]
