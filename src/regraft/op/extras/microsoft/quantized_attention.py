"""Self-attention and the first layer of a text encoder, as ONNX Runtime's quantizer writes them."""

from __future__ import annotations

from functools import partial
from typing import Any

from ....ir.op import Call
from ....ir.types import TupleType, Type
from ...declare import meaning_of
from ...rules import require_float, tensor_operand
from ...semantics import cast, dtype_name
from .attention import SELF_ATTENTION, attention_type, self_attended
from .declaring import contributed, shaped, sizes_of
from .elementwise_quantized import quantized_operand
from .integers import shifted


def _type(call: Call) -> Type:
    for index in (0, 1):
        quantized_operand(call, index)
    return attention_type(call, past_index=8, sums=2)


@contributed("QAttention", _type, shared=SELF_ATTENTION)
def qattention(
    xp: Any,
    input: Any,
    weight: Any,
    bias: Any,
    input_scale: Any,
    weight_scale: Any,
    mask_index: Any = None,
    input_zero_point: Any = None,
    weight_zero_point: Any = None,
    past: Any = None,
    *,
    do_rotary: int = 0,
    past_present_share_buffer: int = 0,
    **how: Any,
) -> Any:
    """The `attention` of ``input @ weight + bias`` for an input and weights of 8 bits.

    The scale and the zero point of the weights are scalars, or have one element for each column.
    """
    if do_rotary or past_present_share_buffer:
        raise ValueError("QAttention with do_rotary or past_present_share_buffer has no reference semantics here")
    product = xp.matmul(shifted(xp, input, input_zero_point), shifted(xp, weight, weight_zero_point))
    joined = cast(xp, product, "float32") * (input_scale * weight_scale) + bias
    return self_attended(xp, joined, mask_index, past, None, None, **how)


def _embed_type(call: Call) -> Type:
    (batch, sequence), (_, hidden) = sizes_of(call, 0, 2), sizes_of(call, 2, 2)
    dtype = require_float(call, 8).dtype
    return TupleType((shaped((batch, sequence, hidden), dtype), shaped((batch,), tensor_operand(call, 0).dtype)))


@contributed(
    "QEmbedLayerNormalization",
    _embed_type,
    operands=(
        "input_ids",
        "segment_ids?",
        "word_embedding_quant",
        "position_embedding_quant",
        "segment_embedding?",
        "gamma_quant",
        "beta_quant",
        "mask?",
        "word_embedding_scale",
        "position_embedding_scale",
        "segment_embedding_scale?",
        "gamma_scale",
        "beta_scale",
        "word_embedding_zero_point",
        "position_embedding_zero_point",
        "segment_embedding_zero_point?",
        "gamma_zero_point",
        "beta_zero_point",
    ),
)
def qembed_layer_normalization(xp: Any, *operands: Any, epsilon: float = 1e-12) -> Any:
    """The `embed_layer_normalization` of 8-bit tables and factors, each with its scale and its zero point."""
    ids, segments, word, position, segment, gamma, beta, mask, *parameters = operands
    tables = zip((word, position, segment, gamma, beta), parameters[:5], parameters[5:], strict=True)
    wide = [None if table is None else _numbers(xp, table, scale, point) for table, scale, point in tables]
    embed = partial(meaning_of, "com.microsoft.EmbedLayerNormalization", xp)
    return embed(ids, segments, *wide, mask, None, epsilon=epsilon)[:2]


def _numbers(xp: Any, codes: Any, scale: Any, zero_point: Any) -> Any:
    """``codes`` dequantized in the dtype of ``scale``; `dequantized` returns float32, but gradients need float64."""
    return cast(xp, shifted(xp, codes, zero_point), dtype_name(scale.dtype)) * scale
