"""Scattering: a tensor with elements replaced at indices that other tensors hold; the counterpart of gathering.

Nothing is changed in place: the result is a new tensor. A negative index counts from the end. An index out of range
is an error in the run, or its result is undefined.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final, Literal

from ...ir.dims import Dim, dim_at_least, dim_max, dim_min, dims_equal
from ...ir.expr import Expr
from ...ir.op import Call, Trait, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, Type
from ..public_function import Number, declares
from ..rules import common_dtype, format_dims, integer_operand, normalize_axis, require_numbers, tensor_operand
from ..semantics import along, filled, index_array, positions
from .broadcast import may_broadcast
from .gather import broadcast_indices, check_elementwise, from_front, index_operand
from .indexing import slice_length
from .row_updates import fold_into_rows

__all__ = ["index_put", "scatter_elements", "scatter_nd", "slice_scatter"]

_FOLDED: Final = "numbers, because values with the same index are combined; convert it with R.astype"


def _updated_type(call: Call, values: int) -> TensorType:
    """The type of data, operand 0, which must have the same dtype as operand ``values``."""
    common_dtype(call, (0, values))
    return tensor_operand(call, 0)


def _check_reduction(call: Call, known: Sequence[str]) -> None:
    reduction = call.attrs.reduction
    if reduction not in known:
        raise wrong_attribute(call, "reduction", f"one of {', '.join(known)}")
    if reduction != "update":
        require_numbers(call, 0, _FOLDED)


def _check_sizes(call: Call, index: int, ty: TensorType, expected: tuple[Dim, ...]) -> None:
    if any(dims_equal(a, b) is False for a, b in zip(ty.shape or (), expected, strict=False)):
        raise wrong_operand(call, index, f"a tensor of shape {format_dims(expected)}")


def _put(xp: Any, data: Any, indices: Sequence[Any], places: tuple[int, ...], updates: Any, reduction: str) -> Any:
    """``data`` with ``updates`` at ``indices``: one tensor, of the shape ``places``, for each leading axis."""
    left, rest = data.shape[: len(indices)], data.shape[len(indices) :]
    width = prod(rest)
    rows = filled(xp, places, 0, like=index_array(xp, [0], data))
    for index, size in zip(indices, left, strict=True):
        rows = rows * size + from_front(xp, index, size)
    changed = fold_into_rows(
        xp,
        xp.reshape(data, (prod(left), width)),
        xp.reshape(rows, (-1,)),
        xp.reshape(updates, (prod(places), width)),
        reduction,
    )
    return xp.reshape(changed, data.shape)


# --- scatter_elements


def _scatter_elements_type(call: Call) -> Type:
    data, indices, updates = tensor_operand(call, 0), index_operand(call), tensor_operand(call, 2)
    _check_reduction(call, ("update", "add", "mul", "mean", "max", "min"))
    check_elementwise(call, data, indices)
    if UNKNOWN_NDIM not in (indices.ndim, updates.ndim) and indices.ndim != updates.ndim:
        raise wrong_operand(call, 2, f"a tensor of as many axes as indices has, {indices.ndim}")
    _check_sizes(call, 2, updates, indices.shape or ())
    return _updated_type(call, 2)


def _scatter_elements(xp: Any, data: Any, indices: Any, updates: Any, axis: int, reduction: str) -> Any:
    axis %= data.ndim
    places = [
        indices if place == axis else along(xp, positions(xp, size, indices), place, data.ndim)
        for place, size in enumerate(indices.shape)
    ]
    return _put(xp, data, places, tuple(indices.shape), updates, reduction)


@declares("relax.scatter_elements", infer=_scatter_elements_type, reference=_scatter_elements)
def scatter_elements(
    data: Expr,
    indices: Expr,
    updates: Expr,
    axis: int = 0,
    reduction: Literal["update", "add", "mul", "mean", "max", "min"] = "update",
) -> Call:
    """``data`` with each element of ``updates`` put at its index along ``axis``, at its own position along other axes.

    Follows ``ScatterElements`` of ONNX, and ``torch.scatter_reduce`` for "mean". Operands: ``data``, any
    tensor except a scalar; ``indices``, integers of the same rank, no larger at the other axes; ``updates``, of
    the shape of ``indices`` and the dtype of ``data``. Attributes: ``axis`` (negative: from the end);
    ``reduction``, for elements at the same position: "update" (one of them replaces the element of
    ``data``), or "add", "mul", "mean", "max", "min" of all of them and the element of ``data``. Result: ``data``'s
    type. Raises `OpTypeError` for indices that are not integers, and for ranks, sizes or dtypes that never
    agree.
    """
    ...


# --- scatter_nd


def _scatter_nd_type(call: Call) -> Type:
    data, indices, updates = tensor_operand(call, 0), index_operand(call), tensor_operand(call, 2)
    _check_reduction(call, ("update", "add", "mul", "max", "min"))
    if indices.ndim == 0:
        raise wrong_operand(call, 1, "one axis or more, the last of which holds the indices of one place")
    depth = None if indices.shape is None else indices.shape[-1]
    if isinstance(depth, int) and data.ndim != UNKNOWN_NDIM:
        if depth > data.ndim:
            raise wrong_operand(call, 1, f"at most {data.ndim} indices in the last axis, for the axes of data")
        ndim = indices.ndim - 1 + data.ndim - depth
        if updates.ndim not in (UNKNOWN_NDIM, ndim):
            raise wrong_operand(
                call,
                2,
                f"a tensor of {ndim} axes: the axes of indices without the last, then the remaining axes of data",
            )
        if data.shape is not None and indices.shape is not None:
            _check_sizes(call, 2, updates, (*indices.shape[:-1], *data.shape[depth:]))
    return _updated_type(call, 2)


def _scatter_nd(xp: Any, data: Any, indices: Any, updates: Any, reduction: str) -> Any:
    places, depth = tuple(indices.shape[:-1]), indices.shape[-1]
    if isinstance(depth, int) and depth > data.ndim:
        raise ValueError(
            f"indices have {depth} numbers in the last axis; expected at most {data.ndim}, the axes of data"
        )
    return _put(xp, data, [indices[..., i] for i in range(depth)], places, updates, reduction)


@declares("relax.scatter_nd", primitive=True, infer=_scatter_nd_type, reference=_scatter_nd)
def scatter_nd(
    data: Expr,
    indices: Expr,
    updates: Expr,
    reduction: Literal["update", "add", "mul", "max", "min"] = "update",
) -> Call:
    """``data`` with slices put at positions that are each a row of indices; follows ``ScatterND`` of ONNX.

    Operands: ``data``, any tensor; ``indices``, integers of shape (..., k), whose rows are positions
    along the first k axes of ``data``; ``updates``, of ``data``'s dtype and the shape (*indices.shape[:-1],
    *data.shape[k:]). Attributes: ``reduction``, for slices at the same position: "update" (one
    of them replaces the slice of ``data``), or "add", "mul", "max", "min" of all of them and the slice of ``data``.
    Result: ``data``'s type. Raises `OpTypeError` for indices that are not integers, and for ranks, sizes or
    dtypes that never agree.
    """
    ...


# --- index_put


def _index_put_type(call: Call) -> Type:
    data, values = tensor_operand(call, 0), tensor_operand(call, 2)
    if call.attrs.accumulate:
        require_numbers(call, 0, _FOLDED)
    count, dims, _ = broadcast_indices(call, data)
    if dims is not None and data.shape is not None and values.shape is not None:
        target = (*dims, *data.shape[count:])
        if not may_broadcast(values.shape, target):
            raise wrong_operand(call, 2, f"a tensor that broadcasts to {format_dims(target)}")
    return _updated_type(call, 2)


def _index_put(xp: Any, data: Any, indices: tuple[Any, ...], values: Any, accumulate: bool) -> Any:
    together = xp.broadcast_arrays(*indices)
    places = tuple(together[0].shape)
    updates = xp.broadcast_to(values, (*places, *data.shape[len(indices) :]))
    return _put(xp, data, together, places, updates, "add" if accumulate else "update")


def _in_a_tuple(_attrs: object, data: Expr, indices: Any, values: Expr) -> tuple[Any, ...]:
    """The operands, with a single tensor of indices put into a list."""
    return data, [indices] if isinstance(indices, Expr) and isinstance(indices.ty, TensorType) else indices, values


@declares("relax.index_put", infer=_index_put_type, reference=_index_put, prepare=_in_a_tuple)
def index_put(data: Expr, indices: Expr | Sequence[Expr], values: Expr, accumulate: bool = False) -> Call:
    """``data`` with ``data[indices[0], indices[1], ...]`` replaced by values; follows ``torch.index_put``.

    Operands: ``data``, any tensor; ``indices``, a tensor of integers, or a tuple of them, one for each of the
    leading axes, that broadcast together; ``values``, of ``data``'s dtype, a tensor that broadcasts to the replaced
    slices. Attributes: ``accumulate``: True adds all values to ``data``, False puts one of the values for a
    position there. Result: ``data``'s type. Raises `OpTypeError` for indices that
    are not integers, too many of them, and sizes or dtypes that never agree.
    """
    ...


# --- slice_scatter


def _slice_scatter_type(call: Call) -> Type:
    ty, src = tensor_operand(call, 0), tensor_operand(call, 1)
    start, end, step = (integer_operand(call, index) for index in (2, 3, 4))
    if step is not None and dim_at_least(step, 1) is False:
        raise wrong_operand(call, 4, "a step of 1 or more")
    if UNKNOWN_NDIM not in (ty.ndim, src.ndim) and ty.ndim != src.ndim:
        raise wrong_operand(call, 1, f"a tensor of as many axes as input_tensor has, {ty.ndim}")
    ndim = max(ty.ndim, src.ndim)
    if ndim != UNKNOWN_NDIM:
        axis = normalize_axis(call, "axis", call.attrs.axis, ndim)
        if ty.shape is not None:
            length = slice_length(ty.shape[axis], start, end, step)
            fits = length if length is not None or src.shape is None else src.shape[axis]
            if fits is not None:
                _check_sizes(call, 1, src, (*ty.shape[:axis], fits, *ty.shape[axis + 1 :]))
    return _updated_type(call, 1)


def _slice_scatter(xp: Any, input_tensor: Any, src: Any, start: Dim, end: Dim, step: int, axis: int) -> Any:
    del end  # given by the size of the source
    axis %= input_tensor.ndim
    extent, count = input_tensor.shape[axis], src.shape[axis]
    first = _front_place(start, extent)
    if step == 1:
        rest: Any = (slice(None),) * axis
        before, after = input_tensor[(*rest, slice(0, first))], input_tensor[(*rest, slice(first + count, extent))]
        return xp.concat([part for part in (before, src, after) if not _is_empty(part, axis)] or [src], axis=axis)
    all_places = positions(xp, extent, input_tensor)
    behind = all_places - first
    inside = (behind >= 0) & (behind < count * step) & (behind % step == 0)
    # Join both tensors, then take each element from one or the other.
    source = xp.where(inside, extent + behind // step, all_places)
    return xp.take(xp.concat((input_tensor, src), axis=axis), source, axis=axis)


def _front_place(start: Dim, extent: Dim) -> Dim:
    """The index of the first element of a slice that begins at ``start``, clipped to 0 ... ``extent``."""
    if isinstance(start, int) and isinstance(extent, int):
        return slice(start, None).indices(extent)[0]
    is_behind = dim_at_least(start, 0)
    if is_behind is None:
        from_end = dim_min(dim_max(-start, 0), 1)  # 1 if start counts from the end, which is only known in a run
        first = dim_max(start + extent * from_end, 0)
    else:
        first = start if is_behind else dim_max(start + extent, 0)
    return first if dim_at_least(extent - first, 0) is True else dim_min(first, extent)


def _is_empty(part: Any, axis: int) -> bool:
    return dims_equal(part.shape[axis], 0) is True


@declares("relax.slice_scatter", infer=_slice_scatter_type, reference=_slice_scatter, traits=(Trait.MOVES,))
def slice_scatter(input_tensor: Expr, src: Expr, start: Number, end: Number, step: Number, axis: int = 0) -> Call:
    """A tensor with ``start:end:step`` of one axis replaced by ``src``; follows ``torch.slice_scatter``.

    Operands: ``input_tensor``, any tensor; ``src``, of its dtype and of the shape of the slice; ``start``,
    ``end`` and ``step``, ints or sizes, as in Python's slices, the step at least 1. Attributes: ``axis``
    (negative: from the end). Result: ``input_tensor``'s type. Raises `OpTypeError` for a step below 1, an
    axis that does not exist, and ranks, sizes or dtypes that never agree.
    """
    ...
