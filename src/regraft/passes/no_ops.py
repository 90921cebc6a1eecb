"""RemoveNoOps: remove operators that return their operand, or that a neighbouring operator can absorb."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from .. import op as ops
from ..analysis.tensors import stated_shape, whole_numbers
from ..analysis.uniform import uniform_of
from ..analysis.values import call_of
from ..ir.dims import dim_product, dims_equal
from ..ir.dtypes import float_limits, holds_all_of, is_integer
from ..ir.expr import Constant, Expr, Var
from ..ir.op import Call
from ..ir.types import TensorType, is_subtype
from ..op.primitive.manipulate import last_two_swapped, permutation
from ..op.semantics import integer_range
from ..pattern import PatternContext, is_const, is_op, is_tuple, wildcard
from ..pattern.pattern import DFPattern
from ..rewrite import Bindings, Decline, Rule, RuleSet, decline, if_as_precise, rule
from .layout import reshaped
from .passes import Pass, RulePass

# --- by one, and by nothing

_data, _one = wildcard(), is_const()
_by_one = is_op("relax.multiply", "relax.divide")(_data, _one)
_padded = is_op("relax.nn.pad")(_data)
_sliced = is_op("relax.strided_slice")(_data, varg_default_wildcard=True)
_joined_alone = is_op("relax.concat")(is_tuple([_data]))
_spread = is_op("relax.broadcast_to")(_data, wildcard())
_wider = is_op("relax.astype")(_data)
_there_and_back = is_op("relax.astype")(_wider)
_resized = is_op("relax.image.resize2d", "relax.image.resize3d")(_data, wildcard())
_BOOLS: Final = TensorType(None, "bool")
_MOVED: Final = ("tf_half_pixel_for_nn", "tf_crop_and_resize")
"""Coordinate transformations that move elements even if the size stays the same."""


def _itself(expr: Expr, data: Expr, *, keeps_shape: bool = False) -> Expr | Decline:
    """``data`` in place of ``expr``, if both have one type.

    If the shape is not known, this holds only for an operator that ``keeps_shape``.
    """
    if not keeps_shape and stated_shape(expr) is None:
        return decline("the shape of the result is not known")
    return if_as_precise(data, expr, "the shape or dtype differs")


_root = is_op("relax.sqrt")(wildcard())
_normalized = is_op("relax.divide")(wildcard(), _root) | is_op("relax.multiply")(
    wildcard(), is_op("relax.rsqrt")(wildcard()) | is_op("relax.divide")(is_const(), _root)
)


def _without_factor(expr: Expr, matchings: dict[DFPattern, Any], bindings: Bindings) -> Expr | Decline:
    one: Constant = matchings[_one]
    if not bool((np.asarray(one.data.numpy()) == 1).all()):
        return decline("the number is not 1")
    if one.data.size > 1 and _normalized.match(matchings[_data], bindings):
        return decline("it is the factor of a norm, by which runtimes recognize the norm")
    return _itself(expr, matchings[_data], keeps_shape=not one.data.shape)


def _without_padding(expr: Call, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    if any(expr.attrs.pad_width):
        return decline("it pads or cuts")
    return _itself(expr, matchings[_data], keeps_shape=True)


def _without_slice(expr: Call, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    for strides in expr.args[4:]:
        steps = whole_numbers(strides)
        if steps is None or min(steps, default=1) <= 0:
            return decline("it may turn an axis around")
    return _itself(expr, matchings[_data])


def _without_change(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    return _itself(expr, matchings[_data], keeps_shape=_spread not in matchings)


def _without_casts(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    own, wider = (matchings[pattern].ty.dtype for pattern in (_data, _wider))
    if own is None or wider is None or not holds_all_of(wider, own):
        return decline("the cast in between may change values")
    return _itself(expr, matchings[_data], keeps_shape=True)


SAME_TYPE: Final = Rule(_spread | is_op("relax.astype")(_data), _without_change, "remove_change_to_same_type")
"""Broadcasts to the shape, and casts to the dtype, that a tensor already has."""


def _without_resize(expr: Call, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    if expr.attrs.coordinate_transformation_mode in _MOVED:
        return decline("elements are moved although the size is unchanged")
    return _itself(expr, matchings[_data])


# --- a choice that is made

_condition, _then, _otherwise = is_const(), wildcard(), wildcard()
_chosen = is_op("relax.where")(_condition, _then, _otherwise)


def _without_choice(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    holds = uniform_of(matchings[_condition], {})
    if holds is None:
        return decline("the condition holds for some elements and not for others")
    return _itself(expr, matchings[_then if holds else _otherwise])


# --- codes that are decoded and coded again

_codes, _scale, _zero_point, _same_scale, _same_zero_point = wildcard(), is_const(), is_const(), is_const(), is_const()
_decoded = is_op("relax.dequantize")(_codes, _scale, _zero_point)
_coded_again = is_op("relax.quantize")(_decoded, _same_scale, _same_zero_point)


def _once(expr: Call, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    codes, decoded = matchings[_codes], matchings[_decoded]
    for one, other in ((_scale, _same_scale), (_zero_point, _same_zero_point)):
        first, second = matchings[one].data, matchings[other].data
        if first.dtype != second.dtype or first.numpy().tobytes() != second.numpy().tobytes():
            return decline("it is quantized again by another scale or zero point")
    apart, ndim = decoded.attrs.axis - expr.attrs.axis, codes.ty.ndim
    if matchings[_scale].data.size > 1 and (apart % ndim if ndim > 0 else apart):
        return decline("its scales lie along another axis")
    is_in_codes = matchings[_zero_point].ty.dtype == codes.ty.dtype
    if not is_in_codes or not _comes_back(codes.ty.dtype, decoded.attrs.out_dtype, matchings[_scale].data.numpy()):
        return decline("some codes may change when they are dequantized and quantized again")
    return _itself(expr, codes, keeps_shape=True)


def _comes_back(codes: str | None, decoded: str, scale: np.ndarray) -> bool:
    """True if every code, dequantized by ``scale`` in the dtype ``decoded``, is quantized to itself again."""
    if codes is None or not is_integer(codes):
        return False
    least, greatest = integer_range(codes)
    kind = float_limits(decoded)
    distance, steps = float(greatest - least), scale.astype("float64")
    is_in_range = bool(((steps >= float(kind.smallest_normal)) & (steps * distance <= float(kind.max))).all())
    return is_in_range and distance * float(kind.eps) < 0.5


CODED_ONCE: Final = Rule(_coded_again, _once, "quantize_once")
"""A quantization of a tensor dequantized by the same scale and zero point: use the original codes."""

# --- axes of a reduction

with PatternContext() as _reduced_then_reshaped:
    _reduced = is_op(lambda op: "keepdims" in op.attributes)(wildcard())
    _axes_changed = reshaped(_reduced)


def _axes_by_reduction(matchings: Mapping[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
    result, reduced = matchings[_axes_changed], matchings[_reduced]
    if bindings.needed_elsewhere([reduced], [result]) is not None:
        return decline("the reduction is also used with its own axes")
    if stated_shape(result) is None:
        return decline("the shape of the result is not known")
    call = call_of(bindings, reduced)
    found = Call(call.op, call.args, {**dict(call.attrs), "keepdims": not call.attrs.keepdims})
    return {result: found} if is_subtype(found.ty, result.ty) is True else decline("other axes are added or dropped")


# --- padding before convolutions

_input, _weight = wildcard(), wildcard()
_zeros_around = is_op("relax.nn.pad")(_input)
_conv = is_op("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")(_zeros_around, _weight)


def _pad_in_convolution(expr: Call, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    pad: Call = matchings[_zeros_around]
    widths: tuple[int, ...] = tuple(pad.attrs.pad_width)
    if pad.attrs.pad_mode != "constant" or pad.attrs.pad_value != 0.0:
        return decline("the padding is not with zeros")
    layout: str = expr.attrs.data_layout
    spatial = [axis for axis, letter in enumerate(layout) if letter not in "NC"]
    order = sorted(spatial, key=lambda axis: "DHW".index(layout[axis]))
    if min(widths) < 0 or any(
        any(widths[2 * axis : 2 * axis + 2]) for axis in range(len(layout)) if axis not in spatial
    ):
        return decline("it cuts, or pads channels or the batch")
    more = [widths[2 * axis] for axis in order] + [widths[2 * axis + 1] for axis in order]
    padding = [own + other for own, other in zip(expr.attrs.padding, more, strict=True)]
    return Call(expr.op, (matchings[_input], matchings[_weight]), {**dict(expr.attrs), "padding": tuple(padding)})


# --- rows of a matmul

with PatternContext() as _rows:
    _source, _right, _bias = wildcard(), wildcard(), wildcard()
    _flat = is_op("relax.reshape")(_source, wildcard())
    _product = is_op("relax.matmul")(_flat, _right)
    _sum = is_op("relax.add")(_product, _bias)
    _apart = is_op("relax.reshape")(_product | _sum, wildcard())


def _apart_throughout(matchings: Mapping[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
    result: Var = matchings[_apart]
    parts: list[Var] = [matchings[pattern] for pattern in (_product, _sum) if pattern in matchings]
    if bindings.needed_elsewhere(parts, [result]) is not None:
        return decline("the product is also used as a matrix")
    flat, right = (matchings[pattern].ty for pattern in (_flat, _right))
    shape = stated_shape(result)
    if shape is None or len(shape) < 2 or flat.shape is None or right.shape is None:
        return decline("the shapes are not known")
    if len(flat.shape) != 2 or len(right.shape) != 2:
        return decline("they are not two matrices")
    rows = dims_equal(dim_product(shape[:-1]), flat.shape[0]) is True
    if not rows or dims_equal(shape[-1], right.shape[1]) is not True:
        return decline("the reshape changes the columns, too")
    product = call_of(bindings, matchings[_product])
    operand = ops.reshape(matchings[_source], [*shape[:-1], flat.shape[1]])
    if is_subtype(matchings[_source].ty, operand.ty) is True:
        operand = matchings[_source]
    found: Expr = Call(product.op, (operand, matchings[_right]), product.attrs)
    if _sum in matchings:
        bias = matchings[_bias].ty
        if not isinstance(bias, TensorType) or bias.ndim not in (0, 1):
            return decline("the summand is not one number for each column")
        found = ops.add(found, matchings[_bias])
    return {result: found} if is_subtype(found.ty, result.ty) is True else decline("the dtype differs")


# --- products with a vector

_tensor = wildcard()
_turned = is_op("relax.permute_dims")(_tensor)
_vector_left, _vector_right = wildcard(), wildcard()
_with_vector = is_op("relax.matmul")(_turned, _vector_right) | is_op("relax.matmul")(_vector_left, _turned)


def _on_the_other_side(expr: Call, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    is_left = _vector_left in matchings
    vector: Expr = matchings[_vector_left if is_left else _vector_right]
    if not isinstance(vector.ty, TensorType) or vector.ty.ndim != 1:
        return decline("the other side is no vector")
    order = permutation(matchings[_turned])
    if order is None or order != last_two_swapped(len(order)):
        return decline("other axes than the last two change places")
    operands = (matchings[_tensor], vector) if is_left else (vector, matchings[_tensor])
    return Call(expr.op, operands, expr.attrs)


_RULES: Final = RuleSet(
    [
        Rule(_by_one, _without_factor, "remove_factor_of_one"),
        Rule(_padded, _without_padding, "remove_empty_padding"),
        Rule(_sliced, _without_slice, "remove_slice_of_everything"),
        SAME_TYPE,
        Rule(_joined_alone, _without_change, "remove_joining_of_one"),
        rule(lambda v: ops.negative(ops.negative(v)), lambda v: v, name="remove_what_undoes_itself"),
        rule(lambda v: ops.bitwise_not(ops.bitwise_not(v)), lambda v: v, name="remove_what_undoes_itself"),
        rule(lambda v=_BOOLS: ops.logical_not(ops.logical_not(v)), lambda v: v, name="remove_what_undoes_itself"),
        Rule(_there_and_back, _without_casts, "remove_cast_there_and_back"),
        Rule(_resized, _without_resize, "remove_resize_to_same_size").assuming_finite(),
        Rule(_chosen, _without_choice, "remove_choice_of_one_side"),
        CODED_ONCE,
        Rule(_reduced_then_reshaped, _axes_by_reduction, "axes_by_reduction"),
        Rule(_conv, _pad_in_convolution, "pad_in_convolution"),
        Rule(_rows, _apart_throughout, "keep_rows_apart"),
        Rule(_with_vector, _on_the_other_side, "vector_on_the_other_side"),
    ]
)


def RemoveNoOps() -> Pass:
    """Remove operators that return their operand, or that the next operator can absorb.

    These are: multiplication or division by 1; concatenation of one tensor; double negation; padding by nothing; slices
    of everything; casts to the same dtype, or back from a dtype that holds all values; broadcasts to the same shape;
    resizing to the same size; quantization of a tensor dequantized by the same scale and zero point; ``where`` with a
    condition that is the same for all elements; axes of size 1 that are added or dropped after a reduction, which can
    keep or drop them itself; zeros around the input of a convolution, which can pad by itself; reshapes around a
    product of two matrices (and a bias) that only merge rows and split them again, since a product of tensors gives the
    same; and a permutation of the last two axes before a product with a vector, which then becomes the other operand.

    Needs: nothing; more is found if shapes are known. Guarantees: the same values to the bit, except for the order in
    which an engine sums products. Cost: linear.
    """
    return RulePass(_RULES, "RemoveNoOps")
