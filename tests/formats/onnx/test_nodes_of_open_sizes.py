"""Nodes whose operands have no known size go out as they came in, and ONNX Runtime runs them as they are."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

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
