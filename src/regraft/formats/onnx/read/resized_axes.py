"""Resizing one axis after the other, in all modes of ONNX's `Resize`, to sizes of the model or of the run.

Which elements are mixed is worked out by `resampling`: in numbers where the model states sizes and factors, else by the
program. For the nearest element that is done in single precision, step by step as ONNX Runtime does it, else in double.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .... import op as ops
from ....analysis.tensors import dtype_of
from ....ir.dims import Dim
from ....ir.dtypes import is_float
from ....ir.expr import Expr, PrimValue, ShapeExpr, const
from ....op.axis_maps import matmul_along
from ....op.program_xp import ProgramArray, ProgramNamespace
from ....op.semantics import cast
from .importing import NodeImporter, in_dtype
from .resampling import CROP, Filter, ResampledAxis, nearest, reach, shares
from .sizes import Sizes


class AxisRequest(NamedTuple):
    """What axis ``number`` becomes: its new size, the factor, and the part of it that `CROP` takes, in shares."""

    number: int
    target: Dim
    factor: Any
    part: Sequence[Any] = ()


def resized_axes(node: NodeImporter, requests: Sequence[AxisRequest], coordinates: str, kind: Filter, xp: Any) -> Expr:
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
        places = axis.places(coordinates, target)
        if is_nearest:
            x = node.emit(ops.take(x, _expression(nearest(axis, places, kind)), axis=place))
        else:
            x = node.emit(mixed(node, x, place, axis, places, kind))
        if coordinates == CROP:
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


def resize_by_factors(node: NodeImporter, index: int, axes: Sequence[int], coordinates: str, kind: Filter) -> Expr:
    """``Resize`` by factors for ``axes``, which operand ``index`` gives."""
    given = node.emit(ops.astype(node.operand(index), "float32"))
    rows = node.emit(Sizes.row([node.shape()[axis] for axis in axes]).expression())
    goals = ops.floor(ops.astype(rows, "float32") * given)
    targets = _named(node, goals, axes)
    wide = node.emit(ops.astype(given, "float64"))
    # ONNX Runtime copies what keeps its sizes, whatever the factors.
    is_kept = node.emit(ops.min(ops.equal(in_dtype(goals, "int64"), rows)))
    wide = node.emit(ops.where(is_kept, const(1.0, "float64"), wide))
    return _resized(node, axes, targets, _listed(node, wide, len(axes)), coordinates, kind)


def resize_to_sizes(node: NodeImporter, index: int, axes: Sequence[int], coordinates: str, kind: Filter) -> Expr:
    """``Resize`` to sizes for ``axes``, which operand ``index`` gives, or to those that keep the ratio of the axes."""
    own = ops.astype(node.emit(Sizes.row([node.shape()[axis] for axis in axes]).expression()), "float64")
    ratios = node.emit(ops.astype(node.operand(index), "float64") / node.emit(own))
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        targets, factors = _named(node, node.operand(index), axes), _listed(node, ratios, len(axes))
    else:
        factor = node.emit((ops.min if policy == "not_larger" else ops.max)(ratios))
        targets = _named(node, ops.floor(own * factor + 0.5), axes)
        factors = [factor] * len(axes)
    return _resized(node, axes, targets, factors, coordinates, kind)


def _named(node: NodeImporter, sizes: Expr, axes: Sequence[int]) -> list[Dim]:
    return node.call_sizes(node.emit(ops.astype(sizes, "int64")), [node.fresh_size(axis) for axis in axes])


def _listed(node: NodeImporter, row: Expr, count: int) -> list[Expr]:
    return [node.emit(ops.take(row, PrimValue(place), axis=0)) for place in range(count)]


def _resized(
    node: NodeImporter,
    axes: Sequence[int],
    targets: Sequence[Dim],
    factors: Sequence[Expr],
    coordinates: str,
    kind: Filter,
) -> Expr:
    count = len(axes)
    bounds = _listed(node, node.operand(1), 2 * count) if coordinates == CROP else []
    parts = zip(bounds[:count], bounds[count:], strict=True) if bounds else [()] * count
    requests = [AxisRequest(*request) for request in zip(axes, targets, factors, parts, strict=True)]
    return resized_axes(node, requests, coordinates, kind, ProgramNamespace(node.graph.builder))
