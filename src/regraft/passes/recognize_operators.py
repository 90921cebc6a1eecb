"""RecognizeOperators: formulas become the operators that they are.

Exporters and older opsets write activations and normalizations out. Each form here is a pattern and a function that
reads what it matched: the replacement, or why there is none. Numbers have to be those of the formula, to the last bit
of their dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import pi, sqrt
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from .. import op as ops
from ..analysis.tensors import number_of, stated_shape
from ..analysis.values import resolve
from ..ir.dims import Dim, dim_product, dims_equal
from ..ir.dtypes import numpy_dtype
from ..ir.expr import Constant, Expr, Var
from ..ir.module import IRModule
from ..ir.op import Call
from ..ir.program import Function
from ..ir.types import TensorType, is_subtype
from ..pattern import PatternContext, is_const, is_op, wildcard
from ..pattern.pattern import DFPattern
from ..rewrite import Bindings, Decline, Rule, RuleSet, decline
from .context import PassContext
from .passes import FunctionPass, Pass

_Matched: TypeAlias = Mapping[Any, Any]
_Read: TypeAlias = Callable[[_Matched, Bindings], "Expr | str"]


class _Formula(NamedTuple):
    """A formula: its ``result``, the values ``between`` operands and result, and how to read what matched."""

    context: PatternContext
    result: DFPattern
    between: tuple[DFPattern, ...]
    read: _Read
    name: str

    def rule(self) -> Rule:
        """The rule that writes the formula as an operator, where nothing else needs its parts."""

        def rewriter(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
            result = matchings[self.result]
            parts = [matchings[pattern] for pattern in self.between if isinstance(matchings.get(pattern), Var)]
            if (part := bindings.needed_elsewhere(parts, [result])) is not None:
                return decline(f"{part.name_hint} is needed elsewhere, too")
            found = self.read(matchings, bindings)
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


def _is_number(expr: Expr, number: float) -> bool:
    """True if a constant is ``number``, rounded to its dtype, and no more than that."""
    if not isinstance(expr, Constant) or expr.data.size != 1 or not isinstance(expr.ty, TensorType):
        return False
    return bool(expr.data.numpy().reshape(()) == np.asarray(number, numpy_dtype(expr.data.dtype)))


def _is_filled(expr: Expr, number: float) -> bool:
    return isinstance(expr, Constant) and bool((np.asarray(expr.data.numpy()) == number).all())


def _same(ours: Sequence[Dim] | None, theirs: Sequence[Dim] | None) -> bool:
    if ours is None or theirs is None or len(ours) != len(theirs):
        return False
    return all(dims_equal(a, b) is True for a, b in zip(ours, theirs, strict=True))


# --- activations


def _gated(x: DFPattern, gate: DFPattern, half: DFPattern) -> tuple[DFPattern, tuple[DFPattern, ...]]:
    """``0.5 * x * gate``, in the three orders in which people multiply; the product, and the one inside of it."""
    times = is_op("relax.multiply")
    inner = times(x, half), times(x, gate), times(gate, half)
    product = times(inner[0], gate) | times(inner[1], half) | times(x, inner[2])
    return product, inner


def _gelu_by_erf() -> _Formula:
    with PatternContext() as context:
        x, root, half, one = wildcard(), is_const(), is_const(), is_const()
        over, times = is_op("relax.divide")(x, root), is_op("relax.multiply")(x, root)
        erf = is_op("relax.erf")(over | times)
        gate = is_op("relax.add")(erf, one)
        result, inner = _gated(x, gate, half)

    def read(found: _Matched, _bindings: Bindings) -> Expr | str:
        width = sqrt(2) if over in found else 1 / sqrt(2)
        if _is_number(found[root], width) and _is_number(found[half], 0.5) and _is_number(found[one], 1.0):
            return ops.nn.gelu(found[x])
        return "its numbers are not those of gelu"

    return _Formula(context, result, (over, times, erf, gate, *inner), read, "gelu")


def _gelu_by_tanh() -> _Formula:
    with PatternContext() as context:
        x, three, share, width, half, one = (wildcard(), *(is_const() for _ in range(5)))
        squared = is_op("relax.multiply")(x, x) | is_op("relax.square")(x)
        power, product = is_op("relax.power")(x, three), is_op("relax.multiply")(squared, x)
        part = is_op("relax.multiply")(power | product, share)
        curve = is_op("relax.add")(x, part)
        scaled = is_op("relax.multiply")(curve, width)
        tanh = is_op("relax.tanh")(scaled)
        gate = is_op("relax.add")(tanh, one)
        result, inner = _gated(x, gate, half)
    numbers = ((three, 3.0), (share, 0.044715), (width, sqrt(2 / pi)), (half, 0.5), (one, 1.0))

    def read(found: _Matched, _bindings: Bindings) -> Expr | str:
        if all(_is_number(found[pattern], number) for pattern, number in numbers if pattern in found):
            return ops.nn.gelu_tanh(found[x])
        return "its numbers are not those of gelu"

    between = (squared, power, product, part, curve, scaled, tanh, gate, *inner)
    return _Formula(context, result, between, read, "gelu_tanh")


def _silu() -> _Formula:
    with PatternContext() as context:
        x = wildcard()
        gate = is_op("relax.sigmoid")(x)
        result = is_op("relax.multiply")(x, gate)

    def read(found: _Matched, _bindings: Bindings) -> Expr | str:
        return ops.nn.silu(found[x])

    return _Formula(context, result, (gate,), read, "silu")


def _softmax() -> _Formula:
    """A softmax of numbers less the highest of them, which it subtracts by itself."""
    with PatternContext() as context:
        x = wildcard()
        highest = is_op("relax.max")(x)
        below = is_op("relax.subtract")(x, highest)
        result = is_op("relax.nn.softmax")(below)

    def read(found: _Matched, bindings: Bindings) -> Expr | str:
        softmax, most = bindings[found[result]], bindings[found[highest]]
        assert isinstance(softmax, Call)
        assert isinstance(most, Call)
        shape = stated_shape(found[x])
        if shape is None or not most.attrs.keepdims or most.attrs.axis is None:
            return "what is subtracted before the softmax has another shape than the highest numbers along its axis"
        if [axis % len(shape) for axis in most.attrs.axis] != [softmax.attrs.axis % len(shape)]:
            return "the highest numbers are those along another axis than that of the softmax"
        return softmax.with_args([found[x]])

    return _Formula(context, result, (highest, below), read, "softmax")


_WIDE_FLOATS: Final = ("float32", "float64")
"""Dtypes whose sums are as good as finite: in float16 a sum may overflow where the mean does not."""


def _mean() -> _Formula:
    """A sum, divided by the number of its terms."""
    with PatternContext() as context:
        x, count = wildcard(), is_const()
        total = is_op("relax.sum")(x)
        over, times = is_op("relax.divide")(total, count), is_op("relax.multiply")(total, count)
        result = over | times

    def read(found: _Matched, bindings: Bindings) -> Expr | str:
        shape, call = stated_shape(found[x]), bindings[found[total]]
        assert isinstance(call, Call)
        if shape is None or getattr(found[x].ty, "dtype", None) not in _WIDE_FLOATS:
            return "the shape of what is added up is not known, or its sum may overflow"
        axes = range(len(shape)) if call.attrs.axis is None else call.attrs.axis
        terms = dim_product([shape[axis] for axis in axes])
        if not isinstance(terms, int) or terms == 0:
            return "the number of terms is not known"
        if not _is_number(found[count], terms if over in found else 1 / terms):
            return "the number is not that of the terms"
        return ops.mean(found[x], call.attrs.axis, call.attrs.keepdims)

    return _Formula(context, result, (total,), read, "mean")


# --- normalizations


def _axes(mean: Call, x: Expr) -> list[int] | None:
    """The last axes, over which ``mean`` of ``x`` is, with its axes kept; None if it is another mean."""
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
    one: DFPattern
    between: tuple[DFPattern, ...]


def _squared(x: DFPattern, two: DFPattern) -> DFPattern:
    return is_op("relax.square")(x) | is_op("relax.power")(x, two) | is_op("relax.multiply")(x, x)


def _by_root(x: DFPattern, spread: DFPattern) -> _Scaled:
    epsilon, one = is_const(), is_const()
    variance = is_op("relax.add")(spread, epsilon)
    root, inverse = is_op("relax.sqrt")(variance), is_op("relax.rsqrt")(variance)
    quotient = is_op("relax.divide")(one, root)
    either = inverse | quotient
    result = is_op("relax.multiply")(x, either) | is_op("relax.divide")(x, root)
    return _Scaled(result, either, epsilon, one, (variance, root, inverse, quotient))


def _rms_norm() -> _Formula:
    with PatternContext() as context:
        x, weight, two = wildcard(), wildcard(), is_const()
        squared = _squared(x, two)
        mean = is_op("relax.mean")(squared)
        scaled = _by_root(x, mean)
        result = is_op("relax.multiply")(scaled.result, weight)

    def read(found: _Matched, bindings: Bindings) -> Expr | str:
        axes, epsilon = _spread(scaled, mean, two, x, found, bindings), number_of(found[scaled.epsilon])
        if isinstance(axes, str) or epsilon is None:
            return axes if isinstance(axes, str) else "epsilon is not one number"
        shape = stated_shape(found[x])
        if shape is None or not _same(stated_shape(found[weight]), [shape[axis] for axis in axes]):
            return "the factor does not have the sizes of the normalized axes"
        return ops.nn.rms_norm(found[x], found[weight], axes, epsilon)

    return _Formula(context, result, (squared, mean, *scaled.between, scaled.result), read, "rms_norm")


def _spread(
    scaled: _Scaled, mean: DFPattern, two: DFPattern, x: DFPattern, found: _Matched, bindings: Bindings
) -> list[int] | str:
    """The normalized axes, over which ``mean`` of the squares of ``x`` is, or why what matched is no normalization."""
    of_squares = bindings[found[mean]]
    axes = _axes(of_squares, found[x]) if isinstance(of_squares, Call) else None
    if axes is None:
        return "the mean is not over the last axes"
    if two in found and not _is_number(found[two], 2.0):
        return "the power is not 2"
    if scaled.one in found and not _is_number(found[scaled.one], 1.0):
        return "the dividend is not 1"
    return axes


def _layer_norm(*, factor: bool = True, summand: bool = True) -> _Formula:
    """A layer norm. Its variance may be the mean of the squares less the square of the mean, as Flax writes it.

    TensorFlow multiplies ``x`` and its mean apart. Models that were not trained have lost a ``factor`` of ones; some
    models have no ``summand``.
    """
    with PatternContext() as context:
        x, two, zero = wildcard(), is_const(), is_const()
        gamma, beta = wildcard() if factor else None, wildcard() if summand else None
        mean = is_op("relax.mean")(x)
        centred = is_op("relax.subtract")(x, mean)
        squares = _squared(x, two), _squared(centred, two), _squared(mean, two)
        of_all, of_centred = is_op("relax.mean")(squares[0]), is_op("relax.mean")(squares[1])
        difference = is_op("relax.subtract")(of_all, squares[2])
        above = is_op("relax.maximum")(difference, zero)
        scaled = _by_root(centred, of_centred | difference | above)
        result, at_end = _with_vectors(x, mean, centred, scaled, gamma, beta)

    def read(found: _Matched, bindings: Bindings) -> Expr | str:
        of_squares, squared = (of_centred, centred) if of_centred in found else (of_all, x)
        axes, epsilon = _spread(scaled, of_squares, two, squared, found, bindings), number_of(found[scaled.epsilon])
        if isinstance(axes, str) or epsilon is None:
            return axes if isinstance(axes, str) else "epsilon is not one number"
        first, shape = bindings[found[mean]], stated_shape(found[x])
        if not isinstance(first, Call) or shape is None or _axes(first, found[x]) != axes:
            return "mean and variance are not over the same axes"
        if zero in found and not _is_number(found[zero], 0.0):
            return "the variance has another lower bound than 0"
        sizes = [shape[axis] for axis in axes]
        pairs = (gamma, 1.0), (beta, 0.0)
        vectors = [_of_sizes(found.get(pattern), sizes, number, found[x]) for pattern, number in pairs]
        if vectors[0] is None or vectors[1] is None:
            return "factor or summand do not have the sizes of the normalized axes"
        return ops.nn.layer_norm(found[x], vectors[0], vectors[1], axes, epsilon, center=summand, scale=factor)

    parts = (mean, centred, *squares, of_all, of_centred, difference, above, *scaled.between)
    return _Formula(context, result, (*parts, *at_end), read, "layer_norm")


def _with_vectors(
    x: DFPattern,
    mean: DFPattern,
    centred: DFPattern,
    scaled: _Scaled,
    gamma: DFPattern | None,
    beta: DFPattern | None,
) -> tuple[DFPattern, tuple[DFPattern, ...]]:
    """A layer norm with a factor and a summand, where it has them, and the values in between."""
    times, plus = is_op("relax.multiply"), is_op("relax.add")
    if gamma is None:
        return (scaled.result, ()) if beta is None else (plus(scaled.result, beta), (scaled.result,))
    steep = times(scaled.inverse, gamma)
    weighted = times(scaled.result, gamma) | times(centred, steep)
    if beta is None:
        return weighted, (scaled.result, steep)
    along, back = times(x, steep), times(mean, steep)
    shift = is_op("relax.subtract")(beta, back)
    return plus(weighted, beta) | plus(along, shift), (scaled.result, steep, weighted, along, back, shift)


def _of_sizes(operand: Expr | None, sizes: Sequence[Dim], number: float, like: Expr) -> Expr | None:
    """``operand`` if it has these ``sizes``; ``number`` in all of them if there is no operand; else None."""
    if operand is not None:
        return operand if _same(stated_shape(operand), sizes) else None
    known = [size for size in sizes if isinstance(size, int)]
    assert isinstance(like.ty, TensorType)
    if len(known) < len(sizes) or like.ty.dtype is None:
        return None
    return Constant(np.full(known, number, numpy_dtype(like.ty.dtype)))


def _group_norm() -> _Formula:
    with PatternContext() as context:
        x, ones, zeros, gamma, beta = wildcard(), is_const(), is_const(), wildcard(), wildcard()
        grouped = is_op("relax.reshape")(x, wildcard())
        normal = is_op("relax.nn.instance_norm")(grouped, ones, zeros)
        back = is_op("relax.reshape")(normal, wildcard())
        weighted = is_op("relax.multiply")(back, gamma)
        result = is_op("relax.add")(weighted, beta)

    def read(found: _Matched, bindings: Bindings) -> Expr | str:
        shape, groups = stated_shape(found[x]), stated_shape(found[grouped])
        norm = bindings[found[normal]]
        assert isinstance(norm, Call)
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

    return _Formula(context, result, (grouped, normal, back, weighted), read, "group_norm")


def _vector(operand: Expr, channels: int, rank: int, bindings: Bindings) -> Expr | None:
    """An operand of one number for each channel, axis 1 of ``rank``, as a vector; None for another operand."""
    shape = stated_shape(operand)
    beside = (channels, *[1] * (rank - 2))
    if not _same(shape, beside) and not _same(shape, (1, *beside)):
        return None
    leaf = resolve(bindings, operand)
    return ops.reshape(leaf if isinstance(leaf, Constant) else operand, (channels,))


_STEPS: Final = [
    [form().rule() for form in (_gelu_by_erf, _gelu_by_tanh, _silu, _softmax, _mean, _layer_norm, _group_norm)],
    [_layer_norm(summand=False).rule(), _layer_norm(factor=False).rule()],
    [_layer_norm(factor=False, summand=False).rule(), _rms_norm().rule()],
]
"""Forms that hold others come first: a norm with a factor one without, and a layer norm a root mean square."""


def RecognizeOperators(without: Collection[str] = ()) -> Pass:
    """Write gelu, gelu_tanh, silu, mean, rms_norm, layer_norm and group_norm for their formulas.

    Read are the usual writings: gelu by erf or tanh, with its factors in any order; squares as product, power or
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

    steps = [RuleSet([rule for rule in rules if rule.name not in without]) for rules in _STEPS]

    return FunctionPass(transform, "RecognizeOperators")
