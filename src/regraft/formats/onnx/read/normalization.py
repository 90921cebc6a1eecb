"""Reading normalizations and attention."""

from __future__ import annotations

import math
from functools import reduce
from typing import Final

from .... import op as ops
from ....analysis.tensors import shape_of
from ....ir.dims import SymExpr, dim_product
from ....ir.dtypes import HALF, is_bool
from ....ir.expr import Expr, const
from ....ir.types import TensorType
from ....op.program_xp import ProgramArray, ProgramNamespace
from .importing import Imported, NodeImporter, in_dtype, reads


@reads("LayerNormalization")
def _layer_norm(node: NodeImporter) -> tuple[Imported | None, ...]:
    rank = node.rank()
    axes = list(range(node.attr("axis", -1) % rank, rank))
    x, gamma, beta = node.operand(0), node.operand(1), node.optional(2)
    epsilon = node.attr("epsilon", 1e-5)
    wanted = [output for output in node.node.outputs[1:] if output.name]
    shape = node.ty(0).shape
    fits = shape is not None and node.ty(1).shape == tuple(shape[axis] for axis in axes)
    if fits and (beta is None or node.ty(2).shape == node.ty(1).shape):
        shift = gamma if beta is None else beta
        normal: Expr = ops.nn.layer_norm(x, gamma, shift, axes, epsilon, center=beta is not None)
    else:
        centred = node.emit(x - ops.mean(x, axes, True))
        normal = centred / ops.sqrt(ops.mean(ops.square(centred), axes, True) + epsilon) * gamma
        normal = normal if beta is None else normal + beta
    if not wanted:
        return (normal,)
    wide = _wide(node, x)
    mean = node.emit(ops.mean(wide, axes, True))
    return normal, mean, ops.rsqrt(ops.mean(ops.square(wide - mean), axes, True) + epsilon)


def _wide(node: NodeImporter, x: Expr) -> Expr:
    """``x`` in single precision or wider."""
    return node.emit(in_dtype(x, "float32")) if node.dtype() in HALF else x


@reads("MeanVarianceNormalization")
def _mean_variance_norm(node: NodeImporter) -> Imported:
    dtype = node.dtype()
    # Before opset 9 this was an experimental operator with other attributes.
    default = [0, 1, 2, 3] if node.flag("across_channels") else [0, 2, 3]
    axes = [axis % node.rank() for axis in node.attr("axes", default)]
    wide = _wide(node, node.operand(0))
    centred = node.emit(wide - ops.mean(wide, axes, True))
    if not node.flag("normalize_variance", 1):
        return in_dtype(centred, dtype)
    return in_dtype(centred / (ops.sqrt(ops.mean(ops.square(centred), axes, True)) + 1e-9), dtype)


@reads("RMSNormalization", "SimplifiedLayerNormalization")
def _rms_norm(node: NodeImporter) -> Imported:
    rank = node.rank()
    axes = list(range(node.attr("axis", -1) % rank, rank))
    shape, epsilon = node.ty(0).shape, node.attr("epsilon", 1e-5)
    x, weight = node.operand(0), node.operand(1)
    if shape is not None and node.ty(1).shape == tuple(shape[axis] for axis in axes) and node.dtype() == node.dtype(1):
        return ops.nn.rms_norm(x, weight, axes, epsilon)
    wide = _wide(node, x)
    return in_dtype(wide / ops.sqrt(ops.mean(ops.square(wide), axes, True) + epsilon), node.dtype(1)) * weight


@reads("BatchNormalization")
def _batch_norm(node: NodeImporter) -> tuple[Imported | None, ...]:
    training = bool(node.attr("training_mode", 0))
    dtype = node.dtype()
    operands = [node.operand(0), *[in_dtype(node.operand(index), dtype) for index in range(1, 5)]]
    if node.opset < 9 and node.rank(1) > 1:
        return (_norm_by_element(node, operands),)
    # ONNX's momentum is the weight of the old value.
    momentum = 1.0 - node.attr("momentum", 0.9)
    found = node.emit(
        ops.nn.batch_norm(*operands, axis=1, epsilon=node.attr("epsilon", 1e-5), momentum=momentum, training=training)
    )
    if not training:
        return (found[0],)
    return found[0], in_dtype(found[1], node.dtype(3)), in_dtype(found[2], node.dtype(4))


def _norm_by_element(node: NodeImporter, operands: list[Expr]) -> Expr:
    """The norm with ``spatial=0`` of opsets before 9, with numbers for each element of a sample, not each channel."""
    x, gamma, beta, mean, variance = operands
    return (x - mean) / ops.sqrt(variance + node.attr("epsilon", 1e-5)) * gamma + beta


@reads("InstanceNormalization")
def _instance_norm(node: NodeImporter) -> Imported:
    axes = list(range(2, node.rank()))
    operands = [node.operand(index) for index in range(3)]
    return ops.nn.instance_norm(*operands, channel_axis=1, axes=axes, epsilon=node.attr("epsilon", 1e-5))


@reads("GroupNormalization")
def _group_norm(node: NodeImporter) -> Imported:
    axes, groups = list(range(2, node.rank())), node.attr("num_groups")
    x, gamma, beta = (node.operand(index) for index in range(3))
    if node.opset < 21:  # these versions have one factor for each group
        channels = node.shape()[1]
        assert isinstance(channels, int)
        gamma, beta = (node.emit(ops.repeat(parameter, channels // groups, 0)) for parameter in (gamma, beta))
    return ops.nn.group_norm(x, gamma, beta, groups, channel_axis=1, axes=axes, epsilon=node.attr("epsilon", 1e-5))


@reads("LpNormalization")
def _lp_normalization(node: NodeImporter) -> Imported:
    axis, x = node.attr("axis", -1), node.operand(0)
    is_of_sizes = node.attr("p", 2) == 1
    norm = node.emit(
        ops.sum(ops.abs(x), [axis], True) if is_of_sizes else ops.sqrt(ops.sum(ops.square(x), [axis], True))
    )
    empty = ops.equal(norm, 0)
    return ops.where(empty, node.like(0), x / ops.where(empty, node.like(1), norm))


@reads("LRN")
def _lrn(node: NodeImporter) -> Imported:
    size, x, rank = node.attr("size"), node.operand(0), node.rank()
    channels = node.shape()[1]
    before, after = (size - 1) // 2, math.ceil((size - 1) / 2)
    padded = node.emit(ops.nn.pad(ops.square(x), [0, 0, before, after, *[0] * (2 * rank - 4)]))
    parts = [ops.strided_slice(padded, [1], [place], [channels + place]) for place in range(size)]
    alpha, beta, bias = node.attr("alpha", 1e-4), node.attr("beta", 0.75), node.attr("bias", 1.0)
    return x / (reduce(ops.add, parts) * (alpha / size) + bias) ** beta


# --- attention


_EXCHANGED: Final = (0, 2, 1, 3)
"""The order of axes that exchanges the heads and the sequence."""


def _heads(node: NodeImporter, index: int, attribute: str) -> Expr:
    """Query, key or value as (batch, sequence, heads, size), from either of ONNX's two forms."""
    x = node.operand(index)
    if node.rank(index) == 4:
        return node.emit(ops.permute_dims(x, _EXCHANGED))
    heads = node.attr(attribute)
    batch, sequence, width = node.shape(index)
    return node.emit(ops.reshape(x, [batch, sequence, heads, width // heads]))


@reads("Attention")
def _attention(node: NodeImporter) -> tuple[Imported | None, ...]:
    scores = len(node.node.outputs) > 3 and bool(node.node.outputs[3].name)
    plain = {"is_causal", "kv_num_heads", "q_num_heads", "scale", "softmax_precision", "qk_matmul_output_mode"}
    given = {name for name in node.node.attributes if node.attr(name) not in (0, 0.0, -1)}
    if scores or node.has(6) or not given <= plain:
        return node.graph.by_function(node.node)
    dtype = node.dtype()
    query, key, value = (
        _heads(node, index, name) for index, name in ((0, "q_num_heads"), (1, "kv_num_heads"), (2, "kv_num_heads"))
    )
    if node.has(4):
        past = [node.emit(ops.permute_dims(node.operand(index), _EXCHANGED)) for index in (4, 5)]
        key, value = (node.emit(ops.concat(pair, axis=1)) for pair in zip(past, (key, value), strict=True))
    present = [node.emit(ops.permute_dims(x, _EXCHANGED)) for x in (key, value)]
    causal = None
    if node.attr("is_causal", 0):
        causal = "BottomRight" if node.has(4) else "TopLeft"
    bias = _bias(node, 3, dtype, key) if node.has(3) else None
    found: Expr = ops.nn.attention(query, key, value, bias, node.attr("scale"), causal)
    found = node.emit(found)
    if node.rank() == 4:
        result: Expr = ops.permute_dims(found, _EXCHANGED)
    else:
        batch, sequence, *rest = shape_of(found)
        result = ops.reshape(found, [batch, sequence, dim_product(rest)])
    return result, *present


def _bias(node: NodeImporter, index: int, dtype: str, key: Expr) -> Expr:
    """The mask as numbers to add, of rank 4, padded to the number of keys; keys beyond the mask are hidden."""
    mask = node.operand(index)
    if is_bool(node.dtype(index)):
        seen, unseen = const(0.0, dtype), const(-math.inf, dtype)
        mask = node.emit(ops.where(mask, seen, unseen))
    elif node.dtype(index) != dtype:
        mask = node.emit(in_dtype(mask, dtype))
    rank = node.rank(index)
    if rank < 4:
        mask = node.emit(ops.expand_dims(mask, list(range(4 - rank))))
    width, keys = node.shape(index)[-1], key.ty.shape[1]  # type: ignore[attr-defined]
    if isinstance(width, int) and isinstance(keys, int) and width < keys:
        mask = node.emit(ops.nn.pad(mask, [0] * 7 + [keys - width], "constant", -math.inf))
    return mask


@reads("RotaryEmbedding")
def _rotary_embedding(node: NodeImporter) -> Imported:
    from ....op.extras.microsoft.rotary import turned  # the operators of that domain are loaded on first use

    builder = node.graph.builder
    xp, x = ProgramNamespace(builder), ProgramArray(builder, node.operand(0))
    heads_axis = 1 if x.ndim == 4 else 2
    if x.ndim == 3:
        batch, sequence, width = node.shape()
        heads = node.attr("num_heads", 0)
        x = xp.reshape(x, (batch, sequence, heads, width // heads))
    size = x.shape[-1]
    if isinstance(size, SymExpr):
        raise node.undecided("the size of a head is known at run time only")
    pairs = (node.attr("rotary_embedding_dim", 0) or size) // 2
    cosine, sine = (ProgramArray(builder, _angles(node, index, pairs, heads_axis)) for index in (1, 2))
    found = turned(xp, x, cosine, sine, node.attr("interleaved", 0))
    return found.expr if x.ndim == node.rank() else ops.reshape(found.expr, list(node.shape()))


def _angles(node: NodeImporter, index: int, pairs: int, heads_axis: int) -> Expr:
    """Cosines or sines (batch, sequence, pairs) with an axis for heads; selected by position if positions are given."""
    table = node.operand(index)
    if node.has(3):
        table = node.emit(ops.take(table, node.operand(3), axis=0))
    table = node.emit(ops.strided_slice(table, [2], [0], [pairs]))
    assert isinstance(table.ty, TensorType)
    if table.ty.shape is not None and table.ty.shape[-1] != pairs:  # the table has ``pairs`` columns, under a name
        table = node.graph.builder.match_cast(table, TensorType([*table.ty.shape[:-1], pairs], table.ty.dtype))
    return node.emit(ops.expand_dims(table, heads_axis))
