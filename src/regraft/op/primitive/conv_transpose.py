"""Transposed convolutions over 1, 2 and 3 spatial dimensions: the adjoints of convolutions.

Also known as deconvolutions. The reference is an ordinary convolution of the input, with zeros between its elements,
with the flipped kernel. Layouts and dtypes are handled as in `conv`.
"""

from __future__ import annotations

from typing import Any

from ...ir.dims import Dim, dim_at_least, dims_equal
from ...ir.expr import Expr
from ...ir.op import Call, Precision, wrong_attribute, wrong_operand
from ..costs import transposed_operations
from ..layouts import SPATIAL, SPATIAL_NAMES, data_letters
from ..public_function import Padding, ResultDtype, ResultLayout, Spatial, declares
from .conv import Dims, convolution_reference, convolution_rule, convolve
from .windows import padding_pairs, spread

__all__ = ["conv1d_transpose", "conv2d_transpose", "conv3d_transpose"]


def _result_dims(call: Call, data: Dims, weight: Dims) -> Dims:
    attrs = call.attrs
    if any(extra >= stride for extra, stride in zip(attrs.output_padding, attrs.strides, strict=True)):
        raise wrong_attribute(call, "output_padding", f"ints below those of strides={attrs.strides}")
    if data is None or weight is None:
        return None
    if dims_equal(data[1], weight[0]) is False:
        raise wrong_operand(call, 1, f"{data[1]} input channels ({attrs.kernel_layout!r}), as data has")
    pads = padding_pairs(attrs.padding)
    axes = zip(data[2:], weight[2:], attrs.strides, attrs.dilation, pads, attrs.output_padding, strict=True)
    sizes: list[Dim] = []
    for size, width, stride, step, (before, after), extra in axes:
        dim = (size - 1) * stride + (width - 1) * step + 1 - before - after + extra
        if dim_at_least(dim, 0) is False:
            raise wrong_attribute(call, "padding", f"less padding: the size of the result would be {dim}")
        sizes.append(dim)
    return (data[0], weight[1] * attrs.groups, *sizes)


def _conv_transpose(xp: Any, attrs: Any, x: Any, kernel: Any) -> Any:
    rank = len(attrs.strides)
    inputs, outputs, widths = kernel.shape[0], kernel.shape[1], kernel.shape[2:]
    kernel = xp.reshape(kernel, (attrs.groups, inputs // attrs.groups, outputs, *widths))
    kernel = xp.permute_dims(kernel, (0, 2, 1, *range(3, rank + 3)))
    kernel = xp.reshape(kernel, (attrs.groups * outputs, inputs // attrs.groups, *widths))
    kernel = xp.flip(kernel, axis=tuple(range(2, rank + 2)))
    margins = [
        ((width - 1) * step - before, (width - 1) * step - after + extra)
        for width, step, (before, after), extra in zip(
            widths, attrs.dilation, padding_pairs(attrs.padding), attrs.output_padding, strict=True
        )
    ]
    return convolve(xp, spread(xp, x, attrs.strides), kernel, (1,) * rank, margins, attrs.dilation, attrs.groups)


def _transposed_of(rank: int):
    letters, kernel_letters, sizes = data_letters(rank), "IO" + SPATIAL[rank - 1], SPATIAL_NAMES[rank - 1]

    @declares(
        f"relax.nn.conv{rank}d_transpose",
        primitive=True,
        rank=rank,
        infer=convolution_rule("IO", ["padding", "output_padding"], _result_dims),
        reference=convolution_reference("IO", _conv_transpose),
        precision=Precision.LEADS,
        cost=transposed_operations,
        finite=True,
        doc=f"""The adjoint of `conv{rank}d` for its ``data``; follows ``torch.nn.functional.conv_transpose{rank}d``.

    Operands: ``data`` (batch, channels, {sizes}) and ``weight`` (channels, output channels // groups,
    {sizes}), with their axes in the order of ``data_layout`` and ``kernel_layout``. Both have the same dtype;
    with ``out_dtype``, they may have any two numeric dtypes.
    Attributes: those of `conv{rank}d`. ``padding`` is cut off from the result, because this is the adjoint.
    ``output_padding``, 1 int or one per spatial axis, is added at the end; it is less than the axis' stride.
    Result: (batch, output channels, ``(size - 1) * stride + (kernel - 1) * dilation + 1 - padding +
    output_padding`` ...).
    Raises `OpTypeError` for ranks that differ from the layouts', channels that do not agree or are not a
    multiple of ``groups``, or an ``output_padding`` that is too large.
    """,
    )
    def function(
        data: Expr,
        weight: Expr,
        strides: Spatial = (1,) * rank,
        padding: Padding = (0,) * rank,
        output_padding: Spatial = (0,) * rank,
        dilation: Spatial = (1,) * rank,
        groups: int = 1,
        data_layout: str = letters,
        kernel_layout: str = kernel_letters,
        out_layout: ResultLayout = None,
        out_dtype: ResultDtype = None,
    ) -> Call: ...

    return function


conv1d_transpose = _transposed_of(1)
conv2d_transpose = _transposed_of(2)
conv3d_transpose = _transposed_of(3)
