"""Forms that ONNX Runtime computes more slowly than what came in are not written, and what it computes with is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import regraft as rx
from regraft.formats import from_onnx, to_onnx
from tests.formats.onnx.single_node import assert_same, run_onnxruntime
from tests.formats.onnx.writing import onnx_model

_RANDOM = np.random.default_rng(9)


def _model(
    nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], shape: tuple[int, ...], opset: int = 13
) -> onnx.ModelProto:
    return onnx_model(nodes, {"x": shape}, ["y"], constants, opset=opset, ir_version=8)


def _padded(
    shape: tuple[int, ...], kernel: tuple[int, ...], pads: list[int], group: int = 1, strides: Sequence[int] = (1, 1)
) -> onnx.ModelProto:
    """A `Pad` by sizes that are computed, in front of a `Conv`."""
    node = helper.make_node
    rank = len(shape) - 2
    nodes = [
        node("Add", ["ahead", "none"], ["pads"]),
        node("Pad", ["x", "pads"], ["wide"]),
        node("Conv", ["wide", "w"], ["y"], group=group, strides=strides),
    ]
    ahead = np.asarray([0, 0, *pads[:rank], 0, 0, *pads[rank:]])
    weight = _RANDOM.standard_normal(kernel).astype(np.float32)
    return _model(nodes, {"ahead": ahead, "none": np.zeros_like(ahead), "w": weight}, shape)


@pytest.mark.parametrize(
    ("shape", "kernel", "pads", "group", "is_apart"),
    [
        ((1, 16, 40, 1), (8, 16, 32, 1), [15, 0, 16, 0], 1, True),  # one element wide
        ((1, 16, 24, 24), (8, 16, 9, 9), [4] * 4, 1, True),  # a third of the data is padding
        ((1, 16, 24, 24), (8, 16, 3, 3), [1] * 4, 1, False),
        ((1, 16, 40, 1), (16, 1, 9, 1), [4, 0, 4, 0], 16, False),  # by channel
        ((1, 1, 40, 1), (8, 1, 9, 1), [4, 0, 4, 0], 1, True),  # one channel
        ((1, 16, 1, 400), (8, 16, 1, 9), [0, 4, 0, 4], 1, False),  # hardly any of it is padding
    ],
)
def test_padding_stays_apart_from_a_convolution_that_it_would_slow_down(
    shape: tuple[int, ...], kernel: tuple[int, ...], pads: list[int], group: int, is_apart: bool
) -> None:
    model = _padded(shape, kernel, pads, group)
    result = to_onnx(rx.optimize(from_onnx(model)))
    kinds = [node.op_type for node in result.graph.node]
    assert kinds == (["Pad", "Conv"] if is_apart else ["Conv"])
    assert result.opset_import[0].version == 13
    inputs = {"x": _RANDOM.standard_normal(shape).astype(np.float32)}
    for found, expected in zip(run_onnxruntime(result, inputs), run_onnxruntime(model, inputs), strict=True):
        assert_same(found, expected)


@pytest.mark.parametrize(("channels", "window", "is_apart"), [(16, 33, False), (1, 33, False), (1, 257, True)])
def test_padding_along_steps_of_several_elements_is_in_the_convolution(
    channels: int, window: int, is_apart: bool
) -> None:
    around = window // 2
    model = _padded((1, channels, 512, 1), (8, channels, window, 1), [around, 0, around, 0], strides=[4, 1])
    result = to_onnx(rx.optimize(from_onnx(model)))
    assert [node.op_type for node in result.graph.node] == (["Pad", "Conv"] if is_apart else ["Conv"])


def _quantized_convolution(channels: int) -> onnx.ModelProto:
    """A convolution in the form that quantizers write: everything goes through integers, the bias too."""
    node = helper.make_node
    nodes = [
        node("DequantizeLinear", ["w", "sw", "zw"], ["weight"], "weight"),
        node("DequantizeLinear", ["b", "sb", "zb"], ["bias"], "bias"),
        node("QuantizeLinear", ["x", "sx", "zx"], ["qx"]),
        node("DequantizeLinear", ["qx", "sx", "zx"], ["dx"]),
        node("Conv", ["dx", "weight", "bias"], ["found"], pads=[1] * 4),
        node("QuantizeLinear", ["found", "sx", "zx"], ["qy"]),
        node("DequantizeLinear", ["qy", "sx", "zx"], ["y"]),
    ]
    constants = {
        "w": _RANDOM.integers(-127, 127, (channels, 3, 3, 3)).astype(np.int8),
        "sw": np.float32(0.01),
        "zw": np.int8(0),
        "b": _RANDOM.integers(-500, 500, channels).astype(np.int32),
        "sb": np.float32(0.0005),
        "zb": np.int32(0),
        "sx": np.float32(0.05),
        "zx": np.uint8(128),
    }
    return _model(nodes, constants, (1, 3, 8, 8))


@pytest.mark.parametrize("level", ["safe", "default"])
@pytest.mark.parametrize("channels", [4, 64])
def test_weights_and_biases_in_integers_stay_integers_whatever_their_size(channels: int, level: str) -> None:
    model = _quantized_convolution(channels)
    result = to_onnx(rx.optimize(from_onnx(model), level=level))
    kinds, before = (Counter(node.op_type for node in one.graph.node) for one in (result, model))
    assert kinds == before
    inputs = {"x": _RANDOM.standard_normal((1, 3, 8, 8)).astype(np.float32)}
    np.testing.assert_array_equal(run_onnxruntime(result, inputs)[0], run_onnxruntime(model, inputs)[0])


def test_nodes_in_any_order_are_read() -> None:
    node = helper.make_node
    nodes = [node("Relu", ["b"], ["y"]), node("Add", ["a", "a"], ["b"]), node("Neg", ["x"], ["a"])]
    model = _model(nodes, {}, (2, 3))
    x = np.asarray([[-1.0, 2.0, 3.0], [4.0, -5.0, 6.0]], np.float32)
    found = rx.build(from_onnx(model), target="numpy")["main"](x)
    np.testing.assert_array_equal(found, np.maximum(-2 * x, 0))


def test_a_branch_in_front_of_what_it_reads_is_read() -> None:
    node = helper.make_node
    out = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
    branch = helper.make_graph([node("Identity", ["a"], ["r"])], "then", [], [out])
    other = helper.make_graph([node("Neg", ["a"], ["r"])], "else", [], [out])
    nodes = [
        node("If", ["yes"], ["y"], then_branch=branch, else_branch=other),
        node("Neg", ["x"], ["a"]),
    ]
    model = _model(nodes, {"yes": np.asarray(True)}, (2,))
    found = rx.build(from_onnx(model), target="numpy")["main"](np.asarray([1.0, -2.0], np.float32))
    np.testing.assert_array_equal(found, np.asarray([-1.0, 2.0], np.float32))


@pytest.mark.parametrize(("opset", "kinds"), [(13, ["Conv", "HardSigmoid", "Mul"]), (14, ["Conv", "HardSwish"])])
def test_a_hardswish_that_was_written_out_is_one_operator_in_the_opset_that_the_model_has(
    opset: int, kinds: list[str]
) -> None:
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("Add", ["c", "three"], ["a"]),
        node("Clip", ["a", "zero", "six"], ["l"]),
        node("Mul", ["l", "sixth"], ["g"]),
        node("Mul", ["c", "g"], ["y"]),
    ]
    numbers = {"three": 3.0, "zero": 0.0, "six": 6.0, "sixth": 1 / 6}
    constants = {name: np.asarray(value, np.float32) for name, value in numbers.items()}
    constants["w"] = 3 * _RANDOM.standard_normal((4, 3, 3, 3)).astype(np.float32)
    model = _model(nodes, constants, (1, 3, 6, 6), opset)
    result = rx.optimize(model)
    assert [node.op_type for node in result.graph.node] == kinds
    assert result.opset_import[0].version == opset
    assert rx.optimize(result).graph == result.graph
    inputs = {"x": _RANDOM.standard_normal((1, 3, 6, 6)).astype(np.float32)}
    assert_same(run_onnxruntime(result, inputs), run_onnxruntime(model, inputs))


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(("shape", "axes"), [((3, 4), None), ((3, 4), [1, 0]), ((2, 3, 4), [0, 2, 1])])
def test_a_turned_matrix_by_a_vector_is_the_vector_by_the_matrix(
    shape: tuple[int, ...], axes: list[int] | None, level: int
) -> None:
    x, v = rx.Var("x", rx.TensorType(shape, "float32")), rx.Var("v", rx.TensorType([3], "float32"))
    builder = rx.BlockBuilder()
    with builder.function("main", [x, v]):
        builder.emit_func_output(builder.emit(rx.op.matmul(builder.emit(rx.op.permute_dims(x, axes)), v)))
    module = rx.optimize(builder.get(), level=level)
    assert [node.op_type for node in to_onnx(module).graph.node] == ["MatMul"]
    data, vector = (_RANDOM.standard_normal(size).astype(np.float32) for size in (shape, (3,)))
    found = rx.build(module, target="onnxruntime")["main"](data, vector)
    np.testing.assert_allclose(found, np.swapaxes(data, -1, -2) @ vector, rtol=1e-5, atol=1e-6)
