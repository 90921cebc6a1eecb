"""Resizing by factors or to sizes that are computed at run time, in all modes of ONNX's `Resize`.

What `resampling` works out in numbers is worked out here by operators on tensors: for each place of the result the
place in the operand, in float32 for the nearest element, else in float64; and from that the nearest element, or a
matrix of weights that each axis is multiplied by. That costs a product with the axis's size for each element, which
only models pay whose factors are inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from .... import op as ops
from ....ir.dims import Dim
from ....ir.dtypes import is_float
from ....ir.expr import Expr, PrimValue, ShapeExpr, const
from ....ir.types import ShapeType, TensorType
from .importing import NodeImporter, in_dtype
from .resampling import AT_A_HALF, CROP, Filter
from .sizes import Sizes

_WORK: Final = "float64"


def _number(value: float, dtype: str = _WORK) -> Expr:
    return const(np.asarray(value), dtype)


class _Axis:
    """An axis of ``size`` elements that becomes one of ``target``, by the factor ``scale``; scalars of one dtype."""

    def __init__(
        self, node: NodeImporter, dims: tuple[Dim, Dim], scale: Expr, part: tuple[Expr, Expr] | None, dtype: str
    ) -> None:
        self.node: Final = node
        self.dims: Final = dims
        self.dtype: Final = dtype
        self.size, self.target = (node.emit(ops.astype(Sizes.scalar(dim).expression(), dtype)) for dim in dims)
        self.scale: Final = node.emit(in_dtype(scale, dtype))
        self.part: Final = None if part is None else (in_dtype(part[0], dtype), in_dtype(part[1], dtype))
        self.extent: Final = node.emit(ops.multiply(self.size, self.scale))
        self.last: Final = node.emit(ops.subtract(self.size, self.number(1)))
        self.places: Final = node.emit(ops.astype(ops.arange(dims[1], dtype="int64"), dtype))

    def number(self, value: float) -> Expr:
        """``value`` in the dtype of the axis."""
        return _number(value, self.dtype)

    def unless(self, condition: Expr, otherwise: Expr, value: Expr) -> Expr:
        """``value``, but ``otherwise`` where the condition holds."""
        return self.node.emit(ops.where(condition, otherwise, value))


# --- where elements come from, as in `resampling`


def _half_pixel(axis: _Axis) -> Expr:
    return ops.subtract(ops.divide(ops.add(axis.places, axis.number(0.5)), axis.scale), axis.number(0.5))


def _symmetric(axis: _Axis) -> Expr:
    ratio = ops.divide(*[ops.astype(each, "float32") for each in (axis.target, axis.extent)])
    share = ops.subtract(axis.number(1), ops.astype(axis.node.emit(ratio), axis.dtype))
    return ops.add(ops.multiply(ops.multiply(axis.size, axis.number(0.5)), share), _half_pixel(axis))


def _pytorch_half_pixel(axis: _Axis) -> Expr:
    return ops.where(ops.greater(axis.target, axis.number(1)), _half_pixel(axis), axis.number(0))


def _align_corners(axis: _Axis) -> Expr:
    alone = axis.node.emit(ops.equal(axis.target, axis.number(1)))
    steps = axis.unless(alone, axis.number(1), ops.subtract(axis.target, axis.number(1)))
    return ops.where(alone, axis.number(0), ops.divide(ops.multiply(axis.places, axis.last), steps))


def _asymmetric(axis: _Axis) -> Expr:
    return ops.divide(axis.places, axis.scale)


def _tf_half_pixel_for_nn(axis: _Axis) -> Expr:
    return ops.divide(ops.add(axis.places, axis.number(0.5)), axis.scale)


def _crop(axis: _Axis) -> Expr:
    start, end = axis.part or (axis.number(0), axis.number(1))
    alone = axis.node.emit(ops.equal(axis.extent, axis.number(1)))
    steps = axis.unless(alone, axis.number(1), ops.subtract(axis.extent, axis.number(1)))
    length = ops.multiply(ops.subtract(end, start), axis.last)
    moved = ops.add(ops.multiply(start, axis.last), ops.divide(ops.multiply(axis.places, length), steps))
    middle = ops.multiply(ops.multiply(ops.add(start, end), axis.number(0.5)), axis.last)
    return ops.where(alone, middle, moved)


_COORDINATES: Final[dict[str, Callable[[_Axis], Expr]]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "tf_half_pixel_for_nn": _tf_half_pixel_for_nn,
    CROP: _crop,
}

_ROUNDINGS: Final[dict[str, Callable[[Expr], Expr]]] = {
    "round_prefer_floor": lambda place: ops.ceil(ops.subtract(place, _number(0.5 + AT_A_HALF))),
    "round_prefer_ceil": lambda place: ops.floor(ops.add(place, _number(0.5 + AT_A_HALF))),
    "floor": ops.floor,
    "ceil": ops.ceil,
}


# --- the elements that are mixed


def _nearest(axis: _Axis, places: Expr, kind: Filter) -> Expr:
    """The elements that are nearest to ``places``, by number."""
    single = axis.node.emit(ops.astype(in_dtype(places, "float32"), _WORK))  # as ONNX Runtime seeks it
    last = in_dtype(axis.last, _WORK)
    rounded = ops.minimum(ops.maximum(_ROUNDINGS[kind.rounding](single), _number(0)), last)
    return axis.node.emit(ops.astype(rounded, "int64"))


def _linear(distance: Expr, alpha: float) -> Expr:
    del alpha
    return ops.maximum(ops.subtract(_number(1), distance), _number(0))


def _cubic(distance: Expr, alpha: float) -> Expr:
    """Keys' piecewise cubic."""
    square = ops.multiply(distance, distance)
    near = ops.subtract(ops.multiply(distance, _number(alpha + 2)), _number(alpha + 3))
    near = ops.add(ops.multiply(near, square), _number(1))
    far = ops.multiply(ops.subtract(distance, _number(5)), distance)
    far = ops.multiply(ops.add(far, _number(8)), distance)
    far = ops.subtract(ops.multiply(far, _number(alpha)), _number(4 * alpha))
    inside, close = ops.less(distance, _number(2)), ops.less_equal(distance, _number(1))
    return ops.where(close, near, ops.where(inside, far, _number(0)))


_FILTERS: Final[dict[str, tuple[int, Callable[[Expr, float], Expr]]]] = {"linear": (1, _linear), "cubic": (2, _cubic)}


def _weights(axis: _Axis, places: Expr, kind: Filter) -> tuple[Expr, Expr]:
    """The elements that are mixed, by number, and for each place of the result (a row) their weights.

    Beyond its ends the axis goes on with its last elements, as far as the filter reaches.
    """
    node = axis.node
    radius, weight = _FILTERS[kind.mode]
    shrink = node.emit(ops.minimum(axis.scale, _number(1))) if kind.antialias else _number(1)
    reach = node.emit(ops.astype(ops.ceil(ops.divide(_number(radius), shrink)), "int64"))
    [margin] = node.named_sizes(node.emit(ops.reshape(reach, [1])), 1)
    elements = node.emit(ops.subtract(ops.arange(axis.dims[0] + 2 * margin, dtype="int64"), reach))
    taps = node.emit(ops.astype(elements, _WORK))
    distance = ops.abs(ops.subtract(ops.expand_dims(places, 1), ops.expand_dims(taps, 0)))
    shares = node.emit(weight(node.emit(ops.multiply(distance, shrink)), kind.alpha))
    if kind.exclude:
        inside = ops.logical_and(ops.greater_equal(taps, _number(0)), ops.less_equal(taps, axis.last))
        shares = node.emit(ops.where(inside, shares, _number(0)))
    if kind.exclude or kind.antialias:
        shares = node.emit(ops.divide(shares, ops.sum(shares, [1], True)))
    source = ops.minimum(ops.maximum(taps, _number(0)), axis.last)
    return node.emit(ops.astype(source, "int64")), shares


def _mixed(axis: _Axis, x: Expr, number: int, places: Expr, kind: Filter) -> Expr:
    """``x`` along axis ``number``: at each of ``places`` the elements nearby times their weights."""
    node = axis.node
    sources, shares = _weights(axis, places, kind)
    assert isinstance(x.ty, TensorType)
    order = [place for place in range(x.ty.ndim) if place != number]
    taken = node.emit(ops.take(x, sources, axis=number))
    last = node.emit(ops.permute_dims(taken, [*order, number]))
    found = node.emit(ops.matmul(last, ops.astype(ops.permute_dims(shares), x.ty.dtype)))
    return ops.permute_dims(found, [*range(number), x.ty.ndim - 1, *range(number, x.ty.ndim - 1)])


# --- the operator


def resize_by_factors(node: NodeImporter, index: int, axes: Sequence[int], coordinates: str, kind: Filter) -> Expr:
    """``Resize`` by factors for ``axes``, which operand ``index`` gives."""
    given = node.emit(ops.astype(node.operand(index), "float32"))
    rows = node.emit(Sizes.row([node.shape()[axis] for axis in axes]).expression())
    goals = ops.floor(ops.multiply(ops.astype(rows, "float32"), given))
    targets = _named(node, goals, axes)
    wide = node.emit(ops.astype(given, _WORK))
    factors = [node.emit(ops.take(wide, PrimValue(place), axis=0)) for place in range(len(axes))]
    return _resized(node, axes, targets, factors, coordinates, kind)


def resize_to_sizes(node: NodeImporter, index: int, axes: Sequence[int], coordinates: str, kind: Filter) -> Expr:
    """``Resize`` to sizes for ``axes``, which operand ``index`` gives, or to those that keep the ratio of the axes."""
    own = ops.astype(node.emit(Sizes.row([node.shape()[axis] for axis in axes]).expression()), _WORK)
    ratios = node.emit(ops.divide(ops.astype(node.operand(index), _WORK), node.emit(own)))
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        targets = _named(node, node.operand(index), axes)
        factors = [node.emit(ops.take(ratios, PrimValue(place), axis=0)) for place in range(len(axes))]
    else:
        factor = node.emit((ops.min if policy == "not_larger" else ops.max)(ratios))
        targets = _named(node, ops.floor(ops.add(ops.multiply(own, factor), _number(0.5))), axes)
        factors = [factor] * len(axes)
    return _resized(node, axes, targets, factors, coordinates, kind)


def _named(node: NodeImporter, sizes: Expr, axes: Sequence[int]) -> list[Dim]:
    names: list[Dim] = [node.fresh_size(axis) for axis in axes]
    shape = node.graph.builder.emit(ops.tensor_to_shape(node.emit(ops.astype(sizes, "int64"))))
    node.graph.builder.match_cast(shape, ShapeType(names))
    return names


def _resized(
    node: NodeImporter,
    axes: Sequence[int],
    targets: Sequence[Dim],
    factors: Sequence[Expr],
    coordinates: str,
    kind: Filter,
) -> Expr:
    x, dtype = node.operand(0), node.dtype()
    if kind.mode != "nearest":
        x = node.emit(ops.astype(x, dtype if is_float(dtype) and dtype != "float16" else "float32"))
    parts = _parts(node, len(axes)) if coordinates == CROP else None
    beyond: Expr | None = None
    # The nearest element is sought step by step as ONNX Runtime seeks it.
    is_single = kind.mode == "nearest" and coordinates != "half_pixel_symmetric"
    for place, (number, target, factor) in enumerate(zip(axes, targets, factors, strict=True)):
        part = None if parts is None else (parts[place], parts[place + len(axes)])
        axis = _Axis(node, (node.shape()[number], target), factor, part, "float32" if is_single else _WORK)
        places = node.emit(_COORDINATES[coordinates](axis))
        if kind.mode == "nearest":
            x = node.emit(ops.take(x, _nearest(axis, places, kind), axis=number))
        else:
            x = node.emit(_mixed(axis, x, number, places, kind))
        if coordinates == CROP:
            outside = ops.logical_or(ops.less(places, axis.number(0)), ops.greater(places, axis.last))
            flags = ops.reshape(outside, ShapeExpr([target, *[1] * (node.rank() - number - 1)]))
            beyond = node.emit(flags if beyond is None else ops.logical_or(beyond, flags))
    if beyond is not None:
        assert isinstance(x.ty, TensorType)
        x = node.emit(ops.where(beyond, const(np.asarray(node.attr("extrapolation_value", 0.0)), x.ty.dtype), x))
    return ops.astype(x, dtype)


def _parts(node: NodeImporter, count: int) -> list[Expr]:
    """The starts and ends of the part of each axis that is taken, in shares."""
    region = node.emit(ops.astype(node.operand(1), _WORK))
    return [node.emit(ops.take(region, PrimValue(place), axis=0)) for place in range(2 * count)]
