"""Padding: a tensor enlarged at its edges, with a constant or with its own elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...ir.dims import Dim, dim_at_least, dim_max
from ...ir.expr import Expr
from ...ir.op import Call, Trait, wrong_attribute
from ...ir.types import UNKNOWN_NDIM, TensorType, Type
from ..public_function import declares
from ..rules import as_float, tensor_operand
from ..semantics import pad_constant, positions

__all__ = ["pad"]

_MODES: Final = ("constant", "reflect", "replicate", "circular")


def _pad_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    widths: tuple[int, ...] = call.attrs.pad_width
    if call.attrs.pad_mode not in _MODES:
        raise wrong_attribute(call, "pad_mode", f"one of {', '.join(_MODES)}")
    if len(widths) % 2:
        raise wrong_attribute(call, "pad_width", "an even number of ints: before and after for each axis, in order")
    if ty.ndim not in (UNKNOWN_NDIM, len(widths) // 2):
        raise wrong_attribute(call, "pad_width", f"{2 * ty.ndim} ints: before and after for each of {ty.ndim} axes")
    if ty.shape is None:
        return TensorType(None, ty.dtype, len(widths) // 2)
    dims: list[Dim] = []
    for axis, size in enumerate(ty.shape):
        before, after = widths[2 * axis : 2 * axis + 2]
        if dim_at_least(size + min(before, 0) + min(after, 0), 0) is False:
            raise wrong_attribute(call, "pad_width", f"to cut off at most the {size} elements of axis {axis}")
        if call.attrs.pad_mode != "constant" and size == 0 and (before > 0 or after > 0):
            raise wrong_attribute(call, "pad_mode", f'"constant", since axis {axis} has no elements to pad with')
        dims.append(size + before + after)
    return TensorType(dims, ty.dtype)


def pad_sources(xp: Any, places: Any, size: Dim, mode: str) -> Any:
    """The indices of the elements for ``places``, positions on, before or after an axis of ``size`` elements."""
    if mode == "replicate":
        return xp.clip(places, 0, size - 1)
    if mode == "circular":
        return places % size
    period = dim_max((size - 1) * 2, 1)
    turned = places % period
    return xp.minimum(turned, period - turned)


def _pad(xp: Any, x: Any, pad_width: tuple[int, ...], pad_mode: str, pad_value: float) -> Any:
    pairs = list(zip(pad_width[::2], pad_width[1::2], strict=True))
    if pad_mode == "constant":
        return pad_constant(xp, x, pairs, pad_value)
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            size = x.shape[axis]
            places = positions(xp, before + size + after, x) - before
            x = xp.take(x, pad_sources(xp, places, size, pad_mode), axis=axis)
    return x


@declares(
    "relax.nn.pad",
    order=("pad_width", "pad_value", "pad_mode"),
    forms={
        "str | None": lambda value, op_name, name: value or "constant",
        "float | None": lambda value, op_name, name: as_float(value or 0.0, op_name, name),
    },
    infer=_pad_type,
    reference=_pad,
    traits=(Trait.MOVES,),
)
def pad(data: Expr, pad_width: Sequence[int], pad_mode: str | None = "constant", pad_value: float | None = 0.0) -> Call:
    """``data`` padded at the edges of its axes; as ``numpy.pad``, with PyTorch's names of the modes.

    Operands: any tensor. Attributes: ``pad_width``, two ints for each axis in order, the numbers of elements
    before and after it (negative ones crop); ``pad_mode``: "constant", with ``pad_value``; "reflect",
    mirrored at the edge element (repeatedly if needed); "replicate", the edge element; "circular", from
    the other end.
    Result: the same dtype, each axis with its two widths added. Raises `OpTypeError` for another number of
    widths, an unknown mode, or an axis that has nothing to pad with.
    """
    ...
