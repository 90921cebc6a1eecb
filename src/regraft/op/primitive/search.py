"""Search: the index of the greatest and smallest element, and of a value among sorted ones."""

from __future__ import annotations

from typing import Any

from ...ir.dtypes import is_float
from ...ir.expr import Expr
from ...ir.op import Call, Reference, Trait, wrong_operand
from ...ir.types import UNKNOWN_NDIM, Type
from ..public_function import declares
from ..rules import require_ordered, tensor_operand
from ..semantics import cast, dtype_name, sort_keys
from .reduction import reduced_type, require_elements

__all__ = ["argmax", "argmin", "bucketize"]


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
        doc=f"""The place of the {which} element along ``axis``: the first of equal ones, or the first NaN.

    Follows ``numpy.{name}``. Operands: ``x``, a tensor of real numbers or bool. Attributes: ``axis``, None:
    counted over all elements in row-major order; ``keepdims``, whether the axis stays, of size 1. Result:
    int64.
    Raises `OpTypeError` for other dtypes, an axis that ``x`` lacks, or one of no elements.
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
    """The dtype in which `bucketize` compares operands of two dtypes; None where they have one."""
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
    """The number of the bucket between ``boundaries`` that each element falls into.

    Follows ``torch.bucketize``. That is how many boundaries are below the element, or, with ``right``, not
    above it; NaN is above all. Operands: ``input_tensor``, real numbers; ``boundaries``, rank 1, in ascending
    order. Where their dtypes differ, both are compared as int64, or as float64 if one is floating
    or uint64. Attributes: ``out_int32``, int32 for int64; ``right``. Result: the shape of ``input_tensor``.
    Raises `OpTypeError` for operands of other ranks or kinds.
    """
    ...
