"""Quantize: compute convolutions, products and the operators between them on bytes, with ranges found on samples.

The form is the one that runtimes read. Each value that is used in bytes is quantized and dequantized again where it is
read, and so are the weights. The runtime takes an operator between the two as an operator on bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from ... import op as ops
from ...analysis.compile_time import known_before_inputs
from ...analysis.tensors import shape_of
from ...analysis.values import call_of
from ...ir.expr import Constant, Expr, PrimValue, Tuple, TupleGetItem, Var, const, number_of
from ...ir.module import IRModule
from ...ir.op import Call, is_call_of
from ...ir.program import Binding, BindingBlock, Function, SeqExpr, VarBinding
from ...ir.tensor_data import TensorData
from ...ir.types import TensorType
from ...ir.visitor import iter_bindings
from ...op.adjoints import tensor_type
from ...pattern import PatternContext, is_const, is_op, wildcard
from ...rewrite import Bindings, Decline, Rule, RuleSet, decline
from ..context import PassContext
from ..passes import FunctionPass, Pass
from .codes import Ranges, SeenRange, in_bytes, in_signed_bytes
from .layers import (
    ACTIVATIONS,
    CONVOLUTIONS,
    KEPT,
    PRODUCT,
    TRANSPOSED,
    is_float32,
    measurable,
    product_of,
    sources_of,
)
from .results import results_in_bytes
from .weights import WeightCodes, per_channel

_LAYERS: Final = (*CONVOLUTIONS, *TRANSPOSED, "relax.matmul")
_POOLS: Final = ("relax.nn.avg_pool2d", "relax.nn.adaptive_avg_pool2d", "relax.mean")
_FOLLOWING: Final = ("relax.add", "relax.multiply", *_POOLS)
"""Operators that are computed in bytes between convolutions, if all their operands come from convolutions."""

_BY_TABLE: Final = ("relax.sigmoid", "relax.nn.leakyrelu")
"""Operators that only ONNX Runtime has on bytes: it looks up one of 256 results."""

_SWISH: Final = "relax.nn.silu"

_IN_FLOAT32: Final = ("relax.nn.hardswish", "relax.nn.hardsigmoid")
"""Operators that ONNX Runtime computes in float32 between bytes. After elu, prelu and gelu, bytes gained nothing."""

_ON_ONNX_RUNTIME: Final = (*_BY_TABLE, _SWISH, *_IN_FLOAT32)

_PASSING: Final = (
    "relax.nn.max_pool2d",
    "relax.image.resize2d",
    "relax.reshape",
    "relax.permute_dims",
    "relax.flatten",
    "relax.squeeze",
    "relax.expand_dims",
    "relax.strided_slice",
    "relax.split",
)
"""Operators whose results have the range of their operand, so that they keep its scale."""

_EXTREMA: Final = ("relax.max", "relax.min")
"""Operators that OpenVINO moves scales of bytes across wrongly: a product in bytes after one was off by a half."""

with PatternContext() as _CONVOLUTION:
    _data, _weights = wildcard(), is_const()
    _conv = is_op(*CONVOLUTIONS, *TRANSPOSED)(_data, _weights)

with PatternContext() as _POOLED:
    _image = wildcard()
    _pooled = is_op(*_POOLS, *_BY_TABLE, *_PASSING)(_image, varg_default_wildcard=True)

with PatternContext() as _CURVED:
    _swish_data = wildcard()
    _swish = is_op(_SWISH)(_swish_data)

with PatternContext() as _JOINED:
    _concat = is_op("relax.concat")(wildcard())

with PatternContext() as _COMBINED:
    _left, _right = wildcard(), wildcard()
    _combined = is_op("relax.add", "relax.multiply")(_left, _right)

with PatternContext() as _BOTH:
    _left_value, _right_value = wildcard(), wildcard()
    _values_product = is_op("relax.matmul")(_left_value, _right_value)

with PatternContext() as _BIASED:
    _steps, _weight_steps, _bias = is_const(), is_const(), is_const()
    _layer = is_op(*_LAYERS)(
        is_op("relax.dequantize")(wildcard(), _steps, wildcard()),
        is_op("relax.dequantize")(is_const(), _weight_steps, wildcard()),
    )
    _bias_turned = is_op("relax.reshape")(_bias, wildcard())
    _biased = is_op("relax.add")(_layer, _bias | _bias_turned)

_limited, _scale, _zero_point = wildcard(), is_const(), is_const()
_relu, _relu6 = is_op("relax.nn.relu")(_limited), is_op("relax.nn.relu6")(_limited)
_clip = is_op("relax.clip")(_limited, wildcard(), wildcard())
_quantized = is_op("relax.quantize")(_relu | _relu6 | _clip, _scale, _zero_point)


def image_values(function: Function, keep: Collection[str] = (), *, results: bool = False) -> frozenset[Var]:
    """The values of ``function`` that are computed from convolutions by operators that runtimes have on bytes.

    ``keep`` names convolutions that stay in float32, so that the operators after them do, too. ``results``: include the
    operators that only ONNX Runtime has on bytes.
    """
    known, found = known_before_inputs(function), set[Var]()
    following = {*_FOLLOWING, *_PASSING, *ACTIVATIONS, "relax.concat", *(_ON_ONNX_RUNTIME if results else ())}
    for binding in iter_bindings(function):
        value = binding.value
        if isinstance(binding, VarBinding) and isinstance(value, Call):
            inner = [arg for arg in _operands(value) if not isinstance(arg, Constant) and arg not in known]
            begins = is_call_of(value, *CONVOLUTIONS, *TRANSPOSED) and binding.var.name_hint not in keep
            if begins or (is_call_of(value, *following) and inner and all(arg in found for arg in inner)):
                found.add(binding.var)
        elif (value.tuple_value if isinstance(value, TupleGetItem) else value) in found:
            found.add(binding.var)
    return frozenset(found)


def _read_in_bytes(function: Function, images: Container[Expr]) -> frozenset[Expr]:
    """The values that are operands in bytes, directly or after operators that only move them."""
    found = set[Expr]()
    for binding in reversed(list(iter_bindings(function))):
        value = binding.value
        if isinstance(value, TupleGetItem) and binding.var in found:
            found.add(value.tuple_value)
        computes = is_call_of(value, *_LAYERS) or (is_call_of(value, *_FOLLOWING) and binding.var in images)
        moves = is_call_of(value, *_PASSING, *ACTIVATIONS, "relax.concat") and binding.var in found
        if isinstance(value, Call) and (computes or moves):
            found.update(_operands(value))
    return frozenset(found)


def _after_extrema(function: Function) -> frozenset[Expr]:
    """Maxima and minima, and values that only move their elements."""
    found = set[Expr]()
    for binding in iter_bindings(function):
        value = binding.value
        if is_call_of(value, *_EXTREMA) or (is_call_of(value, *_PASSING) and value.args[0] in found):
            found.add(binding.var)
    return frozenset(found)


def _with_shared(function: Function, ranges: Ranges) -> Ranges:
    """``ranges``, with the range of the operand for values that only move its elements: runtimes then move bytes."""
    found = dict(ranges)
    for binding in iter_bindings(function):
        value = binding.value
        source: Expr | None = None
        if isinstance(value, TupleGetItem):
            source = value.tuple_value
        elif is_call_of(value, *_PASSING):
            source = None if value.attrs.get("method") == "cubic" else value.args[0]
        if isinstance(source, Var) and source.name_hint in found:
            found[binding.var.name_hint] = found[source.name_hint]
    return found


def _operands(call: Call) -> list[Expr]:
    flat: list[Expr] = []
    for arg in call.args:
        flat.extend(arg.fields if isinstance(arg, Tuple) else [arg])
    return [arg for arg in flat if isinstance(arg.ty, TensorType)]


class _Bytes:
    """The state of one run of the pass, and the rewriters of its rules."""

    def __init__(
        self,
        function: Function,
        ranges: Ranges,
        keep: frozenset[str],
        least: int,
        codes: WeightCodes,
        *,
        attention: bool,
        results: bool,
    ) -> None:
        self._attention = attention
        self._results = results
        self._known = known_before_inputs(function)
        self._images = image_values(function, keep, results=results)
        self._read = _read_in_bytes(function, self._images)
        self._wrong = frozenset[Expr]() if results else _after_extrema(function)
        self._ranges = ranges
        self._keep = keep
        self._least = least
        self._codes = codes

    def rules(self) -> RuleSet:
        """The rules in order: computation, operators in between, and operators that bytes make superfluous."""
        both = [Rule(_BOTH, self._product_of_values, "quantize_attention")] if self._attention else []
        return RuleSet(
            [
                *both,
                Rule(_CONVOLUTION, self._convolution, "quantize_convolution"),
                Rule(PRODUCT, self._product, "quantize_product"),
                Rule(_COMBINED, self._combination, "quantize_between_convolutions"),
                Rule(_POOLED, self._pooling, "quantize_pooling"),
                Rule(_CURVED, self._curve, "quantize_swish"),
                Rule(_JOINED, self._joined, "quantize_joined"),
                _WITHOUT_LIMITS,
                Rule(_BIASED, _bias_in_sums, "quantize_bias"),
            ]
        )

    def _convolution(self, matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
        var = matchings[_conv]
        conv, weights = call_of(bindings, var), matchings[_weights]
        if var.name_hint in self._keep:
            return decline(KEPT)
        if not is_float32(conv) or not is_float32(matchings[_data]):
            return decline("only float32 convolutions are quantized")
        if weights.data.size * _positions(conv) < self._least:
            return decline(f"fewer than {self._least} products gain nothing")
        data, is_transposed = self._in_bytes(matchings[_data]), is_call_of(conv, *TRANSPOSED)
        if isinstance(data, Decline):
            return data
        if is_transposed and self._results:
            # ONNX Runtime computes it in float32, from values that are stored in bytes.
            return {var: Call(conv.op, (data, weights), conv.attrs)}
        found = self._ranges[matchings[_data].name_hint]
        if is_transposed and found.least < 0:
            # OpenVINO computes it on bytes only if the code of zero is 0.
            data = in_signed_bytes(matchings[_data], found)
        axis = conv.attrs.kernel_layout.index("O")
        kernel = _weights_in_bytes(weights.data.read(), axis, sources_of(weights), self._codes)
        return {var: Call(conv.op, (data, kernel), conv.attrs)}

    def _product(self, matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
        layer = product_of(matchings, bindings, self._keep, self._least)
        if isinstance(layer, Decline):
            return layer
        data = self._in_bytes(layer.data)
        if isinstance(data, Decline):
            return data
        return {layer.var: ops.matmul(data, _weights_in_bytes(layer.weights(), 1, layer.sources, self._codes))}

    def _product_of_values(self, matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
        """A product of two computed values: unsigned bytes on the left, the form of weights on the right."""
        var, left, right = matchings[_values_product], matchings[_left_value], matchings[_right_value]
        if not all(is_float32(one) and isinstance(one, Var) and one not in self._known for one in (left, right)):
            return decline("its operands are not float32 values")
        if var.name_hint in self._keep:
            return decline(KEPT)
        data, found = self._in_bytes(left), self._ranges.get(right.name_hint)
        if isinstance(data, Decline):
            return data
        if found is None or not np.isfinite(found).all():
            return decline("no samples give the range of its right side")
        if self._codes.unsigned:
            other = self._in_bytes(right)
            return other if isinstance(other, Decline) else {var: ops.matmul(data, other)}
        return {var: ops.matmul(data, in_signed_bytes(right, found, self._codes.bits))}

    def _combination(self, matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
        var, operands = matchings[_combined], (matchings[_left], matchings[_right])
        if not all(operand in self._images for operand in operands):
            return decline("not all of its operands come from convolutions")
        if var.name_hint in self._keep:
            return decline(KEPT)
        return self._over_bytes(var, operands, bindings)

    def _pooling(self, matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
        var = matchings[_pooled]
        call = call_of(bindings, var)
        if var not in self._images:
            return decline("its operand does not come from a convolution")
        if is_call_of(call, *_PASSING) and var not in self._read:
            return decline("no user reads it in 8 bits")
        return decline(KEPT) if var.name_hint in self._keep else self._over_bytes(var, (matchings[_image],), bindings)

    def _curve(self, matchings: dict[Any, Any], _bindings: Bindings) -> dict[Var, Expr] | Decline:
        """A swish as the two steps that ONNX Runtime has on bytes; the operand's maximum gives the gate's range."""
        var, data = matchings[_swish], matchings[_swish_data]
        if var not in self._images or var.name_hint in self._keep:
            return decline("its operand does not come from a convolution, or it keeps its precision")
        read, found = self._in_bytes(data), self._ranges.get(data.name_hint)
        if isinstance(read, Decline):
            return read
        assert found is not None
        most = 1 / (1 + np.exp(-float(found.greatest)))
        gate = in_bytes(ops.sigmoid(read), SeenRange(0.0, most))
        return gate if isinstance(gate, Decline) else {var: ops.multiply(read, gate)}

    def _joined(self, matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
        var = matchings[_concat]
        call = call_of(bindings, var)
        if var not in self._images or var not in self._read or not isinstance(call.args[0], Tuple):
            return decline("not all of its operands come from convolutions, or no user reads it in 8 bits")
        read: list[Expr] = []
        for field in call.args[0].fields:
            found = self._in_bytes(field)
            if isinstance(found, Decline):
                return found
            read.append(found)
        return {var: Call(call.op, (Tuple(read),), call.attrs)}

    def _over_bytes(self, var: Var, operands: tuple[Expr, ...], bindings: Bindings) -> dict[Var, Expr] | Decline:
        read: list[Expr] = []
        for operand in operands:
            found = self._in_bytes(operand)
            if isinstance(found, Decline):
                return found
            read.append(found)
        call = call_of(bindings, var)
        return {var: Call(call.op, (*read, *call.args[len(read) :]), call.attrs)}

    def _in_bytes(self, data: Expr) -> Expr | Decline:
        """``data`` quantized and dequantized again, with the range found on samples."""
        if data in self._wrong:
            return decline("OpenVINO gives wrong results if its 8-bit operand is a maximum or minimum")
        return in_bytes(data, self._ranges.get(data.name_hint) if isinstance(data, Var) else None)


def _positions(conv: Call) -> int:
    """The product of the sizes of the image that a convolution returns; unknown sizes count as 1."""
    layout, sizes = conv.attrs.out_layout or conv.attrs.data_layout, shape_of(conv)
    return prod(size for axis, size in zip(layout, sizes, strict=False) if axis not in "NC" and isinstance(size, int))


def _weights_in_bytes(weights: np.ndarray, axis: int, sources: tuple[str, ...], codes: WeightCodes) -> Expr:
    packed = per_channel(weights, axis, codes)
    values = Constant(TensorData(packed.values, None, sources))
    return ops.dequantize(values, const(packed.scales), const(np.full(packed.scales.shape, packed.zero)), axis)


def _bias_in_sums(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
    """A bias in int32, with the scale of the sums that it is added to, so that runtimes add it before they round."""
    layer, bias = matchings[_layer], matchings[_bias]
    call, steps, weight_steps = call_of(bindings, layer), matchings[_steps].data, matchings[_weight_steps].data
    sizes = matchings[_bias_turned].ty.shape if _bias_turned in matchings else bias.data.shape
    if sizes is None:
        return decline("the sizes of the summand are not known")
    rank = tensor_type(layer).ndim
    is_product = is_call_of(call, "relax.matmul")
    axis = rank - 1 if is_product else call.attrs.out_layout.index("C")
    beside = [1] * (len(sizes) - 1)
    place = axis - rank + len(sizes)
    if len(weight_steps.shape) > 1:
        return decline("weights in blocks have several scales for a channel")
    if steps.size != 1 or bias.data.dtype != "float32":
        return decline("a bias becomes int32 if it is float32 and its data has one scale")
    if place < 0 or [*sizes[:place], *sizes[place + 1 :]] != beside or sizes[place] != weight_steps.size:
        return decline("the summand is not one number for each channel")
    scales = (steps.numpy().reshape(()) * weight_steps.numpy()).astype(np.float32)
    codes = np.rint(bias.data.read().reshape(-1).astype(np.float64) / scales)
    if not (np.isfinite(codes) & (np.abs(codes) < 2**31 - 128)).all():
        return decline("the bias does not fit into int32")
    values = Constant(TensorData(codes.astype(np.int32), None, sources_of(bias)))
    whole = ops.dequantize(values, const(scales), const(np.zeros(scales.shape, np.int32)), 0)
    return {matchings[_biased]: ops.add(layer, whole if len(sizes) == 1 else ops.reshape(whole, list(sizes)))}


def _without_limit(expr: Call, matchings: dict[Any, Any]) -> Expr | Decline:
    """A quantization without the relu or clip before it: bytes with zero point 0 already end at 0.

    The upper limit of a clip must not be below the largest value of the bytes.
    """
    scale, zero_point = (matchings[one].data.numpy() for one in (_scale, _zero_point))
    if expr.attrs.out_dtype != "uint8" or zero_point.any():
        return decline("its codes go below zero, so the limit has an effect")
    if not (scale > 0).all():
        return decline("a scale is not above zero, so the limit has an effect")
    if _relu not in matchings:
        limits = matchings[_clip].args[1:] if _clip in matchings else (PrimValue(0), PrimValue(6))
        low, high = map(number_of, limits)
        if low != 0 or high is None or high < 254.5 * float(scale.max()):
            return decline("the clip's limits are not the limits of the codes")
    return Call(expr.op, (matchings[_limited], *expr.args[1:]), expr.attrs)


_WITHOUT_LIMITS: Final = Rule(_quantized, _without_limit, "leave_limits_to_bytes")


def observed(function: Function) -> tuple[Var, ...]:
    """The float32 values whose ranges `Quantize` needs.

    These are the operands of convolutions and products, the results of the convolutions, and the values in between. In
    order, each once; values inside branches are left out, since a run may not compute them. Cost: linear.
    """
    images, found, there = image_values(function, results=True), dict[Var, None](), measurable(function)
    for binding in iter_bindings(function):
        value = binding.value
        if not isinstance(value, Call):
            continue
        read: list[Expr] = []
        if is_call_of(value, *_LAYERS):
            read = list(value.args)
        elif is_call_of(value, *_FOLLOWING):
            read = [arg for arg in _operands(value) if arg in images]
        if binding.var in images:
            read.append(binding.var)
        found.update(dict.fromkeys(arg for arg in read if isinstance(arg, Var) and is_float32(arg)))
    return tuple(one for one in found if one in there)


def with_ranges(function: Function, observed_values: Sequence[Var]) -> Function:
    """``function``, returning the minimum and maximum of each of ``observed_values``, in order, instead of its results.

    The results are two scalars for each value, next to each other. The values are parameters, or bound in the body's
    blocks and not in branches. Cost: linear.
    """
    pending = dict.fromkeys(observed_values)
    results: dict[Var, list[Var]] = {}
    blocks: list[BindingBlock] = []
    seen: list[Var] = list(function.params)
    for block in function.body.blocks:
        own = [value for value in (*seen, *(binding.var for binding in block)) if value in pending]
        seen, added = [], list[Binding]()
        for value in own:
            calls = [ops.min(value), ops.max(value)]
            results[value] = [Var(f"{value.name_hint}_range", call.ty) for call in calls]
            added += [VarBinding(var, call) for var, call in zip(results[value], calls, strict=True)]
            del pending[value]
        blocks.append(type(block)([*block, *added]))
    leaves = [var for value in observed_values for var in results[value]]
    return Function(function.params, SeqExpr(blocks, Tuple(leaves)), None, function.is_pure, function.attrs)


def Quantize(
    ranges: Ranges,
    keep: Collection[str] = (),
    least: int = 256,
    bits: int = 8,
    *,
    attention: bool = False,
    results: bool = False,
    unsigned: bool = False,
) -> Pass:
    """Compute convolutions and products with constant weights on bytes, with ranges found on samples.

    Their operands are quantized to uint8 (asymmetric, one scale) and dequantized again, weights to bytes (symmetric,
    one scale for each output channel). So are the operands of sums, products, pools, concatenations and resizes between
    convolutions, so that runtimes stay in bytes from one to the next. A bias becomes int32, with the scale of the sums
    it is added to. A relu or clip that has no effect on bytes is removed.

    ``ranges`` gives the ranges of values, by the names of their bindings (`observed` lists the values that are needed);
    a layer whose operand has no range stays. ``keep`` names bindings that stay. Products of fewer than ``least``
    weights stay, too, and so do convolutions with fewer multiplications. ``attention``: products of two computed
    values, as in attention (`OpenAttention`), are quantized, too: the left operand like other values, the right one in
    the form of the weights. ``bits`` and ``unsigned`` are as in `QuantizeDynamic`. ``results``: the form for ONNX
    Runtime. Results of convolutions that are read in float32 are then quantized, too, as their kernels on bytes
    require, and so are the operands of swish, sigmoid and leaky relu between convolutions. A transposed convolution
    reads bytes and is computed in float32. Without ``results``, layers that read maxima or minima stay, since OpenVINO
    computes them wrongly.

    Needs: weights as constants, batch norms folded (`FoldBatchnormToConv2D`). Guarantees: the same dtypes and shapes.
    Values change by about 1 to 6 % of the largest, so this is never done by default. Activations are unsigned: ONNX
    Runtime's convolutions of signed bytes are as slow as float32. Cost: linear in the weights.
    """
    kept, codes = frozenset(keep), WeightCodes(bits, unsigned)

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        shared = _with_shared(function, ranges)
        made = _Bytes(function, shared, kept, least, codes, attention=attention, results=results)
        function = context.rewrite(function, made.rules())
        if not results:
            return function
        return context.rewrite(function, RuleSet([*results_in_bytes(function, shared), _WITHOUT_LIMITS]))

    return FunctionPass(transform, "Quantize", keeps_values=False)
