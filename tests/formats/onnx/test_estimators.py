"""Estimators of ``ai.onnx.ml``: carried through as they came, and nodes that are many operators kept whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import regraft as rx
from tests.formats.onnx.single_node import assert_same, run_onnxruntime
from tests.formats.onnx.writing import onnx_model

_ML = "ai.onnx.ml"
_TREE: dict[str, Any] = {
    "n_targets": 1,
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [1, 0, 0],
    "nodes_values": [0.25, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 0],
    "target_weights": [-1.5, 2.5],
}


def _model(*nodes: onnx.NodeProto, dtype: int = TensorProto.FLOAT, version: int = 1) -> onnx.ModelProto:
    outputs, domains = {"y": ["n", None]}, {_ML: version}
    return onnx_model(nodes, {"x": ["n", 2]}, outputs, opset=15, ir_version=8, output_dtype=dtype, domains=domains)


def _node(op_type: str, given: str, result: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, [given], [result], op_type.lower(), domain=_ML, **attributes)


@pytest.mark.parametrize(
    "nodes",
    [
        [_node("TreeEnsembleRegressor", "x", "y", **_TREE)],
        [
            _node("Scaler", "x", "scaled", offset=[1.0, 2.0], scale=[0.5, 3.0]),
            _node("LinearRegressor", "scaled", "y", coefficients=[0.5, -1.0], intercepts=[0.25]),
        ],
        [
            _node("Normalizer", "x", "normal", norm="L2"),
            _node("Imputer", "normal", "filled", imputed_value_floats=[0.0], replaced_value_float=float("nan")),
            helper.make_node("Relu", ["filled"], ["y"], "relu"),
        ],
    ],
    ids=lambda nodes: "+".join(node.op_type for node in nodes),
)
def test_estimators_come_back_as_they_were(nodes: list[onnx.NodeProto]) -> None:
    model = _model(*nodes)
    written = rx.optimize(model)
    assert [(one.op_type, one.name) for one in written.graph.node] == [(one.op_type, one.name) for one in nodes]
    assert {one.domain: one.version for one in written.opset_import} == {"": 15, _ML: 1}
    inputs = {"x": np.random.default_rng(3).standard_normal((5, 2)).astype(np.float32)}
    assert_same(run_onnxruntime(written, inputs), run_onnxruntime(model, inputs))


def test_nodes_that_are_many_operators_here_are_one_for_the_passes() -> None:
    node = helper.make_node
    nodes = [
        node("LRN", ["x4"], ["a"], "first", size=3, alpha=1.0, beta=1.0),
        node("Celu", ["a"], ["b"], "second", alpha=2.0),
        node("LpPool", ["b"], ["y"], "third", kernel_shape=[2, 2], p=2),
    ]
    graph = helper.make_graph(
        nodes,
        "many",
        [helper.make_tensor_value_info("x4", TensorProto.FLOAT, ["n", 4, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    written = rx.optimize(model, level="aggressive")
    assert [one.name for one in written.graph.node] == ["first", "second", "third"]
    inputs = {"x4": np.random.default_rng(4).standard_normal((2, 4, 5, 5)).astype(np.float32)}
    assert_same(run_onnxruntime(written, inputs), run_onnxruntime(model, inputs))


def test_scores_of_a_classifier_have_a_row_for_each_row_of_data() -> None:
    """The model states no shape between its nodes, and taking a column needs to know that there are rows."""
    classifier = helper.make_node(
        "LinearClassifier",
        ["x"],
        ["label", "scores"],
        domain=_ML,
        coefficients=[0.5, -1.0, 0.25, 2.0],
        intercepts=[0.25, -0.5],
        classlabels_ints=[0, 1],
    )
    column = helper.make_node("ArrayFeatureExtractor", ["scores", "which"], ["y"], domain=_ML)
    model = _model(classifier, column)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1], "int64"), "which"))
    inputs = {"x": np.random.default_rng(4).standard_normal((5, 2)).astype(np.float32)}
    written = rx.optimize(model)
    assert_same(run_onnxruntime(written, inputs), run_onnxruntime(model, inputs))


@pytest.mark.parametrize(
    "node",
    [
        _node("Scaler", "x", "kept", offset=[1.0, 2.0], scale=[0.5, 3.0]),
        _node("Normalizer", "x", "kept", norm="MAX"),
        _node("Imputer", "x", "kept", imputed_value_floats=[0.0], replaced_value_float=1.0),
    ],
    ids=lambda node: node.op_type,
)
def test_columns_are_taken_of_what_keeps_the_shape_of_its_operand(node: onnx.NodeProto) -> None:
    column = helper.make_node("ArrayFeatureExtractor", ["kept", "which"], ["y"], domain=_ML)
    model = _model(node, column)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1], "int64"), "which"))
    inputs = {"x": np.random.default_rng(4).standard_normal((5, 2)).astype(np.float32)}
    written = rx.optimize(model)
    assert_same(run_onnxruntime(written, inputs), run_onnxruntime(model, inputs))
