"""RecognizeOperators: formulas become the operators that they are.

Exporters and older opsets write activations and normalizations out. Each form here is a pattern and a function that
reads what it matched: the replacement, or why there is none. Numbers have to be those of the formula, to the last bit
of their dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from math import pi, sqrt
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from .. import op as ops
from ..analysis.tensors import dtype_of, number_of, stated_shape
from ..analysis.values import call_of, is_number, resolve
from ..ir.dims import Dim, dim_product, dims_equal
from ..ir.dtypes import numpy_dtype
from ..ir.expr import Constant, Expr, Var
from ..ir.module import IRModule
from ..ir.op import Call
from ..ir.program import Function
from ..ir.types import TensorType, is_subtype
from ..pattern import PatternContext, is_const, is_op, wildcard
from ..pattern.pattern import CallPattern, DFPattern, all_patterns
from ..rewrite import Bindings, Decline, Rule, RuleSet, any_attribute, any_number, any_of, decline, rule
from ..rewrite.formula_numbers import FormulaNumbers
from ..rewrite.from_functions import RuleFunction
from .context import PassContext
from .passes import FunctionPass, Pass

_Matched: TypeAlias = Mapping[Any, Any]
_Read: TypeAlias = Callable[[_Matched, Bindings], "Expr | str"]


class _Formula(NamedTuple):
    """A formula: the value that is its ``result``, its ``numbers``, and how to read what matched."""

    name: str
    context: PatternContext
    result: DFPattern
    numbers: FormulaNumbers
    read: _Read

    def rule(self) -> Rule:
        """The rule that writes the formula as an operator, where nothing else needs its parts."""
        calls = [part for part in all_patterns(self.result) if isinstance(part, CallPattern)]

        def rewriter(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
            result = matchings[self.result]
            parts = [part for call in calls if (part := matchings.get(call)) is not None and part is not result]
            if (part := bindings.needed_elsewhere(parts, [result])) is not None:
                return decline(f"{part.name_hint} is needed elsewhere, too")
            found = self.numbers.wrong_in(matchings) or self.read(matchings, bindings)
            if isinstance(found, str):
                return decline(found)
            if is_subtype(found.ty, result.ty) is not True:
                return decline("the operator's result has another dtype, or a shape that is less precisely known")
            if stated_shape(result) is None and any(_may_widen(value, found) for value in matchings.values()):
                return decline("its numbers may give the result more axes or larger ones, as no shape is known")
            return {result: found}

        return Rule(self.context, rewriter, self.name)


def _may_widen(value: Any, found: Expr) -> bool:
    """True if ``value`` is a constant that has more than one element, or axes that ``found`` may lack."""
    if not isinstance(value, Constant):
        return False
    rank = found.ty.ndim if isinstance(found.ty, TensorType) else 0
    return value.data.size != 1 or len(value.data.shape) > max(rank, 0)


def _is_filled(expr: Expr, number: float) -> bool:
    return isinstance(expr, Constant) and bool((np.asarray(expr.data.numpy()) == number).all())


def _same(ours: Sequence[Dim] | None, theirs: Sequence[Dim] | None) -> bool:
    if ours is None or theirs is None or len(ours) != len(theirs):
        return False
    return all(dims_equal(a, b) is True for a, b in zip(ours, theirs, strict=True))


# --- activations


def _half_of(x: Expr, gate: Expr) -> Expr:
    """``0.5 * x * gate``, in the three orders in which people multiply."""
    return any_of((x * 0.5) * gate, (x * gate) * 0.5, x * (gate * 0.5))


def _gelu(x: Expr) -> Expr:
    return _half_of(x, ops.erf(any_of(x / sqrt(2), x * (1 / sqrt(2)))) + 1.0)


def _gelu_tanh(x: Expr) -> Expr:
    cube = any_of(ops.power(x, 3.0), any_of(x * x, ops.square(x)) * x)
    return _half_of(x, ops.tanh((x + cube * 0.044715) * sqrt(2 / pi)) + 1.0)


def _silu(x: Expr) -> Expr:
    return x * ops.sigmoid(x)


def _mish(x: Expr, threshold: Any = any_attribute(20.0, 21.0)) -> Expr:  # noqa: B008 - a parameter that is an attribute
    return x * ops.tanh(ops.nn.softplus(x, 1.0, threshold))


def _of_mish(x: Expr, threshold: float) -> Expr | Decline:
    return ops.nn.mish(x) if threshold >= 20.0 else decline("the softplus ends earlier")


def _limited(line: Expr, most: float) -> Expr:
    """``line`` limited to 0 and ``most``, as `clip` or by the two limits in either order."""
    below = any_of(ops.nn.relu(line), ops.maximum(line, 0.0))
    above = ops.minimum(line, most)
    by_limits = ops.minimum(below, most), ops.nn.relu(above), ops.maximum(above, 0.0)
    at_once = [ops.clip(line, 0.0, most), *([ops.nn.relu6(line)] if most == 6.0 else [])]
    return any_of(*at_once, *by_limits)


def _sixth(value: Expr) -> Expr:
    return any_of(value / 6.0, value * (1 / 6))


def _hardsigmoid(x: Expr) -> Expr:
    return _sixth(_limited(x + 3.0, 6.0))


def _hardsigmoid_of_line(x: Expr, alpha: Any = any_number(), beta: Any = any_number()) -> Expr:  # noqa: B008
    return _limited(x * alpha + beta, 1.0)


def _of_line(x: Expr, alpha: float, beta: float) -> Expr | Decline:
    near = [value if _is_nearly(number, value) else number for number, value in ((alpha, 1 / 6), (beta, 0.5))]
    return _in_single_precision(ops.nn.hardsigmoid, x, *near)


def _hardswish(x: Expr) -> Expr:
    """``x`` times what is limited to 0 and 6, and then divided by 6."""
    limited = _limited(x + 3.0, 6.0)
    return any_of(_sixth(x * limited), _sixth(x) * limited)


def _hardswish_by_gate(x: Expr, alpha: Any = any_attribute(0.1, 0.2)) -> Expr:  # noqa: B008
    return x * ops.nn.hardsigmoid(x, alpha, 0.5)


def _by_gate(x: Expr, alpha: float) -> Expr | Decline:
    if not _is_nearly(alpha, 1 / 6):
        return decline("the gate is another line")
    return _in_single_precision(ops.nn.hardswish, x)


def _in_single_precision(operator: Callable[..., Expr], x: Expr, *numbers: float) -> Expr | Decline:
    """``operator`` of float32, the one dtype in which all engines have it."""
    is_single = isinstance(x.ty, TensorType) and x.ty.dtype == "float32"
    return operator(x, *numbers) if is_single else decline("it is not in float32")


def _is_nearly(number: float, value: float) -> bool:
    """True if ``number`` is ``value`` in single precision, or its neighbour there."""
    return abs(number - value) < 1e-7


_Row: TypeAlias = "tuple[str, RuleFunction, RuleFunction]"
"""The name of a form, how it is written out, and the operator in its place."""

_ACTIVATIONS: Final[Sequence[_Row]] = (
    ("gelu", _gelu, lambda x: ops.nn.gelu(x)),
    ("gelu_tanh", _gelu_tanh, lambda x: ops.nn.gelu_tanh(x)),
    ("silu", _silu, lambda x: ops.nn.silu(x)),
    ("hardswish", _hardswish, lambda x: _in_single_precision(ops.nn.hardswish, x)),
    ("hardsigmoid", _hardsigmoid, lambda x: _in_single_precision(ops.nn.hardsigmoid, x)),
    ("hardsigmoid", _hardsigmoid_of_line, _of_line),
    ("mish", _mish, _of_mish),
)
_AFTER_HARDSIGMOID: Final[Sequence[_Row]] = (("hardswish_by_gate", _hardswish_by_gate, _by_gate),)


def _rules_of(rows: Sequence[_Row]) -> list[Rule]:
    return [rule(before, after, name=name, exclusive=True, tells_numbers=True) for name, before, after in rows]


# --- formulas whose attributes and shapes are read


def _times(left: DFPattern, right: DFPattern) -> DFPattern:
    return is_op("relax.multiply")(left, right)


def _plus(left: DFPattern, right: DFPattern) -> DFPattern:
    return is_op("relax.add")(left, right)


def _less(left: DFPattern, right: DFPattern) -> DFPattern:
    return is_op("relax.subtract")(left, right)


def _over(left: DFPattern, right: DFPattern) -> DFPattern:
    return is_op("relax.divide")(left, right)


def _softmax() -> _Formula:
    """A softmax of numbers less the highest of them, which it subtracts by itself."""
    with PatternContext() as context:
        x = wildcard()
        highest = is_op("relax.max")(x)
        result = is_op("relax.nn.softmax")(_less(x, highest))

    def read(found: _Matched, bindings: Bindings) -> Expr | str:
        softmax, most = call_of(bindings, found[result]), call_of(bindings, found[highest])
        shape = stated_shape(found[x])
        if shape is None or not most.attrs.keepdims or most.attrs.axis is None:
            return "what is subtracted before the softmax has another shape than the highest numbers along its axis"
        if [axis % len(shape) for axis in most.attrs.axis] != [softmax.attrs.axis % len(shape)]:
            return "the highest numbers are those along another axis than that of the softmax"
        return softmax.with_args([found[x]])

    return _Formula("softmax", context, result, FormulaNumbers(), read)


_WIDE_FLOATS: Final = ("float32", "float64")
"""Dtypes whose sums are as good as finite: in float16 a sum may overflow where the mean does not."""


def _mean() -> _Formula:
    """A sum, divided by the number of its terms."""
    with PatternContext() as context:
        x, count = wildcard(), is_const()
        total = is_op("relax.sum")(x)
        over = _over(total, count)
        result = over | _times(total, count)

    def read(found: _Matched, bindings: Bindings) -> Expr | str:
        shape, call = stated_shape(found[x]), call_of(bindings, found[total])
        if shape is None or getattr(found[x].ty, "dtype", None) not in _WIDE_FLOATS:
            return "the shape of what is added up is not known, or its sum may overflow"
        axes = range(len(shape)) if call.attrs.axis is None else call.attrs.axis
        terms = dim_product([shape[axis] for axis in axes])
        if not isinstance(terms, int) or terms == 0:
            return "the number of terms is not known"
        if not is_number(found[count], terms if over in found else 1 / terms, 0.0):
            return "the number is not that of the terms"
        return ops.mean(found[x], call.attrs.axis, call.attrs.keepdims)

    return _Formula("mean", context, result, FormulaNumbers(), read)


# --- normalizations


def _axes(mean: Call, x: Expr) -> list[int] | None:
    """The last axes, over which ``mean`` of the sizes of ``x`` is, with its axes kept; None if it is another mean."""
    shape, axes = stated_shape(x), mean.attrs.axis
    if shape is None or axes is None or not mean.attrs.keepdims:
        return None
    found = sorted(axis % len(shape) for axis in axes)
    return found if found == list(range(len(shape) - len(found), len(shape))) else None


class _Scaled(NamedTuple):
    """``x / sqrt(mean(squared) + epsilon)`` in its usual writings; ``inverse`` is the inverse of the root."""

    result: DFPattern
    inverse: DFPattern
    epsilon: DFPattern


def _squared(x: DFPattern, two: DFPattern) -> DFPattern:
    return is_op("relax.square")(x) | is_op("relax.power")(x, two) | _times(x, x)


def _by_root(x: DFPattern, spread: DFPattern, one: DFPattern) -> _Scaled:
    epsilon = is_const()
    variance = _plus(spread, epsilon)
    root = is_op("relax.sqrt")(variance)
    inverse = is_op("relax.rsqrt")(variance) | _over(one, root)
    return _Scaled(_times(x, inverse) | _over(x, root), inverse, epsilon)


def _rms_norm() -> _Formula:
    number = FormulaNumbers()
    with PatternContext() as context:
        x, weight = wildcard(), wildcard()
        mean = is_op("relax.mean")(_squared(x, number(2.0)))
        scaled = _by_root(x, mean, number(1.0))
        result = _times(scaled.result, weight)

    def read(found: _Matched, bindings: Bindings) -> Expr | str:
        shape, epsilon = stated_shape(found[x]), number_of(found[scaled.epsilon])
        axes = _axes(call_of(bindings, found[mean]), found[x])
        if shape is None or axes is None or epsilon is None:
            return "the mean is not over the last axes" if axes is None else "epsilon is not one number"
        if not _same(stated_shape(found[weight]), [shape[axis] for axis in axes]):
            return "the factor does not have the sizes of the normalized axes"
        return ops.nn.rms_norm(found[x], found[weight], axes, epsilon)

    return _Formula("rms_norm", context, result, number, read)


def _layer_norm(*, factor: bool = True, summand: bool = True) -> _Formula:
    """A layer norm. Its variance may be the mean of the squares less the square of the mean, as Flax writes it.

    TensorFlow multiplies ``x`` and its mean apart. Models that were not trained have lost a ``factor`` of ones; some
    models have no ``summand``.
    """
    number = FormulaNumbers()
    with PatternContext() as context:
        two, zero, one = number(2.0), number(0.0), number(1.0)
        x, gamma, beta = wildcard(), wildcard() if factor else None, wildcard() if summand else None
        mean = is_op("relax.mean")(x)
        centred = _less(x, mean)
        of_all, of_centred = is_op("relax.mean")(_squared(x, two)), is_op("relax.mean")(_squared(centred, two))
        difference = _less(of_all, _squared(mean, two))
        above = is_op("relax.maximum")(difference, zero)
        scaled = _by_root(centred, of_centred | difference | above, one)
        result = _with_vectors(x, mean, centred, scaled, gamma, beta)

    def read(found: _Matched, bindings: Bindings) -> Expr | str:
        shape, epsilon = stated_shape(found[x]), number_of(found[scaled.epsilon])
        axes = _axes(call_of(bindings, found[of_centred if of_centred in found else of_all]), found[x])
        if shape is None or axes is None or epsilon is None:
            return "the mean is not over the last axes" if axes is None else "epsilon is not one number"
        if _axes(call_of(bindings, found[mean]), found[x]) != axes:
            return "mean and variance are not over the same axes"
        sizes = [shape[axis] for axis in axes]
        pairs = (gamma, 1.0), (beta, 0.0)
        vectors = [_of_sizes(found.get(pattern), sizes, number, found[x]) for pattern, number in pairs]
        if vectors[0] is None or vectors[1] is None:
            return "factor or summand do not have the sizes of the normalized axes"
        return ops.nn.layer_norm(found[x], vectors[0], vectors[1], axes, epsilon, center=summand, scale=factor)

    return _Formula("layer_norm", context, result, number, read)


def _with_vectors(
    x: DFPattern,
    mean: DFPattern,
    centred: DFPattern,
    scaled: _Scaled,
    gamma: DFPattern | None,
    beta: DFPattern | None,
) -> DFPattern:
    """A layer norm with a factor and a summand, where it has them."""
    if gamma is None:
        return scaled.result if beta is None else _plus(scaled.result, beta)
    steep = _times(scaled.inverse, gamma)
    weighted = _times(scaled.result, gamma) | _times(centred, steep)
    if beta is None:
        return weighted
    return _plus(weighted, beta) | _plus(_times(x, steep), _less(beta, _times(mean, steep)))


def _of_sizes(operand: Expr | None, sizes: Sequence[Dim], number: float, like: Expr) -> Expr | None:
    """``operand`` if it has these ``sizes``; ``number`` in all of them if there is no operand; else None."""
    if operand is not None:
        return operand if _same(stated_shape(operand), sizes) else None
    known, dtype = [size for size in sizes if isinstance(size, int)], dtype_of(like)
    return None if len(known) < len(sizes) or dtype is None else Constant(np.full(known, number, numpy_dtype(dtype)))


def _group_norm() -> _Formula:
    with PatternContext() as context:
        x, ones, zeros, gamma, beta = wildcard(), is_const(), is_const(), wildcard(), wildcard()
        grouped = is_op("relax.reshape")(x, wildcard())
        normal = is_op("relax.nn.instance_norm")(grouped, ones, zeros)
        back = is_op("relax.reshape")(normal, wildcard())
        result = _plus(_times(back, gamma), beta)

    def read(found: _Matched, bindings: Bindings) -> Expr | str:
        shape, groups = stated_shape(found[x]), stated_shape(found[grouped])
        norm = call_of(bindings, found[normal])
        if shape is None or groups is None or len(groups) != 3 or not _same(stated_shape(found[back]), shape):
            return "the channels are not brought into groups and back"
        channels, count = shape[1], groups[1]
        if not isinstance(channels, int) or not isinstance(count, int) or count == 0 or channels % count:
            return "the number of channels or groups is not known"
        if not _same(groups, (shape[0], count, channels // count * dim_product(shape[2:]))):
            return "the groups do not hold the channels of one sample in order"
        attrs = norm.attrs
        if attrs.channel_axis % 3 != 1 or [axis % 3 for axis in attrs.axes] != [2]:
            return "the normalization is not over the groups"
        if (attrs.scale and not _is_filled(found[ones], 1.0)) or (attrs.center and not _is_filled(found[zeros], 0.0)):
            return "each group has a factor or summand of its own"
        vectors = [_vector(found[operand], channels, len(shape), bindings) for operand in (gamma, beta)]
        if vectors[0] is None or vectors[1] is None:
            return "factor or summand are not one number for each channel"
        axes = list(range(2, len(shape)))
        return ops.nn.group_norm(found[x], vectors[0], vectors[1], count, 1, axes, attrs.epsilon)

    return _Formula("group_norm", context, result, FormulaNumbers(), read)


def _vector(operand: Expr, channels: int, rank: int, bindings: Bindings) -> Expr | None:
    """An operand of one number for each channel, axis 1 of ``rank``, as a vector; None for another operand."""
    shape = stated_shape(operand)
    beside = (channels, *[1] * (rank - 2))
    if not _same(shape, beside) and not _same(shape, (1, *beside)):
        return None
    leaf = resolve(bindings, operand)
    return ops.reshape(leaf if isinstance(leaf, Constant) else operand, (channels,))


@cache
def _steps() -> list[list[Rule]]:
    """Forms that hold others come first: a norm with a factor one without, and a layer norm a root mean square."""
    return [
        _rules_of(_ACTIVATIONS) + [form().rule() for form in (_softmax, _mean, _layer_norm, _group_norm)],
        [*_rules_of(_AFTER_HARDSIGMOID), _layer_norm(summand=False).rule(), _layer_norm(factor=False).rule()],
        [_layer_norm(factor=False, summand=False).rule(), _rms_norm().rule()],
    ]


def RecognizeOperators(without: Collection[str] = ()) -> Pass:
    """Write gelu, gelu_tanh, silu, hardsigmoid, hardswish, mish, mean, rms_norm, layer_norm and group_norm for their
    formulas.

    Read are the usual writings: gelu by erf or tanh, with its factors in any order; a hard sigmoid in float32 by one
    clip or by two limits, whose slopes at its two corners are then those of the operator; squares as product, power or
    square; quotients by the root, or products with its inverse; a variance by the centred values, or as the mean of the
    squares less the square of the mean; layer norms with factor and summand, with one of them, or with none; group norm
    as PyTorch's ONNX exporters write it, by an instance norm of groups. ``softmax`` stands for that of numbers less the
    highest of them, and ``mean`` for a sum divided by the number of its terms. Left, with the reason in `report`: other
    numbers, other axes, and formulas of which a part is needed elsewhere.

    ``without``: names of forms to leave as they are.

    Needs: known shapes of what is normalized; numbers as constants. Guarantees: the same values but for rounding. Cost:
    linear.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        for rules in steps:
            function = context.rewrite(function, rules)
        return function

    steps = [RuleSet([one for one in rules if one.name not in without]) for rules in _steps()]

    return FunctionPass(transform, "RecognizeOperators")
