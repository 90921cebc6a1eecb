"""Nodes whose operands have no known size go out as they came in, and ONNX Runtime runs them as they are."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

from regraft.engine import ExecutionError, build
from regraft.formats import from_onnx, to_onnx
from tests.formats.onnx.single_node import one_node, run_here, run_onnxruntime

_RANDOM = np.random.default_rng(7)


def _floats(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def _opened(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with a size of its own, known at run time only, on every axis of every input."""
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"{value.name}_{axis}"
    return model


_LAYER = {"x": _floats(5, 2, 3), "w": _floats(1, 16, 3), "r": _floats(1, 16, 4)}
_HEADS = {name: _floats(1, 2, size, 4) for name, size in (("q", 3), ("k", 5), ("v", 5))}
_BYTES = {
    "x": _RANDOM.integers(0, 255, (1, 2, 5, 5)).astype(np.uint8),
    "w": _RANDOM.integers(0, 255, (3, 2, 2, 2)).astype(np.uint8),
}
NODES = {
    "LSTM": (one_node("LSTM", _LAYER, 2, opset=14, hidden_size=4), _LAYER),
    "Attention": (one_node("Attention", _HEADS, opset=23), _HEADS),
    "Attention that is causal": (one_node("Attention", _HEADS, opset=23, is_causal=1), _HEADS),
    "ConvInteger": (one_node("ConvInteger", _BYTES, opset=10), _BYTES),
}


@pytest.mark.parametrize("name", NODES)
def test_a_node_of_open_sizes_goes_out_as_it_came_in_and_runs(name: str) -> None:
    model, inputs = NODES[name]
    model = _opened(model)
    [node] = to_onnx(from_onnx(model)).graph.node
    assert (node.op_type, list(node.input)) == (model.graph.node[0].op_type, list(model.graph.node[0].input))
    assert list(node.attribute) == list(model.graph.node[0].attribute)
    expected = run_onnxruntime(model, inputs)
    for found, value in zip(run_here(model, inputs, "onnxruntime"), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-6)


_PLACES = np.array([[[[0, 3], [10, 15]]]])
_WAITING = {
    "Det": (one_node("Det", {"x": _floats(2, 3, 3)}, opset=22), {"x": _floats(1, 4, 4)}),
    "MaxPool with places": (
        one_node("MaxPool", {"x": _floats(1, 2, 6, 7)}, 2, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        {"x": _floats(2, 2, 5, 8)},
    ),
    "MaxUnpool": (
        one_node("MaxUnpool", {"x": _floats(1, 1, 2, 2), "i": _PLACES}, kernel_shape=[2, 2], strides=[2, 2]),
        {"x": _floats(1, 1, 2, 2), "i": _PLACES},
    ),
    "MaxUnpool to a shape": (
        one_node(
            "MaxUnpool",
            {"x": _floats(1, 1, 2, 2), "i": _PLACES, "s": np.array([1, 1, 5, 5])},
            kernel_shape=[2, 2],
            strides=[2, 2],
        ),
        {"x": _floats(1, 1, 2, 2), "i": _PLACES, "s": np.array([1, 1, 5, 6])},
    ),
    "ConvTranspose to a shape": (
        one_node("ConvTranspose", {"x": _floats(1, 3, 5, 6), "w": _floats(3, 4, 3, 3)}, output_shape=[11, 13]),
        {"x": _floats(2, 3, 9, 11), "w": _floats(3, 2, 3, 3)},
    ),
    "DeformConv": (
        one_node("DeformConv", {n: _floats(1, 2, 4, 4) for n in "xwo"}, opset=22, kernel_shape=[2, 2]),
        {"x": _floats(1, 2, 4, 5), "w": _floats(3, 2, 2, 2), "o": _floats(1, 8, 3, 4)},
    ),
    "Pad": (
        one_node("Pad", {"x": _floats(2, 4, 5), "p": np.zeros(6, np.int64)}, mode="reflect"),
        {"x": _floats(2, 4, 5), "p": np.array([0, 1, 2, 0, 2, 1])},
    ),
    "DFT": (
        one_node("DFT", {"x": _floats(2, 8, 2), "n": None, "a": np.array(1)}, opset=20),
        {"x": _floats(3, 5, 2), "a": np.array(0)},
    ),
    "STFT": (
        one_node("STFT", {"x": _floats(2, 32, 1), "s": np.array(4), "w": _floats(8)}, fixed=["s"]),
        {"x": _floats(1, 40, 1), "w": _floats(12)},
    ),
    "DequantizeLinear by blocks": (
        one_node("DequantizeLinear", {"x": np.zeros((3, 8), np.int8), "s": _floats(3, 2)}, axis=1, block_size=4),
        {"x": _RANDOM.integers(-9, 9, (3, 12)).astype(np.int8), "s": _floats(3, 3)},
    ),
}


@pytest.mark.parametrize("name", _WAITING)
def test_a_node_that_needs_sizes_or_numbers_of_the_run_is_read_in_the_run_and_goes_out_as_it_came(name: str) -> None:
    model, inputs = _WAITING[name]
    model = _opened(model)
    [node] = to_onnx(from_onnx(model)).graph.node
    assert (node.op_type, list(node.input)) == (model.graph.node[0].op_type, list(model.graph.node[0].input))
    assert list(node.attribute) == list(model.graph.node[0].attribute)
    for found, value in zip(run_here(model, inputs), run_onnxruntime(model, inputs), strict=True):
        assert found.dtype == value.dtype
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", ["torch", "xla"])
@pytest.mark.parametrize("name", ["Det", "MaxPool with places", "ConvTranspose to a shape"])
def test_a_node_that_needs_sizes_of_the_run_runs_on_an_engine_of_tensors(name: str, target: str) -> None:
    model, inputs = _WAITING[name]
    model = _opened(model)
    for found, value in zip(run_here(model, inputs, target), run_onnxruntime(model, inputs), strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-5)


def test_a_node_that_needs_numbers_of_the_run_runs_on_torch_and_is_refused_with_the_reason_by_xla() -> None:
    model, inputs = _WAITING["DFT"]
    model = _opened(model)
    [expected] = run_onnxruntime(model, inputs)
    np.testing.assert_allclose(run_here(model, inputs, "torch")[0], expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ExecutionError, match="DFT"):
        run_here(model, inputs, "xla")


def test_gradients_go_through_a_node_that_is_read_in_the_run() -> None:
    model = _opened(one_node("Det", {"x": _floats(2, 3, 3)}, opset=22))
    x = torch.randn(2, 3, 3, dtype=torch.float32, requires_grad=True)
    build(from_onnx(model), target="torch")["main"](x).sum().backward()
    [expected] = torch.autograd.grad(torch.linalg.det(x).sum(), x)
    torch.testing.assert_close(x.grad, expected, rtol=1e-4, atol=1e-5)


def test_one_program_takes_several_sizes_of_a_node_that_waits_for_them() -> None:
    model = _opened(one_node("Det", {"x": _floats(2, 3, 3)}, opset=22))
    run = build(from_onnx(model), target="numpy")["main"]
    for size in (1, 2, 4, 2):
        x = _floats(3, size, size)
        np.testing.assert_allclose(np.asarray(run(x)), np.linalg.det(x), rtol=1e-4, atol=1e-5)
    with pytest.raises(ExecutionError, match="determinants of matrices of more than 4 rows"):
        run(_floats(1, 5, 5))


def test_a_zero_in_a_shape_of_unknown_length_is_the_size_of_its_place() -> None:
    model = one_node("Reshape", {"x": _floats(2, 3, 4), "s": np.array([0, -1])})
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "k"
    for shape in ([0, -1], [0, 0, 2, 2], [2, 0, -1, 1]):
        inputs = {"x": _floats(2, 3, 4), "s": np.array(shape)}
        [found], [expected] = run_here(model, inputs), run_onnxruntime(model, inputs)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric"])
def test_what_a_factor_leaves_in_its_size_is_copied(mode: str, coordinates: str) -> None:
    given = {"x": _floats(1, 1, 17, 9), "roi": None, "s": np.array([1, 1, 1.003, 1.05], np.float32)}
    model = one_node("Resize", given, opset=19, fixed=["s"], mode=mode, coordinate_transformation_mode=coordinates)
    for rows in (17, 30):  # the second is large enough to change
        x = _floats(1, 1, 9 * rows, rows)
        expected = run_onnxruntime(_opened(model), {"x": x})
        np.testing.assert_allclose(run_here(model, {"x": x})[0], expected[0], rtol=1e-4, atol=1e-4)


def test_results_of_a_node_that_nothing_uses_do_not_take_it_apart() -> None:
    data = {name: _floats(1, 3, 8) for name in ("q", "k", "v")}
    model = _opened(one_node("Attention", data, opset=23, q_num_heads=2, kv_num_heads=2))
    assert [node.op_type for node in to_onnx(from_onnx(model)).graph.node] == ["Attention"]


def test_a_node_of_an_older_form_beside_one_of_open_sizes_is_written_anew_to_run() -> None:
    model = _opened(one_node("LSTM", _LAYER, 2, opset=11, hidden_size=4))
    model.graph.node.append(helper.make_node("Squeeze", ["y1"], ["last"], axes=[0]))
    model.graph.output[1].name = "last"
    expected = run_onnxruntime(model, _LAYER)
    for found, value in zip(run_here(model, _LAYER, "onnxruntime"), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-6)
