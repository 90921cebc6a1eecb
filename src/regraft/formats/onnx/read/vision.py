"""Reading operators of object detection."""

from __future__ import annotations

import numpy as np

from .... import op as ops
from ....ir.expr import Expr, Tuple, const
from .importing import Imported, NodeImporter, in_dtype, reads


def _corners(node: NodeImporter) -> Expr:
    """Boxes (center x, center y, width, height) as two corners (y, x, y, x)."""
    boxes = node.operand(0)

    def column(place: int) -> Expr:
        return node.emit(ops.strided_slice(boxes, [2], [place], [place + 1]))

    x, y, width, height = (column(place) for place in range(4))
    sides = [y - height * 0.5, x - width * 0.5, y + height * 0.5, x + width * 0.5]
    return node.emit(ops.concat(Tuple(sides), axis=2))


@reads("NonMaxSuppression")
def _non_max_suppression(node: NodeImporter) -> Imported:
    boxes = _corners(node) if node.attr("center_point_box", 0) else node.operand(0)
    limit = node.operand(2) if node.has(2) else const(np.asarray([0], np.int64))
    overlap = node.operand(3) if node.has(3) else node.like(0.0)
    least = node.operand(4) if node.has(4) else node.like(-np.inf)
    found = node.emit(ops.vision.all_class_non_max_suppression(boxes, node.operand(1), limit, overlap, least))
    rows, count = node.emit(found[0]), node.emit(found[1])
    starts, steps = (const(np.full(2, number, np.int64)) for number in (0, 1))
    ends = node.emit(ops.concat(Tuple([count, const(np.asarray([3], np.int64))]), axis=0))
    return ops.dynamic_strided_slice(rows, starts, ends, steps)


@reads("RoiAlign")
def _roi_align(node: NodeImporter) -> Imported:
    data, rois = node.operand(0), node.operand(1)
    numbers = node.emit(ops.expand_dims(in_dtype(node.operand(2), node.dtype(1)), 1))
    mode = node.attr("mode", "avg")
    # Before opset 16, the samples of a region were always at the corners of pixels.
    coordinates = node.attr("coordinate_transformation_mode", "half_pixel" if node.opset >= 16 else "")
    return ops.vision.roi_align(
        data,
        node.emit(ops.concat(Tuple([numbers, rois]), axis=1)),
        (node.attr("output_height", 1), node.attr("output_width", 1)),
        node.attr("spatial_scale", 1.0),
        node.attr("sampling_ratio", 0) or -1,
        coordinates == "half_pixel",
        mode="max_corner" if mode == "max" else mode,
    )


@reads("MaxRoiPool")
def _max_roi_pool(node: NodeImporter) -> Imported:
    scale = node.attr("spatial_scale", 1.0)
    return ops.vision.roi_pool(node.operand(0), node.operand(1), node.attr("pooled_shape"), scale)
