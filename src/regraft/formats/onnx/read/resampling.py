"""Resizing one axis after the other, in all modes of ONNX's `Resize`, to sizes of the model or of the run.

The formulas for the elements that are mixed are written for an array namespace. On NumPy they give numbers, for sizes
and factors that a model states; on a `ProgramNamespace` they give what a program computes from those of the run. For
the nearest element that is done in single precision, step by step as ONNX Runtime does it, else in double.
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
"""A place that is no further than this from an element is nearest to it: ONNX Runtime takes it so."""


@dataclass(frozen=True, slots=True)
class ResampledAxis:
    """An axis of ``size`` elements that becomes one of ``target``, by the factor ``scale``.

    All are arrays of one number, of one dtype, in the namespace ``xp``. ``target`` may be less than ``size * scale``,
    by a part of an element. ``start`` and ``end``, in shares of the axis, are the part of it that `CROP` takes.
    """

    xp: Any
    size: Numbers
    target: Numbers
    scale: Numbers
    start: Numbers = None
    end: Numbers = None

    @property
    def last(self) -> Numbers:
        """The place of the last element."""
        return self.size - 1

    def within(self, places: Numbers) -> Numbers:
        """Whole places as elements; beyond its ends the axis goes on with its first and its last one."""
        last = cast(self.xp, self.last, "float64")
        return cast(self.xp, self.xp.minimum(self.xp.maximum(places, 0.0), last), "int64")

    def if_one(self, number: Numbers, value: Numbers, otherwise: Numbers) -> Numbers:
        """``value`` where ``number`` is 1, else ``otherwise``."""
        return self.xp.where(number == 1, value, otherwise)

    def places(self, kind: Filter, count: Dim) -> Numbers:
        """The place in the axis of each of the ``count`` elements of the result."""
        numbers = cast(self.xp, self.xp.arange(count, dtype=self.xp.int64), str(self.size.dtype))
        return _COORDINATES[kind.coordinates](self, numbers)


@dataclass(frozen=True, slots=True)
class Filter:
    """The way in which elements are mixed: "nearest" with a rounding, "linear", or "cubic" with Keys' ``alpha``.

    ``coordinates`` is how a place in the result becomes one in the axis. With ``antialias`` the filter is widened where
    an axis shrinks; with ``exclude`` elements beyond its ends have no weight, else its last ones are repeated.
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
    """The middle of the axis stays in the middle, though the result is less than it should be by a part.

    ONNX Runtime rounds the ratio of the sizes, and no step after it.
    """
    ratio = cast(axis.xp, axis.target, "float32") / cast(axis.xp, axis.size * axis.scale, "float32")
    share, size, scale, place = (cast(axis.xp, one, "float64") for one in (ratio, axis.size, axis.scale, place))
    return _half_below(size * (1 - share) / 2 + (2 * place + 1) / scale / 2)


def _steps(axis: ResampledAxis, size: Numbers) -> Numbers:
    """The steps between ``size`` places; one where there are none."""
    return axis.if_one(size, size, size - 1)


def _align_corners(axis: ResampledAxis, place: Numbers) -> Numbers:
    # ONNX says the size before it was made whole; ONNX Runtime and PyTorch take the one that the result has.
    return place * axis.last / _steps(axis, axis.target)


def _crop(axis: ResampledAxis, place: Numbers) -> Numbers:
    # As ONNX Runtime does, the part is spread over the result that there is, and a factor of 1 leaves an axis whole.
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
"""The map from a place in the result to one in the axis."""

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
"""For each way to mix how far it reaches, and the weights by distance, over an array namespace."""


def nearest(axis: ResampledAxis, places: Numbers, kind: Filter) -> Numbers:
    """The elements that are nearest to ``places``, by number, as ONNX Runtime seeks them: in single precision."""
    single = cast(axis.xp, cast(axis.xp, places, "float32"), "float64")
    return axis.within(_ROUNDINGS[kind.rounding](axis.xp, single))


def _shrink(axis: ResampledAxis, kind: Filter) -> Numbers:
    return axis.xp.minimum(axis.scale, 1.0) if kind.antialias else 1.0


def reach(axis: ResampledAxis, kind: Filter) -> Dim:
    """The number of elements on either side of a place that may be mixed there."""
    xp, radius = axis.xp, _WEIGHTS[kind.mode][0]
    return size_of(xp, xp.reshape(xp.ceil(radius / _shrink(axis, kind)), ())) if kind.antialias else radius


def shares(axis: ResampledAxis, places: Numbers, elements: Numbers, kind: Filter) -> Numbers:
    """For each of ``places`` (a row) the weights of ``elements``, which are numbers of elements in rows or in one row.

    Beyond its ends the axis goes on with its last elements, as far as the filter reaches.
    """
    xp, weight, shrink = axis.xp, _WEIGHTS[kind.mode][1], _shrink(axis, kind)
    found = weight(xp, xp.abs(xp.expand_dims(places, axis=1) - elements) * shrink, kind.alpha)
    if kind.exclude:
        inside = xp.logical_and(elements >= 0, elements <= axis.last)
        found = xp.where(inside, found, 0.0)
    return found / xp.sum(found, axis=1, keepdims=True) if kind.exclude or kind.antialias else found


# --- the program that mixes them


class AxisRequest(NamedTuple):
    """The request for axis ``number``: its new size, the factor, and the part of it that `CROP` takes, in shares."""

    number: int
    target: Dim
    factor: Any
    part: Sequence[Any] = ()


def resized_axes(node: NodeImporter, requests: Sequence[AxisRequest], kind: Filter, xp: Any) -> Expr:
    """The operand with these axes resized; ``xp`` is NumPy for requests in numbers, or else a `ProgramNamespace`."""
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
    """At each of ``places``, which are known, the sum of the elements nearby times their weights."""
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
    """The same for places of the run: all elements times a matrix of weights, which are zeros but for a few."""
    xp, margin = axis.xp, reach(axis, kind)
    elements = xp.astype(xp.arange(node.shape()[number] + 2 * margin, dtype=xp.int64) - margin, "float64")
    weights = shares(axis, places, xp.expand_dims(elements, axis=0), kind)
    taken = node.emit(ops.take(x, axis.within(elements).expr, axis=number))
    return matmul_along(taken, number, xp.astype(weights.mT, dtype_of(x)).expr)


# --- sizes and factors of the run


def resize_by_factors(node: NodeImporter, index: int, axes: Sequence[int], kind: Filter) -> Expr:
    """``Resize`` by factors for ``axes``, which operand ``index`` gives."""
    given = node.emit(ops.astype(node.operand(index), "float32"))
    rows = node.emit(Sizes.row([node.shape()[axis] for axis in axes]).expression())
    goals = ops.floor(ops.astype(rows, "float32") * given)
    targets = _named(node, goals, axes)
    wide = node.emit(ops.astype(given, "float64"))
    # ONNX Runtime copies what keeps its sizes, whatever the factors.
    is_kept = node.emit(ops.min(ops.equal(in_dtype(goals, "int64"), rows)))
    wide = node.emit(ops.where(is_kept, const(1.0, "float64"), wide))
    return _resized(node, axes, targets, _listed(node, wide, len(axes)), kind)


def resize_to_sizes(node: NodeImporter, axes: Sequence[int], kind: Filter) -> Expr:
    """``Resize`` to sizes for ``axes``, which operand 3 gives, or to those that keep the ratio of the axes."""
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
