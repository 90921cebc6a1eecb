"""Searching and sorting: indices of extremes, buckets, sorted, distinct and nonzero elements.

NaN counts as greater than everything. Sorting is stable: equal elements keep their order, in descending order too.
If the number of elements depends on the data, the type of the result has a rank, but no shape.
"""

from __future__ import annotations

from typing import Any, Literal

from ...ir.dims import dim_less
from ...ir.dtypes import is_float, is_integer
from ...ir.errors import OpTypeError
from ...ir.expr import Expr
from ...ir.op import Call, Reference, Trait, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, TupleType, Type
from ..public_function import Dtype, Number, declares
from ..rules import integer_operand, normalize_axis, require_ordered, scalar_operand, tensor_operand
from ..semantics import cast, dtype_name, sort_keys
from .reduction import reduced_type, require_elements

__all__ = ["argmax", "argmin", "argsort", "bucketize", "nonzero", "sort", "topk", "unique"]


# --- greatest and smallest


def _place_type(call: Call) -> Type:
    require_ordered(call, 0)
    axes = None if call.attrs.axis is None else (call.attrs.axis,)
    require_elements(call, axes)
    return reduced_type(call, axes, "int64")


def _place(name: str) -> Reference:
    def reference(xp: Any, x: Any, axis: int | None, keepdims: bool) -> Any:
        keys = sort_keys(xp, x)
        if axis is None:
            place = getattr(xp, name)(xp.reshape(keys, (-1,)))
            return cast(xp, xp.reshape(xp.asarray(place), (1,) * x.ndim if keepdims else ()), "int64")
        return cast(xp, xp.asarray(getattr(xp, name)(keys, axis=axis, keepdims=keepdims)), "int64")

    return reference


def _search(name: str, which: str):
    """``argmax`` or ``argmin``."""

    @declares(
        f"relax.{name}",
        primitive=True,
        infer=_place_type,
        reference=_place(name),
        traits=(Trait.REDUCTION, Trait.STOPS_GRADIENT),
        doc=f"""The index of the {which} element along ``axis``: the first of equal elements, or the first NaN.

    Follows ``numpy.{name}``. Operands: ``x``, a tensor of real numbers or bool. Attributes: ``axis``; None
    means all elements in row-major order; ``keepdims``, True to keep the axis, with size 1. Result: int64.
    Raises `OpTypeError` for other dtypes, an axis that ``x`` lacks, or an axis without elements.
    """,
    )
    def function(x: Expr, axis: int | None = None, keepdims: bool = False) -> Call: ...

    return function


argmax = _search("argmax", "greatest")
argmin = _search("argmin", "smallest")


# --- among sorted values


def _bucketize_type(call: Call) -> Type:
    require_ordered(call, 0)
    if require_ordered(call, 1).ndim not in (UNKNOWN_NDIM, 1):
        raise wrong_operand(call, 1, "a tensor of rank 1")
    return tensor_operand(call, 0).with_dtype("int32" if call.attrs.out_int32 else "int64")


def compared_dtype(values: str, boundaries: str) -> str | None:
    """The dtype in which `bucketize` compares operands of two dtypes; None if their dtypes are equal."""
    if values == boundaries:
        return None
    wide = any(is_float(dtype) or dtype == "uint64" for dtype in (values, boundaries))
    return "float64" if wide else "int64"


def _bucketize(xp: Any, input_tensor: Any, boundaries: Any, out_int32: bool, right: bool) -> Any:
    common = compared_dtype(dtype_name(input_tensor.dtype), dtype_name(boundaries.dtype))
    if common is not None:
        input_tensor, boundaries = cast(xp, input_tensor, common), cast(xp, boundaries, common)
    values = xp.reshape(sort_keys(xp, input_tensor), (-1,))
    places = xp.searchsorted(sort_keys(xp, boundaries), values, side="right" if right else "left")
    return cast(xp, xp.reshape(places, input_tensor.shape), "int32" if out_int32 else "int64")


@declares(
    "relax.bucketize", primitive=True, infer=_bucketize_type, reference=_bucketize, traits=(Trait.STOPS_GRADIENT,)
)
def bucketize(input_tensor: Expr, boundaries: Expr, out_int32: bool = False, right: bool = False) -> Call:
    """The index of the bucket between ``boundaries`` that each element falls into.

    Follows ``torch.bucketize``. The index is the number of boundaries below the element or, with ``right``, not
    above it; NaN is above all. Operands: ``input_tensor``, real numbers; ``boundaries``, rank 1, in ascending
    order. Operands of different dtypes are compared as int64, or as float64 if one is floating
    or uint64. Attributes: ``out_int32``, for a result of int32 rather than int64; ``right``. Result: the shape
    of ``input_tensor``. Raises `OpTypeError` for operands of other ranks or kinds.
    """
    ...


# --- in order


def _ordered_operand(call: Call) -> tuple[TensorType, int | None]:
    """The type of the operand, and ``axis`` counted from 0; the axis is None if the rank is unknown."""
    ty = require_ordered(call, 0)
    if ty.ndim == 0:
        raise wrong_operand(call, 0, "a tensor of rank 1 or more")
    axis = None if ty.ndim == UNKNOWN_NDIM else normalize_axis(call, "axis", call.attrs.axis, ty.ndim)
    return ty, axis


def _places_dtype(call: Call) -> str:
    if not is_integer(call.attrs.dtype):
        raise wrong_attribute(call, "dtype", "an integer dtype for the indices")
    return call.attrs.dtype


def _places(xp: Any, x: Any, axis: int, descending: bool) -> Any:
    """The indices that sort the elements along ``axis``."""
    keys = sort_keys(xp, x)
    if not descending:
        return xp.argsort(keys, axis=axis, stable=True)
    # Sorting the reversed elements and reversing the result keeps equal elements in their order.
    backwards = xp.argsort(xp.flip(keys, axis=axis), axis=axis, stable=True)
    return x.shape[axis] - 1 - xp.flip(backwards, axis=axis)


# --- sort


def _sort(xp: Any, x: Any, axis: int, descending: bool) -> Any:
    return xp.take_along_axis(x, _places(xp, x, axis, descending), axis=axis)


@declares(
    "relax.sort", infer=lambda call: _ordered_operand(call)[0], reference=_sort, traits=(Trait.IDEMPOTENT, Trait.MOVES)
)
def sort(x: Expr, axis: int = -1, descending: bool = False) -> Call:
    """The elements of ``x``, sorted along ``axis``; follows ``numpy.sort``.

    Operands: ``x``, real numbers or bool. Attributes: ``axis``; ``descending``, the greatest (NaN) first.
    Result: the type of ``x``. Raises `OpTypeError` for other dtypes, a scalar, or an axis that ``x`` lacks.
    """
    ...


# --- argsort


def _argsort_type(call: Call) -> Type:
    return _ordered_operand(call)[0].with_dtype(_places_dtype(call))


def _argsort(xp: Any, data: Any, axis: int, descending: bool, dtype: str) -> Any:
    return cast(xp, _places(xp, data, axis, descending), dtype)


@declares("relax.argsort", primitive=True, infer=_argsort_type, reference=_argsort, traits=(Trait.STOPS_GRADIENT,))
def argsort(data: Expr, axis: int = -1, descending: bool = False, dtype: Dtype = "int32") -> Call:
    """The indices that sort the elements along ``axis``; follows ``numpy.argsort`` with ``stable=True``.

    Operands: ``data``, real numbers or bool. Attributes: ``axis``; ``descending``, the greatest (NaN) first;
    ``dtype``, an integer dtype. Result: that dtype, the shape of ``data``.
    Raises `OpTypeError` for other dtypes, a scalar, or an axis that ``data`` lacks.
    """
    ...


# --- topk


def _topk_type(call: Call) -> Type:
    ty, axis = _ordered_operand(call)
    k, kind = call.attrs.k, call.attrs.ret_type
    if kind not in ("both", "values", "indices"):
        raise wrong_attribute(call, "ret_type", '"both", "values" or "indices"')
    values = ty
    if k >= 1:
        shape = None
        if axis is not None and ty.shape is not None:
            if dim_less(ty.shape[axis], k):
                raise wrong_attribute(call, "k", f"at most {ty.shape[axis]}, the size of axis {axis}")
            shape = [*ty.shape[:axis], k, *ty.shape[axis + 1 :]]
        values = TensorType(shape, ty.dtype, ty.ndim)
    places = values.with_dtype(_places_dtype(call))
    return TupleType([values, places]) if kind == "both" else values if kind == "values" else places


def _topk(xp: Any, data: Any, k: int, axis: int, ret_type: str, largest: bool, dtype: str) -> Any:
    axis %= data.ndim
    places = _places(xp, data, axis, largest)
    if k > data.shape[axis]:
        raise OpTypeError(f"relax.topk: k={k}, but axis {axis} of data has {data.shape[axis]} elements in this run")
    if k >= 1:
        places = places[(*[slice(None)] * axis, slice(0, k))]
    found = cast(xp, places, dtype)
    if ret_type == "indices":
        return found
    values = xp.take_along_axis(data, places, axis=axis)
    return values if ret_type == "values" else (values, found)


def _held(attrs: dict[str, Any], data: Expr) -> tuple[Expr]:
    """Limit ``k`` to the size of the axis, if that is known."""
    shape = data.ty.shape if isinstance(data.ty, TensorType) else None
    axis: int = attrs["axis"]
    size = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
    if isinstance(size, int) and size > 0:
        attrs["k"] = int(min(attrs["k"], size))
    return (data,)


@declares("relax.topk", infer=_topk_type, reference=_topk, prepare=_held)
def topk(
    data: Expr,
    k: int = 1,
    axis: int = -1,
    ret_type: Literal["both", "values", "indices"] = "both",
    largest: bool = True,
    dtype: Dtype = "int32",
) -> Call:
    """The ``k`` greatest elements along ``axis``, the greatest first; among equal elements, the first ones.

    Follows ``torch.topk``. Operands: ``data``, real numbers or bool. Attributes: ``k``, below 1: all elements;
    ``axis``; ``ret_type``, the result: "values", their "indices", or a tuple of "both";
    ``largest``, False for the smallest elements, the smallest first; ``dtype`` of the indices, an integer dtype.
    Result: ``data``'s shape with ``k`` at ``axis``; if the axis is known to have fewer elements, all of them.
    Raises `OpTypeError` for other dtypes or attributes, and in the run if an axis of symbolic size has fewer than ``k``
    elements.
    """
    ...


# --- unique


def _flag(call: Call, index: int) -> bool:
    value = scalar_operand(call, index).value
    if not isinstance(value, bool | int):
        raise wrong_operand(call, index, "True or False, not a value that the program computes")
    return bool(value)


def _unique_type(call: Call) -> Type:
    x = require_ordered(call, 0)
    _flag(call, 1)
    flags = [_flag(call, index) for index in (2, 3, 4)]
    ndim = 1
    if len(call.args) > 5:
        axis = integer_operand(call, 5)
        ndim = x.ndim
        if not isinstance(axis, int):
            raise wrong_operand(call, 5, "an integer, not a value that the program computes")
        if ndim != UNKNOWN_NDIM and not -ndim <= axis < ndim:
            raise wrong_operand(call, 5, f"an axis of x, a tensor of {ndim} dimensions")
    values = TensorType(None, x.dtype, ndim)
    extras = [TensorType(None, "int64", 1) for wanted in flags if wanted]
    return TupleType([values, *extras]) if extras else values


def _dense_ranks(xp: Any, columns: Any) -> Any:
    """For each element of a column, the number of distinct smaller values in the column; NaN is one value."""
    order = xp.argsort(columns, axis=0, stable=True)
    ascending = xp.take_along_axis(columns, order, axis=0)
    differs = xp.not_equal(ascending[1:, ...], ascending[:-1, ...])
    if is_float(dtype_name(columns.dtype)):
        both_nan = xp.logical_and(xp.isnan(ascending[1:, ...]), xp.isnan(ascending[:-1, ...]))
        differs = xp.logical_and(differs, xp.logical_not(both_nan))
    steps = xp.concat([xp.zeros_like(order[:1, ...]), cast(xp, differs, "int64")], axis=0)
    ranks = xp.cumulative_sum(steps, axis=0)
    return xp.take_along_axis(ranks, xp.argsort(order, axis=0, stable=True), axis=0)


def _row_ranks(xp: Any, rows: Any) -> Any:
    """The `_dense_ranks` of whole rows in lexicographic order; each round halves the number of columns."""
    count = rows.shape[0]
    ranks = _dense_ranks(xp, rows) if rows.shape[1] else xp.zeros((count, 1), dtype=xp.int64)
    while ranks.shape[1] > 1:
        if ranks.shape[1] % 2:
            ranks = xp.concat([ranks, xp.zeros_like(ranks[:, :1])], axis=1)
        ranks = _dense_ranks(xp, ranks[:, 0::2] * count + ranks[:, 1::2])
    return ranks[:, 0]


def _unique(
    xp: Any,
    x: Any,
    sorted: Any,
    return_index: Any,
    return_inverse: Any,
    return_counts: Any,
    axis: int | None,
) -> Any:
    items = xp.reshape(x, (-1,)) if axis is None else xp.moveaxis(x, axis, 0)
    width = 1
    for size in items.shape[1:]:
        width *= size
    count = items.shape[0]
    inverse = _row_ranks(xp, xp.reshape(sort_keys(xp, items), (count, width)))
    order = xp.argsort(inverse, stable=True)
    ascending = xp.take(inverse, order)
    is_first = xp.concat([xp.ones((min(count, 1),), dtype=xp.bool), xp.not_equal(ascending[1:], ascending[:-1])])
    starts = xp.nonzero(is_first)[0]
    ends = xp.concat([starts[1:], xp.full((min(count, 1),), count, dtype=starts.dtype)])
    firsts, counts = xp.take(order, starts), ends - starts
    if not sorted:
        appearance = xp.argsort(firsts, stable=True)
        firsts, counts = xp.take(firsts, appearance), xp.take(counts, appearance)
        inverse = xp.take(xp.argsort(appearance, stable=True), inverse)
    values = xp.take(items, firsts, axis=0)
    results = [values if axis is None else xp.moveaxis(values, 0, axis)]
    for wanted, result in ((return_index, firsts), (return_inverse, inverse), (return_counts, counts)):
        if wanted:
            results.append(cast(xp, result, "int64"))
    return tuple(results) if len(results) > 1 else results[0]


@declares("relax.unique", primitive=True, infer=_unique_type, reference=_unique)
def unique(
    x: Expr,
    sorted: Number = True,
    return_index: Number = False,
    return_inverse: Number = False,
    return_counts: Number = False,
    axis: Number | None = None,
) -> Call:
    """The distinct elements of ``x``, or its distinct slices along ``axis``; follows ONNX ``Unique``.

    Operands: ``x``, real numbers or bool (NaN is one value); ``sorted``: True for ascending (lexicographic) order,
    False for the order of first appearance; ``axis``, None: single elements. Result: the values, of rank 1 or, with
    an axis, of the rank of ``x``. With ``return_index``, ``return_inverse`` or ``return_counts``, a tuple of the
    values and, as int64 of rank 1, the index of each value's first appearance, the index in the result of each
    element, and the count of each value.
    Raises `OpTypeError` for other dtypes, and for operands that are not known when the program is written.
    Cost: n·log n for n elements, times log m for slices of m elements.
    """
    ...


# --- nonzero


def _nonzero_type(call: Call) -> Type:
    tensor_operand(call, 0)
    return TensorType(None, "int64", 2)


def _nonzero(xp: Any, x: Any) -> Any:
    items = xp.reshape(x, (1,)) if x.ndim == 0 else x
    return cast(xp, xp.stack(xp.nonzero(items)), "int64")


@declares("relax.nonzero", primitive=True, infer=_nonzero_type, reference=_nonzero, traits=(Trait.STOPS_GRADIENT,))
def nonzero(x: Expr) -> Call:
    """The indices of the elements that are not zero, in row-major order; follows ONNX ``NonZero``.

    Operands: ``x``, any tensor (a scalar counts as rank 1). Result: int64, a row for each axis of ``x`` and a
    column for each nonzero element; their number is unknown. Raises `OpTypeError` if ``x`` is not a tensor.
    """
    ...
