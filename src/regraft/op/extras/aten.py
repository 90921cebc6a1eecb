"""Operators of PyTorch that take in one what are several operators here: a product or a convolution with its bias.

They are what programs that go out to PyTorch are written with; models that are read never hold them. Loaded when the
first of them is looked up.
"""

from __future__ import annotations

from typing import Any, Final

from ...ir.expr import Expr
from ...ir.op import Call
from ...ir.types import Type
from ..composite.attention import attention
from ..declare import meaning_of, operator
from ..primitive.binary import add
from ..primitive.conv import conv1d, conv2d, conv3d
from ..primitive.linear_algebra import linear
from ..primitive.manipulate import permute_dims
from ..primitive.reshaping import reshape
from ..rules import tensor_operand

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
