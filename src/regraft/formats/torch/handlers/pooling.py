"""Handlers of ATen's pooling, with the indices of maxima if a model uses them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from .... import op as R
from ....ir.dims import Dim, dims_equal
from ....ir.dtypes import is_float
from ....ir.expr import Expr, const
from ....op.composite.pooling import divides, means_of_spread_windows, of_spread_windows
from ....op.program_xp import ProgramArray, ProgramNamespace
from ...places import Line, greatest_in_windows
from ..context import Context, batched, cast, converts, converts_by_name, dtype_of, each_axis, rank, shape_of
from .scattering import put_at_places

_MAX: Final[list[Callable[..., Expr]]] = [R.nn.max_pool1d, R.nn.max_pool2d, R.nn.max_pool3d]
_AVERAGE: Final[list[Callable[..., Expr]]] = [R.nn.avg_pool1d, R.nn.avg_pool2d, R.nn.avg_pool3d]
_ADAPTIVE: Final[list[Callable[..., Expr]]] = [
    R.nn.adaptive_avg_pool1d,
    R.nn.adaptive_avg_pool2d,
    R.nn.adaptive_avg_pool3d,
]


def _spatial_axes(context: Context) -> int:
    """The number of axes along which a layer works: the digit in its name."""
    return next(int(letter) for letter in context.operator() if letter.isdigit())


def _strides(stride: Any, kernel: Sequence[int]) -> Sequence[int]:
    """The strides of a window, one for each axis. PyTorch's default is the size of the window."""
    return kernel if stride in (None, []) else each_axis(stride, len(kernel))


def _pooled(context: Context, functions: Sequence[Callable[..., Expr]], given: Any, **attributes: Any) -> Expr:
    count = _spatial_axes(context)
    kernel, widths = each_axis(given.kernel_size, count), each_axis(given.padding, count)
    steps = _strides(given.stride, kernel)
    if given.ceil_mode and all(step == 1 for step in attributes.get("dilation", ())):
        # A window that reaches past both ends holds the whole axis.
        sizes = shape_of(given.self)[-count:]
        kernel = [
            min(k, size + 2 * width) if isinstance(size, int) else k
            for k, size, width in zip(kernel, sizes, widths, strict=True)
        ]
    window = {"pool_size": kernel, "strides": steps, "padding": [*widths, *widths], "ceil_mode": given.ceil_mode}
    return batched(count + 2, partial(functions[count - 1], **window, **attributes), given.self)


@converts_by_name("max_pool1d", "max_pool2d", "max_pool3d")
def _max_pool(context: Context, given: Any) -> Expr:
    return _pooled(context, _MAX, given, dilation=each_axis(given.dilation, _spatial_axes(context)))


@converts_by_name("max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool1d_with_indices")
def _max_pool_with_indices(context: Context, given: Any) -> tuple[Expr, Expr | None]:
    pooled = _max_pool(context, given)
    if not context.uses(1):
        return pooled, None
    x, count = given.self, _spatial_axes(context)
    kernel, widths, dilations = [each_axis(v, count) for v in (given.kernel_size, given.padding, given.dilation)]
    steps = _strides(given.stride, kernel)
    sizes, counts = _known(context, shape_of(x), count), _known(context, context.output_shape(), count)
    lines = list(map(Line.of, sizes, counts, kernel, steps, widths, dilations))
    return pooled, _greatest(context, x, lines)[1]


@converts_by_name("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(context: Context, given: Any) -> Expr:
    divisor = getattr(given, "divisor_override", None)
    if divisor is None:
        return _pooled(context, _AVERAGE, given, count_include_pad=given.count_include_pad)
    if given.ceil_mode:
        context.unsupported("divisor_override with ceil_mode; divide the sum of the windows yourself")
    count = math.prod(each_axis(given.kernel_size, _spatial_axes(context)))
    dtype = dtype_of(given.self)
    if is_float(dtype):
        return _pooled(context, _AVERAGE, given, count_include_pad=True) * (count / divisor)
    exact = SimpleNamespace(**{**vars(given), "self": cast(given.self, "float64")})
    total = R.round(_pooled(context, _AVERAGE, exact, count_include_pad=True) * float(count))
    return R.divide(cast(total, dtype), const(divisor, dtype))


@converts(
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d",
)
def _adaptive_avg_pool(context: Context, x: Expr, output_size: Sequence[Dim]) -> Expr:
    count = _spatial_axes(context)
    sizes = list(context.output_shape()[-count:])
    if all(isinstance(size, int) for size in sizes):
        return batched(count + 2, partial(_ADAPTIVE[count - 1], output_size=sizes), x)
    _require_known_windows(context, shape_of(x)[-count:], sizes)
    builder = context.builder
    return means_of_spread_windows(ProgramNamespace(builder), ProgramArray(builder, x), sizes).expr


def _require_known_windows(context: Context, before: Sequence[Dim], after: Sequence[Dim]) -> None:
    for size, target in zip(before, after, strict=True):
        if not isinstance(target, int) and not divides(target, size):
            context.unsupported(f"an axis of size {size} is pooled to the symbolic size {target}")


@converts("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max_pool(context: Context, x: Expr, output_size: Sequence[Dim]) -> tuple[Expr, Expr | None]:
    count = _spatial_axes(context)
    before, after = shape_of(x)[-count:], context.output_shape()[-count:]
    if not context.uses(1) and not all(isinstance(size, int) for size in (*before, *after)):
        _require_known_windows(context, before, after)
        xp, array = ProgramNamespace(context.builder), ProgramArray(context.builder, x)
        for axis, (size, target) in enumerate(zip(before, after, strict=True), rank(x) - count):
            if dims_equal(size, target) is not True:
                array = of_spread_windows(xp, array, axis, target, xp.max)
        return array.expr, None
    pairs = list(zip(_known(context, shape_of(x), count), _known(context, context.output_shape(), count), strict=True))
    kernel = [have // want for have, want in pairs]
    if not any(have % want for have, want in pairs) and not context.uses(1):
        return batched(count + 2, partial(_MAX[count - 1], pool_size=kernel, strides=kernel), x), None
    return _greatest(context, x, [Line(have, _adaptive_windows(have, want)) for have, want in pairs])


def _known(context: Context, shape: Sequence[Dim], count: int) -> list[int]:
    """The last ``count`` sizes of a shape, as numbers."""
    sizes: list[int] = []
    for size in shape[-count:]:
        if not isinstance(size, int):
            context.unsupported(f"the windows of an axis of symbolic size {size}")
        sizes.append(size)
    return sizes


def _adaptive_windows(have: int, want: int) -> np.ndarray:
    """The indices of the elements of each window, padded with -1 to the longest window."""
    starts, stops = np.arange(want) * have // want, -(-np.arange(1, want + 1) * have // want)
    places = starts[:, None] + np.arange(int((stops - starts).max()))[None, :]
    return np.where(places < stops[:, None], places, -1)


def _greatest(context: Context, x: Expr, lines: Sequence[Line]) -> tuple[Expr, Expr]:
    """The maximum of each window, and its index in all spatial axes, flattened in row-major order."""
    found = greatest_in_windows(x, lines, context.emit)
    return R.reshape(found[0], context.output_shape()), R.reshape(found[1], context.output_shape())


@converts("max_unpool2d", "max_unpool3d")
def _max_unpool(context: Context, x: Expr, indices: Expr, output_size: Sequence[Dim], *_window: Any) -> Expr:
    return put_at_places(context.output_shape(), indices, x, _spatial_axes(context), "update")
