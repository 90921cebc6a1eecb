"""Resizing one axis after the other, in all modes of ONNX's `Resize`, with sizes of the model or of the run.

The formulas for positions and weights are written for an array namespace. On NumPy they give numbers, for sizes and
factors that a model states. On a `ProgramNamespace` they give the program that computes them from sizes of the run.
The nearest element is found in single precision, step by step as in ONNX Runtime; the rest is in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from .... import op as ops
from ....analysis.tensors import dtype_of
from ....ir.dims import Dim
from ....ir.dtypes import is_float
from ....ir.expr import Expr, PrimValue, ShapeExpr, const
from ....op.axis_maps import matmul_along
from ....op.composite.resize import cubic_far, cubic_near
from ....op.program_xp import ProgramArray, ProgramNamespace
from ....op.semantics import cast, size_of
from .importing import NodeImporter, in_dtype
from .sizes import Sizes

Numbers: TypeAlias = Any
"""An array: formulas divide by whole numbers only."""

CROP: Final = "tf_crop_and_resize"
_AT_A_HALF: Final = 0.5 + 1e-6
"""The largest distance at which an element counts as the nearest in ONNX Runtime."""


@dataclass(frozen=True, slots=True)
class ResampledAxis:
    """An axis of ``size`` elements that is resized to ``target`` elements by the factor ``scale``.

    All are arrays of one number, of one dtype, in the namespace ``xp``. ``target`` may be less than ``size * scale`` by
    a fraction of an element. ``start`` and ``end`` are the part of the axis that `CROP` takes, as shares of the axis.
    """

    xp: Any
    size: Numbers
    target: Numbers
    scale: Numbers
    start: Numbers = None
    end: Numbers = None

    @property
    def last(self) -> Numbers:
        """The index of the last element."""
        return self.size - 1

    def within(self, places: Numbers) -> Numbers:
        """Whole positions as indices of elements, clipped to the axis: its ends are repeated beyond it."""
        last = cast(self.xp, self.last, "float64")
        return cast(self.xp, self.xp.minimum(self.xp.maximum(places, 0.0), last), "int64")

    def if_one(self, number: Numbers, value: Numbers, otherwise: Numbers) -> Numbers:
        """``value`` if ``number`` is 1, else ``otherwise``."""
        return self.xp.where(number == 1, value, otherwise)

    def places(self, kind: Filter, count: Dim) -> Numbers:
        """The position in the axis of each of the ``count`` elements of the result."""
        numbers = cast(self.xp, self.xp.arange(count, dtype=self.xp.int64), str(self.size.dtype))
        return _COORDINATES[kind.coordinates](self, numbers)


@dataclass(frozen=True, slots=True)
class Filter:
    """The interpolation: "nearest" with a rounding, "linear", or "cubic" with Keys' ``alpha``.

    ``coordinates`` names the map from a position in the result to one in the axis. With ``antialias``, the filter is
    widened if an axis shrinks. With ``exclude``, elements beyond the ends have no weight; else the ends are repeated.
    """

    mode: str
    coordinates: str
    rounding: str = "round_prefer_floor"
    alpha: float = -0.75
    antialias: bool = False
    exclude: bool = False


def _centre(axis: ResampledAxis, place: Numbers) -> Numbers:
    return (2 * place + 1) / axis.scale / 2


def _half_below(place: Numbers) -> Numbers:
    return (2 * place - 1) / 2


def _half_pixel(axis: ResampledAxis, place: Numbers) -> Numbers:
    return _half_below(_centre(axis, place))


def _symmetric(axis: ResampledAxis, place: Numbers) -> Numbers:
    """The map that keeps the middle of the axis in the middle, even if the result lost a fraction of an element.

    ONNX Runtime rounds the ratio of the sizes to single precision, and no step after it.
    """
    ratio = cast(axis.xp, axis.target, "float32") / cast(axis.xp, axis.size * axis.scale, "float32")
    share, size, scale, place = (cast(axis.xp, one, "float64") for one in (ratio, axis.size, axis.scale, place))
    return _half_below(size * (1 - share) / 2 + (2 * place + 1) / scale / 2)


def _steps(axis: ResampledAxis, size: Numbers) -> Numbers:
    """The number of steps between ``size`` positions; 1 for a single position."""
    return axis.if_one(size, size, size - 1)


def _align_corners(axis: ResampledAxis, place: Numbers) -> Numbers:
    # ONNX uses the size before it is rounded down; ONNX Runtime and PyTorch use the size of the result.
    return place * axis.last / _steps(axis, axis.target)


def _crop(axis: ResampledAxis, place: Numbers) -> Numbers:
    # As in ONNX Runtime, the part is spread over the whole result, and a factor of 1 leaves the axis unchanged.
    middle = (axis.start + axis.end) / 2 * axis.last
    moved = axis.start * axis.last + place * (axis.end - axis.start) * axis.last / _steps(axis, axis.target)
    return axis.if_one(axis.scale, place, axis.if_one(axis.target, middle, moved))


_COORDINATES: Final[dict[str, Callable[[ResampledAxis, Numbers], Numbers]]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda axis, place: axis.if_one(axis.target, place * 0, _half_pixel(axis, place)),
    "align_corners": _align_corners,
    "asymmetric": lambda axis, place: place / axis.scale,
    "tf_half_pixel_for_nn": _centre,
    CROP: _crop,
}
"""The map from a position in the result to a position in the axis."""

_ROUNDINGS: Final[dict[str, Callable[[Any, Numbers], Numbers]]] = {
    "round_prefer_floor": lambda xp, place: xp.ceil(place - _AT_A_HALF),
    "round_prefer_ceil": lambda xp, place: xp.floor(place + _AT_A_HALF),
    "floor": lambda xp, place: xp.floor(place),
    "ceil": lambda xp, place: xp.ceil(place),
}


def _linear_weight(xp: Any, distance: Any, alpha: float) -> Any:
    del alpha
    return xp.maximum(1.0 - distance, 0.0)


def _cubic_weight(xp: Any, distance: Any, alpha: float) -> Any:
    """Keys' piecewise cubic."""
    near, far = cubic_near(distance, alpha), cubic_far(distance, alpha)
    return xp.where(xp.less_equal(distance, 1.0), near, xp.where(xp.less(distance, 2.0), far, 0.0))


_WEIGHTS: Final[dict[str, tuple[int, Callable[[Any, Any, float], Any]]]] = {
    "linear": (1, _linear_weight),
    "cubic": (2, _cubic_weight),
}
"""For each interpolation its reach in elements, and its weights by distance, over an array namespace."""


def nearest(axis: ResampledAxis, places: Numbers, kind: Filter) -> Numbers:
    """The indices of the elements nearest to ``places``, found in single precision, as in ONNX Runtime."""
    single = cast(axis.xp, cast(axis.xp, places, "float32"), "float64")
    return axis.within(_ROUNDINGS[kind.rounding](axis.xp, single))


def _shrink(axis: ResampledAxis, kind: Filter) -> Numbers:
    return axis.xp.minimum(axis.scale, 1.0) if kind.antialias else 1.0


def reach(axis: ResampledAxis, kind: Filter) -> Dim:
    """The number of elements on either side of a position that may have a weight."""
    xp, radius = axis.xp, _WEIGHTS[kind.mode][0]
    return size_of(xp, xp.reshape(xp.ceil(radius / _shrink(axis, kind)), ())) if kind.antialias else radius


def shares(axis: ResampledAxis, places: Numbers, elements: Numbers, kind: Filter) -> Numbers:
    """The weights of ``elements`` for each of ``places`` (a vector).

    ``elements`` are indices of elements, in a row for each place or in one row for all. Indices beyond the ends stand
    for the repeated end elements, as far as the filter reaches.
    """
    xp, weight, shrink = axis.xp, _WEIGHTS[kind.mode][1], _shrink(axis, kind)
    found = weight(xp, xp.abs(xp.expand_dims(places, axis=1) - elements) * shrink, kind.alpha)
    if kind.exclude:
        inside = xp.logical_and(elements >= 0, elements <= axis.last)
        found = xp.where(inside, found, 0.0)
    return found / xp.sum(found, axis=1, keepdims=True) if kind.exclude or kind.antialias else found


# --- the program that interpolates


class AxisRequest(NamedTuple):
    """A request to resize axis ``number``: its new size, the factor, and the part that `CROP` takes, as shares."""

    number: int
    target: Dim
    factor: Any
    part: Sequence[Any] = ()


def resized_axes(node: NodeImporter, requests: Sequence[AxisRequest], kind: Filter, xp: Any) -> Expr:
    """Operand 0 with these axes resized. ``xp`` is NumPy if the requests are numbers, else a `ProgramNamespace`."""
    x, dtype, is_nearest = node.operand(0), node.dtype(), kind.mode == "nearest"
    if not is_nearest:
        x = node.emit(in_dtype(x, "float64" if dtype == "float64" or not is_float(dtype) else "float32"))
    mixed = _gathered if xp is np else _multiplied
    beyond: Expr | None = None

    def number(value: Any) -> Any:
        array = ProgramArray(node.graph.builder, value) if isinstance(value, Expr) else xp.asarray(value)
        return cast(xp, xp.reshape(array, (1,)), "float32" if is_nearest else "float64")

    for place, target, factor, part in requests:
        axis = ResampledAxis(xp, *map(number, (node.shape()[place], target, factor, *part)))
        places = axis.places(kind, target)
        if is_nearest:
            x = node.emit(ops.take(x, _expression(nearest(axis, places, kind)), axis=place))
        else:
            x = node.emit(mixed(node, x, place, axis, places, kind))
        if kind.coordinates == CROP:
            outside = _expression(xp.logical_or(places < 0.0, places > axis.last))
            flags = node.emit(ops.reshape(outside, ShapeExpr([target, *[1] * (node.rank() - place - 1)])))
            beyond = flags if beyond is None else node.emit(ops.logical_or(beyond, flags))
    if beyond is not None:
        fill = const(np.asarray(node.attr("extrapolation_value", 0.0)), dtype_of(x))
        x = node.emit(ops.where(beyond, fill, x))
    return in_dtype(x, dtype)


def _expression(numbers: Any) -> Expr:
    return numbers.expr if isinstance(numbers, ProgramArray) else const(numbers)


def _gathered(node: NodeImporter, x: Expr, number: int, axis: ResampledAxis, places: Any, kind: Filter) -> Expr:
    """The sum of nearby elements times their weights at each of ``places``, which are known."""
    xp, width = axis.xp, reach(axis, kind)
    elements = xp.floor(places)[:, np.newaxis] + xp.arange(1 - width, 1 + width)
    weights, sources = shares(axis, places, elements, kind), axis.within(elements)
    is_used = xp.any(weights, axis=0)
    weights, sources = weights[:, is_used], sources[:, is_used]
    if weights.shape[1] == 1 and xp.all(weights == 1.0):
        return ops.take(x, const(sources[:, 0]), axis=number)
    found = node.emit(ops.take(x, const(sources), axis=number))
    beside = [1] * (node.rank() - number - 1)
    return ops.sum(found * const(weights.reshape(*weights.shape, *beside), dtype_of(x)), [number + 1])


def _multiplied(node: NodeImporter, x: Expr, number: int, axis: ResampledAxis, places: Any, kind: Filter) -> Expr:
    """The same for places of the run: a product of all elements and a matrix of weights, most of which are zero."""
    xp, margin = axis.xp, reach(axis, kind)
    elements = xp.astype(xp.arange(node.shape()[number] + 2 * margin, dtype=xp.int64) - margin, "float64")
    weights = shares(axis, places, xp.expand_dims(elements, axis=0), kind)
    taken = node.emit(ops.take(x, axis.within(elements).expr, axis=number))
    return matmul_along(taken, number, xp.astype(weights.mT, dtype_of(x)).expr)


# --- sizes and factors of the run


def resize_by_factors(node: NodeImporter, index: int, axes: Sequence[int], kind: Filter) -> Expr:
    """``Resize`` of ``axes`` by the factors in operand ``index``."""
    given = node.emit(ops.astype(node.operand(index), "float32"))
    rows = node.emit(Sizes.row([node.shape()[axis] for axis in axes]).expression())
    goals = ops.floor(ops.astype(rows, "float32") * given)
    targets = _named(node, goals, axes)
    wide = node.emit(ops.astype(given, "float64"))
    # ONNX Runtime copies an operand whose sizes do not change, whatever the factors.
    is_kept = node.emit(ops.min(ops.equal(in_dtype(goals, "int64"), rows)))
    wide = node.emit(ops.where(is_kept, const(1.0, "float64"), wide))
    return _resized(node, axes, targets, _listed(node, wide, len(axes)), kind)


def resize_to_sizes(node: NodeImporter, axes: Sequence[int], kind: Filter) -> Expr:
    """``Resize`` of ``axes`` to the sizes in operand 3, or to sizes that keep the ratio of the axes."""
    own = ops.astype(node.emit(Sizes.row([node.shape()[axis] for axis in axes]).expression()), "float64")
    ratios = node.emit(ops.astype(node.operand(3), "float64") / node.emit(own))
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        targets, factors = _named(node, node.operand(3), axes), _listed(node, ratios, len(axes))
    else:
        factor = node.emit((ops.min if policy == "not_larger" else ops.max)(ratios))
        targets = _named(node, ops.floor(own * factor + 0.5), axes)
        factors = [factor] * len(axes)
    return _resized(node, axes, targets, factors, kind)


def _named(node: NodeImporter, sizes: Expr, axes: Sequence[int]) -> list[Dim]:
    return node.call_sizes(node.emit(ops.astype(sizes, "int64")), [node.fresh_size(axis) for axis in axes])


def _listed(node: NodeImporter, row: Expr, count: int) -> list[Expr]:
    return [node.emit(ops.take(row, PrimValue(place), axis=0)) for place in range(count)]


def _resized(
    node: NodeImporter,
    axes: Sequence[int],
    targets: Sequence[Dim],
    factors: Sequence[Expr],
    kind: Filter,
) -> Expr:
    count = len(axes)
    bounds = _listed(node, node.operand(1), 2 * count) if kind.coordinates == CROP else []
    parts = zip(bounds[:count], bounds[count:], strict=True) if bounds else [()] * count
    requests = [AxisRequest(*request) for request in zip(axes, targets, factors, parts, strict=True)]
    return resized_axes(node, requests, kind, ProgramNamespace(node.graph.builder))
