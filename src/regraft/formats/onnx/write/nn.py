"""Normalization, attention, losses and rearrangement as ONNX.

An operator that ONNX has becomes one node, if its axes and dtypes fit and ONNX Runtime has a kernel. The others are
decomposed by their reference semantics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from ....ir.dims import Dim, dims_equal
from ....ir.dtypes import is_float, itemsize, numpy_dtype
from ....ir.expr import Constant, Expr
from ....ir.op import Call
from ....op.composite.attention import visible_keys
from ....op.program_xp import ProgramArray, ProgramNamespace
from .create import filled, shape_value
from .elementwise import operand_dtype
from .graph import GraphWriter, before_transpose, dtype_of, maker
from .kernels import carrier, has_kernel
from .lowering import Lowered, Lowering, lowers, size_at, tensor_type
from .manipulate import reshaped


def _is_trailing(axes: Sequence[int], rank: int) -> bool:
    """True if ``axes`` are the last axes, in order."""
    return rank > 0 and [axis % rank for axis in axes] == list(range(rank - len(axes), rank)) and len(axes) > 0


def _in_single(call: Call, op_type: str) -> bool:
    """True if ONNX Runtime computes ``op_type`` on the call's dtype: single precision, or 16 bits by conversion."""
    dtype = operand_dtype(call)
    return is_float(dtype) and (dtype == "float32" or itemsize(dtype) == 2) and has_kernel(op_type, "float32")


@lowers("nn.layer_norm", because="1 node in place of 13, 1.8 times as fast")
def _layer_norm(lowering: Lowering, call: Call) -> Lowered | None:
    axes, attrs = call.attrs["axes"], call.attrs
    rank = tensor_type(call.args[0]).ndim
    if not _is_trailing(axes, rank) or not _in_single(call, "LayerNormalization"):
        return None
    graph = lowering.graph
    x, gamma, beta = lowering.tensors(call.args)
    if not attrs["scale"]:
        gamma = _ones_like(lowering, call.args[1], dtype_of(x))
    bias = beta if attrs["center"] else None
    return graph.op("LayerNormalization", x, gamma, bias, axis=-len(axes), epsilon=attrs["epsilon"])


_FEW: Final = 16
"""So many numbers take no more bytes than a node that would create them."""


def _ones_like(lowering: Lowering, operand: Expr, dtype: str) -> ir.Value:
    known = [size for size in tensor_type(operand).shape or () if isinstance(size, int)]
    if len(known) == tensor_type(operand).ndim and math.prod(known) <= _FEW:
        return lowering.graph.constant(np.ones(known), dtype)
    return filled(lowering, shape_value(lowering, operand), 1.0, dtype)


@lowers("nn.rms_norm", because="1 node in place of 8, twice as fast")
def _rms_norm(lowering: Lowering, call: Call) -> Lowered | None:
    axes = call.attrs["axes"]
    rank = tensor_type(call.args[0]).ndim
    if not _is_trailing(axes, rank) or not _in_single(call, "RMSNormalization"):
        return None
    x, weight = lowering.tensors(call.args)
    dtype = dtype_of(x)
    work = "float32" if dtype == "bfloat16" else dtype
    found = lowering.graph.op(
        "RMSNormalization",
        lowering.graph.widened(x, work),
        lowering.graph.widened(weight, work),
        axis=-len(axes),
        epsilon=call.attrs["epsilon"],
    )
    return lowering.graph.narrowed(found, dtype)


def _is_over_space(call: Call) -> bool:
    """True if the channels are on axis 1 and the axes of the norm are all later axes."""
    rank = tensor_type(call.args[0]).ndim
    if rank < 3 or call.attrs["channel_axis"] % rank != 1:
        return False
    return sorted(axis % rank for axis in call.attrs["axes"]) == list(range(2, rank))


@lowers("nn.instance_norm", because="1 node in place of 13, 2.8 times as fast")
def _instance_norm(lowering: Lowering, call: Call) -> Lowered | None:
    attrs = call.attrs
    if not (_is_over_space(call) and attrs["center"] and attrs["scale"] and _in_single(call, "InstanceNormalization")):
        return None
    return lowering.graph.op("InstanceNormalization", *lowering.tensors(call.args), epsilon=attrs["epsilon"])


@lowers("nn.group_norm", because="4 nodes in place of 15, twice as fast")
def _group_norm(lowering: Lowering, call: Call) -> Lowered | None:
    empty = 0 in (tensor_type(call.args[0]).shape or ())
    if empty or not (_is_over_space(call) and _in_single(call, "InstanceNormalization")):
        return None
    graph, attrs = lowering.graph, call.attrs
    x, gamma, beta = lowering.tensors(call.args)
    dtype, groups, shape = dtype_of(x), attrs["num_groups"], tensor_type(call.args[0]).shape
    one, zero = (graph.constant([number] * groups, dtype) for number in (1.0, 0.0))
    if shape is not None and shape[1] == groups:
        # Groups of one channel are instance normalization.
        factor, summand = gamma if attrs["scale"] else one, beta if attrs["center"] else zero
        return graph.op("InstanceNormalization", x, factor, summand, epsilon=attrs["epsilon"])
    # Each group is normalized as one channel of an instance normalization, for which ONNX Runtime has a kernel. It has
    # none for GroupNormalization, whose definition by other operators takes twice the time.
    grouped = graph.op("Reshape", x, graph.integers([0, groups, -1]))
    normal = graph.op("InstanceNormalization", grouped, one, zero, epsilon=attrs["epsilon"])
    if shape is None:
        normal = graph.op("Reshape", normal, shape_value(lowering, call.args[0]))
    else:
        normal = reshaped(lowering, normal, None, shape)
    if not attrs["scale"] and not attrs["center"]:
        return normal
    # A batch norm with mean 0 and variance 1 applies one factor and one summand for each channel, in one pass.
    zeros, ones = (_channels_of(lowering, call, number) for number in (0.0, 1.0))
    operands = [normal, gamma if attrs["scale"] else ones, beta if attrs["center"] else zeros, zeros, ones]
    work = carrier("BatchNormalization", dtype)
    found = graph.op("BatchNormalization", *[graph.cast(operand, work) for operand in operands], epsilon=0.0)
    return graph.cast(found, dtype)


def _channels_of(lowering: Lowering, call: Call, number: float) -> ir.Value:
    """``number`` once for each channel of a normalization over axis 1."""
    dtype, channels = operand_dtype(call), size_at(call.args[0], 1)
    if isinstance(channels, int):
        return lowering.graph.constant([number] * channels, dtype)
    return filled(lowering, shape_value(lowering, call.args[1]), number, dtype)


@lowers("nn.batch_norm", because="1 node in place of 14, 3.7 times as fast")
def _batch_norm(lowering: Lowering, call: Call) -> Lowered | None:
    attrs = call.attrs
    rank = tensor_type(call.args[0]).ndim
    fits = rank >= 2 and attrs["axis"] % rank == 1 and attrs["center"] and attrs["scale"]
    if attrs["training"] or not fits or not has_kernel("BatchNormalization", operand_dtype(call)):
        return None
    operands = lowering.tensors(call.args)
    found = lowering.graph.op("BatchNormalization", *operands, epsilon=attrs["epsilon"])
    return found, operands[3], operands[4]


# --- attention


def _visible(lowering: Lowering, call: Call) -> ir.Value | None:
    """The mask (queries, keys) of the keys that each query sees, if the operator cannot express it; else None."""
    causal, window = call.attrs["causal_mask"], call.attrs["window_size"]
    if causal is None or (causal == "TopLeft" and window is None):
        return None
    query, key = (ProgramArray(lowering, arg) for arg in call.args[:2])
    return lowering.tensor(visible_keys(ProgramNamespace(lowering), query, key, causal, window).expr)


def _above_lowest(graph: GraphWriter, bias: ir.Value, operand: Expr) -> ir.Value:
    """``bias`` with the lowest finite number replaced by its half.

    ONNX Runtime (1.31) takes a row of the lowest number to attend to nothing and returns zeros for it. Here, as in
    PyTorch, such a row returns the mean of the values.
    """
    dtype = dtype_of(bias)
    lowest = float(np.finfo(numpy_dtype(dtype)).min)
    if isinstance(operand, Constant) and not (operand.data.numpy() == lowest).any():
        return bias
    if _is_replaced(bias, lowest):
        return bias
    found = graph.op("Equal", bias, graph.constant(lowest, dtype))
    return graph.op("Where", found, graph.constant(lowest / 2, dtype), bias)


def _is_replaced(bias: ir.Value, lowest: float) -> bool:
    """True if ``lowest`` has been replaced by its half already."""
    expand = maker(bias, "Expand")
    where = maker(bias if expand is None else expand.inputs[0], "Where")
    equal = None if where is None else maker(where.inputs[0], "Equal")
    if where is None or equal is None or equal.inputs[0] is not where.inputs[2]:
        return False
    return _is_number(equal.inputs[1], lowest) and _is_number(where.inputs[1], lowest / 2)


def _is_number(value: ir.Value | None, number: float) -> bool:
    """True for a constant of one element that is ``number``."""
    data = None if value is None else value.const_value
    return data is not None and data.size == 1 and data.numpy().item() == number


@lowers("nn.attention", "nn.attention_bias", because="5 to 7 nodes in place of 28, 1.8 to 2.4 times as fast")
def _attention(lowering: Lowering, call: Call) -> Lowered | None:
    graph, attrs = lowering.graph, call.attrs
    operands = [(arg, shape) for arg in call.args[:3] if (shape := tensor_type(arg).shape) is not None]
    known = len(operands) == 3 and all(isinstance(shape[2], int) and 0 not in shape for _, shape in operands)
    dtype = operand_dtype(call)
    if not known or dtype not in ("float32", "float16", "bfloat16") or graph.opset < 23:
        return None
    narrow, dtype = dtype, "float32" if dtype == "bfloat16" else dtype
    mask = _visible(lowering, call)
    if len(call.args) > 3:
        bias = _above_lowest(graph, graph.widened(lowering.tensor(call.args[3]), dtype), call.args[3])
        # ONNX Runtime does not broadcast one row to all queries by itself.
        queries, rows = size_at(call.args[0], 1), size_at(call.args[3], 2)
        assert queries is not None
        if rows is None or dims_equal(rows, queries) is not True:
            bias = graph.op("Expand", bias, graph.shape((1, 1, queries, 1)))
        if mask is not None:
            bias = graph.op("Where", mask, bias, graph.constant(float("-inf"), dtype))
        mask = bias
    options: dict[str, Any] = {
        "scale": attrs["scale"],
        "is_causal": int(attrs["causal_mask"] == "TopLeft" and attrs["window_size"] is None),
    }
    values = [graph.widened(lowering.tensor(arg), dtype) for arg, _ in operands]
    by_heads = [before_transpose(value, _EXCHANGED) for value in values]
    if graph.heads_first or (by_heads[1] is not None and by_heads[2] is not None):
        # Keys and values are stored head by head, as in a cache, which is the largest tensor here.
        pairs = zip(by_heads, values, strict=True)
        heads_first = [graph.op("Transpose", value, perm=_EXCHANGED) if own is None else own for own, value in pairs]
        found = graph.narrowed(graph.op("Attention", *heads_first, mask, **options), narrow)
        return graph.op("Transpose", found, perm=_EXCHANGED)
    heads = [count for count in (size_at(arg, 2) for arg in call.args[:2]) if isinstance(count, int)]
    # Rows of all heads, as they are in memory: this needs no transpose, and is the fastest form in ONNX Runtime.
    rows = [reshaped(lowering, value, arg[1], _rows(arg[1])) for value, arg in zip(values, operands, strict=True)]
    found = graph.op("Attention", *rows, mask, q_num_heads=heads[0], kv_num_heads=heads[1], **options)
    found = graph.narrowed(found, narrow)
    result = (*operands[0][1][:3], operands[2][1][3])
    return reshaped(lowering, found, _rows(result), result)


_EXCHANGED = (0, 2, 1, 3)


def _rows(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """(batch, sequence, heads, size) with heads and size merged into one axis."""
    return shape[0], shape[1], shape[2] * shape[3]


# --- rearrangement


@lowers("nn.pixel_shuffle", because="1 node in place of 3, 2.4 times as fast")
def _pixel_shuffle(lowering: Lowering, call: Call) -> Lowered | None:
    if tensor_type(call.args[0]).ndim != 4:
        return None
    x = lowering.tensor(call.args[0])
    return lowering.graph.op("DepthToSpace", x, blocksize=call.attrs["upscale_factor"], mode="CRD")


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@lowers("nn.pad", because="1 node in place of 2 to 4, up to 15 times as fast")
def _pad(lowering: Lowering, call: Call) -> Lowered | None:
    graph, widths, mode = lowering.graph, call.attrs["pad_width"], call.attrs["pad_mode"]
    shape = tensor_type(call.args[0]).shape
    if mode in ("reflect", "circular"):
        # ONNX folds only once. In a model that was ONNX, an axis of unknown size is assumed to be long enough.
        reach = 1 if mode == "reflect" else 0
        sizes = shape or [None] * (len(widths) // 2)
        pairs = zip(sizes, widths[::2], widths[1::2], strict=True)
        has_room = [max(a, b) <= n - reach if isinstance(n, int) else lowering.is_from_onnx for n, a, b in pairs]
        if min(widths, default=0) < 0 or not all(has_room):
            return None
    if mode == "replicate" and min(widths, default=0) < 0:
        return None
    x = lowering.tensor(call.args[0])
    pads = graph.integers([*widths[::2], *widths[1::2]])
    fill = graph.constant(call.attrs["pad_value"], dtype_of(x)) if mode == "constant" else None
    return graph.op("Pad", x, pads, fill, mode=_PAD_MODES[mode])
