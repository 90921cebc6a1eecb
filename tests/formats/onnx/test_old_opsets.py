"""Models of the first opsets mean what they meant then."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import regraft as rx
from regraft.formats import from_onnx
from tests.formats.onnx.single_node import assert_same, run_here, run_onnxruntime
from tests.formats.onnx.writing import onnx_model


def _model(opset: int | None, *nodes: onnx.NodeProto, **constants: np.ndarray) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    inputs = [helper.make_tensor_value_info(one.name, one.data_type, one.dims) for one in tensors]
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4]), *inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset or 1)], ir_version=3 if opset else 2)
    if opset is None:
        del model.opset_import[:]
    return model


@pytest.mark.parametrize("opset", [None, *range(1, 7)])
def test_old_broadcasts_and_reshapes_mean_what_they_meant(opset: int | None) -> None:
    bias = np.asarray([1, -2, 3, -4], np.float32)
    add = helper.make_node("Add", ["x", "b"], ["sum"], broadcast=1)
    act = helper.make_node("Relu", ["sum"], ["y"])
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    model = _model(opset, add, act, b=bias)
    expected = np.maximum(x + bias, 0)
    assert_same(run_here(model, {"x": x}), [expected])
    assert rx.to_onnx(rx.from_onnx(model)).opset_import[0].version == 13
    assert rx.optimize(model).ByteSize() <= model.ByteSize()


@pytest.mark.parametrize("opset", [1, 6])
def test_old_slopes_stand_for_channels(opset: int) -> None:
    slope = np.asarray([0.5, -1.0, 2.0], np.float32)
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    model = _model(opset, helper.make_node("PRelu", ["x", "slope"], ["y"]), slope=slope)
    assert_same(run_here(model, {"x": x}), [np.where(x < 0, slope[:, None] * x, x)])


_X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("axis", [0, 1, -2, 2])
@pytest.mark.parametrize(
    ("op_type", "function"),
    [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Greater", np.greater), ("Less", np.less)],
)
def test_an_old_operand_begins_at_the_axis_that_it_states(
    op_type: str, function: np.ufunc, axis: int, opset: int
) -> None:
    column = np.asarray([0.5, -1.0, 2.0, 3.0], np.float32)[: _X.shape[axis]]
    model = _model(opset, helper.make_node(op_type, ["x", "c"], ["y"], broadcast=1, axis=axis), c=column)
    if function(1.0, 1.0).dtype == bool:
        model.graph.output[0].type.tensor_type.elem_type = TensorProto.BOOL
    aligned = column.reshape([-1, *[1] * (2 - axis % 3)])
    assert_same(run_here(model, {"x": _X}), [function(_X, aligned)])


@pytest.mark.parametrize(
    ("opset", "op_type", "attributes", "expected"),
    [
        (1, "Cast", {"to": "DOUBLE"}, _X.astype(np.float64)),
        (
            1,
            "Pad",
            {"paddings": [1, 0, 0, 0, 0, 2], "value": 3.0},
            np.pad(_X, [(1, 0), (0, 0), (0, 2)], constant_values=3),
        ),
        (1, "Selu", {}, 1.0507 * np.where(_X < 0, 1.6732 * np.expm1(_X), _X)),
        (4, "Reshape", {"shape": [0, -1]}, _X.reshape(2, 12)),
        (6, "Sum", {}, _X),
    ],
)
def test_old_attributes_are_read(opset: int, op_type: str, attributes: dict[str, object], expected: np.ndarray) -> None:
    model = _model(opset, helper.make_node(op_type, ["x"], ["y"], **attributes))
    model.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(expected.dtype)
    assert_same(run_here(model, {"x": _X}), [expected.astype(expected.dtype)])
    assert rx.optimize(model) == model


@pytest.mark.parametrize("axis", [0, 2])
def test_an_old_tile_is_of_one_axis(axis: int) -> None:
    inputs = {"n": np.asarray([3], np.float32), "a": np.asarray([axis], np.float32)}
    model = _model(5, helper.make_node("Tile", ["x", "n", "a"], ["y"]), **inputs)
    assert_same(
        run_here(model, {"x": _X}),
        [np.tile(_X, [3 if one == axis else 1 for one in range(axis + 1)] + [1] * (2 - axis))],
    )


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("ThresholdedRelu", {"alpha": 0.5}),
        ("Affine", {"alpha": 2.0, "beta": 0.5}),
        ("ParametricSoftplus", {"alpha": 2.0, "beta": 0.5}),
        ("ScaledTanh", {"alpha": 2.0, "beta": 0.5}),
        ("ImageScaler", {"bias": [0.1, 0.2, 0.3], "scale": 2.0}),
        ("Crop", {"border": [1, 0, 1, 2]}),
        ("Crop", {"border": [1, 0, 1, 1], "scale": [2, 3]}),
        ("Scale", {"scale": 3.0}),
        ("MeanVarianceNormalization", {"across_channels": 1}),
        ("MeanVarianceNormalization", {"normalize_variance": 0}),
    ],
)
def test_operators_that_onnx_once_tried_are_read(op_type: str, attributes: dict[str, object]) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 4, 5)).astype(np.float32)
    nodes = [helper.make_node("Identity", ["x"], ["a"]), helper.make_node(op_type, ["a"], ["y"], **attributes)]
    model = onnx_model(nodes, {"x": [*x.shape]}, ["y"], opset=8, ir_version=6)
    expected = run_onnxruntime(model, {"x": x})
    assert_same(run_here(model, {"x": x}), expected)
    assert_same(run_onnxruntime(rx.optimize(model), {"x": x}), expected)


def test_a_batch_norm_once_had_numbers_for_each_element() -> None:
    numbers = {name: np.random.default_rng(1).random((3, 4)).astype(np.float32) for name in "gbmv"}
    given = {"x": _X, **numbers}
    node = helper.make_node("BatchNormalization", list(given), ["y"], spatial=0)
    model = onnx_model([node], {name: [*array.shape] for name, array in given.items()}, ["y"], opset=7, ir_version=6)
    assert_same(run_here(model, given), run_onnxruntime(model, given))


def test_a_function_may_be_of_another_opset_than_its_model() -> None:
    body = [helper.make_node("Relu", ["a"], ["t"]), helper.make_node("Add", ["t", "a"], ["b"])]
    function = helper.make_function("own", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 18)])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Twice", ["x"], ["y"], domain="own")], "g", [x], [y])
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=9, functions=[function])
    assert [node.op_type for node in rx.optimize(model).graph.node] == ["Relu", "Add"]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("sizes", [[2, 3, 4], [2, "n", None]])
@pytest.mark.parametrize("op_type", ["Hardmax", "Softmax", "LogSoftmax"])
def test_before_opset_13_a_softmax_is_over_all_axes_from_its_own_on(
    op_type: str, sizes: list[int | str | None], axis: int
) -> None:
    x = np.random.default_rng(axis).standard_normal((2, 3, 4)).astype(np.float32)
    model = _model(11, helper.make_node(op_type, ["x"], ["y"], axis=axis))
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes))
    expected = run_onnxruntime(model, {"x": x})
    assert_same(run_here(model, {"x": x}), expected)
    assert_same(run_onnxruntime(rx.optimize(model), {"x": x}), expected)


@pytest.mark.parametrize("sizes", [[2, 3, 4], [2, 4, 1], ["n", 4, 1]])
@pytest.mark.parametrize("op_type", ["Hardmax", "LogSoftmax"])
def test_a_softmax_of_before_opset_13_over_one_axis_is_the_same_node_in_opset_13(
    op_type: str, sizes: list[int | str]
) -> None:
    axis = 1 if sizes[-1] == 1 else 2
    model = _brought_to_opset_13(helper.make_node(op_type, ["b"], ["y"], axis=axis), sizes, TensorProto.FLOAT)
    result = rx.optimize(model, level=1)
    assert (result.opset_import[0].version, [node.op_type for node in result.graph.node]) == (13, [op_type])
    x = np.random.default_rng(0).standard_normal([2, *sizes[1:]]).astype(np.float32)
    assert_same(run_onnxruntime(result, {"x": x}), run_onnxruntime(model, {"x": x}))


def test_a_mean_variance_normalization_of_float16_is_computed_in_opset_13() -> None:
    node = helper.make_node("MeanVarianceNormalization", ["b"], ["y"], axes=[0, 2])
    model = _brought_to_opset_13(node, [2, 3, 4], TensorProto.FLOAT16)
    result = rx.optimize(model, level=1)
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float16)
    assert_same(run_onnxruntime(result, {"x": x}), run_onnxruntime(model, {"x": x}))


def _brought_to_opset_13(node: onnx.NodeProto, sizes: list[int | str], kind: int) -> onnx.ModelProto:
    """A model of opset 11 with ``node`` over ``b``, and two transposes before it that a rewrite takes away."""
    there, back = (helper.make_node("Transpose", [x], [y], perm=[1, 0, 2]) for x, y in ("xa", "ab"))
    x, y = (helper.make_tensor_value_info(name, kind, sizes) for name in "xy")
    graph = helper.make_graph([there, back, node], "old", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)


@pytest.mark.parametrize(("opset", "kind"), [(7, TensorProto.FLOAT), (10, TensorProto.BOOL), (12, TensorProto.BOOL)])
def test_the_mask_of_a_dropout_that_drops_nothing_is_that_of_the_runtime(opset: int, kind: int) -> None:
    x = np.ones((2, 3, 4), np.float32)
    model = _model(opset, helper.make_node("Dropout", ["x"], ["y", "mask"]))
    model.graph.output.append(helper.make_tensor_value_info("mask", kind, None))
    assert_same(run_here(model, {"x": x}), run_onnxruntime(model, {"x": x}))


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_a_file_of_an_old_opset_that_nothing_rewrites_comes_back_as_it_was(level: int) -> None:
    nodes = [helper.make_node("Elu", ["x"], ["a"]), helper.make_node("Sin", ["a"], ["y"])]
    model = onnx_model(nodes, {"x": ["n", 4]}, {"y": ["n", 4]}, opset=11, ir_version=6)
    assert rx.optimize(model, level=level) == model
    nodes.insert(1, helper.make_node("Identity", ["a"], ["b"]))
    nodes[2].input[0] = "b"
    model = onnx_model(nodes, {"x": ["n", 4]}, {"y": ["n", 4]}, opset=11, ir_version=6)
    assert [node.op_type for node in rx.optimize(model, level=level).graph.node] == ["Elu", "Sin"]


def test_a_softmax_of_an_old_opset_takes_nothing() -> None:
    model = onnx_model([helper.make_node("Softmax", ["x"], ["y"])], {"x": [2, 2, 0, 3]}, ["y"], opset=8, ir_version=6)
    assert rx.build(from_onnx(model), target="numpy")["main"](np.zeros((2, 2, 0, 3), "float32")).shape == (2, 2, 0, 3)


@pytest.mark.parametrize("opset", [1, 2, 3, 4, 5, 6])
def test_bias_along_an_axis_behind_a_product_is_read_from_each_of_the_first_opsets(opset: int) -> None:
    weights, bias = np.arange(8, dtype=np.float32).reshape(4, 2) - 3, np.array([1, -2], np.float32)
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["g"], broadcast=1),
        helper.make_node("Relu", ["g"], ["r"]),
        helper.make_node("Add", ["r", "b"], ["y"], broadcast=1, axis=1),
    ]
    inputs = {"x": [3, 4], "w": [4, 2], "b": [2]}
    model = onnx_model(nodes, inputs, {"y": [3, 2]}, {"w": weights, "b": bias}, opset=opset, ir_version=3)
    x = np.arange(12, dtype=np.float32).reshape(3, 4) / 4 - 1
    [found] = run_here(model, {"x": x})
    np.testing.assert_allclose(found, np.maximum(x @ weights + bias, 0) + bias, rtol=1e-6)
    assert rx.optimize(model) == model
