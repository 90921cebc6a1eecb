"""Resizing by factors or to sizes that are computed at run time, in all modes of ONNX's `Resize`.

The formulas of `resampling` are applied to tensors here: for each place of the result they give the place in the
operand, in float32 for the nearest element, else in float64; and from that the nearest element, or a matrix of weights
that each axis is multiplied by. That costs a product with the axis's size for each element, which only models pay whose
factors are inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .... import op as ops
from ....ir.dims import Dim
from ....ir.dtypes import is_float
from ....ir.expr import Expr, PrimValue, ShapeExpr, const
from ....ir.types import TensorType
from .importing import NodeImporter, in_dtype
from .resampling import AT_A_HALF, COORDINATES, CROP, WEIGHTS, Filter, ResampledAxis
from .sizes import Sizes

_WORK: Final = "float64"


def _number(value: float) -> Expr:
    return const(np.asarray(value), _WORK)


@dataclass(frozen=True, slots=True)
class _TensorAxis(ResampledAxis):
    """An axis whose numbers are scalars of one dtype in a program."""

    @property
    def share(self) -> Expr:
        """The size of the result in shares of the `extent`, the one step that ONNX Runtime rounds."""
        return ops.divide(in_dtype(self.target, "float32"), in_dtype(self.extent, "float32"))

    def if_one(self, number: Expr, value: Expr, otherwise: Expr) -> Expr:
        """``value`` where ``number`` is 1, else ``otherwise``."""
        return ops.where(ops.equal(number, 1.0), value, otherwise)

    def widened(self, number: Expr) -> Expr:
        """``number`` in float64."""
        return in_dtype(number, _WORK)


_ROUNDINGS: Final[dict[str, Callable[[Expr], Expr]]] = {
    "round_prefer_floor": lambda place: ops.ceil(ops.subtract(place, _number(0.5 + AT_A_HALF))),
    "round_prefer_ceil": lambda place: ops.floor(ops.add(place, _number(0.5 + AT_A_HALF))),
    "floor": ops.floor,
    "ceil": ops.ceil,
}


# --- the elements that are mixed


def _nearest(axis: _TensorAxis, places: Expr, kind: Filter) -> Expr:
    """The elements that are nearest to ``places``, by number."""
    single = ops.astype(in_dtype(places, "float32"), _WORK)  # as ONNX Runtime seeks it
    rounded = ops.minimum(ops.maximum(_ROUNDINGS[kind.rounding](single), _number(0)), axis.widened(axis.last))
    return ops.astype(rounded, "int64")


def _weights(node: NodeImporter, axis: _TensorAxis, size: Dim, places: Expr, kind: Filter) -> tuple[Expr, Expr]:
    """The elements that are mixed, by number, and for each place of the result (a row) their weights.

    Beyond its ends the axis goes on with its last elements, as far as the filter reaches.
    """
    radius, weight = WEIGHTS[kind.mode]
    shrink = node.emit(ops.minimum(axis.scale, _number(1))) if kind.antialias else _number(1)
    reach = node.emit(ops.astype(ops.ceil(ops.divide(_number(radius), shrink)), "int64"))
    [margin] = node.named_sizes(node.emit(ops.reshape(reach, [1])), 1)
    elements = node.emit(ops.subtract(ops.arange(size + 2 * margin, dtype="int64"), reach))
    taps = node.emit(ops.astype(elements, _WORK))
    distance = ops.abs(ops.subtract(ops.expand_dims(places, 1), ops.expand_dims(taps, 0)))
    shares = node.emit(weight(ops, node.emit(ops.multiply(distance, shrink)), kind.alpha))
    if kind.exclude:
        inside = ops.logical_and(ops.greater_equal(taps, _number(0)), ops.less_equal(taps, axis.last))
        shares = node.emit(ops.where(inside, shares, _number(0)))
    if kind.exclude or kind.antialias:
        shares = node.emit(ops.divide(shares, ops.sum(shares, [1], True)))
    source = ops.minimum(ops.maximum(taps, _number(0)), axis.last)
    return node.emit(ops.astype(source, "int64")), shares


def _mixed(node: NodeImporter, axis: _TensorAxis, x: Expr, number: int, places: Expr, kind: Filter) -> Expr:
    """``x`` along axis ``number``: at each of ``places`` the elements nearby times their weights."""
    sources, shares = _weights(node, axis, node.shape()[number], places, kind)
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
    # ONNX Runtime copies what keeps its sizes, whatever the factors.
    is_kept = node.emit(ops.min(ops.equal(in_dtype(goals, "int64"), rows)))
    wide = node.emit(ops.where(is_kept, _number(1), wide))
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
    return node.call_sizes(node.emit(ops.astype(sizes, "int64")), [node.fresh_size(axis) for axis in axes])


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
    beyond: Expr | None = None
    # The nearest element is sought step by step as ONNX Runtime seeks it.
    is_single = kind.mode == "nearest" and coordinates != "half_pixel_symmetric"

    def scalar(value: Expr) -> Expr:
        return node.emit(in_dtype(value, "float32" if is_single else _WORK))

    parts = _parts(node, len(axes)) if coordinates == CROP else []
    for place, (number, target, factor) in enumerate(zip(axes, targets, factors, strict=True)):
        sizes = [Sizes.scalar(dim).expression() for dim in (node.shape()[number], target)]
        part = (parts[place], parts[place + len(axes)]) if coordinates == CROP else ()
        axis = _TensorAxis(*map(scalar, (*sizes, factor, *part)))
        places = node.emit(COORDINATES[coordinates](axis, scalar(ops.arange(target, dtype="int64"))))
        if kind.mode == "nearest":
            x = node.emit(ops.take(x, node.emit(_nearest(axis, places, kind)), axis=number))
        else:
            x = node.emit(_mixed(node, axis, x, number, places, kind))
        if coordinates == CROP:
            outside = ops.logical_or(ops.less(places, 0.0), ops.greater(places, axis.last))
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
