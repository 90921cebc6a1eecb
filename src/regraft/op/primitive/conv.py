"""Convolutions over 1, 2 and 3 spatial dimensions, in any layout.

As in all deep-learning libraries, "convolution" is cross-correlation: the kernel is not flipped. The reference is
written once, for any number of spatial dimensions, with batch and channel first; other layouts are permuted to that
order and back. float16 and bfloat16 are summed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from math import prod
from typing import Any, TypeAlias

from ...ir.dims import Dim, dims_equal, exact_divide
from ...ir.expr import Expr
from ...ir.op import Call, Precision, Reference, TypeRule, wrong_operand
from ...ir.types import Type
from ..costs import convolution_operations
from ..layouts import (
    SPATIAL,
    SPATIAL_NAMES,
    arranged_type,
    canonical_dims,
    data_letters,
    from_canonical,
    layout_axes,
    to_canonical,
)
from ..public_function import Padding, ResultDtype, ResultLayout, Spatial, declares
from ..rules import common_dtype, require_numbers
from ..semantics import accumulator, cast, dtype_name, filled, pad_constant, with_attrs
from .windows import checked_window_counts, padding_pairs, require_at_least, static_window_count, windows

__all__ = ["conv1d", "conv2d", "conv3d"]

Dims: TypeAlias = "tuple[Dim, ...] | None"
"""The sizes of a tensor, if they are known."""
ResultDims: TypeAlias = Callable[[Call, Dims, Dims], Dims]

# --- parts shared with the transposed convolutions


def convolution_rule(kernel_letters: str, attributes: Sequence[str], result_dims: ResultDims) -> TypeRule:
    """The type rule of a convolution whose kernel has the axes ``kernel_letters`` followed by the spatial axes.

    None of ``attributes`` may be negative. ``result_dims(call, data, weight)`` returns the sizes of the result from
    the sizes of the operands, all in canonical order.
    """

    def infer(call: Call) -> Type:
        attrs = call.attrs
        rank = len(attrs.strides)
        letters = data_letters(rank)
        for name in ("strides", "dilation", "groups"):
            require_at_least(call, name, 1)
        for name in attributes:
            require_at_least(call, name, 0)
        for index in range(2):
            require_numbers(call, index)
        dtype = attrs.out_dtype or common_dtype(call)
        data = canonical_dims(call, 0, "data_layout", letters, blocks=True)
        weight = canonical_dims(call, 1, "kernel_layout", kernel_letters + SPATIAL[rank - 1], blocks=True)
        layout_axes(call, "out_layout", letters, blocks=True)
        if data is not None:
            _require_groups(call, "channels", data[1])
        dims = result_dims(call, data, weight)
        return arranged_type(call, "out_layout", letters, dims, dtype, blocks=True)

    return infer


def convolution_reference(kernel_letters: str, convolved: Callable[..., Any]) -> Reference:
    """The reference of a convolution, from ``convolved(xp, attrs, data, weight)`` on arrays in canonical order."""

    def reference(xp: Any, attrs: Any, data: Any, weight: Any) -> Any:
        rank = len(attrs.strides)
        letters = data_letters(rank)
        result = attrs.out_dtype or dtype_name(data.dtype)
        work = accumulator(result, dtype_name(data.dtype), dtype_name(weight.dtype))
        x = cast(xp, to_canonical(xp, data, attrs.data_layout, letters), work)
        kernel = cast(xp, to_canonical(xp, weight, attrs.kernel_layout, kernel_letters + SPATIAL[rank - 1]), work)
        return from_canonical(xp, cast(xp, convolved(xp, attrs, x, kernel), result), attrs.out_layout, letters)

    return with_attrs(reference)


def _require_groups(call: Call, what: str, channels: Dim) -> None:
    """Raise `OpTypeError` if ``groups`` is known not to divide ``channels``, called ``what`` in the message."""
    groups: int = call.attrs.groups
    if isinstance(channels, int) and channels % groups:
        raise wrong_operand(call, 0, f"a number of {what} that is a multiple of groups={groups}, not {channels}")


def convolve(
    xp: Any,
    x: Any,
    weight: Any,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    groups: int,
) -> Any:
    """The convolution of ``x`` (batch, channel, spatial...) with ``weight`` (out, in per group, spatial...).

    A sum of matrix products, each over the input channels at several positions of the window: the fewer channels, the
    more positions.
    """
    batch, outputs, inputs, kernel = x.shape[0], weight.shape[0], weight.shape[1], weight.shape[2:]
    extents = [(width - 1) * step + 1 for width, step in zip(kernel, dilation, strict=True)]
    axes = zip(x.shape[2:], extents, strides, padding, strict=True)
    counts = [static_window_count(*axis) for axis in axes]
    places, positions = prod(kernel), prod(counts)
    factors = xp.reshape(weight, (groups, outputs // groups, inputs, places))
    patches = windows(pad_constant(xp, x, [(0, 0), (0, 0), *padding], 0), kernel, strides, dilation, counts)
    taken = max(1, 64 // max(1, inputs))
    total = filled(xp, (batch, groups, outputs // groups, positions), 0, x)
    for first in range(0, places, taken):
        chunk = [xp.reshape(patch, (batch, groups, inputs, positions)) for patch in islice(patches, taken)]
        part = xp.permute_dims(factors[..., first : first + taken], (0, 1, 3, 2))
        part = xp.reshape(part, (groups, outputs // groups, inputs * len(chunk)))
        total = total + xp.matmul(part, xp.concat(chunk, axis=2))
    return xp.reshape(total, (batch, outputs, *counts))


# --- the operators


def _result_dims(call: Call, data: Dims, weight: Dims) -> Dims:
    groups: int = call.attrs.groups
    if weight is not None:
        _require_groups(call, "output channels", weight[0])
    if data is None or weight is None:
        return None
    if dims_equal(data[1], weight[1] * groups) is False:
        needed = exact_divide(data[1], groups)
        what = f"{needed} input channels ({call.attrs.kernel_layout!r}): data's {data[1]} / groups={groups}"
        raise wrong_operand(call, 1, what)
    return (data[0], weight[0], *checked_window_counts(call, 0, data[2:], weight[2:]))


def _conv(xp: Any, attrs: Any, x: Any, kernel: Any) -> Any:
    return convolve(xp, x, kernel, attrs.strides, padding_pairs(attrs.padding), attrs.dilation, attrs.groups)


def _convolution_of(rank: int):
    letters, kernel_letters, sizes = data_letters(rank), "OI" + SPATIAL[rank - 1], SPATIAL_NAMES[rank - 1]

    @declares(
        f"relax.nn.conv{rank}d",
        primitive=True,
        rank=rank,
        infer=convolution_rule("OI", ["padding"], _result_dims),
        reference=convolution_reference("OI", _conv),
        precision=Precision.LEADS,
        cost=convolution_operations,
        finite=True,
        doc=f"""``data`` convolved with ``weight`` along {sizes}; follows ``torch.nn.functional.conv{rank}d``.

    Operands: ``data`` (batch, channels, {sizes}) and ``weight`` (output channels, channels // groups,
    {sizes}), with their axes in the order of ``data_layout`` and ``kernel_layout`` (any order of the letters).
    Both have the same dtype; with ``out_dtype``, they may have any two numeric dtypes.
    Attributes: ``strides``, ``dilation``, 1 int or one per spatial axis; ``padding`` with zeros, 1 int, one
    per spatial axis, or first the widths before all axes, then those after them (top, left, bottom, right);
    ``groups``, the number of blocks of channels that are convolved separately; ``out_layout``, by default
    ``data_layout``; ``out_dtype``, by default the operands' dtype.
    Result: (batch, output channels, ``(size + padding - (kernel - 1) * dilation - 1) // stride + 1`` ...).
    Raises `OpTypeError` for ranks that differ from the layouts', channels that do not agree, a number of
    channels that is not a multiple of ``groups``, or a window that does not fit. Cost: that of the matrix
    products it consists of.
    """,
    )
    def function(
        data: Expr,
        weight: Expr,
        strides: Spatial = (1,) * rank,
        padding: Padding = (0,) * rank,
        dilation: Spatial = (1,) * rank,
        groups: int = 1,
        data_layout: str = letters,
        kernel_layout: str = kernel_letters,
        out_layout: ResultLayout = None,
        out_dtype: ResultDtype = None,
    ) -> Call: ...

    return function


conv1d = _convolution_of(1)
conv2d = _convolution_of(2)
conv3d = _convolution_of(3)
