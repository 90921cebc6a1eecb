"""Reductions of whole axes of a tensor: sums, products, extremes, averages.

``axis`` is one axis, several, or None for all. With ``keepdims``, reduced axes stay, with size 1. Floats narrower than
float32 are reduced in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes

from ...ir.dims import dim_product, dims_equal
from ...ir.dtypes import is_bool, is_float, is_integer, numpy_dtype
from ...ir.expr import Expr
from ...ir.op import Call, GradientRule, Reference, Trait, TypeRule, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, TupleType, Type
from .. import adjoints
from ..public_function import declares
from ..rules import OfKinds, all_axes, is_real, normalize_axes, require_kind, require_ordered, tensor_operand
from ..semantics import cast, dtype_name, truncated_divide, widened
from . import comparison, manipulate, reshaping, scan, ternary

__all__ = ["max", "mean", "median", "min", "prod", "std", "sum", "variance"]


def reduced_type(call: Call, axes: Sequence[int] | None, dtype: str | None) -> TensorType:
    """The type of the first operand, in ``dtype``, reduced over ``axes`` (None: all); with ``keepdims``, they stay."""
    ty = tensor_operand(call, 0)
    keepdims = call.attrs.keepdims
    if axes is None and not keepdims:
        return TensorType((), dtype)
    if ty.ndim == UNKNOWN_NDIM:
        return TensorType(None, dtype)
    folded = tuple(range(ty.ndim)) if axes is None else normalize_axes(call, "axis", axes, ty.ndim)
    if len(folded) == ty.ndim:
        return TensorType([1] * ty.ndim if keepdims else (), dtype)
    if ty.shape is None:
        return TensorType(None, dtype, ty.ndim if keepdims else ty.ndim - len(folded))
    dims = [1 if axis in folded else dim for axis, dim in enumerate(ty.shape) if keepdims or axis not in folded]
    return TensorType(dims, dtype)


def require_elements(call: Call, axes: Sequence[int] | None) -> None:
    """Raise `OpTypeError` if one of ``axes`` (None: all) of the first operand is known to be empty."""
    ty = tensor_operand(call, 0)
    if ty.shape is None:
        return
    folded = range(ty.ndim) if axes is None else normalize_axes(call, "axis", axes, ty.ndim)
    if any(dims_equal(ty.shape[axis], 0) is True for axis in folded):
        raise wrong_operand(call, 0, "at least one element along each reduced axis")


def _any_type(call: Call) -> Type:
    return reduced_type(call, call.attrs.axis, tensor_operand(call, 0).dtype)


def _extreme_type(call: Call) -> Type:
    dtype = require_ordered(call, 0).dtype
    require_elements(call, call.attrs.axis)
    return reduced_type(call, call.attrs.axis, dtype)


_mean_type = OfKinds(_any_type, lambda dtype: not is_bool(dtype), 'numbers; convert bool first: R.astype(x, "float32")')
_variance_type = OfKinds(
    _any_type,
    is_real,
    'real numbers; convert bool first: R.astype(x, "float32")',
)
_std_type = OfKinds(_any_type, is_float, 'a floating dtype; convert it first: R.astype(x, "float32")')


def _folding(name: str, of_bool: str) -> Reference:
    """The array API reduction ``name`` in the dtype of its operand; for bool, the one called ``of_bool``."""

    def reference(xp: Any, x: Any, axis: tuple[int, ...] | None, keepdims: bool) -> Any:
        dtype = dtype_name(x.dtype)
        if is_bool(dtype):
            return xp.asarray(getattr(xp, of_bool)(x, axis=axis, keepdims=keepdims))
        wide = widened(xp, x)
        if name not in ("max", "min"):
            folded = getattr(xp, name)(wide, axis=axis, keepdims=keepdims, dtype=wide.dtype)
        elif any(isinstance(x.shape[i], int) and x.shape[i] == 0 for i in (range(x.ndim) if axis is None else axis)):
            none = xp.asarray(xp.sum(wide, axis=axis, keepdims=keepdims, dtype=wide.dtype))
            folded = xp.full_like(none, extreme_of_none(dtype, greatest=name == "max"))
        else:
            folded = getattr(xp, name)(wide, axis=axis, keepdims=keepdims)
        return cast(xp, xp.asarray(folded), dtype)

    return reference


def extreme_of_none(dtype: str, *, greatest: bool) -> float | int | bool:
    """The maximum of no elements, which is the least value of ``dtype``; or the minimum, which is the greatest."""
    if is_bool(dtype):
        return not greatest
    if is_float(dtype):
        return -math.inf if greatest else math.inf
    limits = ml_dtypes.iinfo(numpy_dtype(dtype))
    return int(limits.min if greatest else limits.max)


def _declare(
    name: str,
    infer: TypeRule,
    reference: Reference,
    says: str,
    note: str = "",
    *,
    of: str = "any tensor",
    refused: str = "",
    primitive: bool = True,
    gradient: GradientRule,
    finite: bool | None = None,
):
    """Declare an operator of this family. Returns its public function; ``of`` and ``refused`` are parts of its text."""

    @declares(
        f"relax.{name}",
        primitive=primitive,
        infer=infer,
        reference=reference,
        traits=(Trait.REDUCTION,),
        written_out=all_axes,
        doc=f"""{says}.

    Operands: ``x``, {of}. Attributes: ``axis`` and ``keepdims``. Result: the dtype of ``x``, its shape without the
    reduced axes. {note}
    Raises `OpTypeError` for {refused and refused + ", "}an axis that ``x`` lacks, or an axis given twice.
    """,
        gradient=gradient,
        finite=finite,
    )
    def function(x: Expr, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Call: ...

    return function


# --- averages


def _mean(xp: Any, x: Any, axis: tuple[int, ...] | None, keepdims: bool) -> Any:
    dtype = dtype_name(x.dtype)
    if not is_integer(dtype):
        return cast(xp, xp.asarray(xp.mean(widened(xp, x), axis=axis, keepdims=keepdims)), dtype)
    wide = cast(xp, x, "uint64" if dtype == "uint64" else "int64")
    total = xp.asarray(xp.sum(wide, axis=axis, keepdims=keepdims, dtype=wide.dtype))
    count = xp.asarray(dim_product(x.shape if axis is None else [x.shape[i] for i in axis]), dtype=wide.dtype)
    return cast(xp, xp.asarray(truncated_divide(xp, total, count)), dtype)


def _wide_variance(xp: Any, x: Any, axis: tuple[int, ...] | None, keepdims: bool) -> Any:
    wide = widened(xp, x)
    deviation = xp.subtract(wide, xp.mean(wide, axis=axis, keepdims=True))
    return xp.asarray(xp.mean(xp.square(deviation), axis=axis, keepdims=keepdims))


def _variance(xp: Any, x: Any, axis: tuple[int, ...] | None, keepdims: bool) -> Any:
    if is_integer(dtype_name(x.dtype)):
        deviation = xp.subtract(x, _mean(xp, x, axis, True))
        return _mean(xp, xp.multiply(deviation, deviation), axis, keepdims)
    return cast(xp, _wide_variance(xp, x, axis, keepdims), dtype_name(x.dtype))


def _std(xp: Any, x: Any, axis: tuple[int, ...] | None, keepdims: bool) -> Any:
    return cast(xp, xp.asarray(xp.sqrt(_wide_variance(xp, x, axis, keepdims))), dtype_name(x.dtype))


# --- median


def _median_type(call: Call) -> Type:
    dtype = require_kind(call, 0, is_real, "real numbers").dtype
    axes: tuple[int, ...] | None = call.attrs.axis
    if axes == ():
        raise wrong_attribute(call, "axis", "one axis or several, or None for all")
    require_elements(call, axes)
    values = reduced_type(call, axes, dtype)
    return TupleType([values, values.with_dtype("int64")]) if axes is not None and len(axes) == 1 else values


def _axes_of_median(call: Call) -> dict[str, Any]:
    """The result of `all_axes`, except for rank 1: one named axis also gives indices, so it differs from None."""
    return all_axes(call) if tensor_operand(call, 0).ndim != 1 else {}


def _median(xp: Any, x: Any, axis: tuple[int, ...] | None, keepdims: bool) -> Any:
    if axis is None or len(axis) != 1:
        return _median_of_several(xp, x, sorted(one % x.ndim for one in axis or range(x.ndim)), keepdims)
    along = axis[0] % x.ndim
    keys = widened(xp, x)
    middle = (x.shape[along] - 1) // 2
    places = xp.take(xp.argsort(keys, axis=along, stable=True), xp.asarray([middle], dtype=xp.int64), axis=along)
    missing = xp.isnan(keys)
    first_missing = xp.argmax(xp.astype(missing, xp.int8), axis=along, keepdims=True)
    places = xp.where(xp.any(missing, axis=along, keepdims=True), first_missing, places)
    values, places = xp.take_along_axis(x, places, axis=along), cast(xp, places, "int64")
    return (values, places) if keepdims else (xp.squeeze(values, axis=along), xp.squeeze(places, axis=along))


def _median_of_several(xp: Any, x: Any, axes: list[int], keepdims: bool) -> Any:
    others = [axis for axis in range(x.ndim) if axis not in axes]
    rows = xp.permute_dims(x, (*others, *axes))
    rows = xp.reshape(rows, (*[x.shape[axis] for axis in others], -1))
    values = _median(xp, rows, (len(others),), False)[0]
    if not keepdims:
        return values
    return xp.reshape(values, tuple(1 if axis in axes else x.shape[axis] for axis in range(x.ndim)))


# --- gradients


def kept_axes(call: Call, folded: Expr) -> Expr:
    """``folded``, which has the shape of a reduction's result, reshaped so that it broadcasts to the operand."""
    axes: tuple[int, ...] | None = call.attrs.axis
    return folded if call.attrs.keepdims or axes is None else reshaping.expand_dims(folded, axes)


def _per_element(call: Call, folded: Expr) -> Expr:
    """``folded`` divided by the number of reduced elements, in a shape that broadcasts to the operand.

    Narrow floats cannot hold large counts, so they are divided in float32.
    """
    x = call.args[0]
    ty = adjoints.tensor_type(x)
    axes: tuple[int, ...] | None = call.attrs.axis
    wide = adjoints.widened(folded)
    if ty.shape is None:
        count = sum(adjoints.widened(adjoints.ones_of(x)), axes, keepdims=call.attrs.keepdims)
    else:
        places = range(ty.ndim) if axes is None else axes
        count = adjoints.count_of([ty.shape[place] for place in places], adjoints.tensor_type(wide).dtype)
    return adjoints.converted_like(kept_axes(call, wide / count), x)


def _deviation(call: Call) -> Expr:
    x = call.args[0]
    return x - mean(x, call.attrs.axis, keepdims=True)


def _std_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    # If all elements are equal, the deviation is zero, and so is the gradient, as in PyTorch.
    spread = ternary.where(comparison.equal(output, 0.0), 1.0, output)
    return [_per_element(call, adjoint / spread) * _deviation(call)]


def extreme_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    """The adjoint, divided equally among all elements equal to the extreme, as in PyTorch's ``amax``."""
    x = call.args[0]
    axes: tuple[int, ...] | None = call.attrs.axis
    chosen = comparison.equal(x, kept_axes(call, output))
    wide = adjoints.widened(kept_axes(call, adjoint))
    ties = sum(adjoints.converted_like(chosen, wide), axes, keepdims=axes is not None)
    return [ternary.where(chosen, adjoints.converted_like(wide / ties, x), 0.0)]


def _others_product(x: Expr, axis: int) -> Expr:
    """For each element, the product of all others along ``axis``: the elements before it times the elements after."""
    before = scan.cumprod(x, axis, exclusive=True)
    return before * manipulate.flip(scan.cumprod(manipulate.flip(x, axis), axis, exclusive=True), axis)


def _prod_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    x = call.args[0]
    axes: tuple[int, ...] | None = call.attrs.axis
    ndim = adjoints.tensor_type(x).ndim
    if axes is None and ndim == UNKNOWN_NDIM:
        flat = reshaping.flatten(x)
        return [adjoints.reshape_like(adjoint * _others_product(flat, 0), x)]
    # No division, since elements may be zero: for each axis, the others along it times the products across it.
    share, rest = kept_axes(call, adjoint), x
    for axis in range(ndim) if axes is None else axes:
        share = share * _others_product(rest, axis)
        rest = prod(rest, axis, keepdims=True)
    return [adjoints.broadcast_like(share, x)]


# --- the operators

sum = _declare(
    "sum",
    _any_type,
    _folding("sum", "any"),
    "The sum of the elements along ``axis``, 0 if there are none; follows ``numpy.sum``, but keeps the dtype",
    'Integers wrap around; convert them to a wider dtype first to avoid it. On bool it is "any".',
    gradient=lambda call, output, adjoint: [adjoints.broadcast_like(kept_axes(call, adjoint), call.args[0])],
    finite=True,
)
prod = _declare(
    "prod",
    _any_type,
    _folding("prod", "all"),
    "The product of the elements along ``axis``, 1 if there are none; follows ``numpy.prod``, but keeps the dtype",
    'Integers wrap around; on bool it is "all".',
    gradient=_prod_gradient,
)


def _extreme(name: str, which: str, of_bool: str, of_none: str):
    return _declare(
        name,
        _extreme_type,
        _folding(name, of_bool),
        f"The {which} element along ``axis``, NaN if an element is NaN; follows ``numpy.{name}``",
        f"Along an axis that is found to be empty at run time it is the {of_none} value of the dtype, as in ONNX.",
        of=f'a tensor of real numbers or bool ("{of_bool}")',
        refused="an axis that is known to be empty",
        gradient=extreme_gradient,
        finite=True,
    )


max = _extreme("max", "greatest", "any", "least")
min = _extreme("min", "smallest", "all", "greatest")
mean = _declare(
    "mean",
    _mean_type,
    _mean,
    "The arithmetic mean of the elements along ``axis``; follows ``numpy.mean`` for floats",
    "The mean of integers is rounded towards zero, as in ONNX ``ReduceMean``. The mean of no floats is NaN.",
    of="a tensor of numbers",
    refused="bool",
    gradient=lambda call, output, adjoint: [adjoints.broadcast_like(_per_element(call, adjoint), call.args[0])],
    finite=True,
)
variance = _declare(
    "variance",
    _variance_type,
    _variance,
    "The mean squared distance from the mean along ``axis``, divided by the count; follows ``numpy.var``",
    "For integers, both means are rounded towards zero, as in Relax.",
    of="a tensor of real numbers",
    gradient=lambda call, output, adjoint: [_per_element(call, adjoint * 2.0) * _deviation(call)],
    primitive=False,
)
std = _declare(
    "std",
    _std_type,
    _std,
    "The standard deviation along ``axis``, the square root of `variance`; follows ``numpy.std``",
    of="a tensor of floating dtype",
    refused="other dtypes",
    gradient=_std_gradient,
    primitive=False,
)


@declares(
    "relax.median",
    infer=_median_type,
    reference=_median,
    traits=(Trait.REDUCTION,),
    written_out=_axes_of_median,
)
def median(x: Expr, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Call:
    """The median: the middle element in sorted order, the lower of two; NaN if one is; follows ``torch.median``.

    Operands: ``x``, a tensor of real numbers. Attributes: ``axis``, one axis or several, or None for all, and
    ``keepdims``. Result: over all axes or several, a tensor of the dtype of ``x``. Over one axis, a tuple of the values
    and their indices along the axis (int64; of the first NaN, or of the one in the middle of equal elements).
    Raises `OpTypeError` for other dtypes, an axis that ``x`` lacks, or an empty axis.
    """
    ...
