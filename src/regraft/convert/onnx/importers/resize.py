"""Reading operators on images."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import ops
from ....ir.dims import Dim
from ....ir.expr import Expr
from ..importing import Imported, NodeImporter, reads

_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}


@reads("Upsample")
def _upsample(node: NodeImporter) -> Imported:
    scales = node.attr("scales") or np.asarray(node.array(1)).tolist()
    sizes = [int(size * scale) for size, scale in zip(node.known_shape(), scales, strict=True)]
    return _resized(node, sizes, _METHODS[node.attr("mode", "nearest")], "asymmetric", "floor", {})


@reads("Resize")
def _resize(node: NodeImporter) -> Imported:
    mode = node.attr("mode", "nearest")
    coordinates = node.attr("coordinate_transformation_mode", "half_pixel")
    if node.attr("antialias", 0):
        raise node.refuse("antialias is not supported")
    if coordinates == "half_pixel_symmetric":
        raise node.refuse("half_pixel_symmetric is not supported")
    extra: dict[str, Any] = {}
    if mode == "cubic":
        extra = {"cubic_alpha": node.attr("cubic_coeff_a", -0.75), "cubic_exclude": node.attr("exclude_outside", 0)}
    elif node.attr("exclude_outside", 0) and mode == "linear":
        raise node.refuse("exclude_outside is supported for cubic only")
    if coordinates == "tf_crop_and_resize":
        raise node.refuse("tf_crop_and_resize is not supported")
    sizes = _target(node)
    nearest = node.attr("nearest_mode", "round_prefer_floor")
    return _resized(node, sizes, _METHODS[mode], coordinates, nearest if mode == "nearest" else "", extra)


def _target(node: NodeImporter) -> list[Dim]:
    """The sizes of the result. Raises `UnsupportedNodeError` for factors that the sizes would not give back."""
    shape = list(node.shape())
    rank = len(shape)
    axes = [axis % rank for axis in node.attr("axes", range(rank))]
    given = node.sizes(3) if node.has(3) else None
    if given is not None:
        return _kept_ratio(node, shape, axes, list(given.values))
    if node.has(3):
        raise node.refuse("its sizes are computed at run time")
    scales = node.array(2)
    if scales is None:
        raise node.refuse("its scales are computed at run time")
    for axis, scale in zip(axes, np.asarray(scales, np.float32).tolist(), strict=True):
        size: Dim = shape[int(axis)]
        whole = int(scale) if float(scale).is_integer() else None
        if isinstance(size, int):
            target = int(np.floor(np.float32(size) * np.float32(scale)))
            # The operator here computes with the ratio of sizes; where the factor is another, results differ.
            if abs(target / size - scale) > 1e-6:
                raise node.refuse(f"a factor of {scale} on an axis of size {size} is not the ratio of two sizes")
            shape[axis] = target
        elif whole is not None:
            shape[axis] = size * whole
        elif scale != 1.0:
            raise node.refuse(f"a factor of {scale} on an axis of a size that is known at run time only")
    return shape


def _kept_ratio(node: NodeImporter, shape: list[Dim], axes: list[int], sizes: list[Dim]) -> list[Dim]:
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        for axis, size in zip(axes, sizes, strict=True):
            shape[axis] = size
        return shape
    own = node.known_shape()
    pairs = [(own[axis], size) for axis, size in zip(axes, sizes, strict=True) if isinstance(size, int)]
    factors = [target / size for size, target in pairs]
    factor = min(factors) if policy == "not_larger" else max(factors)
    for axis in axes:
        target = int(np.floor(own[axis] * factor + 0.5))
        if abs(target / own[axis] - factor) > 1e-6:
            raise node.refuse(f"a factor of {factor:.4g} on an axis of size {own[axis]} is not the ratio of two sizes")
        shape[axis] = target
    return shape


def _resized(
    node: NodeImporter, sizes: list[Any], method: str, coordinates: str, rounding: str, extra: dict[str, Any]
) -> Expr:
    shape = node.shape()
    rank = len(shape)
    changed = [axis for axis in range(rank) if shape[axis] != sizes[axis]]
    x = node.operand(0)
    if not changed:
        return ops.reshape(x, list(shape))
    # Bring the axes that change to the end, with two or three of them together.
    width = 3 if len(changed) == 3 else 2
    if len(changed) > 3 or rank > 5:
        raise node.refuse(f"{len(changed)} of {rank} axes change; at most 3 are supported")
    axes = changed + [axis for axis in reversed(range(rank)) if axis not in changed][: max(width - len(changed), 0)]
    axes = sorted(axes)
    others = [axis for axis in range(rank) if axis not in axes]
    order = others + axes
    moved = x if order == list(range(rank)) else node.emit(ops.permute_dims(x, order))
    added = 2 + width - (len(others) + len(axes)) if len(axes) == width else 0
    lead = [shape[axis] for axis in others]
    spatial = [shape[axis] for axis in axes]
    while len(spatial) < width:
        spatial.insert(0, 1)
    targets = [sizes[axis] for axis in axes]
    while len(targets) < width:
        targets.insert(0, 1)
    if added > 0:
        lead = [1] * added + lead
    elif len(lead) > 2:
        total: Dim = 1
        for size in lead[1:]:
            total = total * size
        lead = [lead[0], total]
    while len(lead) < 2:
        lead.insert(0, 1)
    flat = (
        moved
        if [*lead, *spatial] == [shape[axis] for axis in order]
        else node.emit(ops.reshape(moved, [*lead, *spatial]))
    )
    function: Any = ops.image.resize3d if width == 3 else ops.image.resize2d
    layout = "NCDHW" if width == 3 else "NCHW"
    found: Expr = node.emit(
        function(
            flat,
            targets,
            layout=layout,
            method=method,
            coordinate_transformation_mode=coordinates,
            rounding_method=rounding,
            **extra,
        )
    )
    final = [sizes[axis] for axis in order]
    if list(found.ty.shape) != final:  # type: ignore[attr-defined]
        found = node.emit(ops.reshape(found, final))
    back = [order.index(axis) for axis in range(rank)]
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
    sizes = node.integers(1, "its size") or []
    found = ops.image.affine_grid(node.operand(0), sizes[2:], bool(node.attr("align_corners", 0)))
    rank = len(sizes)
    return ops.permute_dims(node.emit(found), [0, *range(2, rank), 1])
