"""Pooling over 1, 2 and 3 spatial dimensions: the maximum or the mean of each window, in any layout.

float16 and bfloat16 are averaged in float32 and rounded once; means of integers are rounded towards zero.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple, Unpack

import numpy as np

from ...ir.dims import Dim, ceildiv, dim_max, dims_equal
from ...ir.dtypes import is_float
from ...ir.expr import Expr
from ...ir.op import Call, Op, Precision, Reference
from ...ir.types import Type
from ..layouts import (
    SPATIAL_NAMES,
    arranged_type,
    canonical_dims,
    data_letters,
    from_canonical,
    layout_axes,
    to_canonical,
)
from ..primitive.windows import checked_window_counts, padding_pairs, require_at_least, static_window_count, windows
from ..public_function import Padding, ResultLayout, Spatial, declares
from ..row import Facts
from ..rules import require_numbers, tensor_operand
from ..semantics import cast, dtype_name, index_array, pad_constant, truncated_divide, widened, with_attrs

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]

# --- parts shared with the backward operators of pooling


def check_pool(call: Call, index: int) -> tuple[Dim, ...] | None:
    """Batch, channel and output sizes of the pooling of operand ``index`` by the call's attributes; None if unknown."""
    letters = data_letters(len(call.attrs.pool_size))
    for name in ("pool_size", "strides", "dilation"):
        require_at_least(call, name, 1)
    require_at_least(call, "padding", 0)
    require_numbers(call, index)
    dims = canonical_dims(call, index, "layout", letters, blocks=index == 0)
    layout_axes(call, "out_layout", letters, blocks=index == 0)
    if dims is None:
        return None
    sizes = checked_window_counts(call, index, dims[2:], call.attrs.pool_size, ceil_mode=call.attrs.ceil_mode)
    return (*dims[:2], *sizes)


class PoolWindows(NamedTuple):
    """The windows of one pooling, along each spatial axis of known size."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    margins: tuple[tuple[int, int], ...]
    """Padding before and after each axis; after it, at least up to the end of the last window."""
    counted: tuple[tuple[int, int], ...]
    """Padding before and after each axis that counts as elements in a mean."""

    @staticmethod
    def of(sizes: Sequence[int], attrs: Any) -> PoolWindows:
        """The windows that the attributes of a pooling operator describe."""
        kernel, strides, dilation = attrs.pool_size, attrs.strides, attrs.dilation
        counts: list[int] = []
        margins: list[tuple[int, int]] = []
        pairs = padding_pairs(attrs.padding)
        for size, width, stride, step, pads in zip(sizes, kernel, strides, dilation, pairs, strict=True):
            extent = (width - 1) * step + 1
            count = static_window_count(size, extent, stride, pads, attrs.ceil_mode)
            counts.append(count)
            margins.append((pads[0], max(pads[1], (count - 1) * stride + extent - size - pads[0])))
        counted = pairs if attrs.count_include_pad else [(0, 0)] * len(pairs)
        return PoolWindows(kernel, strides, dilation, tuple(sizes), tuple(counts), tuple(margins), tuple(counted))

    def over(self, xp: Any, x: Any, padding_value: float) -> Iterator[Any]:
        """For each position in the window, the elements of ``x`` (spatial axes last) there in all windows."""
        padded = pad_constant(xp, x, [(0, 0), (0, 0), *self.margins], padding_value)
        return windows(padded, self.kernel, self.strides, self.dilation, self.counts)

    def divisors(self, xp: Any, like: Any) -> Any:
        """The number of elements that each window averages, at least 1; positions beyond the padding never count."""
        result = index_array(xp, [1], like)
        for axis, size in enumerate(self.sizes):
            before, after = self.counted[axis]
            first = -self.margins[axis][0]
            starts = first + np.arange(self.counts[axis]) * self.strides[axis]
            numbers = np.zeros_like(starts)
            for index in range(self.kernel[axis]):
                places = starts + index * self.dilation[axis]
                numbers += (places >= -before) & (places < size + after)
            result = xp.expand_dims(result, axis=-1) * index_array(xp, np.maximum(numbers, 1).tolist(), like)
        return result


# --- type rule and reference


def _pool_type(call: Call) -> Type:
    letters = data_letters(len(call.attrs.pool_size))
    return arranged_type(call, "out_layout", letters, check_pool(call, 0), tensor_operand(call, 0).dtype, blocks=True)


def _greatest(xp: Any, x: Any, pool: PoolWindows) -> Any:
    least = float("-inf") if is_float(dtype_name(x.dtype)) else xp.iinfo(x.dtype).min
    return reduce(xp.maximum, pool.over(xp, x, least))


def summable(xp: Any, x: Any) -> Any:
    """``x`` in a dtype wide enough for the sum of a window."""
    name = dtype_name(x.dtype)
    return widened(xp, x) if is_float(name) or name == "uint64" else cast(xp, x, "int64")


def mean_of(xp: Any, total: Any, count: Any) -> Any:
    """``total / count``, rounded towards zero for integers."""
    return truncated_divide(xp, total, cast(xp, count, dtype_name(total.dtype)))


def _mean(xp: Any, x: Any, pool: PoolWindows) -> Any:
    return mean_of(xp, reduce(xp.add, pool.over(xp, x, 0)), pool.divisors(xp, x))


def _meaning(prepared: Callable[[Any, Any], Any], pooled: Callable[[Any, Any, PoolWindows], Any]) -> Reference:
    """The reference of a pooling operator: ``pooled`` of all windows of the data, which ``prepared`` widens first."""

    def reference(xp: Any, attrs: Any, data: Any) -> Any:
        letters = data_letters(len(attrs.pool_size))
        x = prepared(xp, to_canonical(xp, data, attrs.layout, letters))
        result = pooled(xp, x, PoolWindows.of(x.shape[2:], attrs))
        return from_canonical(xp, cast(xp, result, dtype_name(data.dtype)), attrs.out_layout, letters)

    return with_attrs(reference)


# --- the operators


POOL_ORDER: Final = ("pool_size", "strides", "dilation")
"""The attributes of pooling that come first in texts."""


def _pool_function(name: str, rank: int, counted: bool, doc: str, **facts: Unpack[Facts]):
    """Declare a pooling over ``rank`` spatial axes; ``doc`` is its docstring with fields for the rank and the axes."""
    axes = f"(batch, channels, {SPATIAL_NAMES[rank - 1]})"

    @declares(f"relax.nn.{name}{rank}d", rank=rank, order=POOL_ORDER, doc=doc.format(rank=rank, axes=axes), **facts)
    def function(
        data: Expr,
        pool_size: Spatial = (1,) * rank,
        strides: Spatial = (1,) * rank,
        padding: Padding = (0,) * rank,
        dilation: Spatial = (1,) * rank,
        ceil_mode: bool = False,
        count_include_pad: bool = counted,
        layout: str = data_letters(rank),
        out_layout: ResultLayout = None,
    ) -> Call: ...

    return function


def _max_pool_of(rank: int):
    return _pool_function(
        "max_pool",
        rank,
        False,
        """The greatest element of each window of ``data``; follows ``torch.nn.functional.max_pool{rank}d``.

    Operands: ``data`` {axes} in ``layout`` (any order of the letters), numbers.
    Attributes: ``pool_size``, ``strides`` and ``dilation``, 1 int or one per spatial axis; ``padding``, 1
    int, one per spatial axis, or first the widths before all axes, then those after them (top, left, bottom,
    right), which never counts as the greatest element; with ``ceil_mode``, the last window may extend beyond
    the end if it starts on an element or on the padding before the elements; ``count_include_pad`` has no
    effect; ``out_layout``, by default ``layout``.
    Result: (batch, channels, ``(size + padding - (pool_size - 1) * dilation - 1) // stride + 1`` ...),
    ``data``'s dtype. A window of padding only gives -inf, or the least integer. Raises `OpTypeError` for a
    rank that differs from the layout's, or a window that does not fit.
    """,
        infer=_pool_type,
        reference=_meaning(widened, _greatest),
        precision=Precision.FOLLOWS,
    )


def _avg_pool_of(rank: int):
    return _pool_function(
        "avg_pool",
        rank,
        rank != 2,
        """The mean of each window of ``data``; follows ``torch.nn.functional.avg_pool{rank}d``.

    Operands: ``data`` {axes} in ``layout``, numbers. Means of integers are rounded
    towards zero.
    Attributes: see `max_pool{rank}d`. With ``count_include_pad``, the zeros of ``padding`` count as elements.
    Positions beyond the padding, which ``ceil_mode`` may add to a window, never count.
    Result and errors: see `max_pool{rank}d`. A window without elements gives 0.
    """,
        infer=_pool_type,
        reference=_meaning(summable, _mean),
    )


max_pool1d = _max_pool_of(1)
max_pool2d = _max_pool_of(2)
max_pool3d = _max_pool_of(3)
avg_pool1d = _avg_pool_of(1)
avg_pool2d = _avg_pool_of(2)
avg_pool3d = _avg_pool_of(3)


# --- adaptive pooling: means of evenly spread windows, given their number; they may overlap by one element


def _adaptive_type(call: Call) -> Type:
    assert isinstance(call.op, Op)
    letters: str = call.op.attributes["layout"]
    ty = require_numbers(call, 0)
    dims = canonical_dims(call, 0, "layout", letters, blocks=True)
    if call.attrs.output_size is not None:
        require_at_least(call, "output_size", 1)
        dims = None if dims is None else (*dims[:2], *call.attrs.output_size)
    return arranged_type(call, "out_layout", letters, dims, ty.dtype, blocks=True)


def of_spread_windows(xp: Any, x: Any, axis: int, target: Dim, reduced: Callable[..., Any]) -> Any:
    """``x`` with ``axis`` replaced by the results of ``reduced``, such as ``xp.max``, for ``target`` windows on it."""
    size: Dim = x.shape[axis]
    if target == 1:
        return reduced(x, axis=axis, keepdims=True)
    if divides(target, size):
        windows = xp.reshape(x, (*x.shape[:axis], target, size // target, *x.shape[axis + 1 :]))
        return reduced(windows, axis=axis + 1)
    lead = [slice(None)] * axis
    windows = [x[(*lead, slice(*span), ...)] for span in _spans(size, operator.index(target))]
    return xp.concat([reduced(window, axis=axis, keepdims=True) for window in windows], axis=axis)


def means_of_spread_windows(xp: Any, x: Any, targets: Sequence[Dim]) -> Any:
    """The means of ``targets`` windows over each of the last axes; an axis with as many elements stays unchanged."""
    wide = summable(xp, x)
    count = index_array(xp, [1], x)
    for axis, target in enumerate(targets, x.ndim - len(targets)):
        size: Dim = x.shape[axis]
        lengths: list[Dim] = [1]
        if dims_equal(size, target) is not True:
            total = of_spread_windows(xp, wide, axis, target, xp.sum)
            wide = cast(xp, total, dtype_name(wide.dtype))
            spans = [(0, size // target)] if divides(target, size) else _spans(size, operator.index(target))
            lengths = [dim_max(end - start, 1) for start, end in spans]
        count = xp.expand_dims(count, axis=-1) * index_array(xp, lengths, x)
    return cast(xp, mean_of(xp, wide, count), dtype_name(x.dtype))


def divides(target: Dim, size: Dim) -> bool:
    """True if ``target`` windows over an axis of ``size`` are known to have equal sizes and not to overlap."""
    return dims_equal(size % target, 0) is True


def _spans(size: Dim, target: int) -> list[tuple[Dim, Dim]]:
    """The start and end of each of ``target`` windows over an axis of ``size`` elements."""
    return [(place * size // target, ceildiv((place + 1) * size, target)) for place in range(target)]


def _adaptive_avg_pool(xp: Any, data: Any, output_size: tuple[int, ...] | None, layout: str, out_layout: str) -> Any:
    letters = data_letters(len(layout) - 2)
    x = to_canonical(xp, data, layout, letters)
    return from_canonical(xp, means_of_spread_windows(xp, x, output_size or x.shape[2:]), out_layout, letters)


def _pool_of(rank: int):
    @declares(
        f"relax.nn.adaptive_avg_pool{rank}d",
        rank=rank,
        infer=_adaptive_type,
        reference=_adaptive_avg_pool,
        doc=f"""The means of ``output_size`` even windows; follows ``torch.nn.functional.adaptive_avg_pool{rank}d``.

    Window i of n covers the elements from ``floor(i * size / n)`` up to, but not including, ``ceil((i + 1) * size
    / n)``.
    Operands: ``data`` (batch, channels, {SPATIAL_NAMES[rank - 1]}) in ``layout``, numbers; means of integers are
    rounded towards zero.
    Attributes: ``output_size``, 1 int or one per spatial axis, None to keep the sizes; ``out_layout``, by
    default ``layout``. Result: ``data``'s dtype, with the spatial sizes ``output_size``. Raises `OpTypeError`
    for a rank that differs from the layout's.
    """,
    )
    def function(
        data: Expr,
        output_size: Spatial | None = None,
        layout: str = data_letters(rank),
        out_layout: ResultLayout = None,
    ) -> Call: ...

    return function


adaptive_avg_pool1d = _pool_of(1)
adaptive_avg_pool2d = _pool_of(2)
adaptive_avg_pool3d = _pool_of(3)
