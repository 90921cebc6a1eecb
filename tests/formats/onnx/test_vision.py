"""Operators of object detection, read from ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from regraft.formats import from_onnx, to_onnx
from tests.formats.onnx.single_node import assert_same, one_node, run_here, run_onnxruntime, run_there

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize("given", [2, 3, 5])
def test_boxes_are_chosen_with_as_many_limits_as_are_given(given: int, center: int) -> None:
    boxes = RANDOM.uniform(0.0, 3.0, (2, 7, 4)).astype(np.float32)
    scores = RANDOM.uniform(0.0, 1.0, (2, 3, 7)).astype(np.float32)
    limits = [np.array([3]), np.array([0.3], np.float32), np.array([0.25], np.float32)]
    names = ["boxes", "scores", "limit", "overlap", "least"][:given]
    inputs = dict(zip(names, [boxes, scores, *limits], strict=False))
    model = one_node("NonMaxSuppression", inputs, center_point_box=center, opset=11)
    expected = run_onnxruntime(model, inputs)
    assert (len(expected[0]) == 0) == (given == 2)
    for target in ("numpy", "onnxruntime"):
        assert_same(run_here(model, inputs, target), expected)


@pytest.mark.parametrize("opset", [10, 16, 22])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_are_pooled_as_each_opset_says(mode: str, opset: int) -> None:
    inputs = {
        "x": RANDOM.standard_normal((2, 3, 7, 6)).astype(np.float32),
        "rois": np.array([[0.5, 1.0, 4.0, 6.5], [1.0, 0.0, 9.0, 2.0]], np.float32),
        "batch": np.array([1, 0]),
    }
    attrs: dict[str, Any] = {"mode": mode, "output_height": 2, "output_width": 3, "sampling_ratio": 2}
    if opset >= 16:
        attrs["coordinate_transformation_mode"] = "half_pixel"
    model = one_node("RoiAlign", inputs, opset=opset, spatial_scale=0.5, **attrs)
    # ONNX's evaluator shifts by half a pixel in opset 10 too; ONNX Runtime has no kernel for opset 22
    expected = (run_onnxruntime if opset < 22 else run_there)(model, inputs)
    for target in ("numpy", "onnxruntime"):
        assert_same(run_here(model, inputs, target), expected)


def test_a_chosen_box_comes_out_as_the_operator_that_it_was() -> None:
    inputs = {
        "boxes": np.zeros((1, 4, 4), np.float32),
        "scores": np.zeros((1, 1, 4), np.float32),
        "limit": np.array([2]),
    }
    model = to_onnx(from_onnx(one_node("NonMaxSuppression", inputs)))
    onnx.checker.check_model(model)
    assert "NonMaxSuppression" in [node.op_type for node in model.graph.node]
