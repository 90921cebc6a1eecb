"""Reading operators on images."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from .... import op as ops
from ....ir.dims import Dim, SymVar, dim_product
from ....ir.expr import Expr
from ....op.composite.resize import nearest_elements
from ....op.primitive.manipulate import inverse
from .importing import Imported, NodeImporter, in_dtype, reads
from .resampling import (
    CROP,
    AxisRequest,
    Filter,
    ResampledAxis,
    nearest,
    resize_by_factors,
    resize_to_sizes,
    resized_axes,
)
from .run_time import count_of, sizes_of
from .sizes import Sizes

_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}

_MOST_SOUGHT = 1 << 16
"""The most elements of an axis whose source elements are compared one by one."""


class _RequestedSizes(NamedTuple):
    """The request of an operator: the sizes of the result, and the factors that the sizes do not determine, by axis."""

    sizes: list[Dim]
    factors: dict[int, float]


@reads("Upsample")
def _upsample(node: NodeImporter) -> Imported:
    mode = node.attr("mode", "nearest")
    kind = Filter("linear" if mode in ("linear", "bilinear") else mode, "asymmetric", "floor")
    return _by_factors(node, list(range(node.rank())), 1, kind)


@reads("Resize")
def _resize(node: NodeImporter) -> Imported:
    old = node.opset < 11
    kind = Filter(
        node.attr("mode", "nearest"),
        node.attr("coordinate_transformation_mode", "asymmetric" if old else "half_pixel"),
        node.attr("nearest_mode", "floor" if old else "round_prefer_floor"),
        node.attr("cubic_coeff_a", -0.75),
        bool(node.attr("antialias", 0)),
        bool(node.attr("exclude_outside", 0)),
    )
    rank = node.rank()
    axes = [axis % rank for axis in node.attr("axes", range(rank))]
    if not node.has(3):
        return _by_factors(node, axes, 1 if old else 2, kind)
    found = _resized(node, _sized(node, axes), kind)
    return resize_to_sizes(node, axes, kind) if found is None else found


def _by_factors(node: NodeImporter, axes: Sequence[int], index: int, kind: Filter) -> Imported:
    """The result of resizing ``axes`` by the factors in operand ``index``."""
    factors = _factors(node, index)
    target = None if factors is None else _scaled(node, axes, factors)
    # The width of a filter with antialias depends on the factors.
    if target is not None and kind.coordinates == "align_corners" and not kind.antialias:
        target.factors.clear()
    found = _resized(node, target, kind)
    return resize_by_factors(node, index, axes, kind) if found is None else found


def _factors(node: NodeImporter, index: int) -> list[float] | None:
    """The factors in an attribute or in operand ``index``; None if they are computed at run time."""
    given = node.attr("scales")
    if node.attr("height_scale") is not None:  # opsets before 7
        given = (1.0, 1.0, node.attr("height_scale"), node.attr("width_scale"))
    scales = node.array(index) if given is None else given
    return None if scales is None else np.asarray(scales, np.float32).tolist()


def _scaled(node: NodeImporter, axes: Sequence[int], factors: Sequence[float]) -> _RequestedSizes | None:
    """The sizes that result from factors; None if one is known at run time only."""
    shape = list(node.shape())
    inexact: dict[int, float] = {}
    for axis, scale in zip(axes, factors, strict=True):
        size: Dim = shape[axis]
        if isinstance(size, int):
            target = int(np.floor(np.float32(size) * np.float32(scale)))
            # The operators on images use the ratio of sizes; if the factor differs, so do the results.
            if size and abs(target / size - scale) > 1e-6:
                inexact[axis] = scale
            shape[axis] = target
        elif float(scale).is_integer():
            shape[axis] = size * int(scale)
        else:
            return None
    return _RequestedSizes(shape, inexact)


def _sized(node: NodeImporter, axes: Sequence[int]) -> _RequestedSizes | None:
    """The sizes for ``axes`` in operand 3; None if they are computed at run time."""
    shape = list(node.shape())
    given = node.sizes(3)
    policy, mode = node.attr("keep_aspect_ratio_policy", "stretch"), node.attr("mode", "nearest")
    stay = 2 if len(axes) == len(shape) and len(shape) in (4, 5) else 0
    if given is None and policy == "stretch" and mode != "nearest" and _is_image(node, mode, len(axes) - stay):
        given = Sizes.row(_named_sizes(node, axes, stay))
    if given is None or (policy != "stretch" and not all(isinstance(node.shape()[axis], int) for axis in axes)):
        return None
    if policy == "stretch":
        for axis, size in zip(axes, given.values, strict=True):
            shape[axis] = size
        return _RequestedSizes(shape, {})
    own = node.known_shape()
    pairs = [(own[axis], size) for axis, size in zip(axes, given.values, strict=True) if isinstance(size, int)]
    ratios = [Fraction(target, size) for size, target in pairs]
    factor = min(ratios) if policy == "not_larger" else max(ratios)
    inexact: dict[int, float] = {}
    for axis in axes:
        target = int(np.floor(float(own[axis] * factor) + 0.5))
        if target != own[axis] * factor:
            inexact[axis] = float(factor)
        shape[axis] = target
    return _RequestedSizes(shape, inexact)


def _named_sizes(node: NodeImporter, axes: Sequence[int], stay: int) -> list[Dim]:
    """Names for sizes that are computed at run time. The first ``stay`` axes, batch and channels, keep their sizes."""
    shape, name = node.shape(), node.node.outputs[0].name or "size"
    dims: list[Dim] = [shape[axis] if place < stay else SymVar(f"{name}_{axis}") for place, axis in enumerate(axes)]
    return node.call_sizes(node.emit(in_dtype(node.operand(3), "int64")), dims)


def _is_known(node: NodeImporter, target: _RequestedSizes) -> bool:
    """True if all sizes, before and after, are numbers."""
    return all(isinstance(size, int) for size in (*node.shape(), *target.sizes))


def _is_plain(node: NodeImporter, target: _RequestedSizes, kind: Filter) -> bool:
    """True if the operators on images compute the same."""
    plain = not target.factors and not kind.antialias and kind.coordinates not in (CROP, "half_pixel_symmetric")
    changed = [axis for axis, size in enumerate(node.shape()) if size != target.sizes[axis]]
    return plain and not (kind.exclude and kind.mode == "linear") and _is_image(node, kind.mode, len(changed))


def _is_image(node: NodeImporter, mode: str, changed: int) -> bool:
    """True if an operator on images can resize so many axes."""
    return node.rank() <= 5 and changed <= (2 if mode == "cubic" else 3)


def _is_moved(node: NodeImporter, target: _RequestedSizes, changed: Sequence[int], kind: Filter) -> bool:
    """True if single precision gives another nearest element than the operators on images, which are exact."""
    if kind.mode != "nearest" or not _is_known(node, target):
        return False
    for size, goal in [(node.shape()[axis], target.sizes[axis]) for axis in changed]:
        if isinstance(size, int) and isinstance(goal, int) and size > 0 and goal <= _MOST_SOUGHT:
            axis = ResampledAxis(np, *[np.asarray([number], np.float32) for number in (size, goal, goal / size)])
            found = nearest(axis, axis.places(kind, goal), kind)
            if not np.array_equal(found, nearest_elements(size, goal, kind.coordinates, kind.rounding)):
                return True
    return False


def _resized(node: NodeImporter, target: _RequestedSizes | None, kind: Filter) -> Expr | None:
    """The result by an operator on images, or by gathering and weighting the elements of each axis.

    None if neither is possible because sizes are known at run time only.
    """
    if target is None or not (_is_known(node, target) or _is_plain(node, target, kind)):
        return None
    changed = [axis for axis, size in enumerate(node.shape()) if size != target.sizes[axis]]
    if not changed:
        # With a factor other than 1, or a part of an axis, ONNX would still interpolate; ONNX Runtime copies an operand
        # whose sizes do not change.
        return ops.reshape(node.operand(0), list(node.shape()))
    if not _is_plain(node, target, kind) or _is_moved(node, target, changed, kind):
        return _by_axis(node, target, kind)
    return _by_operator(node, changed, target.sizes, kind)


def _part(node: NodeImporter, kind: Filter) -> dict[int, tuple[float, float]]:
    """The part of each axis that is taken, in shares; empty if the whole axes are."""
    if kind.coordinates != CROP:
        return {}
    rank = node.rank()
    region = node.array(1) if node.has(1) else None
    if region is None:
        raise node.undecided("its region (input 1) is computed at run time")
    axes = [axis % rank for axis in node.attr("axes", range(rank))]
    starts, ends = region.tolist()[: len(axes)], region.tolist()[len(axes) :]
    return dict(zip(axes, zip(starts, ends, strict=True), strict=True))


def _by_axis(node: NodeImporter, target: _RequestedSizes, kind: Filter) -> Expr:
    parts = _part(node, kind)
    requests = [
        AxisRequest(axis, goal, target.factors.get(axis, goal / size), parts.get(axis, (0.0, 1.0)))
        for axis, (size, goal) in enumerate(zip(node.known_shape(), target.sizes, strict=True))
        if isinstance(goal, int) and (goal != size or axis in target.factors)
    ]
    return resized_axes(node, requests, kind, np)


# --- by the operators on images


def _by_operator(node: NodeImporter, changed: list[int], sizes: list[Any], kind: Filter) -> Expr:
    shape = node.shape()
    rank = len(shape)
    x = node.operand(0)
    # Move the axes that change to the end, in a group of two or three.
    width = 3 if len(changed) == 3 else 2
    kept = [axis for axis in reversed(range(rank)) if axis not in changed]
    axes = sorted(changed + kept[: max(width - len(changed), 0)])
    others = [axis for axis in range(rank) if axis not in axes]
    order = others + axes
    moved = x if order == list(range(rank)) else node.emit(ops.permute_dims(x, order))

    def filled(sizes: list[Any], count: int) -> list[Any]:
        return [1] * (count - len(sizes)) + sizes

    lead = [shape[axis] for axis in others]
    lead = filled([lead[0], dim_product(lead[1:])] if len(lead) > 2 else lead, 2)
    whole = [*lead, *filled([shape[axis] for axis in axes], width)]
    targets = filled([sizes[axis] for axis in axes], width)
    flat = moved if whole == [shape[axis] for axis in order] else node.emit(ops.reshape(moved, whole))
    function: Any = ops.image.resize3d if width == 3 else ops.image.resize2d
    extra = {"cubic_alpha": kind.alpha, "cubic_exclude": int(kind.exclude)} if kind.mode == "cubic" else {}
    found: Expr = node.emit(
        function(
            flat,
            targets,
            method=_METHODS[kind.mode],
            coordinate_transformation_mode=kind.coordinates,
            rounding_method=kind.rounding if kind.mode == "nearest" else "",
            **extra,
        )
    )
    final = [sizes[axis] for axis in order]
    if list(found.ty.shape) != final:  # type: ignore[attr-defined]
        found = node.emit(ops.reshape(found, final))
    back = inverse(order)
    return found if back == list(range(rank)) else ops.permute_dims(found, back)


@reads("GridSample")
def _grid_sample(node: NodeImporter) -> Imported:
    rank = node.rank()
    grid = ops.permute_dims(node.operand(1), [0, rank - 1, *range(1, rank - 1)])
    mode = {"bilinear": "bilinear", "linear": "bilinear", "bicubic": "bicubic", "cubic": "bicubic"}.get(
        node.attr("mode", "linear"), "nearest"
    )
    if rank not in (4, 5) or (rank == 5 and mode == "bicubic"):
        raise node.refuse(f"{mode} on {rank - 2} spatial axes is not supported")
    return ops.image.grid_sample(
        node.operand(0),
        node.emit(grid),
        mode,
        "NCHW" if rank == 4 else "NCDHW",
        node.attr("padding_mode", "zeros"),
        bool(node.attr("align_corners", 0)),
    )


@reads("AffineGrid")
def _affine_grid(node: NodeImporter) -> Imported:
    rank = count_of(node, 1)
    sizes = sizes_of(node, 1, rank)
    found = ops.image.affine_grid(node.operand(0), sizes[2:], bool(node.attr("align_corners", 0)))
    return ops.permute_dims(node.emit(found), [0, *range(2, rank), 1])
