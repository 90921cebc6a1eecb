"""Biases that are added to the scores of attention, and the operators that add them."""

from __future__ import annotations

from math import log
from typing import Any

from ....ir.expr import Constant
from ....ir.op import Call, wrong_operand
from ....ir.types import TensorType, TupleType, Type
from ...declare import meaning_of
from ...rules import normalize_axis, require_float, require_rank
from ...semantics import cast, dtype_name, positions, size_of, widened
from .declaring import contributed, is_given, shaped, sizes_of
from .heads import softmax


def _softmax_type(call: Call) -> Type:
    data = require_float(call, 0)
    if data.ndim > 0:
        normalize_axis(call, "axis", call.attrs.axis, data.ndim)
    return data


@contributed("BiasSoftmax", _softmax_type)
def bias_softmax(xp: Any, data: Any, bias: Any, *, axis: int = 1, is_inner_broadcast: int) -> Any:
    """The softmax of ``data + bias`` over all axes from ``axis`` on together.

    ``bias`` has the shape of ``data``, except that axes before ``axis`` may have size 1 or, in front, be omitted.
    """
    del is_inner_broadcast  # the sizes determine the broadcast axes
    total = widened(xp, data) + widened(xp, bias)
    first = axis % data.ndim
    rows = total if first == data.ndim - 1 else xp.reshape(total, (*data.shape[:first], -1))
    return cast(xp, xp.reshape(softmax(xp, rows), data.shape), dtype_name(data.dtype))


def _dropout_type(call: Call) -> Type:
    data, mode = require_float(call, 0), call.args[4] if is_given(call, 4) else None
    if mode is not None and not (isinstance(mode, Constant) and not mode.data.numpy().any()):
        raise wrong_operand(call, 4, "false: dropout in training is random, and a declared operator cannot be random")
    return TupleType((data, TensorType(data.shape, "bool", data.ndim)))


@contributed("BiasDropout", _dropout_type)
def bias_dropout(
    xp: Any,
    data: Any,
    bias: Any,
    residual: Any = None,
    ratio: Any = None,
    training_mode: Any = None,
    *,
    seed: int | None = None,
) -> Any:
    """``data + bias + residual``, and a mask of ones, as dropout returns in inference."""
    del ratio, seed, training_mode
    total = data + bias
    return total if residual is None else total + residual, xp.ones(data.shape, dtype=xp.bool)


def _relative_type(call: Call) -> Type:
    table = require_float(call, 0)
    heads = sizes_of(call, 0, 2)[1]
    lengths = [_length(call, index) for index in (1, 2)]
    return shaped((1, heads, *lengths), table.dtype)


def _length(call: Call, index: int) -> int | None:
    """The value of operand ``index``, if it is a constant; else None."""
    given = call.args[index]
    return int(given.data.numpy().reshape(-1)[0]) if isinstance(given, Constant) else None


@contributed("RelativePositionBias", _relative_type)
def relative_position_bias(
    xp: Any, bias_table: Any, query_length: Any, key_length: Any, *, is_bidirectional: int = 0, max_distance: int
) -> Any:
    """The bias of T5 (Raffel et al. 2020) for each distance of a key from its query, (1, heads, queries, keys).

    ``bias_table`` is (buckets, heads): half of the buckets are for one distance each, the others for increasing ranges
    of distances up to ``max_distance``. With ``is_bidirectional``, keys before and after the query have half of the
    buckets each.
    """
    queries, keys = (size_of(xp, xp.reshape(length, ())) for length in (query_length, key_length))
    buckets = bias_table.shape[0]
    own = xp.expand_dims(positions(xp, queries, bias_table), axis=1)
    distance = xp.expand_dims(positions(xp, keys, bias_table), axis=0) - own
    first = xp.zeros_like(distance)
    if is_bidirectional:
        buckets //= 2
        first = cast(xp, distance > 0, "int64") * buckets
        distance = xp.abs(distance)
    else:
        distance = xp.clip(-distance, 0, None)
    exact = buckets // 2
    ratio = cast(xp, xp.clip(distance, 1, None), "float32") / float(exact)
    far = exact + cast(xp, xp.floor(xp.log(ratio) / log(max_distance / exact) * float(buckets - exact)), "int64")
    bucket = first + xp.where(distance < exact, distance, xp.clip(far, None, buckets - 1))
    rows = xp.take(bias_table, xp.reshape(bucket, (-1,)), axis=0)
    return xp.expand_dims(xp.permute_dims(xp.reshape(rows, (queries, keys, -1)), (2, 0, 1)), axis=0)


def _gated_type(call: Call) -> Type:
    data = require_float(call, 2)
    require_rank(call, 2, "a tensor of the axes (1, heads, sequence, sequence)", 4)
    batch = None if is_given(call, 6) else sizes_of(call, 0, 3)[0]
    batch = sizes_of(call, 6, 2)[0] if is_given(call, 6) else batch
    return shaped((batch, *sizes_of(call, 2, 4)[1:]), data.dtype)


@contributed("GatedRelativePositionBias", _gated_type)
def gated_relative_position_bias(
    xp: Any,
    query_layer: Any,
    query_bias: Any,
    rel_pos: Any,
    weight: Any,
    bias: Any,
    eco_a: Any,
    token_offset: Any = None,
    *,
    num_heads: int,
) -> Any:
    """``rel_pos`` times a gate that is computed from each query (WavLM, Chen et al. 2022).

    ``query_layer`` is (batch, sequence, heads * size), ``rel_pos`` (1, heads, sequence, sequence), ``weight`` (size,
    2 * pairs), ``eco_a`` (1, heads, 1, 1). The result is (batch, heads, sequence, sequence).
    """
    if token_offset is not None:
        raise ValueError("GatedRelativePositionBias without padding has no reference semantics here")
    batch, sequence, width = query_layer.shape
    query = xp.reshape(query_layer + query_bias, (batch, sequence, num_heads, width // num_heads))
    query = xp.permute_dims(query, (0, 2, 1, 3))
    sums = xp.reshape(xp.matmul(query, weight) + bias, (batch, num_heads, sequence, 2, -1))
    gates = meaning_of("relax.sigmoid", xp, xp.sum(sums, axis=-1))
    update, reset = gates[..., :1], gates[..., 1:]
    return (update * (reset * eco_a - 1.0) + 2.0) * rel_pos
