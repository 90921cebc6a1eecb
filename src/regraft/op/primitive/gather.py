"""Gathering elements of a tensor at indices that other tensors hold: gather_elements, gather_nd, index_tensor.

A negative index counts from the end. An index out of range is an error in the run, or its result is undefined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.dims import Dim, dim_less, dims_equal
from ...ir.dtypes import is_integer
from ...ir.errors import OpTypeError
from ...ir.expr import Expr
from ...ir.op import Call, Trait, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, Type
from ..public_function import declares
from ..rules import broadcast_of, format_dims, normalize_axis, require_kind, tensor_fields, tensor_operand
from ..semantics import along, cast, positions

__all__ = ["gather_elements", "gather_nd", "index_tensor"]

_INTEGERS = 'integers; convert it with R.astype(indices, "int64")'


def index_operand(call: Call) -> TensorType:
    """The type of operand 1, a tensor of integers (or of unknown dtype)."""
    return require_kind(call, 1, is_integer, f"a tensor of {_INTEGERS}")


def broadcast_indices(call: Call, data: TensorType) -> tuple[int, tuple[Dim, ...] | None, int]:
    """The number of index tensors in operand 1, at most one for each axis of data, and their broadcast shape and ndim.

    Raises `OpTypeError` if they are not tensors of integers, are too many or none, or never broadcast.
    """
    fields = tensor_fields(call, 1)
    for field in fields:
        if field.dtype is not None and not is_integer(field.dtype):
            raise wrong_operand(call, 1, f"a tuple of tensors of {_INTEGERS}")
    if not fields or (data.ndim != UNKNOWN_NDIM and len(fields) > data.ndim):
        most = "" if data.ndim == UNKNOWN_NDIM else f", and no more than the {data.ndim} axes of data"
        raise wrong_operand(call, 1, f"one tensor of indices or more{most}")

    def wrong(number: int, dims: str) -> OpTypeError:
        return wrong_operand(call, 1, f"tensors that broadcast together; number {number} does not, with {dims}")

    return len(fields), *broadcast_of(fields, wrong)


def from_front(xp: Any, indices: Any, extent: int) -> Any:
    """Indices of an axis of size ``extent`` as int64; negative indices count from its end."""
    indices = cast(xp, indices, "int64")
    return xp.where(indices < 0, indices + extent, indices)


# --- gather_elements


def check_elementwise(call: Call, data: TensorType, indices: TensorType) -> None:
    """Check the type of ``indices``, one index for each element, against ``data``. Raises `OpTypeError`."""
    ndim = max(data.ndim, indices.ndim)
    if UNKNOWN_NDIM not in (data.ndim, indices.ndim) and data.ndim != indices.ndim:
        raise wrong_operand(call, 1, f"a tensor of as many axes as data has, {data.ndim}")
    if ndim == 0:
        raise wrong_operand(call, 0, "a tensor of one axis or more")
    if ndim == UNKNOWN_NDIM:
        return
    axis = normalize_axis(call, "axis", call.attrs.axis, ndim)
    for place, (most, size) in enumerate(zip(data.shape or (), indices.shape or (), strict=False)):
        if place != axis and dim_less(most, size) is True:
            raise wrong_operand(
                call, 1, f"size {most} at most at axis {place}, as in data {format_dims(data.shape or ())}"
            )


def _gather_elements_type(call: Call) -> Type:
    data, indices = tensor_operand(call, 0), index_operand(call)
    check_elementwise(call, data, indices)
    return TensorType(indices.shape, data.dtype, max(data.ndim, indices.ndim))


def _gather_elements(xp: Any, data: Any, indices: Any, axis: int) -> Any:
    axis %= data.ndim
    within = tuple(slice(None) if place == axis else slice(size) for place, size in enumerate(indices.shape))
    return xp.take_along_axis(data[within], from_front(xp, indices, data.shape[axis]), axis=axis)


@declares(
    "relax.gather_elements",
    primitive=True,
    infer=_gather_elements_type,
    reference=_gather_elements,
    traits=(Trait.MOVES,),
)
def gather_elements(data: Expr, indices: Expr, axis: int = 0) -> Call:
    """For each index, the element of ``data`` at that index along ``axis``, at the same position along other axes.

    Follows ``GatherElements`` of ONNX and ``torch.gather``. Operands: ``data``, any tensor except a scalar;
    ``indices``, integers, of the same rank, and no larger at the other axes. Attributes: ``axis`` (negative:
    from the end). Result: ``data``'s dtype, the shape of ``indices``. Raises `OpTypeError` for indices that
    are not integers, other ranks, larger sizes, or an axis that does not exist.
    """
    ...


# --- gather_nd


def _gather_nd_type(call: Call) -> Type:
    data, indices = tensor_operand(call, 0), index_operand(call)
    batch = call.attrs.batch_dims
    if batch < 0:
        raise wrong_attribute(call, "batch_dims", "0 or more")
    if indices.ndim == 0:
        raise wrong_operand(call, 1, "one axis or more, the last of which holds the indices of one place")
    for index, ty in enumerate((data, indices)):
        if ty.ndim != UNKNOWN_NDIM and ty.ndim <= batch - (1 - index):
            raise wrong_operand(call, index, f"more than batch_dims={batch} axes" if index else f"{batch} axes or more")
    depth = None if indices.shape is None else indices.shape[-1]
    if data.ndim == UNKNOWN_NDIM or not isinstance(depth, int):
        return TensorType(None, data.dtype)
    if depth + batch > data.ndim:
        raise wrong_operand(call, 1, f"at most {data.ndim - batch} indices in the last axis, for the axes of data")
    ndim = data.ndim - depth - batch + indices.ndim - 1
    if data.shape is None or indices.shape is None:
        return TensorType(None, data.dtype, ndim)
    shared = _shared_batch(call, data.shape[:batch], indices.shape[:batch])
    if not shared:
        return TensorType(None, data.dtype, ndim)
    return TensorType([*indices.shape[:-1], *data.shape[batch + depth :]], data.dtype)


def _shared_batch(call: Call, data: Sequence[Dim], indices: Sequence[Dim]) -> bool:
    for axis, (size, other) in enumerate(zip(data, indices, strict=True)):
        same = dims_equal(size, other)
        if same is False:
            raise wrong_operand(call, 1, f"size {size} at axis {axis}, a batch axis, as data has")
        if same is None:
            return False
    return True


def _gather_nd(xp: Any, data: Any, indices: Any, batch_dims: int) -> Any:
    depth, ndim = indices.shape[-1], indices.ndim - 1
    sizes = enumerate(indices.shape[:batch_dims])
    batch = [along(xp, positions(xp, size, indices), axis, ndim) for axis, size in sizes]
    named = [from_front(xp, indices[..., i], data.shape[batch_dims + i]) for i in range(depth)]
    if not batch and not named:
        return xp.broadcast_to(data, (*indices.shape[:-1], *data.shape))
    places = (*batch, *named)
    found = data[places]
    return found if named else xp.broadcast_to(found, (*indices.shape[:-1], *data.shape[batch_dims:]))


@declares("relax.gather_nd", infer=_gather_nd_type, reference=_gather_nd, traits=(Trait.MOVES,))
def gather_nd(data: Expr, indices: Expr, batch_dims: int = 0) -> Call:
    """The slices of ``data`` at positions that are each a row of indices; follows ``GatherND`` of ONNX.

    Operands: ``data``, any tensor; ``indices``, integers of shape (..., k), whose rows are positions
    along the first k axes of ``data`` after the batch axes. Attributes: ``batch_dims``, the number of leading
    axes that both share. Result: ``data``'s dtype, shape (*indices.shape[:-1], *data.shape[batch_dims + k:]); its
    rank is unknown if k is. Raises `OpTypeError` for indices that are not integers, too many of them,
    or batch axes that never agree.
    """
    ...


# --- index_tensor


def _index_tensor_type(call: Call) -> Type:
    data = tensor_operand(call, 0)
    count, dims, ndim = broadcast_indices(call, data)
    if UNKNOWN_NDIM in (data.ndim, ndim):
        return TensorType(None, data.dtype)
    if data.shape is None or dims is None:
        return TensorType(None, data.dtype, ndim + data.ndim - count)
    return TensorType([*dims, *data.shape[count:]], data.dtype)


def _index_tensor(xp: Any, data: Any, indices: tuple[Any, ...]) -> Any:
    return xp.asarray(data[tuple(from_front(xp, x, size) for x, size in zip(indices, data.shape, strict=False))])


@declares(
    "relax.index_tensor", primitive=True, infer=_index_tensor_type, reference=_index_tensor, traits=(Trait.MOVES,)
)
def index_tensor(data: Expr, indices: Expr | Sequence[Expr]) -> Call:
    """``data[indices[0], indices[1], ...]``; follows NumPy's indexing by arrays of integers.

    Operands: ``data``, any tensor; ``indices``, a tuple of tensors of integers, one for each of the leading
    axes, that broadcast together. Result: ``data``'s dtype; the broadcast shape replaces those axes.
    Raises `OpTypeError` for indices that are not integers, too many of them, or shapes that never
    broadcast.
    """
    ...
