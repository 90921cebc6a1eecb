"""Convolution and pooling with channels in blocks, as in models that ONNX Runtime has optimized for one processor.

The size of the blocks and the order of the elements in memory depend on that processor, so these operators have no
reference semantics. Only the shapes are known: (batch, channels, *space), with the channels padded to whole blocks.
So such a model can be read, rewritten around these calls, and run on ONNX Runtime.
"""

from __future__ import annotations

from typing import Any, Final

from ....ir.op import Call, Op
from ....ir.types import TensorType, Type
from ...nn import avg_pool1d, avg_pool2d, avg_pool3d
from ...rules import require_float
from .declaring import shaped, sizes_of
from .quantized_windows import POOL, pool_arguments
from .windows import CONVOLUTIONS, WINDOW, window_arguments

DOMAIN: Final = "com.microsoft.nchwc"
_MOST_IN_A_BLOCK: Final = 16
_POOLS: Final = {1: avg_pool1d, 2: avg_pool2d, 3: avg_pool3d}


def _blocked(name: str, operands: tuple[str, ...], infer: Any, **attributes: Any) -> None:
    Op(f"{DOMAIN}.{name}", operands, attributes, infer=infer, onnx=f"{DOMAIN}::{name}")


def _unknown(call: Call) -> TensorType:
    data = require_float(call, 0)
    return TensorType(None, data.dtype, data.ndim)


def _conv_type(call: Call) -> Type:
    data = require_float(call, 0)
    if data.shape is None or data.ndim - 2 not in CONVOLUTIONS:
        return _unknown(call)
    weight = sizes_of(call, 1, data.ndim)
    arguments = window_arguments(call.attrs, data.ndim, data.shape, weight)
    function: Any = _POOLS[data.ndim - 2]  # a pooling has the same spatial sizes and ignores the padded channels
    kernel = tuple(weight[2:])
    del arguments["groups"]
    found = function(call.args[0], pool_size=kernel, **arguments).ty
    return shaped((data.shape[0], weight[0], *found.shape[2:]), data.dtype)


def _pool_type(call: Call) -> Type:
    data = require_float(call, 0)
    if data.shape is None or data.ndim - 2 not in _POOLS:
        return _unknown(call)
    function: Any = _POOLS[data.ndim - 2]
    return function(call.args[0], **pool_arguments(call.attrs, data.shape)).ty


def _global_type(call: Call) -> Type:
    data = require_float(call, 0)
    return _unknown(call) if data.shape is None else shaped((*data.shape[:2], *(1,) * (data.ndim - 2)), data.dtype)


def _enter_type(call: Call) -> Type:
    data = require_float(call, 0)
    if data.shape is None:
        return _unknown(call)
    batch, *space, channels = (
        data.shape if call.attrs.channels_last else (data.shape[0], *data.shape[2:], data.shape[1])
    )
    if not isinstance(channels, int) or channels % _MOST_IN_A_BLOCK:
        return _unknown(call)
    return TensorType((batch, channels, *space), data.dtype)


def _leave_type(call: Call) -> Type:
    data, channels = require_float(call, 0), call.attrs.channels
    if data.shape is None:
        return _unknown(call)
    batch, _, *space = data.shape
    return TensorType((batch, *space, channels) if call.attrs.channels_last else (batch, channels, *space), data.dtype)


def _upsample_type(call: Call) -> Type:
    data, scales = require_float(call, 0), call.attrs.scales
    if data.shape is None or scales is None:
        return _unknown(call)
    return TensorType([size * scale for size, scale in zip(data.shape, scales, strict=True)], data.dtype)


_blocked("Conv", ("x", "w", "b?", "sum?"), _conv_type, **WINDOW, activation=None, activation_params=None)
_blocked("MaxPool", ("x",), _pool_type, **POOL, dilations=None, storage_order=0)
_blocked("AveragePool", ("x",), _pool_type, **POOL, dilations=None, count_include_pad=0)
_blocked("GlobalMaxPool", ("x",), _global_type)
_blocked("GlobalAveragePool", ("x",), _global_type)
_blocked("ReorderInput", ("x",), _enter_type, channels_last=0)
_blocked("ReorderOutput", ("x",), _leave_type, channels=0, channels_last=0)
_blocked("Upsample", ("x",), _upsample_type, coordinate_transformation_mode="asymmetric", mode="nearest", scales=None)
