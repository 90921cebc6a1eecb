"""Copying the elements of a tensor along its axes, and summing such copies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from ...ir.dims import Dim, SymExpr, dim_product, dims_equal
from ...ir.expr import Expr, PrimValue, ShapeExpr
from ...ir.op import Call, Trait, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, ShapeType, TensorType, Type
from .. import adjoints
from ..public_function import ShapeOperand, declares, operator_of
from ..rules import (
    as_int_tuple,
    format_dims,
    normalize_axis,
    require_numbers,
    shape_operand,
    tensor_of_shape,
    tensor_operand,
)
from ..semantics import array_function, cast, dtype_name, widened
from . import reduction, reshaping

__all__ = ["broadcast_to", "collapse_sum_like", "collapse_sum_to", "repeat", "tile"]

_Shaped: TypeAlias = TensorType | ShapeType


def may_broadcast(narrow: Sequence[Dim] | None, wide: Sequence[Dim] | None) -> bool:
    """True if a tensor of the shape ``narrow`` may broadcast to the shape ``wide``, or if one of the two is unknown."""
    if narrow is None or wide is None:
        return True
    return len(narrow) <= len(wide) and all(
        dims_equal(size, 1) is not False or dims_equal(size, goal) is not False
        for size, goal in zip(reversed(narrow), reversed(wide), strict=False)
    )


def _require_broadcast(call: Call, narrow: _Shaped, wide: _Shaped, expected: str) -> None:
    """Raise an error about operand 1, which names operand 0's shape, if ``narrow`` cannot broadcast to ``wide``."""
    too_long = UNKNOWN_NDIM not in (narrow.ndim, wide.ndim) and narrow.ndim > wide.ndim
    if not too_long and may_broadcast(_dims(narrow), _dims(wide)):
        return
    first = tensor_operand(call, 0)
    known = f"{first.ndim} axes" if first.shape is None else f"shape {format_dims(first.shape)}"
    raise wrong_operand(call, 1, f"{expected} of {known}")


def _dims(ty: _Shaped) -> tuple[Dim, ...] | None:
    return ty.shape if isinstance(ty, TensorType) else ty.values


# --- broadcast_to


def _broadcast_to_type(call: Call) -> Type:
    x, shape = tensor_operand(call, 0), shape_operand(call, 1)
    _require_broadcast(call, x, shape, "a shape to broadcast to from x")
    return tensor_of_shape(shape, x.dtype)


@declares(
    "relax.broadcast_to",
    primitive=True,
    infer=_broadcast_to_type,
    reference=array_function("broadcast_to"),
    traits=(Trait.MOVES,),
    gradient=lambda call, output, adjoint: [adjoints.collapse_to(adjoint, call.args[0]), None],
)
def broadcast_to(x: Expr, shape: ShapeOperand) -> Call:
    """``x`` repeated along its axes of size 1, and along new leading axes; follows ``numpy.broadcast_to``.

    Operands: ``x``, any tensor; ``shape``, a shape expression or the sizes themselves. Result: ``x``'s dtype,
    the given shape. Raises `OpTypeError` if ``x`` can never broadcast to it.
    """
    ...


# --- collapse_sum_to, collapse_sum_like


def _summable(call: Call) -> TensorType:
    return require_numbers(call, 0, "numbers, which can be summed; convert it with R.astype")


_collapses: Final = partial(
    declares,
    traits=(Trait.REDUCTION,),
    gradient=lambda call, output, adjoint: [adjoints.broadcast_like(adjoint, call.args[0]), None],
)


def _collapse_sum_to_type(call: Call) -> Type:
    data, shape = _summable(call), shape_operand(call, 1)
    _require_broadcast(call, shape, data, "a shape that broadcasts to data")
    return tensor_of_shape(shape, data.dtype)


def _collapse_sum_to(xp: Any, data: Any, shape: tuple[int, ...]) -> Any:
    added = data.ndim - len(shape)
    folded = [axis + added for axis, size in enumerate(shape) if size == 1 and data.shape[axis + added] != 1]
    axes = (*range(added), *folded)
    if not axes:
        return data
    wide = widened(xp, data)
    summed = cast(xp, xp.asarray(xp.sum(wide, axis=axes, dtype=wide.dtype)), dtype_name(data.dtype))
    return xp.reshape(summed, shape)


@_collapses("relax.collapse_sum_to", infer=_collapse_sum_to_type, reference=_collapse_sum_to)
def collapse_sum_to(data: Expr, shape: ShapeOperand) -> Call:
    """``data`` summed to a shape that broadcasts to its own: the adjoint of `broadcast_to`.

    Operands: ``data``, a tensor of numbers; ``shape``, a shape expression or the sizes themselves. Leading
    axes that ``shape`` lacks and axes where its size is 1 are summed; integers wrap around, floats narrower
    than float32 are summed in float32. Result: ``data``'s dtype, the given shape. Raises `OpTypeError` for
    bool, and for a shape that never broadcasts to the shape of ``data``.
    """
    ...


def _collapse_sum_like_type(call: Call) -> Type:
    data, target = _summable(call), tensor_operand(call, 1)
    _require_broadcast(call, target, data, "a tensor whose shape broadcasts to data")
    return target.with_dtype(data.dtype)


def _collapse_sum_like(xp: Any, data: Any, collapse_target: Any) -> Any:
    return _collapse_sum_to(xp, data, tuple(collapse_target.shape))


@_collapses("relax.collapse_sum_like", infer=_collapse_sum_like_type, reference=_collapse_sum_like)
def collapse_sum_like(data: Expr, collapse_target: Expr) -> Call:
    """``data`` summed to the shape of ``collapse_target``, whose elements and dtype are ignored; see `collapse_sum_to`.

    Operands: ``data``, a tensor of numbers; ``collapse_target``, a tensor whose shape broadcasts to
    ``data``'s. Result: ``data``'s dtype, ``collapse_target``'s shape. Raises `OpTypeError` as
    `collapse_sum_to` does.
    """
    ...


# --- repeat, tile


def _repeat_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    times, axis = call.attrs.repeats, call.attrs.axis
    if times < 0:
        raise wrong_attribute(call, "repeats", "0 or more")
    if axis is None:
        return TensorType(None if ty.shape is None else [dim_product(ty.shape) * times], ty.dtype, 1)
    if ty.ndim == UNKNOWN_NDIM:
        return ty
    place = normalize_axis(call, "axis", axis, ty.ndim)
    if ty.shape is None:
        return ty
    return TensorType([*ty.shape[:place], ty.shape[place] * times, *ty.shape[place + 1 :]], ty.dtype)


def _repeat(xp: Any, data: Any, repeats: int, axis: int | None) -> Any:
    if axis is None:
        data, axis = xp.reshape(data, (-1,)), 0
    return xp.repeat(data, repeats, axis=axis)


@declares("relax.repeat", primitive=True, infer=_repeat_type, reference=_repeat, traits=(Trait.MOVES,))
def repeat(data: Expr, repeats: int, axis: int | None = None) -> Call:
    """Each slice of ``data`` along an axis, repeated ``repeats`` times; follows ``numpy.repeat``.

    Operands: ``data``, any tensor. Attributes: ``repeats``, 0 or more; ``axis`` (negative: from the end), or
    None, which flattens ``data`` first. Result: ``data``'s dtype, with the axis ``repeats`` times as long. Raises
    `OpTypeError` for a negative count or an axis that ``data`` does not have.
    """
    ...


def _tile_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    times: tuple[Dim, ...] = call.attrs.repeats
    if any(isinstance(count, int) and count < 0 for count in times):
        raise wrong_attribute(call, "repeats", "counts of 0 or more")
    if ty.ndim == UNKNOWN_NDIM:
        return ty
    ndim = max(ty.ndim, len(times))
    if ty.shape is None:
        return TensorType(None, ty.dtype, ndim)
    sizes = (*(1,) * (ndim - ty.ndim), *ty.shape)
    counts = (*(1,) * (ndim - len(times)), *times)
    return TensorType([size * count for size, count in zip(sizes, counts, strict=True)], ty.dtype)


def _tile(xp: Any, data: Any, repeats: tuple[int, ...]) -> Any:
    return xp.tile(data, repeats)


def _as_counts(repeats: Any, op_name: str, name: str) -> tuple[Any, ...]:
    counts = [repeats] if isinstance(repeats, int) else repeats
    sizes: list[Any] = [one.value if isinstance(one, PrimValue) else one for one in counts]
    return tuple(sizes) if any(isinstance(size, SymExpr) for size in sizes) else as_int_tuple(sizes, op_name, name)


_Counts: TypeAlias = "int | Sequence[Dim | Expr]"
"""The number of copies along each of the last axes."""


@declares(
    "relax.tile",
    primitive=True,
    forms={"_Counts": _as_counts},
    infer=_tile_type,
    reference=_tile,
    traits=(Trait.MOVES,),
)
def tile(data: Expr, repeats: _Counts) -> Call:
    """Copies of the whole of ``data``, side by side; follows ``numpy.tile``.

    Operands: ``data``, any tensor. Attributes: ``repeats``, the number of copies along each axis, which may be
    a symbolic size; if ``repeats`` and the shape differ in length, the shorter is filled up with ones in
    front. Result: ``data``'s dtype, sizes multiplied. Raises `OpTypeError` for a negative count.
    """
    ...


# --- gradients


@operator_of(repeat).define_gradient
def _repeat_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    x = call.args[0]
    dims, times, axis = adjoints.known_shape(call, x, "data"), call.attrs.repeats, call.attrs.axis
    place = len(dims) if axis is None else axis % len(dims) + 1
    return [_summed_copies(adjoint, x, [*dims[:place], times, *dims[place:]], place)]


@operator_of(tile).define_gradient
def _tile_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    x = call.args[0]
    dims, times = adjoints.known_shape(call, x, "data"), call.attrs.repeats
    ndim = max(len(dims), len(times))
    sizes: list[Dim] = [*(1,) * (ndim - len(dims)), *dims]
    counts: list[Dim] = [*(1,) * (ndim - len(times)), *times]
    split = [size for pair in zip(counts, sizes, strict=True) for size in pair]
    return [_summed_copies(adjoint, x, split, *range(0, 2 * ndim, 2))]


def _summed_copies(adjoint: Expr, x: Expr, split: Sequence[Dim], *places: int) -> Expr:
    """``adjoint`` reshaped to ``split``, and summed over the axes ``places``, which hold the copies."""
    copies = reshaping.reshape(adjoint, ShapeExpr(split))
    return adjoints.reshape_like(reduction.sum(copies, axis=places), x)
