"""The table of layers: each type of OpenVINO's operation sets as ONNX nodes.

A row takes a `LayerCall` and returns the names of its outputs. A row that cannot write a layer raises
`UnsupportedLayerError` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from .graph import LayerCall, UnsupportedLayerError

LayerRow = Callable[[LayerCall], str | Sequence[str]]
ROWS: Final[dict[str, LayerRow]] = {}
"""The writers of layers, by type."""

_LARGEST: Final = np.iinfo(np.int64).max
_INTEGERS: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")

_SAME: Final = {
    "Abs": "Abs", "Acos": "Acos", "Acosh": "Acosh", "Add": "Add", "Asin": "Asin", "Asinh": "Asinh", "Atan": "Atan",
    "Atanh": "Atanh", "BitwiseAnd": "BitwiseAnd", "BitwiseNot": "BitwiseNot", "BitwiseOr": "BitwiseOr",
    "BitwiseXor": "BitwiseXor", "Ceiling": "Ceil", "Cos": "Cos", "Cosh": "Cosh", "ConvertLike": "CastLike",
    "Equal": "Equal", "Erf": "Erf", "Exp": "Exp", "Floor": "Floor", "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual", "HSwish": "HardSwish", "Identity": "Identity", "IsNaN": "IsNaN", "Less": "Less",
    "LessEqual": "LessOrEqual", "Log": "Log", "LogicalAnd": "And", "LogicalNot": "Not", "LogicalOr": "Or",
    "LogicalXor": "Xor", "Maximum": "Max", "Minimum": "Min", "Mish": "Mish", "Multiply": "Mul", "Negative": "Neg",
    "ReLU": "Relu", "Select": "Where", "Sigmoid": "Sigmoid", "Sign": "Sign", "Sin": "Sin",
    "Sinh": "Sinh", "SoftPlus": "Softplus", "SoftSign": "Softsign", "Sqrt": "Sqrt", "Squeeze": "Squeeze",
    "Subtract": "Sub", "Tan": "Tan", "Tanh": "Tanh", "Tile": "Tile", "Unsqueeze": "Unsqueeze",
}  # fmt: skip
"""Layers that ONNX has under another name, with the same operands and no attribute that matters."""

_BROADCASTING: Final = ("numpy", "none", "explicit")


def row(*kinds: str) -> Callable[[LayerRow], LayerRow]:
    """Enter a function into the table under each type in ``kinds``."""

    def enter(function: LayerRow) -> LayerRow:
        ROWS.update(dict.fromkeys(kinds, function))
        return function

    return enter


@row(*_SAME)
def _same(call: LayerCall) -> str:
    if call.text("auto_broadcast", "numpy") not in _BROADCASTING[:2]:
        raise UnsupportedLayerError(f"it uses the broadcast mode {call.text('auto_broadcast')}")
    return call.node(_SAME[call.layer.kind], *call.inputs)


ROWS.update(
    {
        "NotEqual": lambda call: call.node("Not", call.node("Equal", *call.inputs)),
        "Mod": lambda call: call.node("Mod", *call.inputs, fmod=1),
        "Convert": lambda call: call.cast(call.inputs[0], call.result.dtype),
        "Elu": lambda call: call.node("Elu", call.inputs[0], alpha=call.number("alpha")),
        "HSigmoid": lambda call: call.node("HardSigmoid", call.inputs[0], alpha=1 / 6, beta=0.5),
        **dict.fromkeys(
            ("Softmax", "SoftMax"),
            lambda call: call.node("Softmax", call.inputs[0], axis=call.integer("axis", 1)),
        ),
        "LogSoftmax": lambda call: call.node("LogSoftmax", call.inputs[0], axis=call.integer("axis", 1)),
        "MatMul": lambda call: call.node(
            "MatMul", *(_turned(call, i, call.flag(key)) for i, key in enumerate(("transpose_a", "transpose_b")))
        ),
        "Einsum": lambda call: call.node("Einsum", *call.inputs, equation=call.text("equation")),
        "Convolution": lambda call: call.node("Conv", *call.inputs, **_window(call)),
        "NonZero": lambda call: call.cast(call.node("NonZero", call.inputs[0]), call.result.dtype),
        "Concat": lambda call: call.node("Concat", *call.inputs, axis=call.integer("axis")),
        "GatherElements": lambda call: call.node("GatherElements", *call.inputs, axis=call.integer("axis")),
        "GatherND": lambda call: call.node(
            "GatherND", call.inputs[0], _whole(call, 1), batch_dims=call.integer("batch_dims", 0)
        ),
        "GroupNormalization": lambda call: call.node(
            "GroupNormalization", *call.inputs, num_groups=call.integer("num_groups"), epsilon=call.number("epsilon")
        ),
        **dict.fromkeys(
            ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"),
            lambda call: call.node(call.layer.kind, *call.inputs, keepdims=int(call.flag("keep_dims"))),
        ),
        "CumSum": lambda call: call.node(
            "CumSum", *call.inputs, exclusive=int(call.flag("exclusive")), reverse=int(call.flag("reverse"))
        ),
        "Range": lambda call: call.node("Range", *(call.cast(value, call.result.dtype) for value in call.inputs)),
    }
)
"""Layers that are one expression of their operands and attributes."""


@row("Power")
def _power(call: LayerCall) -> str:
    base, exponent = call.inputs
    if exponent.numbers is not None and exponent.numbers.shape == () and exponent.numbers == -1:
        return call.node("Reciprocal", base)
    return call.node("Pow", base, exponent)


@row("SquaredDifference")
def _squared_difference(call: LayerCall) -> str:
    difference = call.node("Sub", *call.inputs)
    return call.node("Mul", difference, difference)


@row("Divide")
def _divide(call: LayerCall) -> str:
    if call.dtype(0) in _INTEGERS and call.flag("m_pythondiv", True):
        rest = call.node("Mod", *call.inputs)
        return call.node("Div", call.node("Sub", call.inputs[0], rest), call.inputs[1])
    return call.node("Div", *call.inputs)


@row("FloorMod")
def _floor_mod(call: LayerCall) -> str:
    if call.dtype(0) in _INTEGERS:
        return call.node("Mod", *call.inputs)
    whole = call.node("Floor", call.node("Div", *call.inputs))
    return call.node("Sub", call.inputs[0], call.node("Mul", whole, call.inputs[1]))


@row("Clamp")
def _clamp(call: LayerCall) -> str:
    limits = [call.number("min"), call.number("max")]
    if call.dtype(0) in _INTEGERS:
        limits = [np.ceil(limits[0]), np.floor(limits[1])]
    return call.node("Clip", call.inputs[0], *(call.like(0, limit) for limit in limits))


@row("Round")
def _round(call: LayerCall) -> str:
    if call.text("mode", "half_to_even") != "half_to_even":
        raise UnsupportedLayerError("it rounds halves away from zero")
    return call.node("Round", call.inputs[0])


# --- activations


@row("Gelu")
def _gelu(call: LayerCall) -> str:
    is_tanh = call.text("approximation_mode", "ERF").upper() == "TANH"
    return call.node("Gelu", call.inputs[0], approximate="tanh" if is_tanh else "none")


@row("Swish")
def _swish(call: LayerCall) -> str:
    x = call.inputs[0]
    inner = x if len(call.inputs) < 2 else call.node("Mul", x, call.inputs[1])
    return call.node("Mul", x, call.node("Sigmoid", inner))


@row("HardSigmoid")
def _hard_sigmoid(call: LayerCall) -> str:
    x, alpha, beta = call.inputs
    line = call.node("Add", call.node("Mul", x, alpha), beta)
    return call.node("Clip", line, call.like(0, 0), call.like(0, 1))


@row("PReLU")
def _prelu(call: LayerCall) -> str:
    data, slope = call.inputs
    behind = call.rank(0) - 2
    if call.rank(1) != 1 or behind <= 0 or slope.port.sizes == (1,):
        return call.node("PRelu", data, slope)
    sizes = call.graph.integers(-1, *([1] * behind))
    return call.node("PRelu", data, call.node("Reshape", slope, sizes))


@row("Selu")
def _selu(call: LayerCall) -> str:
    alpha, gamma = (float(call.known(index).reshape(())) for index in (1, 2))
    return call.node("Selu", call.inputs[0], alpha=alpha, gamma=gamma)


# --- products and attention


def _turned(call: LayerCall, index: int, is_turned: bool) -> str:
    rank = call.rank(index)
    if not is_turned or rank < 2:
        return call.inputs[index].name
    return call.node("Transpose", call.inputs[index], perm=[*range(rank - 2), rank - 1, rank - 2])


@row("ScaledDotProductAttention")
def _attention(call: LayerCall) -> str:
    query, _, value = call.inputs[:3]
    if call.flag("causal"):
        raise UnsupportedLayerError("its mask is a causal one of its own")
    sizes = query.port.sizes
    if len(call.inputs) > 4:
        scale = call.inputs[4].name
    elif sizes is not None and sizes[-1] > 0:
        scale = call.like(0, sizes[-1] ** -0.5)
    else:
        raise UnsupportedLayerError("the size of its heads is not known")
    scores = call.node("MatMul", call.node("Mul", query, scale), _turned(call, 1, True))
    if len(call.inputs) > 3 and call.inputs[3].port.sizes != ():
        mask = call.inputs[3]
        if call.dtype(3) == "bool":
            lowest = call.like(0, -np.inf)
            scores = call.node("Where", mask, scores, lowest)
        else:
            scores = call.node("Add", scores, mask)
    return call.node("MatMul", call.node("Softmax", scores, axis=-1), value)


# --- norms


@row("MVN")
def _mvn(call: LayerCall) -> str:
    if len(call.inputs) < 2:
        raise UnsupportedLayerError("its axes are not given by an operand, as in operation set 6")
    x, axes = call.inputs
    centered = call.node("Sub", x, call.node("ReduceMean", x, axes, keepdims=1))
    if not call.flag("normalize_variance", True):
        return centered
    variance = call.node("ReduceMean", call.node("Mul", centered, centered), axes, keepdims=1)
    epsilon = call.like(0, call.number("eps"))
    if call.text("eps_mode", "INSIDE_SQRT").upper() == "INSIDE_SQRT":
        return call.node("Div", centered, call.node("Sqrt", call.node("Add", variance, epsilon)))
    return call.node("Div", centered, call.node("Add", call.node("Sqrt", variance), epsilon))


@row("NormalizeL2")
def _normalize(call: LayerCall) -> str:
    x, axes = call.inputs
    squares = call.node("ReduceSum", call.node("Mul", x, x), axes, keepdims=1)
    joined = {"add": "Add", "max": "Max"}[call.text("eps_mode")]
    return call.node("Div", x, call.node("Sqrt", call.node(joined, squares, call.like(0, call.number("eps")))))


@row("BatchNormInference")
def _batch_norm(call: LayerCall) -> str:
    order = (0, 1, 2, 3, 4) if call.layer.version != "opset1" else (2, 0, 1, 3, 4)
    return call.node("BatchNormalization", *(call.inputs[i] for i in order), epsilon=call.number("epsilon"))


# --- convolutions and pools


def _window(call: LayerCall, dilations: bool = True) -> dict[str, object]:
    """The strides, dilations and paddings of a window, as ONNX names them."""
    spatial = call.rank(0) - 2
    found: dict[str, object] = {"strides": call.integers("strides", [1] * spatial)}
    if dilations:
        found["dilations"] = call.integers("dilations", [1] * spatial)
    kind = call.text("auto_pad", "explicit").lower()
    if kind == "explicit":
        none = [0] * spatial
        found["pads"] = [*call.integers("pads_begin", none), *call.integers("pads_end", none)]
        return found
    return {**found, "auto_pad": {"same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}[kind]}


def _grouped(call: LayerCall) -> tuple[str, int]:
    """The weights with their group axis merged into the next axis, as in ONNX, and the number of groups."""
    sizes = call.inputs[1].port.sizes
    if sizes is None or min(sizes) < 0:
        raise UnsupportedLayerError("the sizes of its weights are not known")
    groups, first, *rest = sizes
    return call.node("Reshape", call.inputs[1], call.graph.integers(groups * first, *rest)), groups


@row("GroupConvolution")
def _group_convolution(call: LayerCall) -> str:
    weights, groups = _grouped(call)
    return call.node("Conv", call.inputs[0], weights, group=groups, **_window(call))


@row("ConvolutionBackpropData", "GroupConvolutionBackpropData")
def _transposed_convolution(call: LayerCall) -> str:
    if len(call.inputs) > 2:
        raise UnsupportedLayerError("its output size is an operand")
    weights, groups = (call.inputs[1].name, 1) if call.layer.kind.startswith("Conv") else _grouped(call)
    more = call.integers("output_padding", [0] * (call.rank(0) - 2))
    return call.node("ConvTranspose", call.inputs[0], weights, group=groups, output_padding=more, **_window(call))


def _pool(call: LayerCall, dilations: bool = False) -> dict[str, object]:
    rounding = call.text("rounding_type", "floor")
    if rounding not in ("floor", "ceil"):
        raise UnsupportedLayerError(f"it rounds sizes by {rounding}")
    return {**_window(call, dilations), "kernel_shape": call.integers("kernel"), "ceil_mode": int(rounding == "ceil")}


@row("AvgPool")
def _average_pool(call: LayerCall) -> str:
    counted = 0 if call.flag("exclude-pad", call.flag("exclude_pad")) else 1
    return call.node("AveragePool", call.inputs[0], count_include_pad=counted, **_pool(call))


@row("MaxPool")
def _max_pool(call: LayerCall) -> str | list[str]:
    attributes = _pool(call, call.layer.version != "opset1")
    if len(call.layer.outputs) < 2:
        return call.node("MaxPool", call.inputs[0], **attributes)
    # OpenVINO counts indices within a channel, ONNX over all elements; a layer that reads them is refused.
    return [call.node("MaxPool", call.inputs[0], **attributes), ""]


# --- reductions and searches


@row("ReduceLogicalAnd", "ReduceLogicalOr")
def _logical_reduction(call: LayerCall) -> str:
    kind = "ReduceMin" if call.layer.kind.endswith("And") else "ReduceMax"
    x, axes = call.inputs
    found = call.node(kind, call.cast(x, "int32"), axes, keepdims=int(call.flag("keep_dims")))
    return call.cast(found, "bool")


@row("TopK")
def _topk(call: LayerCall) -> list[str]:
    if call.text("sort", "value") == "index":
        raise UnsupportedLayerError("it sorts its results by index")
    count = call.node("Reshape", call.cast(call.inputs[1], "int64"), call.graph.integers(1))
    largest = int(call.text("mode") == "max")
    values, places = call.graph.nodes_of("TopK", [call.inputs[0], count], 2, axis=call.integer("axis"), largest=largest)
    return [values, call.cast(places, call.layer.outputs[1].dtype)]


# --- shapes


@row("ShapeOf")
def _shape_of(call: LayerCall) -> str:
    found = call.node("Shape", call.inputs[0])
    return found if call.result.dtype in (None, "int64") else call.cast(found, call.result.dtype)


def _whole(call: LayerCall, index: int) -> str:
    """An operand, cast to int64 if it has another dtype."""
    value = call.inputs[index]
    return value.name if value.port.dtype == "int64" else call.cast(value, "int64")


@row("Reshape")
def _reshape(call: LayerCall) -> str:
    zero_copies = call.flag("special_zero")
    return call.node("Reshape", call.inputs[0], _whole(call, 1), allowzero=None if zero_copies else 1)


@row("Broadcast")
def _broadcast(call: LayerCall) -> str:
    if call.text("mode", "numpy") not in ("numpy", "bidirectional") or len(call.inputs) > 2:
        raise UnsupportedLayerError(f"it uses the broadcast mode {call.text('mode')}")
    return call.node("Expand", call.inputs[0], _whole(call, 1))


@row("Transpose")
def _transpose(call: LayerCall) -> str:
    order = [int(axis) for axis in call.known(1)]
    return call.node("Transpose", call.inputs[0], perm=order or None)


def _axis(call: LayerCall, index: int) -> int:
    return int(call.known(index).reshape(()))


@row("Split")
def _split(call: LayerCall) -> list[str]:
    count = call.integer("num_splits")
    return call.graph.nodes_of("Split", [call.inputs[0]], count, axis=_axis(call, 1), num_outputs=count)


@row("VariadicSplit")
def _variadic_split(call: LayerCall) -> list[str]:
    axis, lengths = _axis(call, 1), _whole(call, 2)
    known, whole = call.inputs[2].numbers, call.inputs[0].port.sizes
    if known is not None and (known < 0).any():
        if whole is None or whole[axis] < 0:
            raise UnsupportedLayerError("one of its lengths is the rest of a size that is not known")
        left = whole[axis] - int(known[known >= 0].sum())
        lengths = call.graph.integers(*(left if one < 0 else int(one) for one in known))
    return call.graph.nodes_of("Split", [call.inputs[0], lengths], len(call.layer.outputs), axis=axis)


@row("Slice")
def _slice(call: LayerCall) -> str:
    data, start, stop, step, *axes = call.inputs
    return call.node("Slice", data, start, stop, axes[0] if axes else "", step)


@row("StridedSlice")
def _strided_slice(call: LayerCall) -> str:
    if any(call.integers("ellipsis_mask", [])):
        raise UnsupportedLayerError("it has an ellipsis")
    begin, end = (call.known(index).astype(np.int64) for index in (1, 2))
    steps = call.known(3).astype(np.int64) if len(call.inputs) > 3 else np.ones_like(begin)
    masks = {key: _mask(call, key, len(begin)) for key in ("begin", "end", "new_axis", "shrink_axis")}
    sliced: list[tuple[int, int, int, int]] = []
    gone: list[int] = []
    new: list[int] = []
    axis = 0
    for place, (first, last, step) in enumerate(zip(begin, end, steps, strict=True)):
        if masks["new_axis"][place]:
            new.append(axis - len(gone) + len(new))
            continue
        if masks["shrink_axis"][place]:
            sliced.append((axis, int(first), int(first) + 1 if first != -1 else _LARGEST, 1))
            gone.append(axis)
        else:
            ends = (0 if step > 0 else _LARGEST, _LARGEST if step > 0 else -_LARGEST)
            low = ends[0] if masks["begin"][place] else int(first)
            sliced.append((axis, low, ends[1] if masks["end"][place] else int(last), int(step)))
        axis += 1
    found = call.inputs[0].name
    if sliced:
        axes, lows, highs, strides = (call.graph.integers(*part) for part in zip(*sliced, strict=True))
        found = call.node("Slice", found, lows, highs, axes, strides)
    if gone:
        found = call.node("Squeeze", found, call.graph.integers(*gone))
    return call.node("Unsqueeze", found, call.graph.integers(*new)) if new else found


def _mask(call: LayerCall, key: str, count: int) -> list[int]:
    found = call.integers(f"{key}_mask", [])
    return [*found, *([0] * (count - len(found)))]


@row("Pad")
def _pad(call: LayerCall) -> str:
    mode = call.text("pad_mode", "constant").lower()
    if mode not in ("constant", "edge", "reflect"):
        raise UnsupportedLayerError(f"it uses the padding mode {mode}")
    pads = call.node("Concat", _whole(call, 1), _whole(call, 2), axis=0)
    return call.node("Pad", call.inputs[0], pads, *call.inputs[3:4], mode=mode)


@row("DepthToSpace", "SpaceToDepth")
def _blocks(call: LayerCall) -> str:
    size, first = call.integer("block_size", 1), call.text("mode") == "blocks_first"
    if call.layer.kind == "DepthToSpace":
        return call.node("DepthToSpace", call.inputs[0], blocksize=size, mode="DCR" if first else "CRD")
    if not first:
        raise UnsupportedLayerError("it puts the depth first")
    return call.node("SpaceToDepth", call.inputs[0], blocksize=size)


# --- by place


@row("Gather")
def _gather(call: LayerCall) -> str:
    if call.integer("batch_dims", 0):
        raise UnsupportedLayerError("it has batch_dims")
    return call.node("Gather", *call.inputs[:2], axis=_axis(call, 2))


_SUMS: Final = {"none": "none", "sum": "add", "prod": "mul", "min": "min", "max": "max"}


@row("ScatterNDUpdate")
def _scatter_nd(call: LayerCall) -> str:
    way = call.text("reduction", "none")
    if way not in _SUMS:
        raise UnsupportedLayerError(f"it uses the reduction {way}")
    data, _, updates = call.inputs
    return call.node("ScatterND", data, _whole(call, 1), updates, reduction=_SUMS[way])


@row("ScatterElementsUpdate")
def _scatter_elements(call: LayerCall) -> str:
    way = call.text("reduction", "none")
    if way not in _SUMS or not call.flag("use_init_val", True):
        raise UnsupportedLayerError(f"it uses the reduction {way}")
    return call.node("ScatterElements", *call.inputs[:3], axis=_axis(call, 3), reduction=_SUMS[way])


@row("OneHot")
def _one_hot(call: LayerCall) -> str:
    one = call.graph.integers(1)
    values = call.node("Concat", *(call.node("Reshape", call.inputs[i], one) for i in (3, 2)), axis=0)
    return call.node("OneHot", *call.inputs[:2], values, axis=call.integer("axis"))


@row("Interpolate")
def _interpolate(call: LayerCall) -> str:
    is_newer = call.layer.version == "opset11"
    by_sizes = call.text("shape_calculation_mode") == "sizes"
    mode = call.text("mode")
    kind = {"nearest": "nearest", "linear": "linear", "linear_onnx": "linear", "cubic": "cubic"}.get(mode)
    if kind is None or not (is_newer or call.layer.version == "opset4"):
        raise UnsupportedLayerError(f"it resizes by {mode}")
    if any(call.integers("pads_begin", [0])) or any(call.integers("pads_end", [0])):
        raise UnsupportedLayerError("it pads before it resizes")
    sizes = _whole(call, 1) if by_sizes else ""
    scales = "" if by_sizes else call.inputs[1 if is_newer else 2].name
    place = 2 if is_newer else 3
    axes = [int(axis) for axis in call.known(place)] if len(call.inputs) > place else None
    return call.node(
        "Resize",
        call.inputs[0],
        "",
        scales,
        sizes,
        axes=axes,
        mode=kind,
        coordinate_transformation_mode=call.text("coordinate_transformation_mode", "half_pixel"),
        nearest_mode=call.text("nearest_mode", "round_prefer_floor"),
        antialias=int(call.flag("antialias")) or None,
        cubic_coeff_a=call.number("cube_coeff", -0.75),
    )
