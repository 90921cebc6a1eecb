"""Trees, n-grams and the like, beside ONNX's evaluator and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import regraft as rx
from regraft.formats import UnsupportedOperatorError, from_onnx, to_onnx
from tests.formats.onnx.single_node import assert_same, check_node, one_node, run_here, run_onnxruntime
from tests.formats.onnx.writing import onnx_model
from tests.kit import assert_close

DOMAIN = "ai.onnx.ml"


def check_beside_onnxruntime(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> None:
    expected = run_onnxruntime(model, inputs)
    for target in ("numpy", "onnxruntime"):
        assert_same(run_here(model, inputs, target), expected)


# --- trees: two of them, one node that has a leaf on both sides

TREES: dict[str, Any] = {
    "n_targets": 3,
    "tree_roots": [0, 3],
    "nodes_featureids": [0, 2, 1, 1],
    "nodes_truenodeids": [1, 0, 2, 4],
    "nodes_falsenodeids": [2, 1, 3, 5],
    "nodes_trueleafs": [0, 1, 1, 1],
    "nodes_falseleafs": [0, 1, 1, 1],
    "leaf_targetids": [0, 1, 2, 0, 2, 0],
}


def tree_model(modes: list[int], kind: int = TensorProto.FLOAT, **attrs: Any) -> onnx.ModelProto:
    def tensor(values: list[float], dtype: int = kind) -> onnx.TensorProto:
        return helper.make_tensor("t", dtype, (len(values),), values)

    node = helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain=DOMAIN,
        nodes_modes=tensor([*map(float, modes)], TensorProto.UINT8),
        nodes_splits=tensor([0.25, -0.5, 0.5, 0.0]),
        leaf_weights=tensor([1.0, 2.5, -3.0, 4.0, -5.0, 6.5]),
        **{**TREES, **attrs},
    )
    inputs = [helper.make_tensor_value_info("x", kind, ("n", 3))]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", kind, ("n", 3))])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 5)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


SAMPLES = np.random.default_rng(0).choice([-0.5, -0.25, 0.0, 0.25, 0.5, 0.75], (40, 3))


@pytest.mark.parametrize("modes", [[0, 1, 2, 3], [4, 5, 0, 1], [3, 3, 3, 3]], ids=str)
@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE])
def test_trees_compare_in_all_ways(modes: list[int], kind: int) -> None:
    x = SAMPLES.astype(helper.tensor_dtype_to_np_dtype(kind))
    check_beside_onnxruntime(tree_model(modes, kind), {"x": x})


@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
def test_leaves_are_folded_in_all_ways(aggregate: int) -> None:
    check_beside_onnxruntime(tree_model([0, 0, 0, 0], aggregate_function=aggregate), {"x": SAMPLES.astype(np.float32)})


def test_scores_are_transformed_as_onnx_numbers_the_ways() -> None:
    inputs = {"x": SAMPLES.astype(np.float32)}  # ONNX Runtime has 1 and 2 the other way round
    [scores] = run_onnxruntime(tree_model([0, 0, 0, 0]), inputs)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = {1: shares / shares.sum(axis=1, keepdims=True), 2: 1 / (1 + np.exp(-scores))}
    for transform, values in expected.items():
        assert_same(run_here(tree_model([0, 0, 0, 0], post_transform=transform), inputs), [values])


def test_a_missing_value_goes_to_the_side_that_the_node_says() -> None:
    x = SAMPLES.astype(np.float32)
    x[::3, 0] = x[1::4, 1] = x[2::5, 2] = np.nan
    model = tree_model([0, 0, 0, 0], nodes_missing_value_tracks_true=[1, 0, 1, 0])
    check_beside_onnxruntime(model, {"x": x})


def test_an_unknown_transform_is_refused_by_number() -> None:
    with pytest.raises(UnsupportedOperatorError, match="post_transform=4 is not supported"):
        from_onnx(tree_model([0, 0, 0, 0], post_transform=4))


# --- n-grams

POOL: dict[str, Any] = {
    "ngram_counts": [0, 3, 9],
    "ngram_indexes": [4, 0, 6, 1, 2, 5, 3, 7],
    "pool_int64s": [2, 3, 5, 1, 2, 2, 3, 5, 5, 1, 2, 3, 2, 2, 2],
}


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(("least", "most", "skipped"), [(1, 1, 0), (1, 3, 0), (2, 3, 2), (1, 2, 5)])
@pytest.mark.parametrize("shape", [(11,), (4, 9), (2, 2)], ids=str)
def test_grams_are_counted_as_onnxruntime_counts_them(
    shape: tuple[int, ...], least: int, most: int, skipped: int, mode: str
) -> None:
    x = np.random.default_rng(1).integers(1, 6, shape)
    for weights in ([0.5, 2.0, 3.0, 1.5, 4.0, 0.25, 7.0, 1.0], None):
        attrs = {**POOL, "mode": mode, "min_gram_length": least, "max_gram_length": most, "max_skip_count": skipped}
        if weights is not None:
            attrs["weights"] = weights
        inputs = {"x": x}
        model = one_node("TfIdfVectorizer", inputs, opset=9, **attrs)
        output = helper.make_tensor_value_info("y0", TensorProto.FLOAT, (*shape[:-1], 8))
        model.graph.output[0].CopyFrom(output)
        check_beside_onnxruntime(model, inputs)


def test_grams_of_strings_are_refused() -> None:
    attrs = {**POOL, "mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0}
    del attrs["pool_int64s"]
    model = one_node("TfIdfVectorizer", {"x": np.array([1, 2])}, opset=9, pool_strings=["a", "b"], **attrs)
    with pytest.raises(UnsupportedOperatorError, match="n-grams of strings are not supported"):
        from_onnx(model)


# --- the rest


def test_columns_are_picked() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    check_node("ArrayFeatureExtractor", {"x": x, "places": np.array([3, 0, 3])}, domain=DOMAIN)
    [row] = run_here(one_node("ArrayFeatureExtractor", {"x": x[0], "p": np.array([2])}, domain=DOMAIN), {
        "x": x[0], "p": np.array([2]),
    })  # fmt: skip
    np.testing.assert_array_equal(row, [[2.0]])


def test_what_is_above_a_threshold_is_1() -> None:
    x = np.array([[0.5, 1.0, 1.5, np.nan]], np.float32)
    [found] = run_here(one_node("Binarizer", {"x": x}, domain=DOMAIN, threshold=1.0), {"x": x})
    np.testing.assert_array_equal(found, np.array([[0, 0, 1, 0]], np.float32))


class _Trees:
    """Ensembles drawn at random, in the form of opset 5 of ``ai.onnx.ml``."""

    def __init__(self, seed: int, targets: int, dtype: type[np.floating[Any]]) -> None:
        self.random = np.random.default_rng(seed)
        self.targets, self.dtype = targets, dtype
        self.rows: dict[str, list[Any]] = {name: [] for name in ("features", "splits", "modes", "missing")}
        self.ways: dict[str, list[int]] = {name: [] for name in ("true", "trueleafs", "false", "falseleafs")}
        self.members: dict[int, list[float]] = {}
        self.leaves: list[tuple[int, float]] = []
        self.roots = [self._branch(depth) for depth in (3, 2, 0)]

    def _branch(self, depth: int) -> int:
        place, draw = len(self.rows["modes"]), self.random
        mode = int(draw.integers(0, 7))
        for name, value in zip(
            self.rows, (draw.integers(3), round(draw.normal(), 1), mode, draw.integers(2)), strict=True
        ):
            self.rows[name].append(value)
        for way in self.ways.values():
            way.append(0)
        if mode == 6:
            self.members[place] = sorted({float(value) for value in draw.integers(1, 5, 3)})
        for side in ("true", "false"):
            is_leaf = depth == 0 or draw.random() < 0.3
            if is_leaf:
                self.leaves.append((int(draw.integers(self.targets)), float(draw.normal())))
            self.ways[side][place] = len(self.leaves) - 1 if is_leaf else self._branch(depth - 1)
            self.ways[f"{side}leafs"][place] = int(is_leaf)
        return place

    def model(self, aggregate_function: int, with_missing: bool) -> onnx.ModelProto:
        members = [value for place in sorted(self.members) for value in (*self.members[place], float("nan"))]
        given = {
            "n_targets": self.targets,
            "aggregate_function": aggregate_function,
            "tree_roots": self.roots,
            "nodes_featureids": [int(value) for value in self.rows["features"]],
            "nodes_splits": self._tensor(self.rows["splits"]),
            "nodes_modes": numpy_helper.from_array(np.asarray(self.rows["modes"], np.uint8)),
            "nodes_truenodeids": self.ways["true"],
            "nodes_trueleafs": self.ways["trueleafs"],
            "nodes_falsenodeids": self.ways["false"],
            "nodes_falseleafs": self.ways["falseleafs"],
            "leaf_targetids": [target for target, _ in self.leaves],
            "leaf_weights": self._tensor([weight for _, weight in self.leaves]),
        }
        if members:
            given["membership_values"] = self._tensor(members)
        if with_missing:
            given["nodes_missing_value_tracks_true"] = [int(value) for value in self.rows["missing"]]
        node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", **given)
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        ports = [
            helper.make_tensor_value_info(name, kind, ["n", size]) for name, size in (("x", 3), ("y", self.targets))
        ]
        graph = helper.make_graph([node], "g", ports[:1], ports[1:])
        imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 5)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def _tensor(self, values: list[float]) -> onnx.TensorProto:
        return numpy_helper.from_array(np.asarray(values, self.dtype))


@pytest.mark.parametrize("seed", range(12))
def test_ensembles_of_trees_give_the_values_of_the_reference_and_of_onnxruntime(seed: int) -> None:
    targets, dtype = 1 + seed % 3, (np.float32, np.float64)[seed % 2]
    trees = _Trees(seed, targets, dtype)
    draw = np.random.default_rng(seed + 100)
    x = np.round(draw.normal(size=(40, 3)), 1).astype(dtype)
    x[draw.random(x.shape) < 0.4] = draw.integers(1, 5)
    x[draw.random(x.shape) < 0.1] = np.nan
    for aggregate in range(4):
        model = trees.model(aggregate, seed % 4 > 1)
        [found] = run_here(model, {"x": x})
        [runtime] = run_onnxruntime(model, {"x": x})
        assert_close(found, runtime)
        if aggregate in (0, 1):
            [reference] = ReferenceEvaluator(model).run(None, {"x": x})
            assert_close(found, reference)


def test_a_model_of_estimators_alone_stays_as_portable_as_it_is() -> None:
    node = helper.make_node("Normalizer", ["x"], ["y"], norm="L2", domain="ai.onnx.ml")
    model = onnx_model([node], {"x": [None, 3]}, {"y": [None, 3]}, ir_version=8, domains={"ai.onnx.ml": 1})
    del model.opset_import[0]  # as boosted trees are exported
    for level in range(4):
        assert rx.optimize(model, level=level) == model
    written = to_onnx(from_onnx(model))
    assert {one.domain: one.version for one in written.opset_import} == {"": 13, "ai.onnx.ml": 1}
    assert written.ir_version == 8
