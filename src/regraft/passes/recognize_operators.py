"""RecognizeOperators: formulas become the operators that they spell out.

Exporters and older opsets write activations and normalizations as formulas. Each form here is two functions: the
formula, in its usual variants, and the operator that replaces it, or the reason why it does not. Numbers must be those
of the formula, to the last bit of their dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from math import pi, sqrt
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from .. import op as ops
from ..analysis.tensors import dtype_of, same_sizes, stated_shape
from ..analysis.values import is_number
from ..ir.dims import Dim, dim_product
from ..ir.dtypes import numpy_dtype
from ..ir.expr import Constant, Expr
from ..ir.module import IRModule
from ..ir.program import Function
from ..ir.types import ShapeType, TensorType
from ..pattern import is_const
from ..rewrite import Decline, Rule, RuleSet, any_attribute, any_number, any_of, decline, rule
from ..rewrite.from_functions import RuleFunction
from .context import PassContext
from .passes import FunctionPass, Pass

_Row: TypeAlias = "tuple[str, RuleFunction, RuleFunction]"
"""The name of a form, its formula, and the operator that replaces it."""

_NUMBER: Final[Any] = any_number()
_CONSTANT: Final[Any] = is_const()
_OTHER_CONSTANT: Final[Any] = is_const()
_SHAPE: Final[Any] = ShapeType()
_AXIS: Final[Any] = any_attribute(-1, -2)
_AXES: Final[Any] = any_attribute([-1], [-2])
_SPREAD: Final[Any] = any_attribute([-2], [-1])
_FLAG: Final[Any] = any_attribute(True, False)

_Axes: TypeAlias = Sequence[int] | None


def _same(ours: Sequence[Dim] | None, theirs: Sequence[Dim] | None) -> bool:
    return ours is not None and theirs is not None and same_sizes(ours, theirs)


# --- activations


def _half_of(x: Expr, gate: Expr) -> Expr:
    """``0.5 * x * gate``, in the three usual orders of multiplication."""
    return any_of((x * 0.5) * gate, (x * gate) * 0.5, x * (gate * 0.5))


def _gelu(x: Expr) -> Expr:
    return _half_of(x, ops.erf(any_of(x / sqrt(2), x * (1 / sqrt(2)))) + 1.0)


def _gelu_tanh(x: Expr) -> Expr:
    cube = any_of(ops.power(x, 3.0), any_of(x * x, ops.square(x)) * x)
    return _half_of(x, ops.tanh((x + cube * 0.044715) * sqrt(2 / pi)) + 1.0)


def _mish(x: Expr, threshold: Any = any_attribute(20.0, 21.0)) -> Expr:  # noqa: B008 - a parameter that is an attribute
    return x * ops.tanh(ops.nn.softplus(x, 1.0, threshold))


def _limited(line: Expr, most: float) -> Expr:
    """``line`` limited to the range from 0 to ``most``, as `clip` or by the two limits in either order."""
    below = any_of(ops.nn.relu(line), ops.maximum(line, 0.0))
    above = ops.minimum(line, most)
    by_limits = ops.minimum(below, most), ops.nn.relu(above), ops.maximum(above, 0.0)
    at_once = [ops.clip(line, 0.0, most), *([ops.nn.relu6(line)] if most == 6.0 else [])]
    return any_of(*at_once, *by_limits)


def _sixth(value: Expr) -> Expr:
    return any_of(value / 6.0, value * (1 / 6))


def _of_line(x: Expr, alpha: float, beta: float) -> Expr | Decline:
    near = [value if _is_nearly(number, value) else number for number, value in ((alpha, 1 / 6), (beta, 0.5))]
    return _in_single_precision(ops.nn.hardsigmoid, x, *near)


def _hardswish(x: Expr) -> Expr:
    """``x`` times ``x + 3`` limited to the range from 0 to 6, divided by 6."""
    limited = _limited(x + 3.0, 6.0)
    return any_of(_sixth(x * limited), _sixth(x) * limited)


def _hardswish_by_gate(x: Expr, alpha: Any = any_attribute(0.1, 0.2)) -> Expr:  # noqa: B008
    return x * ops.nn.hardsigmoid(x, alpha, 0.5)


def _by_gate(x: Expr, alpha: float) -> Expr | Decline:
    if not _is_nearly(alpha, 1 / 6):
        return decline("the gate has another slope than that of hardswish")
    return _in_single_precision(ops.nn.hardswish, x)


def _in_single_precision(operator: Callable[..., Expr], x: Expr, *numbers: float) -> Expr | Decline:
    """``operator`` of float32, the only dtype in which all engines have it."""
    is_single = isinstance(x.ty, TensorType) and x.ty.dtype == "float32"
    return operator(x, *numbers) if is_single else decline("it is not in float32")


def _is_nearly(number: float, value: float) -> bool:
    """True if ``number`` is ``value`` in single precision, or next to it."""
    return abs(number - value) < 1e-7


_ACTIVATIONS: Final[Sequence[_Row]] = (
    ("gelu", _gelu, lambda x: ops.nn.gelu(x)),
    ("gelu_tanh", _gelu_tanh, lambda x: ops.nn.gelu_tanh(x)),
    ("silu", lambda x: x * ops.sigmoid(x), lambda x: ops.nn.silu(x)),
    ("hardswish", _hardswish, lambda x: _in_single_precision(ops.nn.hardswish, x)),
    ("hardsigmoid", lambda x: _sixth(_limited(x + 3.0, 6.0)), lambda x: _in_single_precision(ops.nn.hardsigmoid, x)),
    ("hardsigmoid", lambda x, alpha=_NUMBER, beta=_NUMBER: _limited(x * alpha + beta, 1.0), _of_line),
    ("mish", _mish, lambda x, threshold: ops.nn.mish(x) if threshold >= 20.0 else decline("its threshold is below 20")),
)


# --- reductions


def _softmax(x: Expr, axis: Any = _AXIS, axes: Any = _AXES) -> Expr:
    """A softmax of numbers minus their maximum, which the softmax subtracts by itself."""
    return ops.nn.softmax(x - ops.max(x, axes, keepdims=True), axis)


def _of_softmax(x: Expr, axis: int, axes: _Axes) -> Expr | Decline:
    shape = stated_shape(x)
    if shape is None or axes is None or [one % len(shape) for one in axes] != [axis % len(shape)]:
        return decline("the greatest elements are taken along another axis than the softmax")
    return ops.nn.softmax(x, axis)


def _divided(x: Expr, count: Any = _CONSTANT, axis: Any = _AXES, keepdims: Any = _FLAG) -> Expr:
    return ops.sum(x, axis, keepdims) / count


def _scaled(x: Expr, share: Any = _CONSTANT, axis: Any = _AXES, keepdims: Any = _FLAG) -> Expr:
    return ops.sum(x, axis, keepdims) * share


_WIDE_FLOATS: Final = ("float32", "float64")
"""Dtypes whose sums are practically finite. In float16 a sum may overflow although the mean does not."""


def _of_sum(x: Expr, axis: _Axes, keepdims: bool, is_right: Callable[[int], bool]) -> Expr | Decline:
    """The mean for a sum, if the constant beside the sum ``is_right`` for the number of terms."""
    shape = stated_shape(x)
    if shape is None or dtype_of(x) not in _WIDE_FLOATS:
        return decline("the shape of the summands is not known, or their sum may overflow")
    terms = dim_product(shape if axis is None else [shape[one] for one in axis])
    if not isinstance(terms, int) or terms == 0:
        return decline("the number of terms is not known")
    return ops.mean(x, axis, keepdims) if is_right(terms) else decline("the divisor is not the number of terms")


def _of_divided(x: Expr, count: Constant, axis: _Axes, keepdims: bool) -> Expr | Decline:
    return _of_sum(x, axis, keepdims, lambda terms: is_number(count, terms, 0.0))


def _of_scaled(x: Expr, share: Constant, axis: _Axes, keepdims: bool) -> Expr | Decline:
    return _of_sum(x, axis, keepdims, lambda terms: is_number(share, 1 / terms, 0.0))


# --- normalizations


def _last_axes(x: Expr, *means: _Axes) -> dict[int, Dim] | Decline:
    """The last axes of ``x`` with their sizes, if all ``means`` are over these axes."""
    shape = stated_shape(x)
    if shape is None:
        return decline("the shape of the normalized tensor is not known")
    found = [sorted(axis % len(shape) for axis in axes or ()) for axes in means]
    if found[0] != list(range(len(shape) - len(found[0]), len(shape))) or not found[0]:
        return decline("the mean is not over the last axes")
    if found.count(found[0]) < len(found):
        return decline("mean and variance are not over the same axes")
    return {axis: shape[axis] for axis in found[0]}


def _squared(x: Expr) -> Expr:
    return any_of(ops.square(x), ops.power(x, 2.0), x * x)


def _over_root(x: Expr, variance: Expr) -> tuple[Expr, Expr]:
    """``x`` divided by the root of ``variance``, in its usual variants, and the inverse of the root."""
    root = ops.sqrt(variance)
    inverse = any_of(ops.rsqrt(variance), 1.0 / root)
    return any_of(x * inverse, x / root), inverse


def _rms_norm(x: Expr, weight: Expr, epsilon: Any = _NUMBER, axes: Any = _AXES) -> Expr:
    return _over_root(x, ops.mean(_squared(x), axes, keepdims=True) + epsilon)[0] * weight


def _of_rms_norm(x: Expr, weight: Expr, epsilon: float, axes: _Axes) -> Expr | Decline:
    last = _last_axes(x, axes)
    if isinstance(last, Decline):
        return last
    if not _same(stated_shape(weight), [*last.values()]):
        return decline("the factor does not have the sizes of the normalized axes")
    return ops.nn.rms_norm(x, weight, list(last), epsilon)


class _Normal(NamedTuple):
    """A layer norm before scale and shift: ``centred`` times ``inverse``, or divided by a root."""

    mean: Expr
    centred: Expr
    inverse: Expr
    result: Expr

    def times(self, factor: Expr) -> Expr:
        """The result times a ``factor``."""
        return any_of(self.result * factor, self.centred * (self.inverse * factor))


def _normal(x: Expr, epsilon: Expr, axes: Any, spread: Any) -> _Normal:
    """The normalization; the variance may be the mean of squares minus the square of the mean, as in Flax."""
    mean = ops.mean(x, axes, keepdims=True)
    centred = x - mean
    difference = ops.mean(_squared(x), spread, keepdims=True) - _squared(mean)
    of_centred = ops.mean(_squared(centred), spread, keepdims=True)
    variance = any_of(of_centred, difference, ops.maximum(difference, 0.0))
    result, inverse = _over_root(centred, variance + epsilon)
    return _Normal(mean, centred, inverse, result)


def _layer_norm(
    x: Expr, gamma: Expr, beta: Expr, epsilon: Any = _NUMBER, axes: Any = _AXES, spread: Any = _SPREAD
) -> Expr:
    """A layer norm; TensorFlow scales ``x`` and its mean separately."""
    normal = _normal(x, epsilon, axes, spread)
    steep = normal.inverse * gamma
    return any_of(normal.times(gamma) + beta, x * steep + (beta - normal.mean * steep))


def _without_summand(x: Expr, gamma: Expr, epsilon: Any = _NUMBER, axes: Any = _AXES, spread: Any = _SPREAD) -> Expr:
    return _normal(x, epsilon, axes, spread).times(gamma)


def _without_factor(x: Expr, beta: Expr, epsilon: Any = _NUMBER, axes: Any = _AXES, spread: Any = _SPREAD) -> Expr:
    """A layer norm without scale, as in untrained models whose scale of ones was removed."""
    return _normal(x, epsilon, axes, spread).result + beta


def _without_both(x: Expr, epsilon: Any = _NUMBER, axes: Any = _AXES, spread: Any = _SPREAD) -> Expr:
    return _normal(x, epsilon, axes, spread).result


def _of_layer_norm(x: Expr, epsilon: float, axes: _Axes, spread: _Axes, **vectors: Expr) -> Expr | Decline:
    last = _last_axes(x, spread, axes)
    if isinstance(last, Decline):
        return last
    sizes = list(last.values())
    gamma, beta = (_of_sizes(vectors.get(key), sizes, number, x) for key, number in (("gamma", 1.0), ("beta", 0.0)))
    if gamma is None or beta is None:
        return decline("factor or summand do not have the sizes of the normalized axes")
    parts = {"center": "beta" in vectors, "scale": "gamma" in vectors}
    return ops.nn.layer_norm(x, gamma, beta, list(last), epsilon, **parts)


def _of_sizes(operand: Expr | None, sizes: Sequence[Dim], number: float, like: Expr) -> Expr | None:
    """``operand`` if it has these ``sizes``, else None; without an operand, a constant filled with ``number``."""
    if operand is not None:
        return operand if _same(stated_shape(operand), sizes) else None
    known, dtype = [size for size in sizes if isinstance(size, int)], dtype_of(like)
    return None if len(known) < len(sizes) or dtype is None else Constant(np.full(known, number, numpy_dtype(dtype)))


def _group_norm(
    x: Expr,
    gamma: Expr,
    beta: Expr,
    groups: Any = _SHAPE,
    back: Any = _SHAPE,
    ones: Any = _CONSTANT,
    zeros: Any = _OTHER_CONSTANT,
) -> Expr:
    """A group norm as PyTorch's ONNX exporters write it: an instance norm of groups, whose attributes may vary."""
    normal = ops.nn.instance_norm(ops.reshape(x, groups), ones, zeros, channel_axis=1, axes=[2])
    return ops.reshape(normal, back) * gamma + beta


_OF_GROUPS: Final = ("channel_axis", "axes", "epsilon", "center", "scale")


def _of_group_norm(
    x: Expr, gamma: Expr, beta: Expr, groups: Expr, back: Expr, ones: Constant, zeros: Constant, **norm: Any
) -> Expr | Decline:
    shape, grouped = stated_shape(x), _sizes(groups)
    if shape is None or grouped is None or len(grouped) != 3 or not _same(_sizes(back), shape):
        return decline("the channels are not brought into groups and back")
    channels, count = shape[1], grouped[1]
    if not isinstance(channels, int) or not isinstance(count, int) or count == 0 or channels % count:
        return decline("the number of channels or groups is not known")
    if not _same(grouped, (shape[0], count, channels // count * dim_product(shape[2:]))):
        return decline("the groups do not hold the channels of one sample in order")
    if norm["channel_axis"] % 3 != 1 or [axis % 3 for axis in norm["axes"]] != [2]:
        return decline("the normalization is not over the groups")
    if (norm["scale"] and not _is_filled(ones, 1.0)) or (norm["center"] and not _is_filled(zeros, 0.0)):
        return decline("each group has a factor or summand of its own")
    vectors = [_vector(operand, channels, len(shape)) for operand in (gamma, beta)]
    if vectors[0] is None or vectors[1] is None:
        return decline("factor or summand are not one number for each channel")
    return ops.nn.group_norm(x, vectors[0], vectors[1], count, 1, list(range(2, len(shape))), norm["epsilon"])


def _sizes(shape: Expr) -> Sequence[Dim] | None:
    return shape.ty.values if isinstance(shape.ty, ShapeType) else None


def _is_filled(constant: Constant, number: float) -> bool:
    return bool((np.asarray(constant.data.numpy()) == number).all())


def _vector(operand: Expr, channels: int, rank: int) -> Expr | None:
    """An operand with one number for each channel, axis 1 of ``rank``, as a vector; None for another operand."""
    shape = stated_shape(operand)
    beside = (channels, *[1] * (rank - 2))
    is_vector = _same(shape, beside) or _same(shape, (1, *beside))
    return ops.reshape(operand, (channels,)) if is_vector else None


def _rules_of(*rows: _Row, loose: Sequence[str] = ()) -> list[Rule]:
    return [
        rule(before, after, name=name, exclusive=True, tells_numbers=True, loose=loose) for name, before, after in rows
    ]


@cache
def _steps() -> list[list[Rule]]:
    """The rules, in steps: a form that contains another one comes first.

    Scaled norms come before unscaled ones, and layer norms before RMS norms.
    """
    first = _rules_of(
        *_ACTIVATIONS,
        ("softmax", _softmax, _of_softmax),
        ("mean", _divided, _of_divided),
        ("mean", _scaled, _of_scaled),
        ("layer_norm", _layer_norm, _of_layer_norm),
    )
    return [
        [*first, *_rules_of(("group_norm", _group_norm, _of_group_norm), loose=_OF_GROUPS)],
        _rules_of(
            ("hardswish_by_gate", _hardswish_by_gate, _by_gate),
            ("layer_norm", _without_summand, _of_layer_norm),
            ("layer_norm", _without_factor, _of_layer_norm),
        ),
        _rules_of(("layer_norm", _without_both, _of_layer_norm), ("rms_norm", _rms_norm, _of_rms_norm)),
    ]


def RecognizeOperators(without: Collection[str] = ()) -> Pass:
    """Replace formulas by the operators that they spell out, such as gelu, silu, softmax or layer_norm.

    The operators are gelu, gelu_tanh, silu, hardsigmoid, hardswish, mish, softmax, mean, rms_norm, layer_norm and
    group_norm. The usual variants are recognized: gelu by erf or tanh, with its factors in any order; a hard sigmoid in
    float32 by one clip or by two limits (the slopes at its two corners are then those of the operator); squares as
    product, power or square; division by the root, or multiplication by its inverse; a variance from the centred
    values, or as the mean of squares minus the square of the mean; layer norms with scale and shift, with one of them,
    or with neither; group norm as PyTorch's ONNX exporters write it, by an instance norm of groups; a softmax of
    numbers minus their maximum; and a sum divided by the number of its terms, as a mean. Formulas with other numbers or
    axes, and formulas of which a part is used elsewhere, are left unchanged; `report` gives the reason.

    ``without``: names of forms to leave as they are.

    Needs: known shapes of the normalized values; numbers as constants. Guarantees: the same values up to rounding.
    Cost: linear.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        for rules in steps:
            function = context.rewrite(function, rules)
        return function

    steps = [RuleSet([one for one in rules if one.name not in without]) for rules in _steps()]

    return FunctionPass(transform, "RecognizeOperators")
