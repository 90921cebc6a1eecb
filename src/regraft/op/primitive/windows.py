"""Sliding windows over spatial axes: the common parts of convolutions, pooling and their backward operators.

A window covers ``kernel`` elements of each spatial axis, ``dilation`` apart; consecutive windows are
``strides`` apart. Arrays here have the spatial axes last, after batch and channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any

from ...ir.dims import Dim, ceildiv, dim_at_least, dim_max, dim_min, floordiv
from ...ir.errors import OpTypeError
from ...ir.op import Call, wrong_attribute, wrong_operand
from ..rules import as_int_tuple
from ..semantics import filled, pad_constant

# --- attributes


def as_spatial(rank: int, value: Any, op_name: str, name: str) -> tuple[int, ...]:
    """``value``, an attribute, as one int for each of ``rank`` spatial axes; a single int is used for all."""
    values = as_int_tuple(value, op_name, name)
    if len(values) == 1:
        return values * rank
    if len(values) != rank:
        raise OpTypeError(f"{op_name}: {name}={value!r}; expected 1 or {rank} ints, one for each spatial axis")
    return values


def as_padding(rank: int, value: Any, op_name: str, name: str) -> tuple[int, ...]:
    """Padding as ``2 * rank`` ints: the widths before each spatial axis, then the widths after each.

    A single int is used for all; ``rank`` ints are one for each axis, used before and after it.
    """
    values = as_int_tuple(value, op_name, name)
    if len(values) == 1:
        return values * (2 * rank)
    if len(values) == rank:
        return values * 2
    if len(values) != 2 * rank:
        counts = ", ".join(map(str, sorted({1, rank})))
        raise OpTypeError(f"{op_name}: {name}={value!r}; expected {counts} or {2 * rank} ints (befores, then afters)")
    return values


def require_at_least(call: Call, name: str, least: int) -> None:
    """Raise `OpTypeError` if an int of the attribute ``name`` is below ``least``."""
    value: int | tuple[int, ...] = call.attrs[name]
    if isinstance(value, int):
        if value < least:
            raise wrong_attribute(call, name, f"an int of at least {least}")
    elif min(value) < least:
        raise wrong_attribute(call, name, f"ints of at least {least}")


def padding_pairs(padding: Sequence[int]) -> list[tuple[int, int]]:
    """``padding`` as a pair (before, after) for each spatial axis."""
    rank = len(padding) // 2
    return list(zip(padding[:rank], padding[rank:], strict=True))


# --- sizes


def window_count(size: Dim, extent: Dim, stride: int, pads: tuple[int, int], ceil_mode: bool = False) -> Dim:
    """The number of windows of ``extent`` elements that fit on an axis of ``size`` elements and ``pads`` around it.

    With ``ceil_mode``, the last window may extend past the end, if it starts on an element or on the padding
    before the axis.
    """
    room = size + sum(pads) - extent
    if ceil_mode:
        return dim_min(ceildiv(room, stride) + 1, ceildiv(size + pads[0], stride))
    return floordiv(room, stride) + 1


def static_window_count(size: int, extent: int, stride: int, pads: tuple[int, int], ceil_mode: bool = False) -> int:
    """The `window_count` of known sizes. Raises `TypeError` if it is symbolic."""
    count = window_count(size, extent, stride, pads, ceil_mode)
    if not isinstance(count, int):
        raise TypeError(f"the number of windows, {count}, is symbolic")
    return count


def window_counts(
    attrs: Any, sizes: Sequence[Dim], kernel: Sequence[Dim], *, ceil_mode: bool = False
) -> tuple[Dim, ...]:
    """The `window_count` of each spatial axis, by the attributes ``strides``, ``dilation`` and ``padding``."""
    axes = zip(sizes, kernel, attrs.strides, attrs.dilation, padding_pairs(attrs.padding), strict=True)
    return tuple(
        [
            window_count(size, (width - 1) * step + 1, stride, pads, ceil_mode)
            for size, width, stride, step, pads in axes
        ]
    )


def checked_window_counts(
    call: Call, index: int, sizes: Sequence[Dim], kernel: Sequence[Dim], *, ceil_mode: bool = False
) -> tuple[Dim, ...]:
    """The `window_counts` of operand ``index``. Raises `OpTypeError` for a window that does not fit a padded axis."""
    attrs = call.attrs
    for size, width, step, pads in zip(sizes, kernel, attrs.dilation, padding_pairs(attrs.padding), strict=True):
        extent = (width - 1) * step + 1
        if dim_at_least(size + sum(pads) - extent, 0) is False:
            expected = f"spatial axes that a window of {extent} elements fits on, not {size} + {sum(pads)} padding"
            raise wrong_operand(call, index, expected)
    return window_counts(attrs, sizes, kernel, ceil_mode=ceil_mode)


def same_padding(size: Dim, width: Dim, stride: int, step: int, *, lower: bool) -> tuple[Dim, Dim]:
    """The padding before and after an axis with which a window begins at every ``stride``-th of ``size`` elements.

    ONNX calls it SAME_LOWER and SAME_UPPER: if the total is odd, the greater half is put before the axis (``lower``)
    or after it. The window has ``width`` elements, ``step`` apart.
    """
    total = dim_max((ceildiv(size, stride) - 1) * stride + (width - 1) * step + 1 - size, 0)
    small = floordiv(total, 2)
    return (total - small, small) if lower else (small, total - small)


# --- arrays


def windows(
    x: Any, kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int], counts: Sequence[Dim]
) -> Iterator[Any]:
    """For each position in the window, in row-major order, the elements of ``x`` there in all windows."""
    for place in product(*map(range, kernel)):
        starts = [index * step for index, step in zip(place, dilation, strict=True)]
        spans = zip(starts, strides, counts, strict=True)
        yield x[(..., *[slice(start, start + count * stride, stride) for start, stride, count in spans])]


def spread(xp: Any, x: Any, strides: Sequence[int]) -> Any:
    """``x`` with ``stride - 1`` zeros between the elements of each spatial axis."""
    for axis, stride in enumerate(strides, 2):
        size = x.shape[axis]
        if stride == 1 or size == 0:
            continue
        gaps = filled(xp, (*x.shape[: axis + 1], stride - 1, *x.shape[axis + 1 :]), 0, x)
        x = xp.concat((xp.expand_dims(x, axis=axis + 1), gaps), axis=axis + 1)
        x = xp.reshape(x, (*x.shape[:axis], size * stride, *x.shape[axis + 2 :]))
        x = x[(*[slice(None)] * axis, slice((size - 1) * stride + 1), ...)]
    return x


def gathered_from_windows(
    xp: Any,
    shares: Iterable[Any],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    sizes: Sequence[int],
    margins: Sequence[tuple[int, int]],
) -> Any:
    """For each element of axes of ``sizes``, the sum of its shares from all windows: the adjoint of `windows`.

    ``shares`` are listed by position in the window. ``margins`` are the padding before and after each axis; sums there
    are dropped.
    """
    total = 0
    for place, share in zip(product(*map(range, kernel)), shares, strict=True):
        widths = [(0, 0), (0, 0)]
        spaced = spread(xp, share, strides)
        for axis, (index, step) in enumerate(zip(place, dilation, strict=True)):
            before = index * step - margins[axis][0]
            widths.append((before, sizes[axis] - before - spaced.shape[axis + 2]))
        total = total + pad_constant(xp, spaced, widths, 0)
    return total
