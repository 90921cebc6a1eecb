"""Scaled dot-product attention over (batch, sequence, heads, size), with bias, causal masks and windows.

A query for which all keys are masked gives zeros, as in PyTorch, not NaN. float16 and bfloat16 are computed in float32
and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import sqrt
from typing import Any, Final

from ...ir.dims import Dim, dim_product, dims_equal, exact_divide, floordiv
from ...ir.errors import OpTypeError
from ...ir.expr import Expr, PrimValue
from ...ir.op import Call, Op, wrong_attribute, wrong_operand
from ...ir.types import TensorType, Type, shapes_equal
from ..adjoints import collapse_to, converted_like, count_of, known_shape, tensor_type
from ..adjoints import widened as widened_expr
from ..costs import attention_operations
from ..primitive.comparison import equal
from ..primitive.elementary import rsqrt
from ..primitive.linear_algebra import matmul
from ..primitive.manipulate import permute_dims, transposed
from ..primitive.reduction import max, sum
from ..primitive.reshaping import reshape
from ..primitive.ternary import where
from ..rules import common_dtype, require_float, require_rank, tensor_operand
from ..semantics import cast, dtype_name, normalized_exponentials, positions, widened, with_attrs
from .activation import softmax

__all__ = ["attention", "attention_bias", "attention_var_len"]

_ATTRIBUTES: Final = {"scale": None, "causal_mask": None, "window_size": None}
_LAYOUT: Final = "(batch, sequence, heads, head size)"

# --- type rules


def _require_equal(call: Call, index: int, ours: Dim, theirs: Dim, what: str) -> None:
    if dims_equal(ours, theirs) is False:
        raise wrong_operand(call, index, f"{what} {theirs}, not {ours}")


def _check_attributes(call: Call) -> None:
    causal, window = call.attrs.causal_mask, call.attrs.window_size
    if causal not in (None, "TopLeft", "BottomRight"):
        raise wrong_attribute(call, "causal_mask", '"TopLeft", "BottomRight" or None')
    if window is not None and (causal is None or window < 1):
        raise wrong_attribute(call, "window_size", "None, or a positive int together with a causal_mask")


def _heads_shape(call: Call, index: int) -> tuple[Dim, ...] | None:
    ty = require_float(call, index)
    require_rank(call, index, f"a tensor of 4 dimensions: {_LAYOUT}", 4)
    return ty.shape


def _require_fit(call: Call, index: int, shape: Sequence[Dim], query: Sequence[Dim]) -> None:
    """Raise `OpTypeError` unless ``shape`` has the batch size of ``query``, and its heads divide the query's heads."""
    _require_equal(call, index, shape[0], query[0], "query's batch size")
    heads, theirs = shape[2], query[2]
    if isinstance(heads, int) and isinstance(theirs, int) and (theirs % heads if heads else theirs):
        raise wrong_operand(call, index, f"a number of heads that divides query's {theirs}")


def _attention_type(call: Call) -> TensorType:
    _check_attributes(call)
    query, key, value = _heads_shape(call, 0), _heads_shape(call, 1), _heads_shape(call, 2)
    dtype = common_dtype(call, range(3))
    if query is not None and key is not None:
        _require_fit(call, 1, key, query)
        _require_equal(call, 1, key[3], query[3], "query's head size")
    if query is not None and value is not None:
        _require_fit(call, 2, value, query)
    if key is not None and value is not None:
        _require_equal(call, 2, value[1], key[1], "key's sequence length")
        _require_equal(call, 2, value[2], key[2], "key's number of heads")
    if query is None or value is None:
        return TensorType(None, dtype, 4)
    return TensorType((*query[:3], value[3]), dtype)


def _attention_bias_type(call: Call) -> Type:
    result = _attention_type(call)
    bias, query, key = require_float(call, 3), tensor_operand(call, 0).shape, tensor_operand(call, 1).shape
    require_rank(call, 3, "a tensor of 4 dimensions: (batch, heads, queries, keys)", 4)
    if bias.shape is None:
        return result
    if key is not None:
        _require_equal(call, 3, bias.shape[3], key[1], "on its last axis key's sequence length")
    if query is not None:
        for ours, theirs, what in zip(
            bias.shape, (query[0], query[2], query[1]), ("batch", "heads", "queries"), strict=False
        ):
            if dims_equal(ours, 1) is False:
                _require_equal(call, 3, ours, theirs, f"1 or, for {what}, query's")
    return result


def _attention_var_len_type(call: Call) -> Type:
    result = _attention_type(call)
    if result.shape is not None and dims_equal(result.shape[0], 1) is False:
        raise wrong_operand(call, 0, "a batch of 1, whose sequence axis holds all sequences one after another")
    for index, ndim in ((3, 1), (4, 0), (5, 1), (6, 0)):
        require_rank(call, index, f"integers in {ndim} dimensions", ndim, integers=True)
    return result


# --- references


def _attend(xp: Any, query: Any, key: Any, value: Any, bias: Any, visible: Any, scale: float | None) -> Any:
    """Attention; ``visible`` (queries, keys), if given, is True for the keys that each query may see."""
    name = dtype_name(query.dtype)
    batch, queries, heads, size = query.shape
    keys, groups = key.shape[1], key.shape[2]
    shared = heads // groups if groups != 0 else 0
    q, k, v = [xp.permute_dims(widened(xp, operand), (0, 2, 1, 3)) for operand in (query, key, value)]
    q = xp.reshape(q, (batch, groups, shared * queries, size))
    factor = scale if scale is not None else 1.0 / sqrt(size) if size else 1.0
    scores = xp.reshape(xp.matmul(q, xp.matrix_transpose(k)) * factor, (batch, heads, queries, keys))
    if bias is not None:
        scores = scores + cast(xp, bias, dtype_name(scores.dtype))
    if visible is not None:
        scores = xp.where(visible, scores, xp.full_like(scores, float("-inf")))
    weights = xp.reshape(normalized_exponentials(xp, scores, -1, masked=0.0), (batch, groups, shared * queries, keys))
    result = xp.reshape(xp.matmul(weights, v), (batch, heads, queries, value.shape[3]))
    return cast(xp, xp.permute_dims(result, (0, 2, 1, 3)), name)


def _within(xp: Any, distance: Any, window_size: int | None) -> Any:
    """The mask of keys at a ``distance`` before a query from 0 up to but without the window size."""
    seen = distance >= 0
    return seen if window_size is None else xp.logical_and(seen, distance < window_size)


def visible_keys(xp: Any, query: Any, key: Any, causal_mask: str, window_size: int | None) -> Any:
    """The mask (queries, keys) of the keys that each query sees."""
    queries, keys = query.shape[1], key.shape[1]
    first = keys - queries if causal_mask == "BottomRight" else 0
    distance = xp.expand_dims(positions(xp, queries, query) + first, axis=1) - positions(xp, keys, query)
    return _within(xp, distance, window_size)


def _attention(xp: Any, attrs: Any, query: Any, key: Any, value: Any, bias: Any = None) -> Any:
    causal = attrs.causal_mask
    visible = None if causal is None else visible_keys(xp, query, key, causal, attrs.window_size)
    return _attend(xp, query, key, value, bias, visible, attrs.scale)


def _places(xp: Any, starts: Any, count: int) -> tuple[Any, Any]:
    """For each of ``count`` packed elements, the number of its sequence, and its position in the sequence.

    Elements after the last sequence get the number one past the last.
    """
    elements = positions(xp, count, starts)
    sequence = xp.sum(xp.astype(starts[1:] <= xp.expand_dims(elements, axis=1), xp.int64), axis=1)
    return sequence, elements - xp.take(starts, sequence, axis=0)


def _attention_var_len(
    xp: Any,
    attrs: Any,
    queries: Any,
    keys: Any,
    values: Any,
    seqstart_q: Any,
    max_seqlen_q: Any,
    seqstart_k: Any,
    max_seqlen_k: Any,
) -> Any:
    starts_q, starts_k = cast(xp, seqstart_q, "int64"), cast(xp, seqstart_k, "int64")
    sequence_q, place_q = _places(xp, starts_q, queries.shape[1])
    sequence_k, place_k = _places(xp, starts_k, keys.shape[1])
    own = xp.expand_dims(sequence_q, axis=1)
    visible = xp.logical_and(own == sequence_k, own < starts_q.shape[0] - 1)
    if attrs.causal_mask is not None:
        if attrs.causal_mask == "BottomRight":
            surplus = (starts_k[1:] - starts_k[:-1]) - (starts_q[1:] - starts_q[:-1])
            place_q = place_q + xp.take(xp.concat((surplus, surplus[:1] * 0)), sequence_q, axis=0)
        distance = xp.expand_dims(place_q, axis=1) - place_k
        visible = xp.logical_and(visible, _within(xp, distance, attrs.window_size))
    return _attend(xp, queries, keys, values, None, visible, attrs.scale)


# --- the operators


def _scale_of_heads(call: Call) -> dict[str, Any]:
    """The explicit value of ``scale=None``: 1 / sqrt(head size), if the head size is known."""
    query = call.args[0].ty
    size = query.shape[-1] if isinstance(query, TensorType) and query.shape else None
    return {"scale": 1.0 / sqrt(size)} if isinstance(size, int) and size > 0 else {}


_row: Final = partial(
    Op,
    attributes=_ATTRIBUTES,
    reference=with_attrs(_attention),
    finite=True,
    cost=attention_operations,
    written_out=_scale_of_heads,
)
ATTENTION = _row("relax.nn.attention", ("query", "key", "value"), infer=_attention_type)
ATTENTION_BIAS = _row("relax.nn.attention_bias", ("query", "key", "value", "bias"), infer=_attention_bias_type)
ATTENTION_VAR_LEN = Op(
    "relax.nn.attention_var_len",
    ("queries", "keys", "values", "seqstart_q", "max_seqlen_q", "seqstart_k", "max_seqlen_k"),
    _ATTRIBUTES,
    infer=_attention_var_len_type,
    reference=with_attrs(_attention_var_len),
    written_out=_scale_of_heads,
)


def _attributes(op: Op, scale: Any, causal_mask: str | None, window_size: int | None) -> dict[str, Any]:
    number = scale.value if isinstance(scale, PrimValue) else scale
    if number is not None and (isinstance(number, bool) or not isinstance(number, int | float)):
        raise OpTypeError(f"{op.name}: scale={scale!r}; expected a number or None, for 1 / sqrt(head size)")
    return {
        "scale": None if number is None else float(number),
        "causal_mask": causal_mask,
        "window_size": None if window_size is None else int(window_size),
    }


def attention(
    query: Expr,
    key: Expr,
    value: Expr,
    bias: Expr | None = None,
    scale: float | PrimValue | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> Call:
    """``softmax(query @ keyᵀ * scale + bias) @ value`` for each head; ``scaled_dot_product_attention``.

    Operands, floating and of one dtype: ``query`` (batch, queries, heads, size), ``key`` (batch, keys, key
    heads, size), ``value`` (batch, keys, key heads, value size). ``heads`` is a multiple of ``key heads``;
    consecutive heads share a key. ``bias``: floating, (batch or 1, heads or 1, queries or 1, keys); with it
    the operator is ``nn.attention_bias``.
    Attributes: ``scale``, by default ``1 / sqrt(size)``. ``causal_mask``: None; "TopLeft": query i sees
    the keys 0 to i; "BottomRight": the last query sees all keys, the one before it all except the last, and
    so on. ``window_size``, only with a causal mask: a query sees at most that many of its latest keys.
    Result: (batch, queries, heads, value size), of the operands' dtype. A query that sees no key, for any
    reason (masks, or a bias of -inf), gives zeros; a plain softmax would give NaN.
    Raises `OpTypeError` for dtypes or shapes that do not agree. Cost: memory for all batch * heads * queries
    * keys scores.
    """
    op, operands = (ATTENTION, ()) if bias is None else (ATTENTION_BIAS, (bias,))
    return op(query, key, value, *operands, **_attributes(op, scale, causal_mask, window_size))


def attention_bias(
    query: Expr,
    key: Expr,
    value: Expr,
    bias: Expr | None = None,
    scale: float | PrimValue | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> Call:
    """The same as `attention` with a ``bias``, under Relax's name of that operator."""
    return attention(query, key, value, bias, scale, causal_mask, window_size)


def attention_var_len(
    queries: Expr,
    keys: Expr,
    values: Expr,
    seqstart_q: Expr,
    max_seqlen_q: Expr,
    seqstart_k: Expr | None = None,
    max_seqlen_k: Expr | None = None,
    scale: float | PrimValue | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> Call:
    """The `attention` within each of several sequences that are packed one after another on the sequence axis.

    Operands: ``queries``, ``keys`` and ``values`` as for `attention`, with a batch of 1. ``seqstart_q`` and
    ``seqstart_k`` (integers, one dimension) hold the start of each sequence, followed by the end of the last one.
    Sequence i of the queries sees sequence i of the keys. ``max_seqlen_q`` and ``max_seqlen_k`` (integer scalars) are
    the greatest lengths, for engines that need them. Starts and lengths of keys are by default those of the queries.
    Attributes as for `attention`, within each sequence.
    Result: (1, queries, heads, value size); queries after the last sequence give zeros.
    Raises `OpTypeError` for dtypes or shapes that do not agree.
    """
    if seqstart_k is None:
        seqstart_k = seqstart_q
    if max_seqlen_k is None:
        max_seqlen_k = max_seqlen_q
    if _is_rank(max_seqlen_q, 1) and _is_rank(seqstart_k, 0):
        # the order of operands in text that TVM prints: both starts, then both lengths
        max_seqlen_q, seqstart_k = seqstart_k, max_seqlen_q
    operands: Sequence[Expr] = (queries, keys, values, seqstart_q, max_seqlen_q, seqstart_k, max_seqlen_k)
    return ATTENTION_VAR_LEN(*operands, **_attributes(ATTENTION_VAR_LEN, scale, causal_mask, window_size))


def _is_rank(operand: Expr, ndim: int) -> bool:
    return isinstance(operand.ty, TensorType) and operand.ty.ndim == ndim


# --- gradients: written by hand for one sequence, so that the forward part keeps attention as one operator


@ATTENTION.define_gradient
@ATTENTION_BIAS.define_gradient
def _attention_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    """The gradient of attention, which computes the weights again."""
    (query, key, value, *others), scale = call.args, call.attrs.scale
    bias = others[0] if others else None
    batch, queries, heads, size = known_shape(call, query, "query")
    keys, groups = known_shape(call, key, "key")[1:3]
    columns = known_shape(call, value, "value")[3]
    rows = dim_product([queries, exact_divide(heads, groups) or floordiv(heads, groups)])
    apart, together = (batch, heads, queries), (batch, groups, rows)
    q, k, v, share = [permute_dims(widened_expr(operand), (0, 2, 1, 3)) for operand in (query, key, value, adjoint)]
    q, share = _in_shape(q, (*together, size)), _in_shape(share, (*together, columns))
    factor = scale
    if factor is None:
        factor = 1.0 / sqrt(size) if isinstance(size, int) and size else rsqrt(count_of([size], tensor_type(q).dtype))
    scores = _in_shape(matmul(q, transposed(k)) * factor, (*apart, keys))
    weights = _attention_weights(call, scores, None if bias is None else converted_like(bias, scores))
    value_share = matmul(transposed(_in_shape(weights, (*together, keys))), share)
    weights_share = _in_shape(matmul(share, transposed(v)), (*apart, keys))
    scores_share = weights * (weights_share - sum(weights_share * weights, -1, keepdims=True))
    products_share = _in_shape(scores_share * factor, (*together, keys))
    query_share = _in_shape(matmul(products_share, k), (*apart, size))
    shares = (query_share, matmul(transposed(products_share), q), value_share)
    found: list[Expr | None] = [converted_like(permute_dims(part, (0, 2, 1, 3)), query) for part in shares]
    return found if bias is None else [*found, converted_like(collapse_to(scores_share, bias), bias)]


def _attention_weights(call: Call, scores: Expr, bias: Expr | None) -> Expr:
    """The softmax of the scores; zeros for a query that sees no key."""
    from ..program_xp import over_expressions  # it is written with the operators of this module and others

    visible, causal = None, call.attrs.causal_mask
    if causal is not None:
        mask = partial(visible_keys, causal_mask=causal, window_size=call.attrs.window_size)
        visible = over_expressions(mask, *call.args[:2])
    if bias is not None:
        scores = scores + bias
    if visible is not None:
        scores = where(visible, scores, float("-inf"))
    if bias is None and visible is None:
        return softmax(scores)
    sees_none = equal(max(scores, -1, keepdims=True), float("-inf"))
    return where(sees_none, 0.0, softmax(where(sees_none, 0.0, scores)))


def _in_shape(value: Expr, dims: Sequence[Dim]) -> Expr:
    shape = tensor_type(value).shape
    return value if shape is not None and shapes_equal(shape, dims) is True else reshape(value, dims)
