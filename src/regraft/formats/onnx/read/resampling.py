"""The elements that each element of a resized axis is mixed of, in all modes of ONNX's `Resize`.

The formulas are written for an array namespace. On NumPy they give numbers, for sizes and factors that a model states;
on a `ProgramNamespace` they give what a program computes from those of the run. `axis_by_axis` makes the program that
mixes the elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ....ir.dims import Dim
from ....op.composite.resize import cubic_far, cubic_near
from ....op.semantics import cast, size_of

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

    def places(self, coordinates: str, count: Dim) -> Numbers:
        """The place in the axis of each of the ``count`` elements of the result."""
        numbers = cast(self.xp, self.xp.arange(count, dtype=self.xp.int64), str(self.size.dtype))
        return _COORDINATES[coordinates](self, numbers)


@dataclass(frozen=True, slots=True)
class Filter:
    """The way in which elements are mixed: "nearest" with a rounding, "linear", or "cubic" with Keys' ``alpha``.

    With ``antialias`` the filter is widened where an axis shrinks; with ``exclude`` elements beyond its ends have no
    weight, else its last ones are repeated.
    """

    mode: str
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
