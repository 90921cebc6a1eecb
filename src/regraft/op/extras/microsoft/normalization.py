"""Normalizations of sums, and the first layer of a text encoder, as ONNX Runtime's optimizers write them."""

from __future__ import annotations

from typing import Any

from ....ir.dims import dims_equal
from ....ir.op import Call, wrong_operand
from ....ir.types import TensorType, TupleType, Type
from ...rules import common_dtype, require_float, require_rank, tensor_operand
from ...semantics import cast, dtype_name, widened
from .declaring import contributed, is_given, shaped, sizes_of


def _skip_type(call: Call) -> Type:
    """The types of the normalized data, the mean, the inverse deviation, and the sum that was normalized."""
    data = require_float(call, 0)
    common_dtype(call, [index for index in range(len(call.args)) if is_given(call, index)])
    _check_skip(call, data, tensor_operand(call, 1))
    rows = TensorType(None if data.shape is None else (*data.shape[:-1], 1), "float32", data.ndim)
    return TupleType((data, rows, rows, data))


def _check_skip(call: Call, data: TensorType, skip: TensorType) -> None:
    """Raise `OpTypeError` for a ``skip`` that ONNX Runtime's kernel does not take: only its batch may be omitted or 1.

    For an ``input`` with fewer rows than ``skip``, the sum would be larger than the input.
    """
    if data.shape is None or skip.shape is None:
        return
    kept = len(data.shape) == len(skip.shape) or (len(data.shape), len(skip.shape)) == (3, 2)
    batches = zip(data.shape[:-2], skip.shape[:-2], strict=False)
    if (
        not kept
        or any(dims_equal(mine, its) is False for mine, its in zip(data.shape[-2:], skip.shape[-2:], strict=False))
        or any(dims_equal(mine, its) is False and its != 1 for mine, its in batches)
    ):
        raise wrong_operand(
            call, 1, f"the shape of input, {data!r}, or that shape without its batch axis, or with a batch of 1"
        )


def _sum_of(x: Any, skip: Any, bias: Any) -> Any:
    return x + skip if bias is None else x + skip + bias


@contributed("SkipLayerNormalization", _skip_type)
def skip_layer_normalization(
    xp: Any, input: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None, *, epsilon: float = 1e-12
) -> Any:
    """Layer norm over the last axis of ``input + skip + bias``; also its mean, inverse deviation, and the sum.

    ``input`` is (batch, sequence, hidden) or (tokens, hidden). So is ``skip``, whose batch may be 1 or omitted.
    """
    total = _sum_of(input, skip, bias)
    wide = widened(xp, total)
    mean = xp.mean(wide, axis=-1, keepdims=True)
    centred = wide - mean
    inverse = 1.0 / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + epsilon)
    normal = centred * inverse * widened(xp, gamma)
    normal = normal if beta is None else normal + widened(xp, beta)
    return cast(xp, normal, dtype_name(input.dtype)), cast(xp, mean, "float32"), cast(xp, inverse, "float32"), total


@contributed("SkipSimplifiedLayerNormalization", _skip_type)
def skip_simplified_layer_normalization(
    xp: Any, input: Any, skip: Any, gamma: Any, bias: Any = None, *, epsilon: float = 1e-12
) -> Any:
    """Root mean square norm over the last axis of ``input + skip + bias``.

    The results are those of `skip_layer_normalization`, with a mean of 0.
    """
    total = _sum_of(input, skip, bias)
    wide = widened(xp, total)
    inverse = 1.0 / xp.sqrt(xp.mean(wide * wide, axis=-1, keepdims=True) + epsilon)
    normal = cast(xp, wide * inverse * widened(xp, gamma), dtype_name(input.dtype))
    inverse = cast(xp, inverse, "float32")
    return normal, xp.zeros_like(inverse), inverse, total


def _embed_type(call: Call) -> Type:
    require_rank(call, 0, "a tensor of the axes (batch, sequence)", 2)
    (batch, sequence), (_, hidden) = sizes_of(call, 0, 2), sizes_of(call, 2, 2)
    dtype = require_float(call, 2).dtype
    embedded = shaped((batch, sequence, hidden), dtype)
    return TupleType((embedded, shaped((batch,), "int32"), embedded))


@contributed("EmbedLayerNormalization", _embed_type)
def embed_layer_normalization(
    xp: Any,
    input_ids: Any,
    segment_ids: Any | None,
    word_embedding: Any,
    position_embedding: Any,
    segment_embedding: Any | None,
    gamma: Any,
    beta: Any,
    mask: Any = None,
    position_ids: Any = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int | None = None,
) -> Any:
    """Layer norm of the sum of word, position and segment embeddings; also the length of each row of ``mask``.

    ``input_ids`` is (batch, sequence) of int32. Without ``position_ids``, positions count from 0. The third result is
    the sum that was normalized.
    """
    del mask_index_type
    batch, sequence = input_ids.shape
    rows = (batch, sequence, word_embedding.shape[-1])

    def picked(table: Any, ids: Any) -> Any:
        return xp.reshape(xp.take(table, xp.reshape(ids, (-1,)), axis=0), rows)

    total = picked(word_embedding, input_ids)
    if position_ids is None:
        total = total + xp.expand_dims(position_embedding[:sequence, :], axis=0)
    else:
        total = total + picked(position_embedding, xp.broadcast_to(position_ids, (batch, sequence)))
    if segment_ids is not None and segment_embedding is not None:
        total = total + picked(segment_embedding, segment_ids)
    wide = widened(xp, total)
    centred = wide - xp.mean(wide, axis=-1, keepdims=True)
    inverse = 1.0 / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + epsilon)
    normal = cast(xp, centred * inverse * widened(xp, gamma) + widened(xp, beta), dtype_name(word_embedding.dtype))
    if mask is None:
        lengths = xp.zeros((batch,), dtype=xp.int32)
    else:
        lengths = cast(xp, xp.sum(cast(xp, mask, "int32"), axis=1), "int32")
    return normal, lengths, total
