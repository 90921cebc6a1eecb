"""Activation functions: elementwise nonlinearities, and softmax and log-softmax, which normalize along one axis.

float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

from functools import partial
from math import pi, sqrt
from typing import Any, Final

from ...ir.dims import dims_equal
from ...ir.dtypes import is_bool, is_float
from ...ir.expr import Expr, PrimValue
from ...ir.op import Call, Precision, Trait, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, Type
from ..adjoints import collapse_to, known_rank, reshape_like
from ..costs import operations_per_element
from ..primitive.comparison import greater, less, less_equal, logical_and
from ..primitive.datatype import in_dtype_of_first
from ..primitive.elementary import erf, exp, sigmoid, tanh
from ..primitive.reduction import sum
from ..primitive.reshaping import expand_dims
from ..primitive.ternary import clip, where
from ..public_function import declares, operator_of
from ..row import of_one
from ..rules import OfKinds, normalize_axis, require_float, require_rank, same_float_type, same_type, tensor_operand
from ..semantics import PROGRAM, along, apply, normalized_exponentials, rounded_once, special_function

__all__ = [
    "elu",
    "gelu",
    "gelu_tanh",
    "hardsigmoid",
    "hardswish",
    "leakyrelu",
    "log_softmax",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "silu",
    "softmax",
    "softplus",
]

_ELEMENTWISE: Final = (Trait.ELEMENTWISE,)
_smooth: Final = partial(declares, infer=same_float_type, traits=_ELEMENTWISE)


# --- the rectifier and similar functions


def _relu(xp: Any, x: Any) -> Any:
    return xp.where(x < 0, xp.zeros_like(x), x)


_rectifier: Final = partial(
    declares,
    infer=OfKinds(same_type, lambda dtype: not is_bool(dtype), "numbers, not bool"),
    traits=(Trait.ELEMENTWISE, Trait.IDEMPOTENT),
    precision=Precision.FOLLOWS,
    finite=True,
)


@_rectifier(
    "relax.nn.relu",
    reference=_relu,
    # Computed from the output, which is kept anyway. At 0 the gradient is 0, as in PyTorch.
    gradient=lambda call, output, adjoint: [where(less_equal(output, 0.0), 0.0, adjoint)],
)
def relu(data: Expr) -> Call:
    """``data`` with negative elements replaced by 0; follows ``torch.nn.functional.relu``.

    Operands: a tensor of numbers. Result: the same shape and dtype; NaN stays NaN.
    Raises `OpTypeError` for bool.
    """
    ...


def _relu6(xp: Any, x: Any) -> Any:
    limits = (PrimValue(0), PrimValue(6)) if xp.__name__ == PROGRAM else (0, 6)
    return apply(xp, operator_of(clip), x, *limits)


def _relu6_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    return [where(logical_and(greater(output, 0.0), less(output, 6.0)), adjoint, 0.0)]


@_rectifier("relax.nn.relu6", reference=_relu6, gradient=_relu6_gradient)
def relu6(data: Expr) -> Call:
    """``data`` limited to the range 0 to 6; follows ``torch.nn.functional.relu6``.

    Operands: a tensor of numbers. Result: the same shape and dtype; NaN stays NaN. At 0 and at 6 the gradient is 0, as
    in PyTorch; the gradient of `clip` is 1 there. Raises `OpTypeError` for bool.
    """
    ...


def _leakyrelu(xp: Any, x: Any, alpha: float) -> Any:
    return xp.where(x < 0, x * alpha, x)


@declares(
    "relax.nn.leakyrelu",
    infer=same_float_type,
    reference=rounded_once(_leakyrelu),
    traits=_ELEMENTWISE,
    precision=Precision.FOLLOWS,
    gradient=lambda call, output, adjoint: [where(greater(call.args[0], 0.0), adjoint, adjoint * call.attrs.alpha)],
)
def leakyrelu(data: Expr, alpha: float = 0.01) -> Call:
    """``data`` with negative elements multiplied by ``alpha``; follows ``torch.nn.functional.leaky_relu``.

    Operands: a floating tensor. Result: the same shape and dtype. Raises `OpTypeError` for other dtypes.
    """
    ...


def _along_axis_type(call: Call) -> Type:
    ty = require_float(call, 0)
    if ty.ndim != UNKNOWN_NDIM:
        normalize_axis(call, "axis", call.attrs.axis, ty.ndim)
    return ty


def _prelu_type(call: Call) -> Type:
    tensor_operand(call, 1)
    return _along_axis_type(call)


def _require_slopes(call: Call) -> None:
    data, alpha = tensor_operand(call, 0), tensor_operand(call, 1)
    require_rank(call, 1, "a tensor of 1 dimension, one slope per channel", 1)
    if data.shape is not None and alpha.shape is not None:
        slopes, channels = alpha.shape[0], data.shape[call.attrs.get_int("axis")]
        if dims_equal(slopes, channels) is False and dims_equal(slopes, 1) is False:
            raise wrong_operand(call, 1, f"{channels} slopes, one for each channel of data, or 1")


def _prelu(xp: Any, x: Any, alpha: Any, axis: int) -> Any:
    return xp.where(x < 0, x * along(xp, alpha, axis % x.ndim, x.ndim), x)


def _prelu_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    data, alpha = call.args
    slopes, ndim = alpha, known_rank(call, data, "data")
    channel = call.attrs.axis % ndim
    if ndim > 1:
        slopes = expand_dims(alpha, [axis for axis in range(ndim) if axis != channel])
    is_kept = greater(data, 0.0)
    slope_share = collapse_to(where(is_kept, 0.0, adjoint * data), slopes)
    return [where(is_kept, adjoint, adjoint * slopes), reshape_like(slope_share, alpha)]


@declares(
    "relax.nn.prelu",
    infer=OfKinds(_prelu_type, is_float, "a floating dtype", _require_slopes),
    reference=rounded_once(_prelu),
    prepare=in_dtype_of_first,
    gradient=_prelu_gradient,
)
def prelu(data: Expr, alpha: Expr, axis: int = 1) -> Call:
    """``data`` with negative elements multiplied by a slope per channel; as ``torch.nn.functional.prelu``.

    Operands: ``data``, floating; ``alpha``, of shape ``(data.shape[axis],)`` or ``(1,)``, cast to that dtype.
    Result: ``data``'s shape and dtype. Raises `OpTypeError` for an axis that ``data`` lacks. As in Relax, a call
    with other slopes has a type but no value.
    """
    ...


_SELU_ALPHA: Final = 1.6732632423543772848170429916717
_SELU_SCALE: Final = 1.0507009873554804934193349852946


def _selu(xp: Any, x: Any) -> Any:
    # expm1 of the negative part only, since it overflows for large positive elements
    low = xp.expm1(xp.where(x < 0, x, xp.zeros_like(x))) * _SELU_ALPHA
    return xp.where(x < 0, low, x) * _SELU_SCALE


def _selu_share(adjoint: Expr, x: Expr, output: Expr) -> Expr:
    # Below 0 the slope, scale * alpha * exp(x), is the output minus its lower limit.
    return adjoint * where(greater(x, 0.0), _SELU_SCALE, output + _SELU_SCALE * _SELU_ALPHA)


@_smooth("relax.nn.selu", reference=rounded_once(_selu), gradient=of_one(_selu_share))
def selu(data: Expr) -> Call:
    """The scaled exponential linear unit, ``scale * where(x < 0, alpha * (exp(x) - 1), x)``.

    ``alpha`` is 1.67326324..., ``scale`` 1.05070098... (Klambauer et al., "Self-Normalizing Neural Networks",
    2017).
    Operands: a floating tensor. Result: the same shape and dtype. Raises `OpTypeError` for other dtypes.
    """
    ...


# --- smooth activations


def _gelu(xp: Any, x: Any) -> Any:
    # erfc stays accurate far left of zero, where 1 + erf cancels
    return x * 0.5 * special_function(xp, "erfc")(x * -sqrt(0.5))


def _gelu_share(adjoint: Expr, x: Expr, output: Expr) -> Expr:
    below = (erf(x * sqrt(0.5)) + 1.0) * 0.5
    density = exp(x * x * -0.5) * (1 / sqrt(2 * pi))
    return adjoint * (below + x * density)


@_smooth("relax.nn.gelu", reference=rounded_once(_gelu), gradient=of_one(_gelu_share), finite=True)
def gelu(data: Expr) -> Call:
    """The Gaussian error linear unit, ``x * (1 + erf(x / sqrt(2))) / 2``; follows ``torch.nn.functional.gelu``.

    Operands: a floating tensor. Result: the same shape and dtype. Raises `OpTypeError` for other dtypes.
    """
    ...


_GELU_TANH_FLAT: Final = 20.0
"""The limit beyond which the tanh is exactly 1, and a cube would overflow."""


def _gelu_tanh(xp: Any, x: Any) -> Any:
    near = xp.clip(x, -_GELU_TANH_FLAT, _GELU_TANH_FLAT)
    return x * 0.5 * (xp.tanh((near + near * near * near * 0.044715) * sqrt(2 / pi)) + 1.0)


def _gelu_tanh_share(adjoint: Expr, x: Expr, output: Expr) -> Expr:
    near = clip(x, -_GELU_TANH_FLAT, _GELU_TANH_FLAT)
    bent = tanh((near + near * near * near * 0.044715) * sqrt(2 / pi))
    inner_slope = (near * near * (3 * 0.044715) + 1.0) * sqrt(2 / pi)
    return adjoint * ((bent + 1.0) * 0.5 + near * 0.5 * (1.0 - bent * bent) * inner_slope)


@_smooth("relax.nn.gelu_tanh", reference=rounded_once(_gelu_tanh), gradient=of_one(_gelu_tanh_share))
def gelu_tanh(data: Expr) -> Call:
    """The tanh approximation of `gelu`, ``x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2``.

    Operands: a floating tensor. Result: the same shape and dtype. Raises `OpTypeError` for other dtypes.
    """
    ...


def _silu(xp: Any, x: Any) -> Any:
    return x * special_function(xp, "expit")(x)


def _silu_share(adjoint: Expr, x: Expr, output: Expr) -> Expr:
    gate = sigmoid(x)
    return adjoint * (gate + output * (1.0 - gate))


@_smooth("relax.nn.silu", reference=rounded_once(_silu), gradient=of_one(_silu_share), finite=True)
def silu(data: Expr) -> Call:
    """The sigmoid linear unit, ``x * sigmoid(x)``, also called swish; follows ``torch.nn.functional.silu``.

    Operands: a floating tensor. Result: the same shape and dtype. Raises `OpTypeError` for other dtypes.
    """
    ...


def _softplus(xp: Any, x: Any, beta: float, threshold: float) -> Any:
    scaled = x * beta
    linear = scaled > threshold
    bent = xp.log1p(xp.exp(xp.where(linear, xp.zeros_like(scaled), scaled))) / beta
    return xp.where(linear, x, bent)


def _softplus_type(call: Call) -> Type:
    if call.attrs.beta == 0:
        raise wrong_attribute(call, "beta", "a number other than 0")
    return require_float(call, 0)


def _softplus_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    scaled = call.args[0] * call.attrs.beta
    return [where(greater(scaled, call.attrs.threshold), adjoint, adjoint * sigmoid(scaled))]


@declares(
    "relax.nn.softplus",
    infer=_softplus_type,
    reference=rounded_once(_softplus),
    traits=_ELEMENTWISE,
    gradient=_softplus_gradient,
)
def softplus(data: Expr, beta: float = 1.0, threshold: float = 20.0) -> Call:
    """``log(1 + exp(beta * x)) / beta``, and ``x`` itself where ``beta * x > threshold``.

    Follows ``torch.nn.functional.softplus``. Operands: a floating tensor. Result: the same shape and dtype.
    Raises `OpTypeError` for other dtypes, or if ``beta`` is 0.
    """
    ...


# --- variants: piecewise linear ones, which are cheaper, and ones that are smoother than a rectifier


def _hardsigmoid(xp: Any, x: Any, alpha: float, beta: float) -> Any:
    line = x * alpha + beta
    return xp.minimum(xp.maximum(line, xp.zeros_like(line)), xp.ones_like(line))


def _hardsigmoid_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    inside = logical_and(greater(output, 0.0), less(output, 1.0))
    return [where(inside, adjoint * call.attrs.alpha, 0.0)]


@_smooth("relax.nn.hardsigmoid", reference=rounded_once(_hardsigmoid), gradient=_hardsigmoid_gradient)
def hardsigmoid(data: Expr, alpha: float = 1 / 6, beta: float = 0.5) -> Call:
    """``alpha * data + beta``, limited to the range 0 to 1.

    Follows ``torch.nn.functional.hardsigmoid`` and ONNX ``HardSigmoid``.

    Operands: a floating tensor. Result: the same shape and dtype; NaN stays NaN. Raises `OpTypeError` for other dtypes.
    """
    ...


def _hardswish(xp: Any, x: Any) -> Any:
    return x * _hardsigmoid(xp, x, 1 / 6, 0.5)


def _hardswish_share(adjoint: Expr, x: Expr, output: Expr) -> Expr:
    line = clip(x, -3.0, 3.0) * (1 / 3) + 0.5
    return where(greater(x, -3.0), where(less(x, 3.0), adjoint * line, adjoint), 0.0)


@_smooth("relax.nn.hardswish", reference=rounded_once(_hardswish), gradient=of_one(_hardswish_share))
def hardswish(data: Expr) -> Call:
    """``data`` times its `hardsigmoid`; follows ``torch.nn.functional.hardswish`` and ONNX ``HardSwish``.

    Operands: a floating tensor. Result: the same shape and dtype. Raises `OpTypeError` for other dtypes.
    """
    ...


def _elu(xp: Any, x: Any, alpha: float) -> Any:
    # The minimum keeps a large x from overflowing in the branch that is not taken.
    return xp.where(x > 0, x, xp.expm1(xp.minimum(x, xp.zeros_like(x))) * alpha)


def _elu_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    # Below 0 the slope, alpha * exp(x), is the output minus its lower limit.
    return [where(greater(call.args[0], 0.0), adjoint, adjoint * (output + call.attrs.alpha))]


@_smooth("relax.nn.elu", reference=rounded_once(_elu), gradient=_elu_gradient)
def elu(data: Expr, alpha: float = 1.0) -> Call:
    """``data`` where it is above 0, else ``alpha * (exp(data) - 1)``; follows ``torch.nn.functional.elu``.

    Operands: a floating tensor. Result: the same shape and dtype. Raises `OpTypeError` for other dtypes.
    """
    ...


def _mish(xp: Any, x: Any) -> Any:
    return x * xp.tanh(apply(xp, operator_of(softplus), x))


def _mish_share(adjoint: Expr, x: Expr, output: Expr) -> Expr:
    gate = tanh(softplus(x))
    return adjoint * (gate + x * sigmoid(x) * (1.0 - gate * gate))


@_smooth("relax.nn.mish", reference=rounded_once(_mish), gradient=of_one(_mish_share))
def mish(data: Expr) -> Call:
    """``data * tanh(softplus(data))``; follows ``torch.nn.functional.mish``.

    Operands: a floating tensor. Result: the same shape and dtype. Raises `OpTypeError` for other dtypes.
    """
    ...


# --- along an axis


def _softmax_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    return [(adjoint - sum(adjoint * output, call.attrs.axis, keepdims=True)) * output]


@declares(
    "relax.nn.softmax",
    infer=_along_axis_type,
    reference=rounded_once(normalized_exponentials),
    finite=True,
    cost=operations_per_element(5),  # the maximum, a difference, the exponential, the sum and a quotient
    gradient=_softmax_gradient,
)
def softmax(data: Expr, axis: int = -1) -> Call:
    """``exp(data)`` divided by its sum along ``axis``; follows ``torch.nn.functional.softmax``.

    Operands: a floating tensor. Attributes: ``axis``; a negative one counts from the end. Result: the same
    shape and dtype; a slice that is all -inf gives NaN. Raises `OpTypeError` for other dtypes or an
    axis out of range.
    """
    ...


def _log_softmax(xp: Any, x: Any, axis: int) -> Any:
    if x.shape[axis] == 0:
        return x
    shifted = x - xp.max(x, axis=axis, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=axis, keepdims=True))


def _log_softmax_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    return [adjoint - sum(adjoint, call.attrs.axis, keepdims=True) * exp(output)]


@declares(
    "relax.nn.log_softmax",
    infer=_along_axis_type,
    reference=rounded_once(_log_softmax),
    gradient=_log_softmax_gradient,
)
def log_softmax(data: Expr, axis: int = -1) -> Call:
    """The logarithm of `softmax`, without rounding to 0 on the way; follows ``torch.nn.functional.log_softmax``.

    Operands: a floating tensor. Attributes: ``axis``; a negative one counts from the end. Result: the same
    shape and dtype. Raises `OpTypeError` for other dtypes or an axis out of range.
    """
    ...
