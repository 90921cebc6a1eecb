"""Reading convolutions and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from .... import op as ops
from ....analysis.tensors import dtype_of
from ....ir.dims import Dim, dim_max
from ....ir.expr import Expr, const
from ....op.primitive.reduction import extreme_of_none
from ....op.primitive.windows import same_padding, window_count
from ...padding import between
from ...places import Line, greatest_in_windows
from .importing import Imported, NodeImporter, in_dtype, reads

_CONV = {1: ops.nn.conv1d, 2: ops.nn.conv2d, 3: ops.nn.conv3d}
_CONV_TRANSPOSE = {1: ops.nn.conv1d_transpose, 2: ops.nn.conv2d_transpose, 3: ops.nn.conv3d_transpose}
_MAX_POOL = {1: ops.nn.max_pool1d, 2: ops.nn.max_pool2d, 3: ops.nn.max_pool3d}
_AVG_POOL = {1: ops.nn.avg_pool1d, 2: ops.nn.avg_pool2d, 3: ops.nn.avg_pool3d}


def _rank(node: NodeImporter) -> int:
    """The number of spatial axes."""
    rank = node.rank() - 2
    if rank not in _CONV:
        raise node.refuse(f"{rank} spatial axes are not supported, only 1, 2 and 3")
    return rank


def _steps(node: NodeImporter, rank: int) -> tuple[Any, Any]:
    return node.attr("strides") or (1,) * rank, node.attr("dilations") or (1,) * rank


class _WindowAxis(NamedTuple):
    """One axis of a pooling: its size, the window along it, and the padding before and after it."""

    size: Any
    kernel: int
    stride: int
    dilation: int
    pads: tuple[int, int]

    @property
    def extent(self) -> int:
        """The number of elements from the first to the last of a window."""
        return (self.kernel - 1) * self.dilation + 1

    def windows(self, *, ceil_mode: bool) -> Dim:
        """The number of windows."""
        return window_count(self.size, self.extent, self.stride, self.pads, ceil_mode)

    def without_overhang(self) -> _WindowAxis:
        """The axis with its only window, begun by ``ceil_mode``, cut off at the end; any other axis as it is."""
        if not isinstance(self.size, int):
            return self
        last = self.size + sum(self.pads) - 1
        fitting = self._replace(kernel=last // self.dilation + 1)
        hangs_over = 0 < self.extent - 1 - last < self.stride
        return fitting if hangs_over and fitting.windows(ceil_mode=True) == 1 else self


class _Windows:
    """The windows of a convolution or a pooling, with ``auto_pad`` computed. The padding may depend on symbolic sizes.

    A pooling is padded for a window without gaps, whatever its dilations, as in ONNX Runtime.
    """

    def __init__(self, node: NodeImporter, kernel: Any, *, is_pooling: bool) -> None:
        self._node: Final = node
        self.kernel: Final = kernel
        self.rank: Final = _rank(node)
        self.strides, self.dilations = _steps(node, self.rank)
        self.ceil_mode: Final = bool(node.attr("ceil_mode", 0))
        mode = node.attr("auto_pad", "NOTSET")
        if mode in ("NOTSET", "VALID"):
            pads = (node.attr("pads") if mode == "NOTSET" else None) or (0,) * (2 * self.rank)
            self._pads: list[tuple[Dim, Dim]] = list(zip(pads[: self.rank], pads[self.rank :], strict=True))
        else:
            gaps = (1,) * self.rank if is_pooling else self.dilations
            axes = zip(node.shape()[2:], kernel, self.strides, gaps, strict=True)
            self._pads = [same_padding(*axis, lower=mode == "SAME_LOWER") for axis in axes]

    @property
    def padding(self) -> tuple[int, ...]:
        """The padding before each axis, then after each. Raises `UnsupportedNodeError` if it depends on the run."""
        widths = [width for end in zip(*self._pads, strict=True) for width in end]
        known = [width for width in widths if isinstance(width, int)]
        if len(known) != len(widths):
            mode = self._node.attr("auto_pad")
            raise self._node.undecided(f"auto_pad={mode} depends on sizes that are known at run time only")
        return tuple(known)

    def padded(self, x: Expr, fill: Expr) -> tuple[Expr, tuple[int, ...]]:
        """``x`` and the padding left to the operator. Padding known at run time only is added here, as ``fill``."""
        if all(isinstance(width, int) for pair in self._pads for width in pair):
            return x, self.padding
        for axis, pair in enumerate(self._pads, start=2):
            x = between(x, axis, pair, fill, self._node.emit)
        return x, (0,) * (2 * self.rank)

    def axes(self) -> list[_WindowAxis]:
        """The axes of a pooling. Raises if an axis has no window: the types of operators do not allow such a result."""
        pads = zip(self.padding[: self.rank], self.padding[self.rank :], strict=True)
        rows = zip(self._node.shape()[2:], self.kernel, self.strides, self.dilations, pads, strict=True)
        axes = [_WindowAxis(*row) for row in rows]
        for axis in axes:
            if axis.windows(ceil_mode=self.ceil_mode) == 0:
                what = f"no window of {axis.extent} elements begins on an axis of {axis.size} with padding {axis.pads}"
                raise self._node.refuse(what)
        return [axis.without_overhang() for axis in axes] if self.ceil_mode else axes


def convolved(node: NodeImporter, data: Expr, weight: Expr, index: int = 1) -> Expr:
    """The convolution of ``data`` by the node's attributes; ``weight`` has the shape of operand ``index``."""
    windows = _Windows(node, node.attr("kernel_shape") or node.shape(index)[2:], is_pooling=False)
    data, padding = windows.padded(data, const(0, dtype_of(data)))
    groups = node.attr("group", 1)
    return _CONV[windows.rank](data, weight, windows.strides, padding, windows.dilations, groups=groups)


def with_bias(node: NodeImporter, x: Expr, bias: Expr | None) -> Expr:
    """``x`` plus one number for each channel (axis 1)."""
    if bias is None:
        return x
    return node.emit(x) + node.emit(ops.reshape(bias, [1, -1, *[1] * (node.rank() - 2)]))


@reads("Conv")
def _conv(node: NodeImporter) -> Imported:
    node.give_rank(node.ty(1).ndim)
    return with_bias(node, convolved(node, node.operand(0), node.operand(1)), node.optional(2))


@reads("ConvTranspose")
def _conv_transpose(node: NodeImporter) -> Imported:
    node.give_rank(node.ty(1).ndim)
    rank = _rank(node)
    strides, dilations = _steps(node, rank)
    extra = node.attr("output_padding") or (0,) * rank
    padding, extra = _transposed_padding(node, strides, dilations, tuple(extra))
    groups = node.attr("group", 1)
    # Output padding of a stride or more is plain padding, which the operator cannot express.
    beyond = [max(more - stride + 1, 0) for more, stride in zip(extra, strides, strict=True)]
    extra = tuple(more - over for more, over in zip(extra, beyond, strict=True))
    cut = [max(-pad, 0) for pad in padding]
    padding = tuple(max(pad, 0) for pad in padding)
    x: Expr = _CONV_TRANSPOSE[rank](node.operand(0), node.operand(1), strides, padding, extra, dilations, groups=groups)
    if any(cut) or any(beyond):
        widths = [0] * 4
        for axis in range(rank):
            widths += [cut[axis], cut[axis + rank] + beyond[axis]]
        x = ops.nn.pad(node.emit(x), widths)
    return with_bias(node, x, node.optional(2))


def _transposed_padding(
    node: NodeImporter, strides: Any, dilations: Any, extra: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding and output padding; computed from the sizes of the result if those are given."""
    rank = len(strides)
    target, mode = node.attr("output_shape"), node.attr("auto_pad", "NOTSET")
    if target is None and mode in ("NOTSET", "VALID"):
        return tuple(node.attr("pads") or (0,) * (2 * rank)), extra
    sizes, kernel = node.shape()[2:], node.attr("kernel_shape") or node.known_shape(1)[2:]
    before: list[int] = []
    after: list[int] = []
    more: list[int] = []
    for axis in range(rank):
        goal = sizes[axis] * strides[axis] if target is None else target[-rank:][axis]
        full = (sizes[axis] - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1 + extra[axis]
        total = full - goal
        if not isinstance(total, int):
            raise node.undecided("how much is cut off depends on sizes that are known at run time only")
        # If the stride exceeds the kernel, the result of SAME is smaller than the goal, as in ONNX Runtime.
        short = 0 if target is None else max(-total, 0)
        total = max(total, 0)
        small, large = total // 2, total - total // 2
        first, last = (small, large) if mode == "SAME_UPPER" else (large, small)
        before.append(first)
        after.append(last)
        more.append(extra[axis] + short)
    return (*before, *after), tuple(more)


# --- pooling


def _pooling(node: NodeImporter) -> _Windows:
    return _Windows(node, node.attr("kernel_shape"), is_pooling=True)


def _kernel(axes: Sequence[_WindowAxis]) -> tuple[int, ...]:
    return tuple([axis.kernel for axis in axes])


@reads("MaxPool")
def _max_pool(node: NodeImporter) -> tuple[Imported | None, ...]:
    windows = _pooling(node)
    if len(node.node.outputs) > 1 and node.node.outputs[1].name:
        return _max_pool_places(node, windows)
    pool, given, kernel = _MAX_POOL[windows.rank], node.operand(0), windows.kernel
    is_halved = {*kernel, *windows.strides} == {2} and {*windows.dilations} == {1}
    if node.attr("auto_pad", "NOTSET") == "SAME_UPPER" and is_halved:
        # SAME_UPPER adds one element after an odd number of elements, which is the same as rounding counts up.
        return (pool(given, kernel, windows.strides, ceil_mode=True),)
    x, padding = windows.padded(given, node.like(extreme_of_none(node.dtype(), greatest=True)))
    if x is given:
        kernel = _kernel(windows.axes())
    return (pool(x, kernel, windows.strides, padding, windows.dilations, ceil_mode=windows.ceil_mode),)


def _max_pool_places(node: NodeImporter, windows: _Windows) -> tuple[Imported, Imported]:
    """The maximum of each window and its index, for known sizes."""
    sizes = node.known_shape()
    lines: list[Line] = []
    for axis in windows.axes():
        count = axis.windows(ceil_mode=windows.ceil_mode)
        assert isinstance(count, int)
        lines.append(Line.of(axis.size, count, axis.kernel, axis.stride, axis.pads[0], axis.dilation))
    shape = [*sizes[:2], *[len(line.places) for line in lines]]
    values, found = greatest_in_windows(node.operand(0), lines, node.emit)
    found = ops.reshape(found, shape)
    if node.attr("storage_order", 0):
        found = _column_major(found, sizes[2:])
    offsets = np.arange(sizes[0] * sizes[1]).reshape(*sizes[:2], *[1] * windows.rank) * int(np.prod(sizes[2:]))
    return ops.reshape(values, shape), found + const(offsets)


def _column_major(places: Expr, sizes: tuple[int, ...]) -> Expr:
    table = np.arange(int(np.prod(sizes))).reshape(sizes[::-1]).T.reshape(-1)
    return ops.take(const(table), places, axis=0)


@reads("AveragePool")
def _average_pool(node: NodeImporter) -> Imported:
    windows = _pooling(node)
    return _AVG_POOL[windows.rank](
        node.operand(0),
        _kernel(windows.axes()),
        windows.strides,
        windows.padding,
        windows.dilations,
        ceil_mode=windows.ceil_mode,
        count_include_pad=bool(node.attr("count_include_pad", 0)),
    )


@reads("LpPool")
def _lp_pool(node: NodeImporter) -> Imported:
    windows = _pooling(node)
    axes, power = windows.axes(), float(node.attr("p", 2))
    kernel, strides, padding, dilations = _kernel(axes), windows.strides, windows.padding, windows.dilations
    x = node.emit(ops.abs(node.operand(0)) ** power)
    if windows.ceil_mode:
        x = _filled_up(node, x, axes)
    mean = _AVG_POOL[windows.rank](x, kernel, strides, padding, dilations, count_include_pad=True)
    return (mean * float(math.prod(kernel))) ** _root_of(power)


def _root_of(power: float) -> float:
    """The exponent that inverts ``power``; infinite for a power of 0, as in ONNX Runtime."""
    return math.inf if power == 0 else 1 / power


def _filled_up(node: NodeImporter, x: Expr, axes: Sequence[_WindowAxis]) -> Expr:
    """``x`` with zeros after each axis, up to the end of the last window that ``ceil_mode`` begins."""
    for place, axis in enumerate(axes, start=2):
        reach = (axis.windows(ceil_mode=True) - 1) * axis.stride + axis.extent
        x = between(x, place, (0, dim_max(reach - axis.size - sum(axis.pads), 0)), node.like(0), node.emit)
    return x


@reads("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(node: NodeImporter) -> Imported:
    axes = list(range(2, node.rank()))
    x = node.operand(0)
    if node.op_type == "GlobalLpPool":
        power = float(node.attr("p", 2))
        return ops.sum(ops.abs(x) ** power, axes, True) ** _root_of(power)
    return (ops.mean if node.op_type == "GlobalAveragePool" else ops.max)(x, axes, True)


@reads("MaxUnpool")
def _max_unpool(node: NodeImporter) -> Imported:
    sizes = node.known_shape()
    rank = len(sizes) - 2
    kernel, strides = node.attr("kernel_shape"), node.attr("strides") or (1,) * rank
    pads = node.attr("pads") or (0,) * (2 * rank)
    natural = [(sizes[2 + i] - 1) * strides[i] + kernel[i] - pads[i] - pads[i + rank] for i in range(rank)]
    inner = [*sizes[:2], *natural]
    # Indices count in the given shape, as in ONNX Runtime; ONNX itself pads the result of the default shape.
    given = node.integers(2, "its shape") or inner
    flat = ops.zeros([int(np.prod(given))], node.dtype())
    places = ops.reshape(node.operand(1), [-1])
    filled = ops.scatter_elements(flat, places, ops.reshape(node.operand(0), [-1]), 0)
    return ops.reshape(filled, given)


@reads("ConvInteger")
def _conv_integer(node: NodeImporter) -> Imported:
    return convolved(node, shifted(node, 0, 2), shifted(node, 1, 3))


def shifted(node: NodeImporter, index: int, zero: int) -> Expr:
    """Operand ``index`` minus its zero point, as int32."""
    x = in_dtype(node.operand(index), "int32")
    if not node.has(zero):
        return node.emit(x)
    point = in_dtype(node.operand(zero), "int32")
    if node.rank(zero) == 1 and node.rank(index) > 1 and node.shape(zero)[0] != 1:
        axis = 0 if index else node.rank(index) - 2
        point = ops.reshape(point, [-1, *[1] * (node.rank(index) - axis - 1)])
    return node.emit(x - point)


@reads("Col2Im")
def _col2im(node: NodeImporter) -> Imported:
    kernel = node.integers(2, "the sizes of its block") or []
    rank = len(kernel)
    return ops.nn.col2im(
        node.operand(0),
        node.shape_operand(1),
        kernel,
        node.attr("strides") or (1,) * rank,
        node.attr("pads") or (0,) * (2 * rank),
        node.attr("dilations") or (1,) * rank,
    )


# --- deformable convolution (Dai et al. 2017, with a mask Zhu et al. 2019): `image.grid_sample` reads the elements at
# the computed positions, so that it runs and has gradients on every engine that has this operator; then comes a product


def _known(node: NodeImporter, size: Dim, what: str) -> int:
    if not isinstance(size, int):
        raise node.undecided(f"{what} is {size}, known at run time only")
    return size


def _base_places(windows: _Windows, counts: tuple[int, int]) -> np.ndarray:
    """The y and x of each element of each window without offsets: (2, elements of a window, *counts)."""
    rows = zip(counts, windows.kernel, windows.strides, windows.padding[:2], windows.dilations, strict=True)
    down, across = [Line.of(0, *row).places.T for row in rows]
    shape = (*windows.kernel, *counts)
    down = np.broadcast_to(down[:, None, :, None], shape)
    across = np.broadcast_to(across[None, :, None, :], shape)
    return np.stack([down, across]).reshape(2, -1, *counts)


def _sampled(node: NodeImporter, windows: _Windows) -> Expr:
    """The elements of all windows: (batch * offset groups, channels of a group, window elements * rows, columns)."""
    batch, channels, *sizes = node.shape(0)
    groups = node.attr("offset_group", 1)
    height, width = (_known(node, size, "a size of its image") for size in sizes)
    rows, columns = (_known(node, size, "a size of its result") for size in node.shape(2)[2:])
    count = math.prod(windows.kernel)
    offsets = ops.reshape(node.operand(2), [batch * groups, count, 2, rows, columns])
    base = const(_base_places(windows, (rows, columns)).astype(np.float64), node.dtype(2))
    places = node.emit(ops.permute_dims(offsets, [0, 2, 1, 3, 4]) + base)
    # `grid_sample` takes x first, and has the outer edges of the image at -1 and 1.
    coordinates: list[Expr] = []
    for axis, size in ((1, width), (0, height)):
        place = ops.strided_slice(places, [1], [axis], [axis + 1])
        coordinates.append(node.emit((place * 2 + 1) / size - 1))
    grid = node.emit(ops.reshape(ops.concat(coordinates, axis=1), [batch * groups, 2, count * rows, columns]))
    image = node.emit(ops.reshape(node.operand(0), [batch * groups, channels // groups, height, width]))
    return node.emit(ops.image.grid_sample(image, grid))


@reads("DeformConv")
def _deform_conv(node: NodeImporter) -> Imported:
    if node.rank() != 4:
        raise node.refuse(f"{node.rank() - 2} spatial axes are not supported, only 2")
    batch, channels = node.shape(0)[:2]
    filters, per_group, *kernel = node.known_shape(1)
    groups, offset_groups, count = node.attr("group", 1), node.attr("offset_group", 1), math.prod(kernel)
    rows, columns = node.shape(2)[2:]
    samples = _sampled(node, _Windows(node, tuple(kernel), is_pooling=False))
    if node.has(4):
        apart = [batch, offset_groups, channels // offset_groups, count, rows, columns]
        mask = node.emit(ops.reshape(node.operand(4), [batch, offset_groups, 1, count, rows, columns]))
        samples = node.emit(ops.reshape(samples, apart) * mask)
    patches = node.emit(ops.reshape(samples, [batch, groups, per_group * count, rows * columns]))
    weight = node.emit(ops.reshape(node.operand(1), [groups, filters // groups, per_group * count]))
    found = node.emit(ops.matmul(weight, patches))
    return with_bias(node, ops.reshape(found, [batch, filters, rows, columns]), node.optional(3))
