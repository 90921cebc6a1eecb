"""Elements in order along one axis, and the first few of them.

NaN counts as greater than everything. The order is stable: equal elements stay in their order, also in a descending
one.
"""

from __future__ import annotations

from typing import Any, Literal

from ...ir.dims import dim_less
from ...ir.dtypes import is_integer
from ...ir.errors import OpTypeError
from ...ir.expr import Expr
from ...ir.op import Call, Trait, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, TupleType, Type
from ..public_function import Dtype, declares
from ..rules import normalize_axis, require_ordered
from ..semantics import cast, sort_keys

__all__ = ["argsort", "sort", "topk"]


def _ordered_operand(call: Call) -> tuple[TensorType, int | None]:
    """The type of the operand, and ``axis`` from 0 where the rank is known."""
    ty = require_ordered(call, 0)
    if ty.ndim == 0:
        raise wrong_operand(call, 0, "a tensor of rank 1 or more")
    axis = None if ty.ndim == UNKNOWN_NDIM else normalize_axis(call, "axis", call.attrs.axis, ty.ndim)
    return ty, axis


def _places_dtype(call: Call) -> str:
    if not is_integer(call.attrs.dtype):
        raise wrong_attribute(call, "dtype", "an integer dtype for the places")
    return call.attrs.dtype


def _places(xp: Any, x: Any, axis: int, descending: bool) -> Any:
    """The indices that sort the elements along ``axis``."""
    keys = sort_keys(xp, x)
    if not descending:
        return xp.argsort(keys, axis=axis, stable=True)
    # Sorting the reversed elements and reversing again keeps equal ones in their order.
    backwards = xp.argsort(xp.flip(keys, axis=axis), axis=axis, stable=True)
    return x.shape[axis] - 1 - xp.flip(backwards, axis=axis)


# --- sort


def _sort(xp: Any, x: Any, axis: int, descending: bool) -> Any:
    return xp.take_along_axis(x, _places(xp, x, axis, descending), axis=axis)


@declares(
    "relax.sort", infer=lambda call: _ordered_operand(call)[0], reference=_sort, traits=(Trait.IDEMPOTENT, Trait.MOVES)
)
def sort(x: Expr, axis: int = -1, descending: bool = False) -> Call:
    """The elements of ``x`` in order along ``axis``; follows ``numpy.sort``.

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
    ``dtype``, an integer one. Result: that dtype, the shape of ``data``.
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


def _held(data: Expr, k: int, axis: int, *rest: Any) -> tuple[Any, ...]:
    """The arguments with ``k`` no more than the size of the axis, where that is known."""
    shape = data.ty.shape if isinstance(data.ty, TensorType) else None
    size = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
    return data, min(k, size) if isinstance(size, int) and size > 0 else k, axis, *rest


@declares("relax.topk", infer=_topk_type, reference=_topk, prepare=_held)
def topk(
    data: Expr,
    k: int = 1,
    axis: int = -1,
    ret_type: Literal["both", "values", "indices"] = "both",
    largest: bool = True,
    dtype: Dtype = "int32",
) -> Call:
    """The ``k`` greatest elements along ``axis``, the greatest first; of equal ones those that stand first.

    Follows ``torch.topk``. Operands: ``data``, real numbers or bool. Attributes: ``k``, below 1: all;
    ``axis``; ``ret_type``, whether the result is the values, the places where they stood, or the tuple of
    both; ``largest``, False for the smallest, the smallest first; ``dtype`` of the places, an integer one.
    Result: ``data``'s shape with ``k`` at ``axis``; of an axis of fewer elements, all of them.
    Raises `OpTypeError` for other dtypes or attributes; where the size is known only as the program runs, and is less
    than ``k``, the run does.
    """
    ...
