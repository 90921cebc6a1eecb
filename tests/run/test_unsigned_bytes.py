"""Products of bytes on processors that sum pairs of them in 16 bits: the same numbers, with no sum that overflows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import regraft as rx
from regraft.passes import op_counts
from regraft.run import originals
from regraft.run.unsigned_bytes import without_overflow

LEFT = np.full((4, 64), 255, np.uint8)
RIGHT = np.full((64, 3), 127, np.int8) * np.array([1, -1, 1], np.int8)
EXACT = LEFT.astype(np.int64) @ RIGHT


def changed(model: onnx.ModelProto) -> onnx.ModelProto:
    read = ir.from_proto(model)
    without_overflow(read.graph, needed=True)
    done = ir.to_proto(read)
    onnx.checker.check_model(done, full_check=True)
    return done


def ran(model: onnx.ModelProto, **inputs: np.ndarray) -> np.ndarray:
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)[0]


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    constants: dict[str, np.ndarray],
    kind: int = TensorProto.FLOAT,
    *,
    opset: int = 21,
) -> onnx.ModelProto:
    result = helper.make_tensor_value_info("z", kind, [4, 3])
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, [result], initializers)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("zero_point", [None, np.array([3, -128, 127], np.int8)])
def test_sums_of_bytes_are_exact(is_constant: bool, zero_point: np.ndarray | None) -> None:
    node = helper.make_node("MatMulInteger", ["x", "w", *(["", "zero"] if zero_point is not None else [])], ["z"])
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, LEFT.shape)]
    constants = {} if zero_point is None else {"zero": zero_point}
    given = {"x": LEFT}
    if is_constant:
        constants["w"] = RIGHT
    else:
        inputs.append(helper.make_tensor_value_info("w", TensorProto.INT8, RIGHT.shape))
        given["w"] = RIGHT
    model = changed(model_of([node], inputs, constants, TensorProto.INT32))
    exact = EXACT if zero_point is None else LEFT.astype(np.int64) @ (RIGHT.astype(np.int64) - zero_point)
    np.testing.assert_array_equal(ran(model, **given), exact)


def test_signed_bytes_of_a_run_become_unsigned_in_an_opset_that_adds_up_no_16_bits() -> None:
    kinds = {"x": (TensorProto.UINT8, LEFT), "w": (TensorProto.INT8, RIGHT)}
    inputs = [helper.make_tensor_value_info(name, kind, array.shape) for name, (kind, array) in kinds.items()]
    node = helper.make_node("MatMulInteger", ["x", "w"], ["z"])
    model = changed(model_of([node], inputs, {}, TensorProto.INT32, opset=13))
    np.testing.assert_array_equal(ran(model, x=LEFT, w=RIGHT), EXACT)


@pytest.mark.parametrize("steps", [np.array(0.5, np.float32), np.array([0.5, 1, 2], np.float32)])
@pytest.mark.parametrize("has_zero_point", [True, False])
def test_weights_that_are_dequantized_keep_their_numbers(steps: np.ndarray, has_zero_point: bool) -> None:
    zero_point = {"zero": np.zeros(steps.shape, np.int8)} if has_zero_point else {}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "one", "none"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "steps", *zero_point], ["b"], axis=1),
        helper.make_node("MatMul", ["a", "b"], ["z"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, LEFT.shape)]
    constants = {"one": np.array(1, np.float32), "none": np.array(0, np.uint8), "w": RIGHT, "steps": steps}
    model = changed(model_of(nodes, inputs, {**constants, **zero_point}))
    kinds = {one.name: one.data_type for one in model.graph.initializer}
    assert "w" not in kinds
    assert TensorProto.INT8 not in kinds.values(), "the signed weights are gone"
    np.testing.assert_allclose(ran(model, x=LEFT), EXACT * steps)


def test_what_is_quantized_as_it_runs_is_unsigned_too() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["y", "one", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "one", "zero"], ["b"]),
        helper.make_node("DequantizeLinear", ["x", "one", "none"], ["a"]),
        helper.make_node("MatMul", ["a", "b"], ["z"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.UINT8, LEFT.shape),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, RIGHT.shape),
    ]
    points = {"none": np.array(0, np.uint8), "zero": np.array(0, np.int8)}
    model = changed(model_of(nodes, inputs, {"one": np.array(1, np.float32), **points}))
    np.testing.assert_allclose(ran(model, x=LEFT, y=RIGHT.astype(np.float32)), EXACT)


def test_weights_of_seven_bits_and_those_beside_signed_bytes_are_left() -> None:
    for left, right in ((LEFT, RIGHT // 2), ((LEFT // 2).astype(np.int8), RIGHT)):
        kind = helper.np_dtype_to_tensor_dtype(left.dtype)
        inputs = [helper.make_tensor_value_info("x", kind, left.shape)]
        node = helper.make_node("MatMulInteger", ["x", "w"], ["z"])
        model = changed(model_of([node], inputs, {"w": right}, TensorProto.INT32))
        assert [one.data_type for one in model.graph.initializer] == [TensorProto.INT8]
        np.testing.assert_array_equal(ran(model, x=left), left.astype(np.int64) @ right)


def test_a_file_is_run_as_on_a_processor_with_products_of_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(originals, "multiplies_bytes", lambda: False)
    node = helper.make_node("MatMulInteger", ["x", "w"], ["z"])
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, LEFT.shape)]
    model = model_of([node], inputs, {"w": RIGHT}, TensorProto.INT32)
    beside = tmp_path / "beside.onnx"
    onnx.save(model, beside, save_as_external_data=True, location="beside.bin", size_threshold=0)
    for source in (model_of([node], inputs, {"w": RIGHT}, TensorProto.INT32), beside):
        run = originals.without_overflow_here(source)
        assert run is not None
        (found,) = run([LEFT])
        np.testing.assert_array_equal(found, EXACT)


def test_signed_bytes_on_both_sides_of_dequantized_products_become_unsigned() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "one", "below"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "one", "below"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("DequantizeLinear", ["w", "steps"], ["b"], axis=1),
        helper.make_node("MatMul", ["r", "b"], ["y"]),
        helper.make_node("QuantizeLinear", ["y", "coarse", "none"], ["s"]),
        helper.make_node("DequantizeLinear", ["s", "coarse", "none"], ["z"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, LEFT.shape)]
    numbers = {"one": 1, "coarse": 2**14, "steps": [0.5, 1, 2]}
    points = {"below": np.array(-128, np.int8), "none": np.array(0, np.int8), "w": RIGHT}
    constants = {name: np.array(number, np.float32) for name, number in numbers.items()} | points
    model = changed(model_of(nodes, inputs, constants))
    exact = np.clip(np.rint(EXACT * constants["steps"] / 2**14), -128, 127) * 2**14
    assert {one.data_type for one in model.graph.initializer} == {
        TensorProto.FLOAT,
        TensorProto.UINT8,
        TensorProto.INT8,
    }
    np.testing.assert_array_equal(ran(model, x=LEFT.astype(np.float32)), exact)


STEP = np.array(1, np.float32)
ZERO, SIGNED_ZERO = np.array(0, np.uint8), np.array(0, np.int8)
SIDES = {"x": LEFT, "one": STEP, "zero": ZERO, "w": RIGHT, "signed": SIGNED_ZERO, "coarse": np.array(2**15, np.float32)}


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("MatMulIntegerToFloat", ["x", "w", "one", "one", "zero", "signed"]),
        ("MatMulIntegerToFloat", ["x", "w", "one", "one"]),
        ("QGemm", ["x", "one", "zero", "w", "one", "signed"]),
        ("DynamicQuantizeMatMul", ["y", "w", "one"]),
        ("DynamicQuantizeMatMul", ["y", "w", "one", "signed"]),
    ],
)
def test_operators_of_onnxruntime_on_bytes_are_exact(name: str, operands: list[str]) -> None:
    node = helper.make_node(name, operands, ["z"], domain="com.microsoft")
    inputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, LEFT.shape)]
    model = model_of([node], inputs, {key: SIDES[key] for key in dict.fromkeys(operands) if key != "y"})
    np.testing.assert_allclose(ran(changed(model), y=LEFT.astype(np.float32)), EXACT, rtol=1e-6)


def test_a_quantized_product_is_exact_and_says_that_something_changed() -> None:
    operands = ["x", "one", "zero", "w", "one", "signed", "coarse", "middle"]
    node = helper.make_node("QLinearMatMul", operands, ["q"])
    back = helper.make_node("DequantizeLinear", ["q", "coarse", "middle"], ["z"])
    model = model_of([node, back], [], {**SIDES, "middle": np.array(128, np.uint8)}, opset=20)
    del model.graph.value_info[:]
    assert without_overflow(ir.from_proto(model).graph, needed=True)
    assert not without_overflow(ir.from_proto(model).graph, needed=False)
    np.testing.assert_array_equal(ran(changed(model)), np.rint(EXACT / 2**15) * 2**15)


def test_bytes_of_onnxruntimes_own_quantizations_are_exact_too() -> None:
    """AMD Quark writes these; sums of 255 * 127 came out as those that overflow, and were held to be right."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "one", "none"], ["q"], domain="com.microsoft"),
        helper.make_node("DequantizeLinear", ["q", "one", "none"], ["a"], domain="com.microsoft"),
        helper.make_node("DequantizeLinear", ["w", "one", "zero"], ["b"], domain="com.microsoft"),
        helper.make_node("MatMul", ["a", "b"], ["z"]),
    ]
    points = {"none": np.array(0, np.uint8), "zero": np.array(0, np.int8)}
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, LEFT.shape)]
    model = model_of(nodes, inputs, {"one": np.array(1, np.float32), "w": RIGHT, **points})
    x = LEFT.astype(np.float32)
    np.testing.assert_allclose(ran(changed(model), x=x), EXACT)
    read = rx.optimize(rx.from_onnx(model))
    assert op_counts(read)["com.microsoft.DequantizeLinear"] == 2, "the weights stay bytes"
    np.testing.assert_allclose(np.asarray(rx.build(read, "onnxruntime")["main"](x)), EXACT)


def _quantized(name: str) -> list[onnx.NodeProto]:
    return [
        helper.make_node("QuantizeLinear", [name, "step", "zero"], [f"{name}_codes"]),
        helper.make_node("DequantizeLinear", [f"{name}_codes", "step", "zero"], [f"{name}_numbers"]),
    ]


def test_signed_bytes_that_are_moved_before_a_product_become_unsigned() -> None:
    nodes = [
        *_quantized("y"),
        helper.make_node("Reshape", ["y_numbers", "sizes"], ["rows"]),
        helper.make_node("Transpose", ["rows"], ["turned"], perm=[1, 0]),
        helper.make_node("QuantizeLinear", ["x", "step", "middle"], ["x_codes"]),
        helper.make_node("DequantizeLinear", ["x_codes", "step", "middle"], ["x_numbers"]),
        helper.make_node("MatMul", ["x_numbers", "turned"], ["z"]),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 64]) for name in ("x", "y")]
    constants = {
        "step": np.array(1, np.float32),
        "zero": np.array(0, np.int8),
        "middle": np.array(0, np.uint8),
        "sizes": np.array([3, 64]),
    }
    inputs[1].type.tensor_type.shape.dim[0].dim_value = 3
    model = model_of(nodes, inputs, constants)
    x, y = np.full((4, 64), 255, np.float32), np.full((3, 64), 127, np.float32)
    found = np.asarray(rx.build(rx.from_onnx(model), "onnxruntime")["main"](x, y))
    np.testing.assert_array_equal(found, x @ y.T)


def test_signed_bytes_that_are_moved_and_read_by_no_product_run() -> None:
    nodes = [*_quantized("x"), helper.make_node("Reshape", ["x_numbers", "sizes"], ["z"])]
    constants = {"step": np.array(1, np.float32), "zero": np.array(0, np.int8), "sizes": np.array([4, 3])}
    model = model_of(nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 6])], constants)
    x = np.arange(12, dtype=np.float32).reshape(2, 6) * 20 - 120
    found = np.asarray(rx.build(rx.from_onnx(model), "onnxruntime")["main"](x))
    np.testing.assert_array_equal(found, np.clip(x, -128, 127).reshape(4, 3))
