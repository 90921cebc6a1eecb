"""A decoder's step with its cache as inputs and outputs: the cache is read where it lies, and not repeated."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import regraft as rx
from tests.formats.onnx.single_node import assert_same, run_onnxruntime

_RANDOM = np.random.default_rng(11)
QUERY_HEADS, KEY_HEADS, PAST, SIZE = 6, 2, 9, 8


def _step(*, joined: bool, mask: bool) -> onnx.ModelProto:
    """One step as exporters write it; ``joined``: batch and heads are one axis where the keys are transposed."""
    node, total = helper.make_node, PAST + 1
    nodes: list[onnx.NodeProto] = []
    for name in ("k", "v"):
        nodes += [
            node("Concat", [f"past_{name}", f"new_{name}"], [f"all_{name}"], axis=2),
            node("Unsqueeze", [f"all_{name}", "axis"], [f"apart_{name}"]),
            node("Expand", [f"apart_{name}", "spread"], [f"spread_{name}"]),
            node("Reshape", [f"spread_{name}", "heads"], [f"each_{name}"]),
        ]
    if joined:
        nodes += [
            node("Reshape", ["each_k", "flat"], ["flat_k"]),
            node("Transpose", ["flat_k"], ["turned"], perm=[0, 2, 1]),
            node("Reshape", ["turned", "back"], ["keys"]),
        ]
    else:
        nodes.append(node("Transpose", ["each_k"], ["keys"], perm=[0, 1, 3, 2]))
    nodes += [node("Mul", ["q", "scale"], ["scaled"]), node("MatMul", ["scaled", "keys"], ["scores"])]
    if mask:
        nodes += [
            node("Greater", ["mask", "none"], ["seen"]),
            node("Where", ["seen", "none", "lowest"], ["bias"]),
            node("Add", ["scores", "bias"], ["masked"]),
        ]
    nodes += [
        node("Softmax", ["masked" if mask else "scores"], ["weights"], axis=-1),
        node("MatMul", ["weights", "each_v"], ["attended"]),
        node("Transpose", ["attended"], ["rows"], perm=[0, 2, 1, 3]),
        node("Reshape", ["rows", "wide"], ["y"]),
    ]
    times = QUERY_HEADS // KEY_HEADS
    constants = {
        "axis": np.asarray([2]),
        "spread": np.asarray([1, KEY_HEADS, times, total, SIZE]),
        "heads": np.asarray([1, QUERY_HEADS, total, SIZE]),
        "flat": np.asarray([-1, total, SIZE]),
        "back": np.asarray([1, QUERY_HEADS, SIZE, total]),
        "scale": np.asarray(SIZE**-0.5, np.float32),
        "none": np.asarray(0, np.float32),
        "lowest": np.asarray(-1e9, np.float32),
        "wide": np.asarray([1, 1, QUERY_HEADS * SIZE]),
    }
    shapes = {"q": [1, QUERY_HEADS, 1, SIZE]}
    shapes |= {f"past_{name}": [1, KEY_HEADS, PAST, SIZE] for name in "kv"}
    shapes |= {f"new_{name}": [1, KEY_HEADS, 1, SIZE] for name in "kv"}
    shapes |= {"mask": [1, 1, 1, total]} if mask else {}
    graph = helper.make_graph(
        nodes,
        "step",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "all_k", "all_v")],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("mask", [True, False])
def test_the_cache_goes_into_attention_as_it_lies(joined: bool, mask: bool) -> None:
    model = _step(joined=joined, mask=mask)
    written = rx.optimize(model)
    attention = next(node for node in written.graph.node if node.op_type == "Attention")
    assert list(attention.input[1:3]) == ["all_k", "all_v"]
    cached = {"past_k", "past_v", "all_k", "all_v"}
    readers = {node.op_type for node in written.graph.node if cached & set(node.input)}
    assert readers == {"Concat", "Attention"}
    sizes = {port.name: [dim.dim_value for dim in port.type.tensor_type.shape.dim] for port in model.graph.input}
    inputs = {name: _RANDOM.standard_normal(shape).astype(np.float32) for name, shape in sizes.items()}
    assert_same(run_onnxruntime(written, inputs), run_onnxruntime(model, inputs))


def test_a_norm_is_recognized_before_its_factor_of_ones_is_left_out() -> None:
    node = helper.make_node
    nodes = [
        node("Pow", ["x", "two"], ["square"]),
        node("ReduceMean", ["square"], ["mean"], axes=[-1]),
        node("Add", ["mean", "epsilon"], ["variance"]),
        node("Sqrt", ["variance"], ["root"]),
        node("Reciprocal", ["root"], ["inverse"]),
        node("Mul", ["x", "inverse"], ["normal"]),
        node("Mul", ["normal", "ones"], ["y"]),
    ]
    constants = {"two": 2.0, "epsilon": 1e-6, "ones": np.ones(8)}
    graph = helper.make_graph(
        nodes,
        "norm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    written = rx.optimize(model, level=3)
    assert [one.op_type for one in written.graph.node] == ["RMSNormalization"]
    inputs = {"x": _RANDOM.standard_normal((2, 8)).astype(np.float32)}
    assert_same(run_onnxruntime(written, inputs), run_onnxruntime(model, inputs))
