"""Gradients of operators that read or write elements by position.

They are not in the modules of the operators, `indexing`, `gather` and `scatter`, because the two kinds are each other's
gradients: the adjoint of a gathered element is added at its position, and the adjoint of a scattered element is
gathered from its position. The gradients of operators that choose elements (`median`, `unique`) are here too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...ir.expr import Expr, PrimValue, ShapeExpr, Tuple, const
from ...ir.op import Call
from ...ir.types import PrimType
from ..adjoints import (
    collapse_to,
    converted_like,
    fields_of,
    known_shape,
    ones_of,
    reshape_like,
    tensor_type,
    zeros_of,
)
from ..composite.backward import take_backward
from ..public_function import operator_of
from .broadcast import broadcast_to
from .comparison import equal
from .create import arange
from .gather import gather_elements, gather_nd, index_tensor
from .indexing import dynamic_strided_slice, strided_slice, take
from .join import concat
from .reduction import extreme_gradient, kept_axes, median
from .reshaping import flatten, reshape
from .scatter import index_put, scatter_elements, scatter_nd, slice_scatter
from .search import unique
from .ternary import where

# --- take


@operator_of(take).define_gradient
def _take_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    x, indices = call.args
    return [take_backward(adjoint, x, indices, **call.attrs), None]


@operator_of(take_backward).define_gradient
def _take_backward_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    taken = take(adjoint, call.args[2], **call.attrs)
    if call.attrs.mode == "nan":
        # Indices past the ends give NaN rather than an element, and no gradient.
        taken = where(equal(taken, taken), taken, 0.0)
    return [taken, None, None]


# --- slices


@operator_of(strided_slice).define_gradient
def _strided_slice_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    """For each axis, from the last: put the slice along it back to its position, among zeros."""
    x, *parts = call.args
    axes, begins, ends, *given = (fields_of(part) for part in parts)
    strides = given[0] if given else (PrimValue(1),) * len(axes)
    steps = list(zip(axes, begins, ends, strides, strict=True))
    wholes = [x]
    for axis, begin, end, stride in steps[:-1]:
        wholes.append(strided_slice(wholes[-1], [axis], [begin], [end], [stride]))
    share = adjoint
    for whole, (axis, begin, end, stride) in zip(reversed(wholes), reversed(steps), strict=True):
        place = _known(axis)
        if _known(stride) > 0:
            share = slice_scatter(zeros_of(whole), share, begin, end, stride, place)
        else:
            extent = known_shape(call, whole, "x")[place]
            positions = strided_slice(arange(extent), [0], [begin], [end], [stride])
            share = take_backward(share, whole, positions, place)
    return [share, *[None] * (len(call.args) - 1)]


def _known(scalar: Expr) -> int:
    """The value of an axis or a stride, which is known, as the operator's type rule has checked."""
    assert isinstance(scalar.ty, PrimType)
    assert isinstance(scalar.ty.value, int)
    return scalar.ty.value


@operator_of(dynamic_strided_slice).define_gradient
def _dynamic_strided_slice_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    x, *bounds = call.args
    whole, wholes = x, list[tuple[Expr, Expr]]()
    for axis, extent in enumerate(known_shape(call, x, "x")):
        own = [strided_slice(bound, [0], [axis], [axis + 1]) for bound in bounds]
        positions = dynamic_strided_slice(arange(extent), *own)
        wholes.append((whole, positions))
        whole = take(whole, positions, axis)
    share = adjoint
    for axis, (whole, positions) in reversed(list(enumerate(wholes))):
        share = take_backward(share, whole, positions, axis)
    return [share, None, None, None]


# --- gathering


@operator_of(gather_elements).define_gradient
def _gather_elements_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    data, indices = call.args
    return [scatter_elements(zeros_of(data), indices, adjoint, call.attrs.axis, "add"), None]


@operator_of(gather_nd).define_gradient
def _gather_nd_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    data, indices = call.args
    return [scatter_nd(zeros_of(data), _with_batch_places(call, indices), adjoint, "add"), None]


def _with_batch_places(call: Call, indices: Expr) -> Expr:
    """``indices`` with the indices along the batch axes added in front."""
    batch: int = call.attrs.batch_dims
    if batch == 0:
        return indices
    dims = known_shape(call, indices, "indices")
    dtype = tensor_type(indices).dtype
    columns: list[Expr] = []
    for axis in range(batch):
        places = reshape(arange(dims[axis], dtype=dtype), [dims[axis], *[1] * (len(dims) - axis - 1)])
        columns.append(broadcast_to(places, ShapeExpr([*dims[:-1], 1])))
    return concat([*columns, indices], axis=-1)


@operator_of(index_tensor).define_gradient
def _index_tensor_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    data, indices = call.args
    return [index_put(zeros_of(data), indices, adjoint, accumulate=True), None]


# --- scattering

_Gather = Callable[[Expr], Expr]
"""``gather(data)``: the elements of ``data`` at the positions of the call."""


@operator_of(scatter_elements).define_gradient
def _scatter_elements_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    gather = partial(gather_elements, indices=call.args[1], axis=call.attrs.axis)
    return _scatter_shares(call, output, adjoint, gather)


@operator_of(scatter_nd).define_gradient
def _scatter_nd_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    return _scatter_shares(call, output, adjoint, partial(gather_nd, indices=call.args[1]))


def _scattered(call: Call, data: Expr, updates: Expr, reduction: str) -> Expr:
    """``updates`` combined with ``data`` at the positions of the call."""
    return Call(call.op, (data, call.args[1], updates), {**call.attrs, "reduction": reduction})


def _scatter_shares(call: Call, output: Expr, adjoint: Expr, gather: _Gather) -> list[Expr | None]:
    data, _, updates = call.args
    scatter = partial(_scattered, call)
    match call.attrs.reduction:
        case "update":
            return [scatter(adjoint, zeros_of(updates), "update"), None, gather(adjoint)]
        case "add":
            return [adjoint, None, gather(adjoint)]
        case "mean":
            share = adjoint / scatter(ones_of(data), ones_of(updates), "add")
            return [share, None, gather(share)]
        case "mul":
            return _product_shares(call, adjoint, gather)
        case _:
            is_kept = equal(data, output)
            is_put = equal(updates, gather(output))
            winners = scatter(converted_like(is_kept, data), converted_like(is_put, data), "add")
            share = adjoint / winners
            return [where(is_kept, share, 0.0), None, where(is_put, gather(share), 0.0)]


def _product_shares(call: Call, adjoint: Expr, gather: _Gather) -> list[Expr | None]:
    """The shares for "mul": the adjoint times the product of the other factors, found by division.

    Zeros are counted apart. A factor's share is not 0 only if the other factors contain no zero.
    """
    parts: list[tuple[Expr, Expr]] = []
    for factor in (call.args[0], call.args[2]):
        is_zero = equal(factor, 0.0)
        parts.append((converted_like(is_zero, factor), where(is_zero, 1.0, factor)))
    (data_zeros, data_rest), (update_zeros, update_rest) = parts
    zeros, rest = _scattered(call, data_zeros, update_zeros, "add"), _scattered(call, data_rest, update_rest, "mul")
    data_share = where(equal(zeros, data_zeros), adjoint * rest / data_rest, 0.0)
    update_share = where(equal(gather(zeros), update_zeros), gather(adjoint * rest) / update_rest, 0.0)
    return [data_share, None, update_share]


@operator_of(index_put).define_gradient
def _index_put_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    _, indices, values = call.args
    put = collapse_to(index_tensor(adjoint, indices), values)
    if call.attrs.accumulate:
        return [adjoint, None, put]
    nothing = const(0.0, tensor_type(adjoint).dtype)
    return [index_put(adjoint, indices, nothing), None, put]


@operator_of(slice_scatter).define_gradient
def _slice_scatter_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    _, src, start, end, step = call.args
    axis = call.attrs.axis
    left = slice_scatter(adjoint, zeros_of(src), start, end, step, axis)
    return [left, strided_slice(adjoint, [axis], [start], [end], [step]), None, None, None]


# --- chosen elements: the adjoint of each is put at its position


@operator_of(median).define_gradient
def _median_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    axes: tuple[int, ...] | None = call.attrs.axis
    if axes is None or len(axes) != 1:
        return extreme_gradient(call, output, adjoint)
    x, places, share = call.args[0], kept_axes(call, output[1]), kept_axes(call, fields_of(adjoint)[0])
    return [scatter_elements(zeros_of(x), places, share, axes[0])]


@operator_of(unique).define_gradient
def _unique_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    """The adjoint of each distinct value, put at the position of its first appearance."""
    x, is_sorted = call.args[0], call.args[1]
    axis = call.args[5] if len(call.args) > 5 else None
    first = unique(x, is_sorted, True, False, False, axis)[1]
    share = adjoint if not isinstance(adjoint, Tuple) else adjoint.fields[0]
    others: list[Expr | None] = [None] * (len(call.args) - 1)
    if axis is None:
        return [reshape_like(take_backward(share, flatten(x), first, axis=0), x), *others]
    assert isinstance(axis, PrimValue)
    return [take_backward(share, x, first, axis=int(axis.value)), *others]
