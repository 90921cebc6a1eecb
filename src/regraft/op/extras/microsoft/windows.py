"""Convolutions with a fused activation, or with channels last, and the matrix product with a fused activation."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ....ir.expr import Expr
from ....ir.op import Call, wrong_attribute, wrong_operand
from ....ir.types import TensorType, Type
from ...adjoints import tensor_type
from ...declare import meaning_of
from ...nn import conv1d, conv2d, conv3d
from ...primitive.manipulate import permute_dims
from ...primitive.windows import same_padding
from ...rules import require_float, tensor_operand
from ...semantics import cast, dtype_name
from .declaring import contributed, shaped, sizes_of

CONVOLUTIONS = {1: ("relax.nn.conv1d", conv1d), 2: ("relax.nn.conv2d", conv2d), 3: ("relax.nn.conv3d", conv3d)}

WINDOW: Final[dict[str, Any]] = {
    "auto_pad": "NOTSET",
    "dilations": None,
    "group": 1,
    "kernel_shape": None,
    "pads": None,
    "strides": None,
}
"""The attributes of a convolution in ONNX, with their defaults."""


def activated(xp: Any, x: Any, activation: str | None, parameters: tuple[float, ...] | None) -> Any:
    """``x`` after the activation of that name, one of those that ONNX Runtime fuses into other operators."""
    given = list(parameters or ())
    match activation:
        case None | "":
            return x
        case "Relu":
            return xp.where(x < 0, xp.zeros_like(x), x)
        case "Tanh":
            return xp.tanh(x)
        case "Sigmoid":
            return meaning_of("relax.sigmoid", xp, x)
        case "LeakyRelu":
            return xp.where(x < 0, x * (given[0] if given else 0.01), x)
        case "Clip":
            return xp.clip(x, given[0], given[1])
        case "HardSigmoid":
            alpha, beta = given or [0.2, 0.5]
            return xp.clip(x * alpha + beta, 0.0, 1.0)
        case _:
            raise ValueError(f"the activation {activation!r} is not known here")


def window_arguments(call_attrs: Any, rank: int, data: tuple[Any, ...], kernel: tuple[Any, ...]) -> dict[str, Any]:
    """Strides, padding, dilation and groups as arguments of convolutions, from ONNX's attributes.

    ``data`` and ``kernel`` are the shapes of the operands, with channels first.
    """
    count = rank - 2
    strides = tuple(call_attrs["strides"] or (1,) * count)
    dilations = tuple(call_attrs["dilations"] or (1,) * count)
    pads = tuple(call_attrs["pads"] or (0,) * (2 * count))
    if call_attrs["auto_pad"] in ("SAME_UPPER", "SAME_LOWER"):
        lower = call_attrs["auto_pad"] == "SAME_LOWER"
        axes = zip(data[2:], kernel[2:], strides, dilations, strict=True)
        before, after = zip(*[same_padding(*axis, lower=lower) for axis in axes], strict=True)
        pads = (*before, *after)
    return {"strides": strides, "padding": pads, "dilation": dilations, "groups": call_attrs["group"]}


def to_first(rank: int) -> tuple[int, ...]:
    """The permutation from (batch, *space, channels) to (batch, channels, *space)."""
    return (0, rank - 1, *range(1, rank - 1))


def to_last(rank: int) -> tuple[int, ...]:
    """The permutation from (batch, channels, *space) to (batch, *space, channels)."""
    return (0, *range(2, rank), 1)


def _convolution_type(call: Call, data_last: bool = False, weight_last: bool = False) -> Type:
    """The type of a convolution of operands 0 and 1; ``_last`` is True for an operand whose channels are last."""
    data, weight = require_float(call, 0), tensor_operand(call, 1)
    rank = data.ndim
    if rank >= 0 and rank - 2 not in CONVOLUTIONS:
        order = "batch, spatial axes, channels" if data_last else "batch, channels, spatial axes"
        raise wrong_operand(call, 0, f"a tensor of 3 to 5 axes: {order}")
    if data.shape is None or weight.shape is None:
        return TensorType(None, data.dtype, rank)
    if call.attrs.auto_pad.startswith("SAME") and not all(isinstance(n, int) for n in (*data.shape, *weight.shape)):
        raise wrong_attribute(call, "auto_pad", "NOTSET or VALID, because sizes are known only at run time")
    operands = [
        permute_dims(part, to_first(rank)) if last else part
        for part, last in zip(call.args[:2], (data_last, weight_last), strict=True)
    ]
    sizes = [tensor_type(part).shape or () for part in operands]
    function: Any = CONVOLUTIONS[rank - 2][1]
    found: Expr = function(*operands, **window_arguments(call.attrs, rank, *sizes))
    return (permute_dims(found, to_last(rank)) if data_last else found).ty


def _convolved(
    xp: Any, x: Any, w: Any, b: Any, attrs: dict[str, Any], data_last: bool = False, weight_last: bool = False
) -> Any:
    """The convolution whose type is `_convolution_type`, plus ``b`` for each channel."""
    rank = x.ndim
    data = xp.permute_dims(x, to_first(rank)) if data_last else x
    weight = xp.permute_dims(w, to_first(rank)) if weight_last else w
    arguments = window_arguments(attrs, rank, data.shape, weight.shape)
    found = meaning_of(CONVOLUTIONS[rank - 2][0], xp, data, weight, **arguments)
    if b is not None:
        found = found + xp.reshape(b, (1, -1, *(1,) * (rank - 2)))
    return xp.permute_dims(found, to_last(rank)) if data_last else found


_ACTIVATION: Final[dict[str, Any]] = {"activation": None, "activation_params": None}


@contributed("FusedConv", _convolution_type, shared=_ACTIVATION | WINDOW)
def fused_conv(xp: Any, x: Any, w: Any, b: Any = None, z: Any = None, **how: Any) -> Any:
    """A convolution of (batch, channels, *space), plus ``b`` for each channel, plus ``z``, then an activation."""
    return _with_activation(xp, _convolved(xp, x, w, b, how), z, how)


def _with_activation(xp: Any, found: Any, z: Any, how: dict[str, Any]) -> Any:
    return activated(xp, found if z is None else found + z, how["activation"], how["activation_params"])


@contributed("NhwcConv", partial(_convolution_type, data_last=True, weight_last=True), shared=WINDOW)
def nhwc_conv(xp: Any, x: Any, w: Any, b: Any = None, **window: Any) -> Any:
    """A convolution of (batch, *space, channels) with weights (channels, *window, channels of a group), plus ``b``."""
    return _convolved(xp, x, w, b, window, data_last=True, weight_last=True)


@contributed("NhwcFusedConv", partial(_convolution_type, data_last=True), shared=_ACTIVATION | WINDOW)
def nhwc_fused_conv(xp: Any, x: Any, w: Any, b: Any = None, z: Any = None, **how: Any) -> Any:
    """An `nhwc_conv` with weights (channels, channels of a group, *window), plus ``z``, then an activation."""
    return _with_activation(xp, _convolved(xp, x, w, b, how, data_last=True), z, how)


def _gemm_type(call: Call) -> Type:
    dtype = require_float(call, 0).dtype
    rows = sizes_of(call, 0, 2)[1 if call.attrs.transA else 0]
    columns = sizes_of(call, 1, 2)[0 if call.attrs.transB else 1]
    return shaped((rows, columns), dtype)


@contributed("FusedGemm", _gemm_type)
def fused_gemm(
    xp: Any,
    a: Any,
    b: Any,
    c: Any = None,
    *,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Any:
    """``alpha * (a @ b) + beta * c`` of matrices, followed by an activation."""
    del activation_gamma
    left, right = (xp.permute_dims(x, (1, 0)) if turned else x for x, turned in ((a, transA), (b, transB)))
    found = meaning_of("relax.matmul", xp, left, right) * alpha
    found = found if c is None else found + c * beta
    given = tuple([x for x in (activation_alpha, activation_beta) if x is not None])
    return cast(xp, activated(xp, found, activation, given), dtype_name(a.dtype))
