"""The source positions of the elements of a resized axis, in all modes of ONNX's `Resize`.

The formulas of places and weights serve numbers and tensors of a program (`run_time_resize`). All else is for numbers:
for each element of the result the elements that are mixed, with their weights. Places are then worked out in exact
fractions, so none is moved across an element by rounding, and the nearest element is sought in single precision, step
by step as ONNX Runtime seeks it. `resize` makes programs of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any, Final, TypeAlias

import numpy as np

from ....op.composite.resize import cubic_far, cubic_near

Taps: TypeAlias = list[tuple[int, float]]
"""Elements of an axis, each with its weight."""

Number: TypeAlias = Any
"""An exact `Fraction`, a number of single precision, or a tensor: formulas divide by whole numbers only."""

CROP: Final = "tf_crop_and_resize"
AT_A_HALF: Final = 1e-6
"""A place that is no further than this from the middle between two elements is there: ONNX Runtime takes it so."""
_NEARLY_HALF: Final = Fraction(1, 2) + Fraction(AT_A_HALF)


@dataclass(frozen=True, slots=True)
class ResampledAxis:
    """An axis of ``size`` elements that becomes one of ``target``, by the factor ``scale``.

    ``target`` may be less than ``size * scale``, by a part of an element. ``start`` and ``end``, in shares of the
    axis, are the part of it that `CROP` takes.
    """

    size: Number
    target: Number
    scale: Number
    start: Number = Fraction(0)
    end: Number = Fraction(1)

    @property
    def extent(self) -> Number:
        """The size of the result before it was made whole."""
        return self.size * self.scale

    @property
    def last(self) -> Number:
        """The place of the last element."""
        return self.size - 1

    @property
    def share(self) -> Number:
        """The size of the result in shares of the `extent`."""
        return self.target / self.extent

    def if_one(self, number: Number, value: Number, otherwise: Number) -> Number:
        """``value`` where ``number`` is 1, else ``otherwise``."""
        return value if number == 1 else otherwise

    def widened(self, number: Number) -> Number:
        """``number`` in double precision, if it is not exact."""
        return number if isinstance(number, Fraction) else np.float64(number)

    @property
    def in_single(self) -> ResampledAxis:
        """The axis whose places are worked out in single precision."""
        scale, start, end = (np.float32(float(number)) for number in (self.scale, self.start, self.end))
        return ResampledAxis(self.size, self.target, scale, start, end)


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


def _centre(axis: ResampledAxis, place: Number) -> Number:
    return (2 * place + 1) / axis.scale / 2


def _half_below(place: Number) -> Number:
    return (2 * place - 1) / 2


def _half_pixel(axis: ResampledAxis, place: Number) -> Number:
    return _half_below(_centre(axis, place))


def _symmetric(axis: ResampledAxis, place: Number) -> Number:
    """The middle of the axis stays in the middle, though the result is less than it should be by a part.

    ONNX Runtime rounds the ratio of the sizes, and no step after it.
    """
    share, scale, place = map(axis.widened, (axis.share, axis.scale, place))
    return _half_below(axis.size * (1 - share) / 2 + (2 * place + 1) / scale / 2)


def _steps(axis: ResampledAxis, size: Number) -> Number:
    """The steps between ``size`` places; one where there are none."""
    return axis.if_one(size, size, size - 1)


def _align_corners(axis: ResampledAxis, place: Number) -> Number:
    # ONNX says the size before it was made whole; ONNX Runtime and PyTorch take the one that the result has.
    return place * axis.last / _steps(axis, axis.target)


def _crop(axis: ResampledAxis, place: Number) -> Number:
    # As ONNX Runtime does, the part is spread over the result that there is, and a factor of 1 leaves an axis whole.
    middle = (axis.start + axis.end) / 2 * axis.last
    moved = axis.start * axis.last + place * (axis.end - axis.start) * axis.last / _steps(axis, axis.target)
    return axis.if_one(axis.scale, place, axis.if_one(axis.target, middle, moved))


COORDINATES: Final[dict[str, Callable[[ResampledAxis, Number], Number]]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda axis, place: axis.if_one(axis.target, place * 0, _half_pixel(axis, place)),
    "align_corners": _align_corners,
    "asymmetric": lambda axis, place: place / axis.scale,
    "tf_half_pixel_for_nn": _centre,
    CROP: _crop,
}
"""The map from a place in the result to one in the axis."""

_ROUNDINGS: Final[dict[str, Callable[[Fraction], int]]] = {
    "round_prefer_floor": lambda place: ceil(place - _NEARLY_HALF),
    "round_prefer_ceil": lambda place: floor(place + _NEARLY_HALF),
    "floor": floor,
    "ceil": ceil,
}


def _linear_weight(xp: Any, distance: Any, alpha: float) -> Any:
    del alpha
    return xp.maximum(1.0 - distance, 0.0)


def _cubic_weight(xp: Any, distance: Any, alpha: float) -> Any:
    """Keys' piecewise cubic."""
    near, far = cubic_near(distance, alpha), cubic_far(distance, alpha)
    return xp.where(xp.less_equal(distance, 1.0), near, xp.where(xp.less(distance, 2.0), far, 0.0))


WEIGHTS: Final[dict[str, tuple[int, Callable[[Any, Any, float], Any]]]] = {
    "linear": (1, _linear_weight),
    "cubic": (2, _cubic_weight),
}
"""For each way to mix how far it reaches, and the weights by distance, over NumPy or over operators."""


def nearest(axis: ResampledAxis, coordinates: str, kind: Filter, *, exact: bool = False) -> list[int]:
    """The one element that each element of the result is: as ONNX Runtime seeks it, or at the exact place."""
    source, rounded = COORDINATES[coordinates], _ROUNDINGS[kind.rounding]
    single = axis.in_single
    places = (
        source(axis, Fraction(place)) if exact else Fraction(float(np.float32(source(single, np.float32(place)))))
        for place in range(axis.target)
    )
    return [_inside(axis, rounded(place)) for place in places]


def _inside(axis: ResampledAxis, tap: int) -> int:
    return min(max(tap, 0), axis.size - 1)


def _mixed(place: Fraction, axis: ResampledAxis, kind: Filter) -> Taps:
    radius, weight = WEIGHTS[kind.mode]
    shrink = min(axis.scale, Fraction(1)) if kind.antialias else Fraction(1)
    reach = radius / shrink
    near = range(ceil(place - reach), floor(place + reach) + 1)
    distances = np.asarray([float(abs(place - tap) * shrink) for tap in near])
    taps: Taps = list(zip(near, weight(np, distances, kind.alpha).tolist(), strict=True))
    if kind.exclude:
        taps = [(tap, share) for tap, share in taps if 0 <= tap < axis.size]
    if kind.exclude or kind.antialias:
        total = sum(share for _, share in taps)
        taps = [(tap, share / total) for tap, share in taps]
    return [(_inside(axis, tap), share) for tap, share in taps if share != 0.0]


def resampled(axis: ResampledAxis, coordinates: str, kind: Filter) -> tuple[list[Taps], list[bool]]:
    """For each element of the result its taps, and whether it lies beyond the axis (which `CROP` fills)."""
    places = [COORDINATES[coordinates](axis, Fraction(place)) for place in range(axis.target)]
    beyond = [coordinates == CROP and not 0 <= place <= axis.size - 1 for place in places]
    if kind.mode == "nearest":
        return [[(tap, 1.0)] for tap in nearest(axis, coordinates, kind)], beyond
    return [_mixed(place, axis, kind) for place in places], beyond
