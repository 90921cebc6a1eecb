"""TorchForms: products and convolutions with their bias, and attention by heads, as PyTorch's operators."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any, Final, cast

from ..analysis.tensors import dtype_of, stated_shape
from ..ir.dims import dims_equal
from ..ir.dtypes import HALF
from ..ir.expr import Constant, Expr
from ..ir.op import Call, Op
from ..ir.tensor_data import TensorData
from ..ir.types import TensorType
from ..op.layouts import SPATIAL, data_letters
from ..op.primitive.manipulate import permute_dims
from ..pattern import is_const, is_op, wildcard
from ..pattern.pattern import DFPattern
from ..rewrite import Decline, Rule, RuleSet, decline
from ..rewrite.rules import CallRewriter
from .axes_of_size_1 import AXES_OF_SIZE_1
from .layout import PERMUTED_ONCE
from .passes import Pass, RulePass, Sequential

# --- linear layers

_data, _weight, _bias = wildcard(), wildcard(), wildcard()
_turned = is_op("relax.permute_dims")(_weight)
_product = is_op("relax.matmul")(_data, _turned)
_biased = is_op("relax.add")(_product, _bias)


def _linear(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    product: Call = matchings[_product]
    if matchings[_turned].attrs.axes not in (None, (1, 0)):
        return decline("the weight is not a transposed matrix")
    bias = None if expr.op is product.op else matchings[_bias]  # type: ignore[union-attr]
    return _linear_layer(product, matchings[_data], matchings[_weight], bias)


def _linear_layer(product: Call, data: Expr, weight: Any, bias: Any) -> Expr | Decline:
    if _rank(weight) != 2 or _rank(data) < 1:
        return decline("the weight is no matrix")
    if product.attrs.out_dtype not in (None, "", dtype_of(data)) or dtype_of(data) != dtype_of(weight):
        return decline("PyTorch's linear layer has one dtype")
    linear = Op.get("aten.linear")
    if bias is None:
        return linear(data, weight)
    sizes = bias.ty.shape
    if sizes is None or len(sizes) != 1 or dims_equal(sizes[0], weight.ty.shape[0]) is not True:
        return decline("the summand is not one number for each column")
    return linear(data, weight, bias)


_packed = is_const()
_packed_product = is_op("relax.matmul")(_data, _packed)
_packed_biased = is_op("relax.add")(_packed_product, _bias)


def _packed_linear(rounded_once: Set[Expr]) -> CallRewriter:
    """A rewriter of a product with a computed weight, and its bias, to a linear layer, which transposes its weight."""
    turned_round = _once(_turned_round)

    def rewrite(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
        weight, bias = matchings[_packed], matchings[_bias]
        if weight.data.name is not None or not isinstance(bias, Constant):
            return decline("the weight is the model's own, or the summand is computed")
        if dtype_of(weight) in HALF and expr not in rounded_once:
            return decline("the model rounds the product before it adds")
        back = Constant(turned_round(weight.data))
        return _linear_layer(matchings[_packed_product], matchings[_data], back, bias)

    return rewrite


def _once(make: Callable[[TensorData], TensorData]) -> Callable[[TensorData], TensorData]:
    """``make``, called once for each tensor: the steps of a recurrence share their weights."""
    made: dict[TensorData, TensorData] = {}

    def shared(data: TensorData) -> TensorData:
        if data not in made:
            made[data] = make(data)
        return made[data]

    return shared


def _turned_round(matrix: TensorData) -> TensorData:
    """A transposed matrix, computed when it is first read; for another rank, the tensor itself."""
    return matrix.permuted((1, 0)) if len(matrix.shape) == 2 else matrix


# --- convolutions

_input, _kernel, _shift = wildcard(), wildcard(), is_const()
_convolution = is_op("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")(_input, _kernel)
_shifted = is_op("relax.add")(_convolution, _shift)


def _biased_convolution() -> CallRewriter:
    """A rewriter of a convolution and the bias of its channels to one call."""
    flat = _once(lambda numbers: TensorData(numbers.numpy().reshape(-1), name=numbers.name))

    def rewrite(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
        return _with_bias(matchings[_convolution], matchings[_shift], flat)

    return rewrite


def _with_bias(call: Call, shift: Constant, flat: Callable[[TensorData], TensorData]) -> Expr | Decline:
    attrs = call.attrs
    rank = len(attrs.strides)
    letters, before, after = data_letters(rank), attrs.padding[:rank], attrs.padding[rank:]
    usual = (attrs.data_layout, attrs.out_layout, attrs.kernel_layout) == (letters, letters, "OI" + SPATIAL[rank - 1])
    if not usual or tuple(before) != tuple(after) or attrs.out_dtype not in (None, "", dtype_of(call.args[0])):
        return decline("PyTorch's convolution has another layout, padding or dtype")
    channels, sizes = call.args[1].ty.shape[0], shift.data.shape  # type: ignore[union-attr,index]
    if len(sizes) not in (rank + 1, rank + 2) or sizes[-rank - 1] != channels or shift.data.size != channels:
        return decline("the summand is not one number for each channel")
    return Op.get(f"aten.conv{rank}d")(
        *call.args,
        Constant(flat(shift.data)),
        stride=attrs.strides,
        padding=tuple(before),
        dilation=attrs.dilation,
        groups=attrs.groups,
    )


# --- attention

_query, _key, _value, _mask = wildcard(), wildcard(), wildcard(), wildcard()
_attention = is_op("relax.nn.attention")(_query, _key, _value)
_masked = is_op("relax.nn.attention_bias")(_query, _key, _value, _mask)
_HEADS_FIRST: Final = (0, 2, 1, 3)


def _by_heads(expr: Call, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    """An attention in PyTorch's layout, which has the heads before the sequence; Relax has them after it."""
    attrs, mask = expr.attrs, matchings.get(_mask)
    operands: list[Expr] = [matchings[_query], matchings[_key], matchings[_value]]
    shapes = [stated_shape(operand) for operand in operands]
    if any(shape is None or 0 in shape for shape in shapes) or len({dtype_of(operand) for operand in operands}) > 1:
        return decline("the shapes are not known, or the dtypes differ")
    is_causal = attrs.causal_mask == "TopLeft"
    if attrs.window_size is not None or attrs.causal_mask == "BottomRight" or (is_causal and mask is not None):
        return decline("PyTorch has no such mask")
    if mask is not None and dtype_of(mask) != dtype_of(operands[0]):
        return decline("the bias has another dtype")
    turned: list[Expr] = [permute_dims(operand, _HEADS_FIRST) for operand in operands]
    is_shared = dims_equal(shapes[0][2], shapes[1][2]) is not True  # type: ignore[index]
    found = Op.get("aten.scaled_dot_product_attention")(
        *turned, *([] if mask is None else [mask]), is_causal=is_causal, scale=attrs.scale, enable_gqa=is_shared
    )
    return permute_dims(found, _HEADS_FIRST)


def _rank(expr: Expr) -> int:
    return expr.ty.ndim if isinstance(expr.ty, TensorType) else -1


def _unless(kept: Set[Expr], rewriter: CallRewriter) -> CallRewriter:
    """``rewriter``, except that it declines a match that contains a part to keep."""

    def rewrite(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
        if any(part in kept for part in (expr, *matchings.values()) if isinstance(part, Expr)):
            return decline("PyTorch exports it as its original operator")
        return cast("Callable[..., Expr | Decline]", rewriter)(expr, matchings)

    return rewrite


def TorchForms(kept: Set[Expr] = frozenset(), rounded_once: Set[Expr] = frozenset()) -> Pass:
    """Write products and convolutions with their bias, and attention, as PyTorch's operators.

    For programs that are passed to PyTorch next: only its engine, and the converter to it, have these operators.
    ``kept`` are bound values that stay as they are. ``rounded_once`` are sums that are one operator with their product
    in the model, which rounds to half precision or bfloat16 once. Needs nothing. Guarantees the same values up to
    rounding. Cost: linear in the program.
    """

    def rules(*rows: tuple[DFPattern, CallRewriter, str]) -> RulePass:
        return RulePass(RuleSet([Rule(pattern, _unless(kept, rewriter), name) for pattern, rewriter, name in rows]))

    with_bias = rules(
        (_biased, _linear, "linear_with_bias"),
        (_packed_biased, _packed_linear(rounded_once), "packed_linear_with_bias"),
        (_shifted, _biased_convolution(), "convolution_with_bias"),
    )
    # Products without bias come later: after them, a product with a bias would no longer match.
    others = rules(
        (_product, _linear, "linear"),
        (_attention | _masked, _by_heads, "attention_by_heads"),
        *PERMUTED_ONCE,
        *AXES_OF_SIZE_1,
    )
    return Sequential([with_bias, others], name="TorchForms")
