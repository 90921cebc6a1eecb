"""PyTorch operators that correspond to several operators here, such as a product or a convolution with its bias.

Programs that are written for PyTorch use them. Models that are read contain only those that simulate
quantization. The module is loaded when the first of them is looked up.
"""

from __future__ import annotations

from typing import Any, Final

from ...ir.expr import Expr, const
from ...ir.op import Call, Trait
from ...ir.types import Type
from ..composite.attention import attention
from ..composite.quantize import quantize
from ..declare import meaning_of, operator
from ..primitive.binary import add
from ..primitive.comparison import greater_equal, less_equal, logical_and
from ..primitive.conv import conv1d, conv2d, conv3d
from ..primitive.create import zeros_like
from ..primitive.datatype import astype
from ..primitive.linear_algebra import linear
from ..primitive.manipulate import permute_dims
from ..primitive.reshaping import reshape
from ..primitive.ternary import where
from ..rules import require_float, tensor_operand
from ..semantics import cast, dtype_name, integer_range

_HEADS_FIRST: Final = (0, 2, 1, 3)


def _attention_type(call: Call) -> Type:
    query, key, value = (permute_dims(operand, _HEADS_FIRST) for operand in call.args[:3])
    bias = call.args[3] if len(call.args) > 3 else None
    return permute_dims(attention(query, key, value, bias), _HEADS_FIRST).ty


@operator("aten.scaled_dot_product_attention", infer=_attention_type, torch="aten::scaled_dot_product_attention")
def aten_attention(
    xp: Any,
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention of queries, keys and values (batch, heads, sequence, size), with a bias or the causal mask."""
    operands = [xp.permute_dims(operand, _HEADS_FIRST) for operand in (query, key, value)]
    if bias is not None:
        operands.append(bias)
    name = "relax.nn.attention" if bias is None else "relax.nn.attention_bias"
    found = meaning_of(name, xp, *operands, scale=scale, causal_mask="TopLeft" if is_causal else None)
    return xp.permute_dims(found, _HEADS_FIRST)


_CONVOLUTIONS = {1: conv1d, 2: conv2d, 3: conv3d}


def _linear_type(call: Call) -> Type:
    data, weight, *bias = call.args
    return linear(data, weight, bias[0] if bias else None).ty


@operator("aten.linear", infer=_linear_type, torch="aten::linear")
def aten_linear(xp: Any, data: Any, weight: Any, bias: Any = None) -> Any:
    """``data @ weight.T + bias``; weight (m, k), bias (m,)."""
    found = meaning_of("relax.matmul", xp, data, meaning_of("relax.permute_dims", xp, weight))
    return found if bias is None else found + bias


def _convolution_type(call: Call) -> Type:
    attrs, (data, weight, bias) = call.attrs, call.args
    convolve = _CONVOLUTIONS[tensor_operand(call, 0).ndim - 2]
    found: Expr = convolve(data, weight, attrs.stride, attrs.padding, attrs.dilation, attrs.groups)
    channels = tensor_operand(call, 1).shape
    assert channels is not None
    return add(found, reshape(bias, (channels[0], *[1] * len(attrs.stride)))).ty


def _convolution(rank: int) -> None:
    @operator(f"aten.conv{rank}d", infer=_convolution_type, torch=f"aten::conv{rank}d")
    def convolution(
        xp: Any,
        data: Any,
        weight: Any,
        bias: Any,
        *,
        stride: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
        groups: int,
    ) -> Any:
        found = meaning_of(
            f"relax.nn.conv{rank}d",
            xp,
            data,
            weight,
            strides=stride,
            padding=(*padding, *padding),
            dilation=dilation,
            groups=groups,
        )
        return found + xp.reshape(bias, (-1, *[1] * rank))


for _rank in _CONVOLUTIONS:
    _convolution(_rank)


# --- quantization simulated in training


def codes_between(least: int, greatest: int) -> str:
    """The narrowest dtype that holds the integers from ``least`` to ``greatest``."""
    ranges = {dtype: integer_range(dtype) for dtype in ("int8", "uint8", "int16", "int32")}
    return next(dtype for dtype, (low, high) in ranges.items() if low <= least and greatest <= high)


def _imitated(xp: Any, x: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int) -> Any:
    dtype = codes_between(quant_min, quant_max)
    zeros, factor = cast(xp, zero_point, dtype), cast(xp, scale, "float32")
    codes = meaning_of("relax.quantize", xp, x, factor, zeros, axis=axis, out_dtype=dtype)
    if (quant_min, quant_max) != integer_range(dtype):
        codes = xp.clip(codes, quant_min, quant_max)
    return meaning_of("relax.dequantize", xp, codes, factor, zeros, axis=axis, out_dtype=dtype_name(x.dtype))


def _imitated_type(call: Call) -> Type:
    return require_float(call, 0)


def _straight_through(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    """The straight-through gradient: the adjoint where the code of ``data`` is within the limits, and 0 elsewhere."""
    data, scale, zero_point = call.args
    codes = quantize(data, astype(scale, "float32"), zero_point, call.attrs.get("axis", -1), "int32")
    least, greatest = (const(call.attrs[name], "int32") for name in ("quant_min", "quant_max"))
    is_inside = logical_and(greater_equal(codes, least), less_equal(codes, greatest))
    return [where(is_inside, adjoint, zeros_like(adjoint)), None, None]


@operator(
    "aten.fake_quantize_per_tensor_affine",
    infer=_imitated_type,
    gradient=_straight_through,
    traits=(Trait.STORED,),
    torch="aten::fake_quantize_per_tensor_affine.tensor_qparams",
)
def aten_fake_quantize(xp: Any, data: Any, scale: Any, zero_point: Any, *, quant_min: int, quant_max: int) -> Any:
    """``data`` quantized to integers between the limits and dequantized again, with a scalar scale and zero point."""
    return _imitated(xp, data, scale, zero_point, -1, quant_min, quant_max)


@operator(
    "aten.fake_quantize_per_channel_affine",
    infer=_imitated_type,
    gradient=_straight_through,
    traits=(Trait.STORED,),
    torch="aten::fake_quantize_per_channel_affine",
)
def aten_fake_quantize_channels(
    xp: Any, data: Any, scale: Any, zero_point: Any, *, axis: int, quant_min: int, quant_max: int
) -> Any:
    """The same as `aten_fake_quantize`, with a scale and a zero point for each index of ``axis``."""
    return _imitated(xp, data, scale, zero_point, axis, quant_min, quant_max)
