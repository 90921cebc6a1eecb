"""Running sums and products along one axis."""

from __future__ import annotations

from typing import Any

from ...ir.dims import dim_product
from ...ir.dtypes import is_bool
from ...ir.expr import Expr
from ...ir.op import Call, Reference, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, Type
from .. import adjoints
from ..public_function import Dtype, declares, operator_of
from ..rules import normalize_axis, tensor_operand
from ..semantics import cast, dtype_name, widened
from .indexing import strided_slice
from .join import concat
from .manipulate import flip
from .reshaping import flatten

__all__ = ["cumprod", "cumsum"]


def _scan_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    axis, dtype = call.attrs.axis, call.attrs.dtype
    if dtype is None and is_bool(ty.dtype):
        raise wrong_operand(call, 0, 'numbers; count truth values with dtype="int64"')
    if is_bool(dtype):
        raise wrong_attribute(call, "dtype", "a dtype of numbers")
    dtype = ty.dtype if dtype is None else dtype
    if axis is None:
        return TensorType(None if ty.shape is None else [dim_product(ty.shape)], dtype, 1)
    if ty.ndim != UNKNOWN_NDIM:
        normalize_axis(call, "axis", axis, ty.ndim)
    return ty.with_dtype(dtype)


def _running(name: str, identity: int) -> Reference:
    """The reference that is the array API function ``name``; ``identity`` is the total of no elements."""

    def reference(xp: Any, data: Any, axis: int | None, dtype: str | None, exclusive: bool) -> Any:
        result = dtype or dtype_name(data.dtype)
        along = 0 if axis is None else axis % data.ndim
        wide = widened(xp, cast(xp, xp.reshape(data, (-1,)) if axis is None else data, result))
        if exclusive and wide.shape[along] > 0:
            before = [slice(None)] * along
            first = xp.full_like(wide[(*before, slice(0, 1))], identity)
            wide = xp.concat([first, wide[(*before, slice(0, -1))]], axis=along)
        return cast(xp, getattr(xp, name)(wide, axis=along, dtype=wide.dtype), result)

    return reference


@declares("relax.cumsum", primitive=True, infer=_scan_type, reference=_running("cumulative_sum", 0), finite=True)
def cumsum(data: Expr, axis: int | None = None, dtype: Dtype = None, exclusive: bool = False) -> Call:
    """The sum of the elements up to each one along ``axis``; follows ``numpy.cumsum`` and ONNX ``CumSum``.

    Operands: ``data``, any tensor. Attributes: ``axis``, None: all elements in row-major order; ``dtype`` of
    the sums, None: that of ``data``; ``exclusive``: if True, each sum excludes its own element.
    Result: the shape of ``data``, or rank 1 if ``axis`` is None. Integers wrap around; floats narrower than
    float32 are summed in float32. Raises `OpTypeError` for an axis that ``data`` lacks, and for sums in bool.
    """
    ...


@declares("relax.cumprod", primitive=True, infer=_scan_type, reference=_running("cumulative_prod", 1))
def cumprod(data: Expr, axis: int | None = None, dtype: Dtype = None, exclusive: bool = False) -> Call:
    """The product of the elements up to each one along ``axis``; follows ``numpy.cumprod``.

    Operands: ``data``, any tensor. Attributes: ``axis``, None: all elements in row-major order; ``dtype`` of
    the products, None: that of ``data``; ``exclusive``: if True, each product excludes its own element.
    Result: the shape of ``data``, or rank 1 if ``axis`` is None. Integers wrap around; floats narrower than
    float32 are multiplied in float32.
    Raises `OpTypeError` for an axis that ``data`` lacks, and for products in bool.
    """
    ...


# --- gradients


def _scanned(call: Call) -> tuple[Expr, int]:
    """The scanned elements of a call, in the dtype of its result, and the axis of the scan."""
    data, axis, dtype = call.args[0], call.attrs.axis, call.attrs.dtype
    flat = flatten(data) if axis is None else data
    return (flat if dtype is None else flat.astype(dtype)), (0 if axis is None else axis)


def _unscanned(share: Expr, data: Expr) -> Expr:
    return adjoints.converted_like(adjoints.reshape_like(share, data), data)


@operator_of(cumsum).define_gradient
def _cumsum_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    axis = _scanned(call)[1]
    backwards = cumsum(flip(adjoint, axis), axis, exclusive=call.attrs.exclusive)
    return [_unscanned(flip(backwards, axis), call.args[0])]


@operator_of(cumprod).define_gradient
def _cumprod_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    """The share of x[i] is ``x[0] ... x[i-1]`` times ``tail[i] = adjoint[i] + x[i+1] * tail[i+1]``.

    This also holds for zeros, since nothing is divided. The recurrence is solved by doubling: after k rounds, each
    element includes the contributions of the 2**k elements from it on, so n elements take log2(n) rounds.
    """
    x, axis = _scanned(call)
    extent = adjoints.static_size(call, adjoints.known_shape(call, x, "data")[axis], f"the size of axis {axis}")
    tail, factor, reach = adjoint, _shifted(x, axis, 1, extent), 1
    if call.attrs.exclusive:
        tail = _shifted(adjoint, axis, 1, extent)
    while reach < extent:
        tail = tail + factor * _shifted(tail, axis, reach, extent)
        factor = factor * _shifted(factor, axis, reach, extent)
        reach *= 2
    return [_unscanned(cumprod(x, axis, exclusive=True) * tail, call.args[0])]


def _shifted(x: Expr, axis: int, places: int, extent: int) -> Expr:
    """``x`` shifted: each element is replaced by the one ``places`` further along the axis, or 0 at the end."""
    rest = strided_slice(x, [axis], [min(places, extent)], [extent])
    gap = adjoints.zeros_of(strided_slice(x, [axis], [0], [min(places, extent)]))
    return concat([rest, gap], axis)
