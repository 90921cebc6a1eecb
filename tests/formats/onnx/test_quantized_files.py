"""Files of quantizers: what was not rewritten comes back as the operators that hold codes, on every engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import regraft as rx
from regraft.formats import ConvertError
from regraft.transform import op_counts
from tests.kit import assert_close

ROWS, COLUMNS = 64, 32


def _value(name: str, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _plain(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """The results of ONNX Runtime for the nodes as they stand."""
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), settings).run(None, {"x": x})[0]


def _in_blocks(dtype: int, block: int, rows: int = ROWS, *, shifted: bool = False) -> onnx.ModelProto:
    """``(x * 1) @ dequantized``, whose weights have a scale for each block of rows."""
    rng = np.random.default_rng(0)
    blocks = -(-rows // block)
    codes, scales = rng.integers(0, 8, (rows, COLUMNS)), rng.random((blocks, COLUMNS)) + 0.5
    weights = [
        helper.make_tensor("codes", dtype, codes.shape, codes.reshape(-1).tolist()),
        helper.make_tensor("scales", TensorProto.FLOAT, scales.shape, scales.reshape(-1).tolist()),
        helper.make_tensor("one", TensorProto.FLOAT, [], [1.0]),
    ]
    if shifted:
        zeros = rng.integers(0, 8, scales.shape).reshape(-1).tolist()
        weights.append(helper.make_tensor("zeros", dtype, scales.shape, zeros))
    nodes = [
        helper.make_node("Mul", ["x", "one"], ["same"]),
        helper.make_node(
            "DequantizeLinear", ["codes", "scales", *(["zeros"] * shifted)], ["w"], axis=0, block_size=block
        ),
        helper.make_node("MatMul", ["same", "w"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "blocks", [_value("x", 2, rows)], [_value("y", 2, COLUMNS)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("dtype", [TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8])
def test_weights_in_blocks_stay_one_operator_of_their_codes(tmp_path: Path, dtype: int, shifted: bool) -> None:
    model = _in_blocks(dtype, 16, shifted=shifted)
    onnx.save(model, tmp_path / "model.onnx")
    assert op_counts(rx.from_onnx(model))["relax.dequantize"] == 1
    rx.optimize(tmp_path / "model.onnx", output=tmp_path / "out.onnx", verify=True)
    written = onnx.load(tmp_path / "out.onnx")
    assert [node.op_type for node in written.graph.node] == ["DequantizeLinear", "MatMul"]
    fresh = rx.to_onnx(rx.from_onnx(model))
    assert "DequantizeLinear" in [node.op_type for node in fresh.graph.node]
    x = np.random.default_rng(1).standard_normal((2, ROWS)).astype(np.float32)
    for result in (written, fresh):
        assert_close(_plain(result, x), _plain(model, x))


@pytest.mark.parametrize("shifted", [False, True])
def test_a_last_block_that_is_not_full_takes_two_operators_in_a_fresh_file(shifted: bool) -> None:
    model = _in_blocks(TensorProto.INT4, 32, 48, shifted=shifted)
    fresh = rx.to_onnx(rx.parse(rx.from_onnx(model).script()))  # a text does not say which nodes it comes from
    kinds = [node.op_type for node in fresh.graph.node]
    assert [kind for kind in kinds if kind != "Mul"] == ["DequantizeLinear", "Slice", "MatMul"]
    x = np.random.default_rng(1).standard_normal((2, 48)).astype(np.float32)
    assert_close(_plain(fresh, x), _plain(model, x))


@pytest.mark.parametrize("rows", [24, 48], ids=["one block", "a block and a half"])
@pytest.mark.parametrize("target", ["numpy", "onnxruntime", "torch", "openvino"])
def test_blocks_that_end_behind_the_rows_have_the_values_of_the_file(target: str, rows: int) -> None:
    model = _in_blocks(TensorProto.INT4, 32, rows)
    x = np.random.default_rng(1).standard_normal((2, rows)).astype(np.float32)
    assert_close(np.asarray(rx.build(rx.from_onnx(model), target)["main"](x)), _plain(model, x))


def test_products_with_blocks_are_computed_in_float32_by_the_default_engine() -> None:
    model = _in_blocks(TensorProto.INT4, 32)
    x = np.random.default_rng(1).standard_normal((2, ROWS)).astype(np.float32)
    assert_close(np.asarray(rx.build(rx.from_onnx(model))["main"](x)), _plain(model, x))


def test_blocks_longer_than_a_row_run_on_openvino() -> None:
    rng = np.random.default_rng(0)
    packed, scales = rng.integers(0, 256, (8, 1, 64), np.uint8), rng.random((8, 1)).astype(np.float32)
    attributes: dict[str, Any] = {"K": 24, "N": 8, "bits": 4, "block_size": 128}
    node = helper.make_node("MatMulNBits", ["x", "codes", "scales"], ["y"], domain="com.microsoft", **attributes)
    x = rng.standard_normal((2, 24)).astype(np.float32)
    model = _product(node, packed, scales)
    assert_close(np.asarray(rx.build(rx.from_onnx(model), "openvino")["main"](x)), _plain(model, x))


def _product(node: onnx.NodeProto, packed: np.ndarray, scales: np.ndarray) -> onnx.ModelProto:
    weights = [onnx.numpy_helper.from_array(packed, "codes"), onnx.numpy_helper.from_array(scales, "scales")]
    graph = helper.make_graph([node], "product", [_value("x", 2, 24)], [_value("y", 2, 8)], weights)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.mark.parametrize("dtype", [TensorProto.INT4, TensorProto.UINT4])
def test_codes_of_four_bits_in_files_of_old_opsets_run_on_pytorch(dtype: int) -> None:
    """ONNX Runtime's quantizer writes them with its own operator where the opset has none."""
    codes = helper.make_tensor("codes", dtype, [8, 4], np.random.default_rng(0).integers(0, 8, 32).tolist())
    zero = helper.make_tensor("zero", dtype, [], [3])
    scale = helper.make_tensor("scale", TensorProto.FLOAT, [], [0.5])
    nodes = [
        helper.make_node("DequantizeLinear", ["codes", "scale", "zero"], ["w"], domain="com.microsoft"),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "old", [_value("x", 2, 8)], [_value("y", 2, 4)], [codes, zero, scale])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    x = np.random.default_rng(1).standard_normal((2, 8)).astype(np.float32)
    assert_close(np.asarray(rx.build(rx.from_onnx(model), "torch")["main"](x)), _plain(model, x))


@pytest.mark.parametrize(("dtype", "least"), [(TensorProto.INT4, -8), (TensorProto.UINT4, 0)])
def test_rows_of_a_table_in_blocks_are_looked_up_on_pytorch(dtype: int, least: int) -> None:
    rng = np.random.default_rng(0)
    codes = helper.make_tensor("codes", dtype, [6, 32], rng.integers(least, least + 16, 192).tolist())
    scales = helper.make_tensor("scales", TensorProto.FLOAT, [6, 2], rng.random(12).tolist())
    zeros = helper.make_tensor("zeros", dtype, [6, 2], rng.integers(least, least + 16, 12).tolist())
    attributes = {"gather_axis": 0, "quantize_axis": 1, "block_size": 16}
    node = helper.make_node(
        "GatherBlockQuantized", ["codes", "x", "scales", "zeros"], ["y"], domain="com.microsoft", **attributes
    )
    places = helper.make_tensor_value_info("x", TensorProto.INT64, [2, 3])
    graph = helper.make_graph([node], "table", [places], [_value("y", 2, 3, 32)], [codes, scales, zeros])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    x = np.array([[5, 0, 2], [1, 1, 4]])
    assert_close(np.asarray(rx.build(rx.from_onnx(model), "torch")["main"](x)), _plain(model, x))


@pytest.mark.parametrize(
    ("shape", "sizes", "axis", "block"),
    [((32, 24), [32, 1], 1, 24), ((32, 24), [32], 0, 0), ((32, 24), [32, 3], 1, 8), ((24, 32), [32], 1, 0)],
    ids=["one block of a row", "one for each row", "blocks of a row", "one for each row, turned"],
)
def test_scales_of_rows_have_the_values_of_the_file_on_openvino(
    shape: tuple[int, int], sizes: list[int], axis: int, block: int
) -> None:
    rng = np.random.default_rng(0)
    weights = [
        onnx.numpy_helper.from_array(rng.integers(0, 256, shape, np.uint8), "codes"),
        onnx.numpy_helper.from_array(rng.random(sizes, np.float32), "scales"),
    ]
    blocks = {"block_size": block} if block else {}
    nodes = [helper.make_node("DequantizeLinear", ["codes", "scales"], ["w"], axis=axis, **blocks)]
    if shape == (24, 32):
        nodes.append(helper.make_node("Transpose", ["w"], ["turned"], perm=[1, 0]))
    nodes.append(helper.make_node("MatMul", ["x", nodes[-1].output[0]], ["y"]))
    graph = helper.make_graph(nodes, "rows", [_value("x", 2, 32)], [_value("y", 2, 24)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = rng.standard_normal((2, 32)).astype(np.float32)
    assert_close(np.asarray(rx.build(rx.from_onnx(model), "openvino")["main"](x)), _plain(model, x))


@pytest.mark.parametrize(
    ("shape", "sizes", "axis", "block", "kind"),
    [
        ((5, 6), (1, 6), 0, 5, "Gather"),
        ((32, 6), (2, 6), 0, 16, "Gather"),
        ((5, 32), (5, 2), 1, 16, "Gather"),
        ((5, 6), (6,), 1, 0, "Gather"),
        ((12, 6), (2, 6), 0, 6, "MatMul"),
        ((10, 6), (2, 6), 0, 5, "MatMul"),
    ],
    ids=["one block", "blocks of columns", "blocks of rows", "columns", "blocks of 6", "blocks of 5"],
)
def test_tables_and_blocks_of_any_size_have_the_values_of_the_file_on_openvino(
    shape: tuple[int, int], sizes: tuple[int, ...], axis: int, block: int, kind: str
) -> None:
    """OpenVINO ended the process on scales of columns of a table, which it reads as those of rows."""
    rng = np.random.default_rng(0)
    weights = [
        onnx.numpy_helper.from_array(rng.integers(0, 256, shape, np.uint8), "codes"),
        onnx.numpy_helper.from_array(rng.random(sizes, np.float32), "scales"),
    ]
    looked_up = kind == "Gather"
    nodes = [
        helper.make_node(
            "DequantizeLinear", ["codes", "scales"], ["w"], axis=axis, **({"block_size": block} if block else {})
        ),
        helper.make_node(kind, ["w", "x"] if looked_up else ["x", "w"], ["y"]),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.INT64, [3]) if looked_up else _value("x", 3, shape[0])
    graph = helper.make_graph(nodes, "any", [given], [_value("y", 3, shape[1])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.array([4, 0, 2]) if looked_up else rng.standard_normal((3, shape[0])).astype(np.float32)
    assert_close(np.asarray(rx.build(rx.from_onnx(model), "openvino")["main"](x)), _plain(model, x))


def test_a_bias_after_a_product_with_blocks_is_an_operand_of_it() -> None:
    rng = np.random.default_rng(0)
    packed, scales = rng.integers(0, 256, (8, 2, 8), np.uint8), rng.random((8, 2)).astype(np.float32)
    attributes: dict[str, Any] = {"K": 24, "N": 8, "bits": 4, "block_size": 16, "accuracy_level": 4}
    node = helper.make_node(
        "MatMulNBits", ["x", "codes", "scales", "", "", "bias"], ["y"], domain="com.microsoft", **attributes
    )
    model = _product(node, packed, scales)
    model.graph.initializer.append(onnx.numpy_helper.from_array(rng.random(8, np.float32), "bias"))
    program = rx.from_onnx(model)
    assert op_counts(program) == {"relax.matmul_blocks": 1, "relax.add": 1}
    x = rng.standard_normal((2, 24)).astype(np.float32)
    for written in (rx.to_onnx(program), rx.optimize(model, level=3)):
        assert [one.op_type for one in written.graph.node] == ["MatMulNBits"]
        assert_close(_plain(written, x), _plain(model, x))


@pytest.mark.parametrize("level", [2, 3])
def test_products_of_one_left_side_with_weights_in_bytes_stay_apart(level: int) -> None:
    """An engine multiplies bytes where it finds them; joined, they would be numbers that are made in each run."""
    rng = np.random.default_rng(0)
    nodes, weights, results = list[onnx.NodeProto](), list[onnx.TensorProto](), list[onnx.ValueInfoProto]()
    for name in ("q", "k", "v"):
        weights.append(onnx.numpy_helper.from_array(rng.integers(-64, 64, (256, 64)).astype(np.int8), f"{name}_codes"))
        weights.append(onnx.numpy_helper.from_array(rng.random(64, np.float32), f"{name}_scales"))
        nodes += [
            helper.make_node("DequantizeLinear", [f"{name}_codes", f"{name}_scales"], [f"{name}_w"], axis=1),
            helper.make_node("MatMul", ["x", f"{name}_w"], [name]),
        ]
        results.append(_value(name, 8, 64))
    graph = helper.make_graph(nodes, "apart", [_value("x", 8, 256)], results, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    written = rx.optimize(model, level=level)
    assert sorted(node.op_type for node in written.graph.node) == ["DequantizeLinear"] * 3 + ["MatMul"] * 3


def test_a_bias_that_is_quantized_twice_beside_a_quantized_product_runs_on_openvino() -> None:
    rng = np.random.default_rng(0)
    constants = {
        "codes": rng.integers(-64, 64, (24, 8)).astype(np.int8),
        "scales": rng.random(8, np.float32) / 64,
        "step": np.array(1 / 32, np.float32),
        "zero": np.array(128, np.uint8),
        "bias": rng.integers(-99, 99, 8).astype(np.int32),
    }
    nodes = [
        *_through_bytes("x", "x_numbers"),
        helper.make_node("DequantizeLinear", ["codes", "scales"], ["w"], axis=1),
        helper.make_node("MatMul", ["x_numbers", "w"], ["product"]),
        *_through_bytes("product", "rounded"),
        helper.make_node("DequantizeLinear", ["bias", "step"], ["shared"]),
        *_through_bytes("shared", "summand"),
        helper.make_node("Add", ["summand", "rounded"], ["sum"]),
        *_through_bytes("sum", "y"),
    ]
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "bias", [_value("x", 2, 24)], [_value("y", 2, 8)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    x = rng.integers(-90, 90, (2, 24)).astype(np.float32) / 32
    assert_close(np.asarray(rx.build(rx.from_onnx(model), "openvino")["main"](x)), _plain(model, x))


def _through_bytes(name: str, result: str) -> list[onnx.NodeProto]:
    return [
        helper.make_node("QuantizeLinear", [name, "step", "zero"], [f"{name}_bytes"]),
        helper.make_node("DequantizeLinear", [f"{name}_bytes", "step", "zero"], [result]),
    ]


@pytest.mark.parametrize("target", ["numpy", "onnxruntime", "torch", "openvino"])
@pytest.mark.parametrize(("bits", "shifted"), [(4, False), (4, True), (2, True), (8, True)])
def test_rows_that_name_their_block_have_its_scale_and_zero_point(target: str, bits: int, shifted: bool) -> None:
    """ONNX Runtime's kernel does not read the zero points then, and has only one for 4 bits."""
    rng = np.random.default_rng(bits)
    per, blocks = 8 // bits, 4
    groups = rng.permutation(np.repeat(np.arange(blocks, dtype=np.int32), 16))
    packed, zeros = (
        rng.integers(0, 256, (8, blocks, 16 // per), np.uint8),
        rng.integers(0, 256, (8, 4 // per), np.uint8),
    )
    scales = rng.random((8, blocks), np.float32)
    names = ["x", "codes", "scales", "zeros" if shifted else "", "groups"]
    attributes: dict[str, Any] = {"K": 64, "N": 8, "bits": bits, "block_size": 16}
    node = helper.make_node("MatMulNBits", names, ["y"], domain="com.microsoft", **attributes)
    held = {"codes": packed, "scales": scales, "groups": groups, **({"zeros": zeros} if shifted else {})}
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in held.items()]
    graph = helper.make_graph([node], "groups", [_value("x", 2, 64)], [_value("y", 2, 8)], weights)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    program = rx.from_onnx(helper.make_model(graph, opset_imports=imports, ir_version=10))
    middle = _codes(zeros, bits) if shifted else np.full((8, blocks), 2 ** (bits - 1))
    matrix = (_codes(packed.reshape(8, -1), bits) - middle[:, groups]) * scales[:, groups]
    x = rng.standard_normal((2, 64)).astype(np.float32)
    assert_close(np.asarray(rx.build(program, target)["main"](x)), x @ matrix.T.astype(np.float32))


def _codes(rows: np.ndarray, bits: int) -> np.ndarray:
    """The numbers of rows of bytes, the lowest bits first."""
    parts = [(rows >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(len(rows), -1).astype(np.float32)


def _stored_product(level: int, bits: int, rows: int, *, shifted: bool, biased: bool = False) -> onnx.ModelProto:
    """``x @ w``, and maybe a bias, as ONNX Runtime's own operator, with weights in blocks of 16 rows."""
    rng = np.random.default_rng(rows)
    blocks = -(-rows // 16)
    held = {
        "codes": rng.integers(0, 256, (8, blocks, 2 * bits), np.uint8),
        "scales": rng.random((8, blocks), np.float32),
        "zeros": rng.integers(0, 256, (8, -(-blocks * bits // 8)), np.uint8),
        "bias": rng.random(8, np.float32),
    }
    attributes: dict[str, Any] = {"K": rows, "N": 8, "bits": bits, "block_size": 16, "accuracy_level": level}
    names = ["x", "codes", "scales", "zeros" if shifted else "", "", "bias" if biased else ""]
    node = helper.make_node("MatMulNBits", names, ["y"], name="product", domain="com.microsoft", **attributes)
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in held.items() if name in names]
    graph = helper.make_graph([node], "stored", [_value("x", 2, rows)], [_value("y", 2, 8)], weights)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize(("bits", "rows"), [(4, 64), (8, 64), (4, 40), (2, 64)])
def test_weights_in_blocks_are_one_program_as_operators_of_onnx_and_of_onnx_runtime(
    tmp_path: Path, bits: int, rows: int, shifted: bool
) -> None:
    model = _stored_product(1, bits, rows, shifted=shifted)
    program = rx.from_onnx(model)
    standard = rx.to_onnx(rx.parse(program.script()))  # a text does not say which node it comes from
    assert {node.domain for node in standard.graph.node} == {""}
    assert "DequantizeLinear" in [node.op_type for node in standard.graph.node]
    rx.assert_structural_equal(rx.from_onnx(standard)["main"], program["main"])
    onnx.save(model, tmp_path / "model.onnx")
    rx.optimize(tmp_path / "model.onnx", output=tmp_path / "out.onnx", verify=True)
    held = {tensor.raw_data for tensor in model.graph.initializer}
    for written in (rx.to_onnx(program), onnx.load(tmp_path / "out.onnx")):
        [node] = written.graph.node
        assert sorted(map(str, node.attribute)) == sorted(map(str, model.graph.node[0].attribute))
        # The other half of the last byte of an odd number of codes is nobody's.
        assert rows == 40 or {tensor.raw_data for tensor in written.graph.initializer} == held
    x = np.random.default_rng(1).standard_normal((2, rows)).astype(np.float32)
    expected = _plain(model, x)
    assert_close(_plain(standard, x), expected)
    for target in ("numpy", "onnxruntime", "torch", "openvino"):
        options = {"exact": True} if target == "openvino" else {}
        assert_close(np.asarray(rx.build(program, target, **options)["main"](x)), expected)


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("bits", [2, 4])
def test_products_that_may_round_their_other_side_are_an_operator_that_says_so(bits: int, shifted: bool) -> None:
    model = _stored_product(4, bits, 40, shifted=shifted, biased=True)
    program = rx.from_onnx(model)
    assert op_counts(program) == {"relax.matmul_blocks": 1, "relax.add": 1}
    [node] = rx.to_onnx(program).graph.node
    assert helper.get_node_attr_value(node, "accuracy_level") == 4
    x = np.random.default_rng(1).standard_normal((2, 40)).astype(np.float32)
    exact = np.asarray(rx.build(program, "numpy")["main"](x))
    assert_close(exact, _plain(_stored_product(0, bits, 40, shifted=shifted, biased=True), x))
    assert_close(np.asarray(rx.build(program)["main"](x)), _plain(model, x))


def test_scales_that_are_not_those_of_the_blocks_are_refused_with_both_shapes() -> None:
    """A compressor of others writes tables of words so, and ONNX Runtime refuses them when it runs."""
    node = helper.make_node("DequantizeLinear", ["codes", "scales"], ["y"], name="words", axis=0, block_size=4)
    weights = {"codes": np.zeros((16, 8), np.int8), "scales": np.ones((16, 2), np.float32)}
    constants = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [16, 8])
    model = helper.make_model(
        helper.make_graph([node], "words", [], [y], constants), opset_imports=[helper.make_opsetid("", 21)]
    )
    with pytest.raises(ConvertError, match=r"scales of shape \(16, 2\).*blocks of 4 along axis 0 of \(16, 8\)"):
        rx.from_onnx(model)
