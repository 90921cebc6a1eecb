"""Convolutions with an activation inside, or with the channels last, and the product of the same kind."""

from __future__ import annotations

from typing import Any

from ....ir.expr import Expr
from ....ir.op import Call, wrong_attribute, wrong_operand
from ....ir.types import TensorType, Type
from ...declare import meaning_of
from ...nn import conv1d, conv2d, conv3d
from ...rules import require_float
from ...semantics import cast, dtype_name
from .declaring import contributed, shaped, sizes_of

CONVOLUTIONS = {1: ("relax.nn.conv1d", conv1d), 2: ("relax.nn.conv2d", conv2d), 3: ("relax.nn.conv3d", conv3d)}


def activated(xp: Any, x: Any, activation: str | None, parameters: tuple[float, ...] | None) -> Any:
    """``x`` after the activation of that name, as ONNX Runtime fuses it into other operators."""
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
    """Strides, padding, dilation and groups as convolutions here take them."""
    count = rank - 2
    strides = tuple(call_attrs["strides"] or (1,) * count)
    dilations = tuple(call_attrs["dilations"] or (1,) * count)
    pads = tuple(call_attrs["pads"] or (0,) * (2 * count))
    if call_attrs["auto_pad"] in ("SAME_UPPER", "SAME_LOWER"):
        before: list[int] = []
        after: list[int] = []
        for size, window, stride, dilation in zip(data[2:], kernel[2:], strides, dilations, strict=True):
            total = max((-(-size // stride) - 1) * stride + (window - 1) * dilation + 1 - size, 0)
            small, large = total // 2, total - total // 2
            first, last = (small, large) if call_attrs["auto_pad"] == "SAME_UPPER" else (large, small)
            before.append(first)
            after.append(last)
        pads = (*before, *after)
    return {"strides": strides, "padding": pads, "dilation": dilations, "groups": call_attrs["group"]}


def _fused_type(call: Call) -> Type:
    data, rank = require_float(call, 0), require_float(call, 0).ndim
    if rank < 0 or data.shape is None:
        return TensorType(None, data.dtype, rank)
    if rank - 2 not in CONVOLUTIONS:
        raise wrong_operand(call, 0, "a tensor of 3 to 5 axes: batch, channels, and those of space")
    weight = sizes_of(call, 1, rank)
    if call.attrs.auto_pad.startswith("SAME") and not all(isinstance(size, int) for size in (*data.shape, *weight)):
        raise wrong_attribute(call, "auto_pad", "NOTSET or VALID where sizes are known at run time only")
    function: Any = CONVOLUTIONS[rank - 2][1]
    found: Expr = function(*call.args[:2], **window_arguments(call.attrs, rank, data.shape, weight))
    return found.ty


@contributed("FusedConv", _fused_type)
def fused_conv(
    xp: Any,
    x: Any,
    w: Any,
    b: Any = None,
    z: Any = None,
    *,
    activation: str | None = None,
    activation_params: tuple[float, ...] | None = None,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Any:
    """A convolution of (batch, channels, *space), plus ``b`` for each channel, plus ``z``, and then an activation."""
    del kernel_shape
    given = {"auto_pad": auto_pad, "dilations": dilations, "group": group, "pads": pads, "strides": strides}
    name = CONVOLUTIONS[x.ndim - 2][0]
    found = meaning_of(name, xp, x, w, **window_arguments(given, x.ndim, x.shape, w.shape))
    if b is not None:
        found = found + xp.reshape(b, (1, -1, *(1,) * (x.ndim - 2)))
    return activated(xp, found if z is None else found + z, activation, activation_params)


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
    """``alpha * (a @ b) + beta * c`` of matrices, and then an activation."""
    del activation_gamma
    left, right = (xp.permute_dims(x, (1, 0)) if turned else x for x, turned in ((a, transA), (b, transB)))
    found = meaning_of("relax.matmul", xp, left, right) * alpha
    found = found if c is None else found + c * beta
    given = tuple([x for x in (activation_alpha, activation_beta) if x is not None])
    return cast(xp, activated(xp, found, activation, given), dtype_name(a.dtype))
