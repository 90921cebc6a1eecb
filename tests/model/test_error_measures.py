"""Measures of an error: detections held against counts by hand, functions of one's own, and what is kept by them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from regraft import optimize
from regraft.model import UsageError
from regraft.model.error_measures import error_measure
from tests.cli.harness import invoke
from tests.model.test_precision import lowered
from tests.view.pages import data_in

BOXES = np.array([[0, 0, 10, 10], [20, 20, 40, 40], [50, 0, 60, 10]], np.float32)
SCORES = np.array([0.9, 0.8, 0.3], np.float32)
LABELS = np.array([1, 2, 1], np.int64)
NAMES = ("boxes", "labels", "scores")


def error(before: Any, after: Any) -> float:
    return error_measure("detections", NAMES, before).of(before, after)


def test_equal_detections_in_another_order_are_no_error() -> None:
    turned = [2, 0, 1]
    after = BOXES[turned], LABELS[turned], SCORES[turned]
    assert error((BOXES, LABELS, SCORES), after) == pytest.approx(0, abs=1e-6)


def test_a_box_that_is_lost_counts_by_its_score() -> None:
    found = error((BOXES, LABELS, SCORES), (BOXES[:2], LABELS[:2], SCORES[:2]))
    assert found == pytest.approx(1 - 2 * (0.9 + 0.8) / (2.0 + 1.7))


def test_a_box_that_moved_counts_by_its_overlap() -> None:
    moved = BOXES + np.array([[1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]], np.float32)
    expected = 1 - (0.9 * 90 / 110 + 0.8 + 0.3) / 2.0
    assert error((BOXES, LABELS, SCORES), (moved, LABELS, SCORES)) == pytest.approx(expected)


def test_another_label_or_a_box_beside_it_is_not_the_same() -> None:
    other = np.array([1, 1, 1])
    assert error((BOXES, LABELS, SCORES), (BOXES, other, SCORES)) == pytest.approx(1 - 1.2 / 2)
    away = BOXES + np.float32(30)
    assert error((BOXES, LABELS, SCORES), (away, LABELS, SCORES)) == 1.0


def test_one_box_is_found_once() -> None:
    twice = np.repeat(BOXES[:1], 2, axis=0), LABELS[[0, 0]], SCORES[[0, 0]]
    assert error((BOXES[:1], LABELS[:1], SCORES[:1]), twice) == pytest.approx(1 - 2 * 0.9 / 2.7)


def test_nothing_found_in_either_is_no_error_and_in_one_of_them_all_of_it() -> None:
    nothing = BOXES[:0], LABELS[:0], SCORES[:0]
    assert error(nothing, nothing) == 0
    assert error(nothing, (BOXES, LABELS, SCORES)) == 1.0


@pytest.mark.parametrize(
    "form",
    [
        lambda boxes, labels, scores: (boxes[None], labels[None], scores[None]),
        lambda boxes, labels, scores: (scores, labels.astype(np.float32), boxes),
        lambda boxes, labels, scores: (np.concatenate([boxes, scores[:, None], labels[:, None]], 1, dtype=np.float32),),
    ],
    ids=["with a batch", "labels as floats", "all in one"],
)
def test_forms_of_detections(form: Any) -> None:
    before, after = form(BOXES, LABELS, SCORES), form(BOXES[:2], LABELS[:2], SCORES[:2])
    assert error_measure("detections", NAMES, before).of(before, after) == pytest.approx(1 - 3.4 / 3.7)


def test_images_of_a_batch_are_held_apart() -> None:
    before = np.stack([BOXES, BOXES + 100]), np.stack([LABELS, LABELS]), np.stack([SCORES, SCORES])
    exchanged = before[0][::-1], before[1], before[2]
    assert error(before, exchanged) == 1.0


# --- in `optimize`


def _detector(path: Path) -> None:
    """Bright squares in an image: a smoothed map, its cells as boxes of 8 by 8, and the best that do not overlap."""
    rng = np.random.default_rng(3)
    corners = np.stack(np.meshgrid(np.arange(57), np.arange(57), indexing="ij"), -1).reshape(1, -1, 2)
    constants = {
        "edges": np.concatenate([np.full((1, 1, 3, 3), 1 / 9), rng.normal(size=(15, 1, 3, 3)) / 30]),
        "sums": np.concatenate([np.full((1, 1, 6, 6), 6.0 / 36), rng.normal(size=(1, 15, 6, 6)) / 40], 1),
        "boxes_of_cells": np.concatenate([corners, corners + 8], -1),
        "least": np.array(-3.0),
    }
    arrays = {name: value.astype(np.float32) for name, value in constants.items()}
    arrays |= {
        "shape": np.array([1, 1, -1]),
        "most": np.array([20]),
        "overlap": np.array([0.1], np.float32),
        "score": np.array([0.5], np.float32),
        "last": np.array([2]),
        "minus": np.array([-1]),
    }
    nodes = [
        helper.make_node("Conv", ["x", "edges"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "sums"], ["m"]),
        helper.make_node("Add", ["m", "least"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["s"]),
        helper.make_node("Reshape", ["s", "shape"], ["flat"]),
        helper.make_node("NonMaxSuppression", ["boxes_of_cells", "flat", "most", "overlap", "score"], ["chosen"]),
        helper.make_node("Gather", ["chosen", "last"], ["column"], axis=1),
        helper.make_node("Reshape", ["column", "minus"], ["places"]),
        helper.make_node("Reshape", ["boxes_of_cells", "rows"], ["all_boxes"]),
        helper.make_node("Gather", ["all_boxes", "places"], ["boxes"]),
        helper.make_node("Reshape", ["flat", "minus"], ["all_scores"]),
        helper.make_node("Gather", ["all_scores", "places"], ["scores"]),
    ]
    arrays["rows"] = np.array([-1, 4])
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 64, 64])],
        [
            helper.make_tensor_value_info("boxes", TensorProto.FLOAT, ["n", 4]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n"]),
        ],
        [numpy_helper.from_array(value, name) for name, value in arrays.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


@pytest.fixture
def detector(tmp_path: Path) -> Path:
    rng, path = np.random.default_rng(7), tmp_path / "detector.onnx"
    _detector(path)
    (tmp_path / "samples").mkdir()
    for number in range(8):
        image = rng.normal(size=(1, 1, 64, 64)).astype(np.float32) / 50
        for row, column in rng.permutation([(4, 6), (8, 40), (40, 8), (44, 44), (24, 24)])[:3]:
            image[..., row : row + 8, column : column + 8] += 1
        np.savez(tmp_path / "samples" / f"{number}.npz", x=image)
    return path


def test_a_detector_is_kept_in_bytes_where_its_boxes_are_found_again(detector: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "calibrate": tmp_path / "samples",
        "engine": "onnxruntime",
        "max_error": 0.1,
        "budget": 5.0,
    }
    _, by_rows = lowered(detector, "int8", output=tmp_path / "out.onnx", **options)
    assert by_rows.kept is None or by_rows.kept.gone_back, "a box that changed places with another is a large error"
    _, report = lowered(detector, "int8", output=tmp_path / "out.onnx", error_measure="detections", **options)
    assert report.kept is not None
    assert report.kept.error is not None
    assert 0 < report.kept.error < 0.1
    assert not report.kept.gone_back
    assert report.error_measure == "detections"
    assert any(node.op_type == "QuantizeLinear" for node in onnx.load(tmp_path / "out.onnx").graph.node)


def test_a_function_of_ones_own_decides(detector: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, ...]] = []

    def by_count(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> float:
        seen.append(tuple(before))
        return abs(len(before["boxes"]) - len(after["boxes"])) / len(before["boxes"])

    options: dict[str, Any] = {"calibrate": tmp_path / "samples", "engine": "onnxruntime", "max_error": 0.5}
    _, report = lowered(detector, "int8", error_measure=by_count, **options)
    assert report.kept is not None
    assert report.error_measure == "by_count"
    assert set(seen) == {("boxes", "scores")}
    with pytest.raises(UsageError, match=r"the error measure gives None; expected a number of 0 or more"):
        lowered(detector, "int8", error_measure=lambda *_: None, **options)


def test_the_command_names_the_measure(detector: Path, tmp_path: Path) -> None:
    options = ["--precision", "int8", "--calibrate", str(tmp_path / "samples"), "--engine", "onnxruntime"]
    options += ["--error-measure", "detections", "--max-error", "0.1", "--report", str(tmp_path / "report.json")]
    options += ["--html", str(tmp_path / "report.html")]
    done = invoke("optimize", str(detector), "-o", str(tmp_path / "out.onnx"), *options)
    assert done.exit_code == 0
    assert "Precisions within an error of 0.1 (detections)" in done.output
    assert json.loads((tmp_path / "report.json").read_text())["precision"]["error_measure"] == "detections"
    shown = data_in((tmp_path / "report.html").read_text(encoding="utf-8"))["summary"]["precision"]
    assert shown["errorMeasure"] == "detections"


def test_measures_that_are_none_and_models_without_boxes(detector: Path) -> None:
    with pytest.raises(UsageError, match="there is no error measure 'iou'; there are: largest, detections"):
        optimize(detector, precision="int8", error_measure="iou")
    with pytest.raises(UsageError, match="an error measure need a precision"):
        optimize(detector, error_measure="detections")
    with pytest.raises(UsageError, match=r"detections need an output of boxes, rows of 4 numbers; the model gives y"):
        error_measure("detections", ["y"], [np.ones((3, 5), np.float32)])
