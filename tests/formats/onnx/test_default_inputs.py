"""Inputs with a default, which are inputs and initializers: they are that again in what is written."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import regraft as rx
from regraft.formats.onnx import from_onnx, to_onnx
from regraft.transform import FoldConstant, Sequential

X = np.random.default_rng(0).standard_normal((2, 4)).astype("float32")


def threshold(*, ir_version: int = 8, weights: int = 1) -> onnx.ModelProto:
    """``relu(x @ w + bias) * gain``, of which the bias and the gain, both 0.5, may be given; ``w`` is a constant."""
    rng = np.random.default_rng(1)
    constants = {"w": rng.standard_normal((4, 3)).astype("float32"), "bias": np.full(3, 0.5, "float32")}
    constants |= {"gain": np.array(0.5, "float32")}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "bias"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Mul", ["c", "gain"], ["y"]),
    ]
    known = [("x", [2, 4]), ("bias", [3]), ("gain", []), *([("w", [4, 3])] if weights == 0 else [])]
    graph = helper.make_graph(
        nodes,
        "threshold",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in known],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir_version)


def run(model: onnx.ModelProto, **given: np.ndarray) -> np.ndarray:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": X, **given})[0]


def inputs_of(model: onnx.ModelProto) -> list[str]:
    return [value.name for value in model.graph.input]


@pytest.mark.parametrize("level", ["canonical", "default", "aggressive"])
def test_a_default_can_be_replaced_after_any_level(level: str) -> None:
    source = threshold()
    made = rx.optimize(source, level=level, verify=True)
    assert sorted(inputs_of(made)) == sorted(inputs_of(source))
    assert inputs_of(made)[0] == "x"
    others = {"bias": np.array([1, -2, 3], "float32"), "gain": np.array(4, "float32")}
    for given in ({}, {"gain": others["gain"]}, others):
        np.testing.assert_allclose(run(made, **given), run(source, **given), rtol=1e-6)


def test_two_equal_defaults_stay_two() -> None:
    source = threshold()
    first, second = source.graph.node[1], source.graph.node[3]
    first.input[1], second.input[1] = "gain", "other"
    source.graph.input.append(helper.make_tensor_value_info("other", TensorProto.FLOAT, []))
    source.graph.initializer.append(numpy_helper.from_array(np.array(0.5, "float32"), "other"))
    made = rx.optimize(source)
    given = {"other": np.array(3, "float32")}
    np.testing.assert_allclose(run(made, **given), run(source, **given), rtol=1e-6)


def test_no_pass_computes_with_a_default() -> None:
    module = from_onnx(threshold())
    assert [param.name_hint for param in module["main"].params] == ["x"]
    made = to_onnx(Sequential([FoldConstant()])(module))
    assert sorted(inputs_of(made)) == ["bias", "gain", "x"]


def test_a_program_runs_with_its_defaults() -> None:
    source = threshold()
    for target in ("numpy", "onnxruntime"):
        found = rx.build(from_onnx(source), target=target)["main"](X)
        np.testing.assert_allclose(np.asarray(found), run(source), rtol=1e-6)


def test_a_constant_can_be_given_in_place_of_a_default() -> None:
    gain = np.array(4, "float32")
    made = to_onnx(from_onnx(threshold(), constants={"gain": gain}))
    assert sorted(inputs_of(made)) == ["bias", "x"]
    np.testing.assert_allclose(run(made), run(threshold(), gain=gain), rtol=1e-6)


def test_old_files_list_constants_as_inputs_and_mean_constants() -> None:
    assert inputs_of(to_onnx(from_onnx(threshold(ir_version=3, weights=0)))) == ["x"]


def test_a_default_that_decides_a_shape_is_a_constant() -> None:
    graph = helper.make_graph(
        [helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="nearest")],
        "resized",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 2, 2]),
            helper.make_tensor_value_info("scales", TensorProto.FLOAT, [4]),
            helper.make_tensor_value_info("sizes", TensorProto.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.array([1, 1, 2, 2], "float32"), "scales"),
            numpy_helper.from_array(np.array([2, 2], "int64"), "sizes"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    image = np.arange(4, dtype="float32").reshape(1, 1, 2, 2)
    found = np.asarray(rx.build(from_onnx(model), target="numpy")["main"](image))
    assert found.shape == (1, 1, 4, 4)


def test_inputs_with_a_default_keep_their_order() -> None:
    model = threshold()
    model.graph.input.extend([model.graph.input.pop(1)])  # the bias last, which nodes read first
    written = to_onnx(from_onnx(model))
    assert [value.name for value in written.graph.input] == ["x", "gain", "bias"]
    assert to_onnx(from_onnx(written)).SerializeToString() == written.SerializeToString()
