"""Gradients of operators that read elements several times or not at all: pooling and padding.

They are not in the modules of the operators, `pooling` and `padding`, because they use the backward operators of
`grad`, which depend on those. Pooling is separable: pooling over one axis is pooling over two with windows of height 1,
and pooling over a volume is pooling over its slices, then along its depth. So backward operators over two axes suffice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

from ...ir.dims import Dim, dim_product
from ...ir.expr import Expr, ShapeExpr
from ...ir.op import Call, Op
from ..adjoints import converted_like, known_shape, reshape_like, tensor_type, widened
from ..axis_maps import map_axis, rearranged, settled
from ..layouts import data_letters
from ..primitive.comparison import greater, logical_and, logical_or
from ..primitive.create import arange, zeros
from ..primitive.indexing import strided_slice
from ..primitive.reshaping import expand_dims, reshape, squeeze
from ..primitive.ternary import where
from ..primitive.unary import isnan, logical_not
from ..primitive.windows import padding_pairs
from ..public_function import operator_of
from .backward import avg_pool2d_backward, max_pool2d_backward, take_backward
from .padding import pad
from .pooling import adaptive_avg_pool1d, avg_pool2d, max_pool2d

_Pool = Callable[..., Expr]

# --- pooling


def _attributes_over(attrs: Any, axes: Sequence[int | None]) -> dict[str, Any]:
    """The attributes of a pooling over two of the spatial axes, ``axes``; None is an axis that is not pooled."""
    pads = [(0, 0) if axis is None else padding_pairs(attrs.padding)[axis] for axis in axes]
    return {
        **{
            name: tuple([1 if axis is None else attrs[name][axis] for axis in axes])
            for name in ("pool_size", "strides", "dilation")
        },
        "padding": (*[before for before, _ in pads], *[after for _, after in pads]),
        "ceil_mode": attrs.ceil_mode,
        "count_include_pad": attrs.count_include_pad,
    }


def _pool1d_gradient(forward: _Pool, backward: _Pool, call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    attrs = call.attrs
    data = expand_dims(rearranged(call.args[0], attrs.layout, "NCW"), 2)
    adjoint = expand_dims(rearranged(adjoint, attrs.out_layout, "NCW"), 2)
    share = backward(adjoint, data, **_attributes_over(attrs, (None, 0)))
    return [rearranged(squeeze(share, 2), "NCW", attrs.layout)]


def _pool2d_gradient(forward: _Pool, backward: _Pool, call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    return [backward(adjoint, call.args[0], **call.attrs)]


def _pool3d_gradient(forward: _Pool, backward: _Pool, call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    """The gradient over each slice, then along the depth. The first of equal elements stays the first in this order."""
    attrs = call.attrs
    data = rearranged(call.args[0], attrs.layout, "NCDHW")
    adjoint = rearranged(adjoint, attrs.out_layout, "NCDHW")
    across, along = _attributes_over(attrs, (1, 2)), _attributes_over(attrs, (0, None))
    batch, channels, depth, *sizes = known_shape(call, data, "data")
    slices = reshape(data, [batch, channels * depth, *sizes])
    pooled = forward(slices, **across)
    columns = reshape(pooled, [batch, channels, depth, dim_product(known_shape(call, pooled, "data")[2:])])
    deep, *rest = known_shape(call, adjoint, "its result")[2:]
    adjoint = reshape(adjoint, [batch, channels, deep, dim_product(rest)])
    share = backward(reshape_like(backward(adjoint, columns, **along), pooled), slices, **across)
    return [rearranged(reshape(share, [batch, channels, depth, *sizes]), "NCDHW", attrs.layout)]


for _kind, _forward, _backward in (("max", max_pool2d, max_pool2d_backward), ("avg", avg_pool2d, avg_pool2d_backward)):
    for _rank, _gradient in enumerate((_pool1d_gradient, _pool2d_gradient, _pool3d_gradient), 1):
        Op.get(f"relax.nn.{_kind}_pool{_rank}d").define_gradient(partial(_gradient, _forward, _backward))


@operator_of(avg_pool2d_backward).define_gradient
def _avg_pool2d_backward_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    return [avg_pool2d(adjoint, **call.attrs), None]


@operator_of(max_pool2d_backward).define_gradient
def _max_pool2d_backward_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    """Each window gets the adjoint of the element to which it gave its share."""
    attrs = call.attrs
    data = rearranged(call.args[1], attrs.layout, "NCHW")
    adjoint = rearranged(adjoint, attrs.layout, "NCHW")
    dims = known_shape(call, call.args[0], "output_grad")
    out_layout: str = attrs.out_layout
    counts = [dims[out_layout.index(letter)] for letter in "HW"]
    patches = zip(_patches(data, attrs, counts, float("-inf")), _patches(adjoint, attrs, counts, 0.0), strict=True)
    greatest, share = next(patches)
    for patch, candidate in patches:
        is_first_nan = logical_and(isnan(patch), logical_not(isnan(greatest)))
        wins = logical_or(greater(patch, greatest), is_first_nan)
        greatest, share = where(wins, patch, greatest), where(wins, candidate, share)
    return [rearranged(share, "NCHW", out_layout), None]


def _patches(value: Expr, attrs: Any, counts: Sequence[Dim], padding_value: float) -> Iterator[Expr]:
    """For each position in the window, in row-major order, the elements of ``value`` there in all windows."""
    widths = [0, 0, 0, 0]
    for (before, after), stride in zip(padding_pairs(attrs.padding), attrs.strides, strict=True):
        # With ceil_mode the last window extends past the end by less than a stride.
        widths.extend((before, after + (stride - 1 if attrs.ceil_mode else 0)))
    padded = pad(value, widths, "constant", padding_value)
    for place in product(*map(range, attrs.pool_size)):
        starts = [index * step for index, step in zip(place, attrs.dilation, strict=True)]
        spans = zip(starts, counts, attrs.strides, strict=True)
        ends = [start + (count - 1) * stride + 1 for start, count, stride in spans]
        yield strided_slice(padded, [2, 3], starts, ends, attrs.strides, assume_inbound=True)


# --- adaptive pooling


def _means_of_rows(size: Dim, target: int, rows: Expr) -> Expr:
    """The means of ``target`` windows over each row of a matrix of ``size`` columns."""
    pooled = adaptive_avg_pool1d(reshape(rows, ShapeExpr([1, size, size])), target)
    return reshape(pooled, ShapeExpr([size, target]))


def _adaptive_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    data, attrs = call.args[0], call.attrs
    letters = data_letters(len(attrs.layout) - 2)
    share = widened(rearranged(adjoint, attrs.out_layout, letters))
    if attrs.output_size is not None:
        dims = known_shape(call, data, "data")
        for axis, target in enumerate(attrs.output_size, 2):
            place: int = attrs.layout.index(letters[axis])
            size = dims[place]
            share = map_axis(call, share, axis, size, partial(_means_of_rows, size, target))
    return [rearranged(converted_like(share, data), letters, attrs.layout)]


for _rank in (1, 2, 3):
    Op.get(f"relax.nn.adaptive_avg_pool{_rank}d").define_gradient(_adaptive_gradient)


# --- padding


@operator_of(pad).define_gradient
def _pad_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    """Constant padding is cropped, and cropping is padded. In other modes, a copy gives its share to its source."""
    data, attrs = call.args[0], call.attrs
    if attrs.pad_mode == "constant":
        return [pad(adjoint, [-width for width in attrs.pad_width])]
    pairs = list(zip(attrs.pad_width[::2], attrs.pad_width[1::2], strict=True))
    dims, wide = known_shape(call, data, "data"), known_shape(call, output, "its result")
    share, dtype = adjoint, tensor_type(data).dtype or "float32"
    for axis, (before, after) in reversed(list(enumerate(pairs))):
        if before or after:
            sources = settled(pad(arange(dims[axis], dtype="int64"), (before, after), attrs.pad_mode))
            whole = zeros(ShapeExpr([*wide[:axis], *dims[axis:]]), dtype)
            share = take_backward(share, whole, sources, axis)
    return [share]
