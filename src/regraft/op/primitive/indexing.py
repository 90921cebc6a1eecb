"""Parts of a tensor by position along its axes: take, strided_slice, dynamic_strided_slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ...ir.dims import Dim, SymExpr, ceildiv, dim_at_least, dim_max, dim_min, dims_equal
from ...ir.dtypes import is_float, is_integer
from ...ir.expr import Expr
from ...ir.op import Call, Trait, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, PrimType, TensorType, TupleType, Type
from ..public_function import Number, Scalars, declares
from ..rules import array_operand, normalize_axis, require_kind, require_rank, shaped, tensor_operand
from ..semantics import along, cast, filled, index_array

__all__ = ["dynamic_strided_slice", "strided_slice", "take"]


# --- take

_MODES = ("fast", "nan", "wrap", "clip")


def _take_type(call: Call) -> Type:
    x = tensor_operand(call, 0)
    expected = 'a tensor of integers; convert it with R.astype(indices, "int64")'
    indices = require_kind(call, 1, is_integer, expected, read=array_operand)
    axis, mode = call.attrs.axis, call.attrs.mode
    if mode not in _MODES:
        raise wrong_attribute(call, "mode", f"one of {', '.join(_MODES)}")
    if mode == "nan":
        require_kind(call, 0, is_float, 'a floating dtype, which has a NaN; use mode="clip" or "wrap" for others')
    if axis is None and x.ndim not in (UNKNOWN_NDIM, 1):
        raise wrong_operand(call, 0, f"a tensor of rank 1 if no axis is given; give axis=0 to {x.ndim - 1}")
    if axis is None:
        return indices.with_dtype(x.dtype)
    if x.ndim == UNKNOWN_NDIM:
        return TensorType(None, x.dtype)
    place = normalize_axis(call, "axis", axis, x.ndim)
    if indices.ndim == UNKNOWN_NDIM:
        return TensorType(None, x.dtype)
    if x.shape is None or indices.shape is None:
        return TensorType(None, x.dtype, x.ndim - 1 + indices.ndim)
    return TensorType([*x.shape[:place], *indices.shape, *x.shape[place + 1 :]], x.dtype)


def _take(xp: Any, x: Any, indices: Any, axis: int | None, mode: str) -> Any:
    place = 0 if axis is None else axis % x.ndim
    extent = x.shape[place]
    if isinstance(indices, int):
        indices = xp.reshape(index_array(xp, [indices], x), ())
    flat = xp.reshape(cast(xp, indices, "int64"), (-1,))
    if mode == "nan":
        inside = (flat >= 0) & (flat < extent)
        taken = xp.take(x, xp.where(inside, flat, xp.zeros_like(flat)), axis=place)
        taken = xp.where(along(xp, inside, place, x.ndim), taken, filled(xp, (), float("nan"), x))
    elif mode == "clip":
        taken = xp.take(x, xp.clip(flat, 0, max(extent - 1, 0)), axis=place)
    elif mode == "wrap":
        taken = xp.take(x, xp.remainder(flat, max(extent, 1)), axis=place)
    else:
        taken = xp.take(x, xp.where(flat < 0, flat + extent, flat), axis=place)
    return xp.reshape(taken, (*x.shape[:place], *indices.shape, *x.shape[place + 1 :]))


@declares("relax.take", primitive=True, infer=_take_type, reference=_take, traits=(Trait.MOVES,))
def take(
    x: Expr,
    indices: Number,
    axis: int | None = None,
    mode: Literal["fast", "nan", "wrap", "clip"] = "fast",
) -> Call:
    """The slices of ``x`` at ``indices`` along an axis; follows ``numpy.take``, and ``Gather`` of ONNX.

    Operands: ``x``, any tensor; ``indices``, integers of any shape, or one int. Attributes: ``axis``
    (negative: from the end), which may be None if ``x`` has one axis; ``mode``, for indices out of range:
    "fast" does not check (negative indices count from the end), "nan" gives NaN for them and for negative indices,
    "wrap" takes them modulo the size, "clip" takes the nearest end (0 for negative indices). Result: ``x``'s
    dtype; the axes of ``indices`` replace ``axis``. Raises `OpTypeError` for indices that are not integers,
    an axis that ``x`` does not have, and an unknown mode.
    """
    ...


# --- strided_slice


def _strided_slice_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    axes, begins, ends = (_scalar_fields(call, index) for index in (1, 2, 3))
    strides = _scalar_fields(call, 4) if len(call.args) > 4 else (1,) * len(axes)
    for index, values in enumerate((begins, ends, strides), start=2):
        if len(values) != len(axes):
            raise wrong_operand(call, index, f"one integer for each of the axes, {len(axes)}")
    if any(axis is None or isinstance(axis, SymExpr) for axis in axes):
        raise wrong_operand(call, 1, "axes that are known integers")
    if any(stride == 0 for stride in strides):
        raise wrong_operand(call, 4, "strides other than 0")
    if ty.ndim == UNKNOWN_NDIM:
        return ty
    places = _slice_axes(call, [axis for axis in axes if isinstance(axis, int)], ty.ndim)
    if ty.shape is None:
        return ty
    sizes: list[Dim | None] = list(ty.shape)
    for place, begin, end, stride in zip(places, begins, ends, strides, strict=True):
        sizes[place] = slice_length(ty.shape[place], begin, end, stride, call.attrs.assume_inbound)
    return shaped(sizes, ty.dtype)


def _scalar_fields(call: Call, index: int) -> tuple[Dim | None, ...]:
    """The integers in operand ``index``, which must be a tuple; None for each one that is not known."""
    ty = call.args[index].ty
    if not isinstance(ty, TupleType):
        raise wrong_operand(call, index, "a tuple of integers, such as (0, 1)")
    values: list[Dim | None] = []
    for field in ty.fields:
        if not isinstance(field, PrimType) or not is_integer(field.dtype):
            raise wrong_operand(call, index, "a tuple of integers or sizes only, such as (0, n)")
        values.append(None if isinstance(field.value, float) else field.value)
    return tuple(values)


def _slice_axes(call: Call, axes: Sequence[int], ndim: int) -> list[int]:
    for axis in axes:
        if not -ndim <= axis < ndim:
            raise wrong_operand(call, 1, f"axes of a tensor of {ndim} dimensions: {-ndim} to {ndim - 1}, not {axis}")
    places = [axis % ndim for axis in axes]
    if len(set(places)) != len(places):
        raise wrong_operand(call, 1, f"axes that are all different, not {tuple(axes)}")
    return places


def slice_length(
    extent: Dim, begin: Dim | None, end: Dim | None, stride: Dim | None, inbound: bool = False
) -> Dim | None:
    """The length of the slice ``begin:end:stride`` of ``extent`` elements, as in Python; None if it is not known.

    With ``inbound``, the bounds are assumed not to pass the ends of an axis of symbolic size.
    """
    if begin is None or end is None or not isinstance(stride, int):
        return None
    if isinstance(extent, int) and isinstance(begin, int) and isinstance(end, int):
        return len(range(*slice(begin, end, stride).indices(extent)))
    first, last = _from_front(begin, extent), _from_front(end, extent)
    if first is None or last is None:
        return None
    if stride == 1 and first == 0 and last == extent:
        return extent
    # A bound beyond the other bound's end gives an empty slice anyway, so each is clipped on one side only.
    if stride < 0:
        first, last, stride = last, first, -stride
        first, last = (first, last) if inbound else (dim_max(first, -1), dim_min(last, extent - 1))
    elif not inbound:
        first, last = dim_max(first, 0), dim_min(last, extent)
    elif first == 0 or last == extent:
        return ceildiv(last - first, stride)  # first <= last, since no bound passes an end
    return dim_max(ceildiv(last - first, stride), 0)


def _from_front(bound: Dim, extent: Dim) -> Dim | None:
    """The bound of a slice, counted from the front also if it is negative; None if its sign is not known."""
    is_positive = bound == extent or dim_at_least(bound, 0)  # a size is never negative
    return None if is_positive is None else bound if is_positive else bound + extent


def _strided_slice(
    xp: Any,
    x: Any,
    axes: tuple[int, ...],
    begin: tuple[int, ...],
    end: tuple[int, ...],
    strides: tuple[int, ...] | None,
    assume_inbound: bool,
) -> Any:
    del assume_inbound  # only needed if sizes are symbolic
    for axis, first, last, stride in zip(axes, begin, end, strides or (1,) * len(axes), strict=True):
        x = _sliced(xp, x, axis % x.ndim, slice(first, last, stride))
    return x


def _sliced(xp: Any, x: Any, axis: int, part: slice) -> Any:
    """A slice of ``x`` along one axis. PyTorch has no negative strides, so such a slice is taken forwards and flipped.

    With a positive stride the size is not read, since it may be symbolic in a program that PyTorch traces.
    """
    before = (slice(None),) * axis
    if part.step is None or part.step > 0:
        return x[(*before, part)]
    places = range(*part.indices(x.shape[axis]))
    if not places:
        return x[(*before, slice(0, 0))]
    return xp.flip(x[(*before, slice(places[-1], places[0] + 1, -places.step))], axis=axis)


@declares(
    "relax.strided_slice",
    primitive=True,
    infer=_strided_slice_type,
    reference=_strided_slice,
    traits=(Trait.MOVES,),
)
def strided_slice(
    x: Expr,
    axes: Scalars,
    begin: Scalars,
    end: Scalars,
    strides: Scalars | None = None,
    assume_inbound: bool = False,
) -> Call:
    """``x[begin:end:stride]`` along each of ``axes``; follows Python's slices, and ``Slice`` of ONNX.

    Operands: ``x``, any tensor; ``axes`` (negative: from the end), ``begin``, ``end`` and ``strides``, tuples
    of the same length, of ints or sizes; strides are 1 if omitted. Negative bounds count from
    the end, and bounds past an end are clipped to it. Attributes: ``assume_inbound``, a promise that no bound
    passes an end, which gives simpler sizes if the sizes of ``x`` are symbolic. Result: ``x``'s dtype and
    rank; sizes are exact, or unknown if a bound or its sign is unknown. Raises `OpTypeError` for axes that
    ``x`` does not have or that repeat, for tuples of other lengths, and for a stride of 0.
    """
    ...


# --- dynamic_strided_slice


def _dynamic_strided_slice_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    for index in (1, 2, 3):
        bound = require_rank(call, index, "a tensor of integers of rank 1", 1, integers=True)
        if ty.ndim != UNKNOWN_NDIM and bound.shape is not None and dims_equal(bound.shape[0], ty.ndim) is False:
            raise wrong_operand(call, index, f"one integer for each of the {ty.ndim} axes of x")
    return TensorType(None, ty.dtype, ty.ndim)


def _dynamic_strided_slice(xp: Any, x: Any, begin: Any, end: Any, strides: Any) -> Any:
    bounds = ([int(value) for value in values] for values in (begin, end, strides))
    for axis, (first, last, stride) in enumerate(zip(*bounds, strict=True)):
        x = _sliced(xp, x, axis, slice(first, last, stride))
    return x


@declares(
    "relax.dynamic_strided_slice",
    primitive=True,
    infer=_dynamic_strided_slice_type,
    reference=_dynamic_strided_slice,
    traits=(Trait.MOVES,),
)
def dynamic_strided_slice(x: Expr, begin: Expr, end: Expr, strides: Expr) -> Call:
    """A `strided_slice` along every axis, with bounds that are tensors; follows ``Slice`` of ONNX.

    Operands: ``x``, any tensor; ``begin``, ``end`` and ``strides``, integers of shape (ndim of x,).
    Result: ``x``'s dtype and rank; its sizes are only known at run time.
    Raises `OpTypeError` if a bound is not a tensor of integers of that shape.
    """
    ...
