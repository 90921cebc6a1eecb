"""Conversion of images to columns of sliding windows (im2col), and back (col2im).

With columns, a convolution is a matrix product. Each operator is the gradient of the other. Both work for any number of
spatial axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from ...ir.dims import Dim, dim_product, dims_equal
from ...ir.expr import Expr, ShapeExpr
from ...ir.op import REQUIRED, Call, Trait, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, Type
from ..adjoints import known_shape
from ..layouts import size_operand
from ..primitive.windows import (
    as_padding,
    as_spatial,
    checked_window_counts,
    gathered_from_windows,
    padding_pairs,
    require_at_least,
    window_counts,
    windows,
)
from ..row import declared
from ..rules import as_int_tuple, require_rank, shape_operand, tensor_operand
from ..semantics import cast, dtype_name, pad_constant, widened, with_attrs

__all__ = ["col2im", "im2col"]

_ATTRIBUTES: Final[dict[str, Any]] = dict.fromkeys(("kernel_size", "strides", "padding", "dilation"), REQUIRED)


def _check_windows(call: Call) -> int:
    """The number of spatial axes; checks the attributes. Raises `OpTypeError` for attributes out of range."""
    for name, least in (("kernel_size", 1), ("strides", 1), ("padding", 0), ("dilation", 1)):
        require_at_least(call, name, least)
    return len(call.attrs.kernel_size)


def _call_attributes(op_name: str, kernel_size: int | Sequence[int], **others: int | Sequence[int]) -> dict[str, Any]:
    kernel = as_int_tuple(kernel_size, op_name, "kernel_size")
    attributes: dict[str, Any] = {"kernel_size": kernel}
    for name, value in others.items():
        form = as_padding if name == "padding" else as_spatial
        attributes[name] = form(len(kernel), value, op_name, name)
    return attributes


# --- im2col


def _im2col_type(call: Call) -> Type:
    rank, data = _check_windows(call), tensor_operand(call, 0)
    require_rank(call, 0, f"a tensor of {rank + 2} dimensions: batch, channels and {rank} spatial axes", rank + 2)
    if data.shape is None:
        return TensorType(None, data.dtype, 3)
    batch, channels, *sizes = data.shape
    kernel = call.attrs.kernel_size
    counts = checked_window_counts(call, 0, sizes, kernel)
    return TensorType((batch, channels * prod(kernel), dim_product(counts)), data.dtype)


def _im2col(xp: Any, attrs: Any, data: Any) -> Any:
    batch, channels, *sizes = data.shape
    counts = window_counts(attrs, sizes, attrs.kernel_size)
    padded = pad_constant(xp, data, [(0, 0), (0, 0), *padding_pairs(attrs.padding)], 0)
    columns = xp.stack(list(windows(padded, attrs.kernel_size, attrs.strides, attrs.dilation, counts)), axis=2)
    return xp.reshape(columns, (batch, channels * prod(attrs.kernel_size), dim_product(counts)))


def _im2col_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    return [COL2IM(adjoint, ShapeExpr(known_shape(call, call.args[0], "data")[2:]), **call.attrs)]


IM2COL: Final = declared(
    "relax.nn.im2col",
    ("data",),
    _ATTRIBUTES,
    infer=_im2col_type,
    reference=with_attrs(_im2col),
    traits=(Trait.MOVES,),
    gradient=_im2col_gradient,
)


def im2col(
    data: Expr,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
) -> Call:
    """Each sliding window of an image as a column; follows ``torch.nn.functional.unfold``.

    Operands: ``data`` (batch, channels, *sizes), any dtype. Attributes: ``kernel_size``, one int for each spatial
    axis, which also determines their number; ``strides`` and ``dilation``, one int or one for each axis; ``padding``
    with zeros, one int, one for each axis, or all widths before and then all widths after. Result: (batch, channels *
    elements of a window, windows), windows in row-major order. Raises `OpTypeError` for another rank, or a window that
    does not fit.
    """
    others = {"strides": strides, "padding": padding, "dilation": dilation}
    return IM2COL(data, **_call_attributes(IM2COL.name, kernel_size, **others))


# --- col2im


def _col2im_type(call: Call) -> Type:
    rank, data, size = _check_windows(call), tensor_operand(call, 0), shape_operand(call, 1)
    require_rank(call, 0, "a tensor of 3 dimensions: (batch, channels * elements of a window, windows)", 3)
    if size.ndim not in (UNKNOWN_NDIM, rank):
        raise wrong_operand(call, 1, f"{rank} sizes, one for each spatial axis of the image")
    if size.values is None:
        return TensorType(None, data.dtype, rank + 2)
    elements = prod(call.attrs.kernel_size)
    counts = dim_product(checked_window_counts(call, 1, size.values, call.attrs.kernel_size))
    if data.shape is None:
        return TensorType(None, data.dtype, rank + 2)
    batch, rows, columns = data.shape
    if dims_equal(rows % elements, 0) is False:
        raise wrong_operand(call, 0, f"a multiple of {elements} rows, the elements of a window")
    if dims_equal(columns, counts) is False:
        raise wrong_operand(call, 0, f"{counts} columns, one for each window")
    return TensorType((batch, rows // elements, *size.values), data.dtype)


def _col2im(xp: Any, attrs: Any, data: Any, size: tuple[int, ...]) -> Any:
    kernel, strides = attrs.kernel_size, attrs.strides
    counts = window_counts(attrs, size, kernel)
    wide = widened(xp, data)
    elements = prod(kernel)
    columns = xp.reshape(wide, (wide.shape[0], wide.shape[1] // elements, elements, *counts))
    margins = [
        (before, max((count - 1) * stride + (width - 1) * step + 1 - extent - before, 0))
        for extent, width, stride, step, count, (before, _) in zip(
            size, kernel, strides, attrs.dilation, counts, padding_pairs(attrs.padding), strict=True
        )
    ]
    shares = [columns[:, :, place, ...] for place in range(elements)]
    image = gathered_from_windows(xp, shares, kernel, strides, attrs.dilation, size, margins)
    return cast(xp, image, dtype_name(data.dtype))


COL2IM: Final = declared(
    "relax.nn.col2im",
    ("data", "size"),
    _ATTRIBUTES,
    infer=_col2im_type,
    reference=with_attrs(_col2im),
    gradient=lambda call, output, adjoint: [IM2COL(adjoint, **call.attrs), None],
)


def col2im(
    data: Expr,
    size: Expr | Dim | Sequence[Dim],
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
) -> Call:
    """The image of ``size`` whose elements are the sums of their copies in columns; follows ``Col2Im`` of ONNX.

    Operands: ``data`` (batch, channels * elements of a window, windows), numbers; ``size``, the sizes of the image.
    Attributes: see `im2col`, whose adjoint this is, as ``torch.nn.functional.fold``. Result: (batch, channels,
    *size); sums of narrow floats are rounded once. Raises `OpTypeError` for another rank, and if the numbers of rows or
    columns do not match the windows of such an image.
    """
    attributes = _call_attributes(COL2IM.name, kernel_size, strides=strides, padding=padding, dilation=dilation)
    return COL2IM(data, size_operand(size, len(attributes["kernel_size"]), COL2IM.name), **attributes)
