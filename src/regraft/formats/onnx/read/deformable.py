"""Reading the deformable convolution: its elements sampled at the places that it computes, then a product.

Follows Dai et al. 2017, and with a mask Zhu et al. 2019. Sampling is `image.grid_sample`, so that the operator runs and
has gradients wherever that does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import op as ops
from ....ir.dims import Dim
from ....ir.expr import Expr, const
from .convolution import with_bias
from .importing import Imported, NodeImporter, reads


def _known(node: NodeImporter, size: Dim, what: str) -> int:
    if not isinstance(size, int):
        raise node.undecided(f"{what} is {size}, known at run time only")
    return size


def _base_places(kernel: tuple[int, int], counts: tuple[int, int], attrs: dict[str, Any]) -> np.ndarray:
    """y and x of each element of each window where nothing is moved: (2, elements of a window, *counts)."""
    axes = [
        np.arange(width)[:, None] * dilation + np.arange(count)[None, :] * stride - pad
        for width, count, stride, dilation, pad in zip(
            kernel, counts, attrs["strides"], attrs["dilations"], attrs["pads"][:2], strict=True
        )
    ]
    shape = (kernel[0], kernel[1], *counts)
    down = np.broadcast_to(axes[0][:, None, :, None], shape)
    across = np.broadcast_to(axes[1][None, :, None, :], shape)
    return np.stack([down, across]).reshape(2, kernel[0] * kernel[1], *counts)


def _sampled(node: NodeImporter, kernel: tuple[int, int], attrs: dict[str, Any]) -> Expr:
    """The elements of all windows: (batch * offset groups, channels of one, elements of a window * rows, columns)."""
    batch, channels, *sizes = node.shape(0)
    groups = node.attr("offset_group", 1)
    height, width = (_known(node, size, "a size of its image") for size in sizes)
    rows, columns = (_known(node, size, "a size of its result") for size in node.shape(2)[2:])
    count = kernel[0] * kernel[1]
    offsets = node.emit(ops.reshape(node.operand(2), [batch * groups, count, 2, rows, columns]))
    offsets = node.emit(ops.permute_dims(offsets, [0, 2, 1, 3, 4]))
    base = _base_places(kernel, (rows, columns), attrs)
    places = node.emit(ops.add(offsets, const(base.astype(np.float64), node.dtype(2))))
    # As `grid_sample` has it, x comes first, and the outer edges of the image are at -1 and 1.
    coordinates: list[Expr] = []
    for axis, size in ((1, width), (0, height)):
        place = ops.strided_slice(places, [1], [axis], [axis + 1])
        coordinates.append(node.emit((place * 2 + 1) / size - 1))
    grid = node.emit(ops.concat(coordinates, axis=1))
    grid = node.emit(ops.reshape(grid, [batch * groups, 2, count * rows, columns]))
    image = node.emit(ops.reshape(node.operand(0), [batch * groups, channels // groups, height, width]))
    return node.emit(ops.image.grid_sample(image, grid))


@reads("DeformConv")
def _deform_conv(node: NodeImporter) -> Imported:
    if node.rank() != 4:
        raise node.refuse(f"{node.rank() - 2} spatial axes are not supported, only 2")
    batch, channels = node.shape(0)[:2]
    filters, per_group, *widths = node.known_shape(1)
    kernel = (widths[0], widths[1])
    attrs = {
        "strides": node.attr("strides") or (1, 1),
        "dilations": node.attr("dilations") or (1, 1),
        "pads": node.attr("pads") or (0, 0, 0, 0),
    }
    groups, offset_groups = node.attr("group", 1), node.attr("offset_group", 1)
    count = kernel[0] * kernel[1]
    rows, columns = node.shape(2)[2:]
    samples = _sampled(node, kernel, attrs)
    if node.has(4):
        apart = [batch, offset_groups, channels // offset_groups, count, rows, columns]
        mask = node.emit(ops.reshape(node.operand(4), [batch, offset_groups, 1, count, rows, columns]))
        samples = node.emit(ops.multiply(node.emit(ops.reshape(samples, apart)), mask))
    patches = node.emit(ops.reshape(samples, [batch, groups, per_group * count, rows * columns]))
    weight = node.emit(ops.reshape(node.operand(1), [groups, filters // groups, per_group * count]))
    found = node.emit(ops.matmul(weight, patches))
    return with_bias(node, ops.reshape(found, [batch, filters, rows, columns]), node.optional(3))
