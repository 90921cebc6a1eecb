"""Non-maximum suppression, beside the evaluator that ONNX comes with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from regraft.convert import ConvertError, to_onnx
from regraft.ir import Call, Function, OpTypeError, SymVar, TensorType, TupleType, Var
from regraft.op import vision
from regraft.script import relax as R
from tests.op.harness import check, evaluate


def onnx_rows(boxes: np.ndarray, scores: np.ndarray, limit: int, overlap: float, least: float) -> np.ndarray:
    """The rows that ONNX's evaluator gives."""
    names = ["boxes", "scores", "limit", "overlap", "least"]
    kinds = [TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64, TensorProto.FLOAT, TensorProto.FLOAT]
    inputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(names, kinds, strict=True)]
    outputs = [helper.make_tensor_value_info("rows", TensorProto.INT64, None)]
    graph = helper.make_graph([helper.make_node("NonMaxSuppression", names, ["rows"])], "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)])
    given = [boxes, scores, np.array([limit]), np.array([overlap], np.float32), np.array([least], np.float32)]
    return np.asarray(ReferenceEvaluator(model).run(None, dict(zip(names, given, strict=True)))[0])


def expected(rows: np.ndarray, total: int) -> tuple[np.ndarray, np.ndarray]:
    filled = np.full((total, 3), -1, np.int64)
    filled[: len(rows)] = rows
    return filled, np.array([len(rows)])


def random_boxes(seed: int, batch: int, classes: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Boxes whose corners come in any order, and scores of which some are equal."""
    random = np.random.default_rng(seed)
    middle, size = random.uniform(0, 2, (batch, count, 2)), random.uniform(-1, 1, (batch, count, 2))
    boxes = np.concatenate([middle - size, middle + size], axis=2).astype(np.float32)
    return boxes, (random.integers(0, 12, (batch, classes, count)) / 12).astype(np.float32)


@pytest.mark.parametrize("limit", [0, 1, 3, 50])
@pytest.mark.parametrize(("overlap", "least"), [(0.0, 0.0), (0.3, 0.4), (0.7, -1.0), (1.0, 0.99)])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_boxes_that_are_left_agree_with_onnx(seed: int, overlap: float, least: float, limit: int) -> None:
    boxes, scores = random_boxes(seed, 2, 3, 9)
    rows = onnx_rows(boxes, scores, limit, overlap, least)
    check(
        lambda b, s: vision.all_class_non_max_suppression(
            b, s, R.const(limit, "int64"), R.const(overlap, "float32"), R.const(least, "float32")
        ),
        [boxes, scores],
        expected(rows, 2 * 3 * 9),
    )


@pytest.mark.parametrize(("limit", "least"), [(0, 0.0), (2, 0.4), (50, -1.0), (50, 2.0)])
def test_the_boxes_of_each_image_are_those_of_onnx(limit: int, least: float) -> None:
    boxes, scores = random_boxes(3, 2, 3, 9)
    found = vision.all_class_non_max_suppression(
        *(Var(name, TensorType(array.shape, "float32")) for name, array in (("b", boxes), ("s", scores))),
        R.const(limit, "int64"),
        R.const(0.3, "float32"),
        R.const(least, "float32"),
        "tensorflow",
    )
    rows, values = np.full((2, 27, 2), -1, np.int64), np.zeros((2, 27), np.float32)
    counts = np.zeros(2, np.int64)
    for image, kind, box in onnx_rows(boxes, scores, limit, 0.3, least):
        rows[image, counts[image]] = kind, box
        values[image, counts[image]] = scores[image, kind, box]
        counts[image] += 1
    ty = found.ty
    assert isinstance(ty, TupleType)
    for ours, theirs, field in zip(
        evaluate(found, dict(zip(found.args[:2], (boxes, scores), strict=True))),
        (rows, values, counts),
        ty.fields,
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)
        assert field == TensorType(theirs.shape, str(theirs.dtype))
    with pytest.raises(ConvertError, match="the rows of all images together"):
        to_onnx(Function(list(found.args[:2]), found))


def test_limits_may_be_computed() -> None:
    boxes, scores = random_boxes(2, 1, 2, 8)
    rows = onnx_rows(boxes, scores, 2, 0.25, 0.1)
    assert len(rows) == 4
    limits = [np.array([2], np.int64), np.array([0.25], np.float32), np.array(0.1, np.float32)]
    check(vision.all_class_non_max_suppression, [boxes, scores, *limits], expected(rows, 16))


def test_no_box_leaves_no_row() -> None:
    boxes, scores = np.zeros((2, 0, 4), np.float32), np.zeros((2, 3, 0), np.float32)
    limits = [R.const(5, "int64"), R.const(0.5, "float32"), R.const(0.0, "float32")]
    check(
        lambda b, s: vision.all_class_non_max_suppression(b, s, *limits),
        [boxes, scores],
        (np.zeros((0, 3), np.int64), np.array([0])),
    )


LIMITS = [R.const(5, "int64"), R.const(0.5, "float32"), R.const(0.0, "float32")]


def test_the_type_has_a_row_for_every_score() -> None:
    n = SymVar("n")
    boxes, scores = Var("b", TensorType((2, n, 4), "float32")), Var("s", TensorType((2, 3, n), "float32"))
    count = TensorType((1,), "int64")
    call = vision.all_class_non_max_suppression(boxes, scores, *LIMITS)
    assert call.ty == TupleType([TensorType((n * 6, 3), "int64"), count])
    call = vision.all_class_non_max_suppression(boxes, Var("s", TensorType(None, "float32")), *LIMITS)
    assert call.ty == TupleType([TensorType(None, "int64", 2), count])


def _call(boxes: tuple[int, ...] = (2, 5, 4), scores: tuple[int, ...] = (2, 3, 5), **given: Any) -> Call:
    x = [Var("b", TensorType(boxes, "float32")), Var("s", TensorType(scores, "float32"))]
    limits = [given.pop("limit", LIMITS[0]), *LIMITS[1:]]
    return vision.all_class_non_max_suppression(*x, *limits, **given)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: _call(boxes=(2, 5)), r"argument boxes .* 3 dimensions: \(batch, boxes, 4\)"),
        (lambda: _call(boxes=(2, 5, 3)), r"argument boxes .* the 4 coordinates of two corners"),
        (lambda: _call(scores=(1, 3, 5)), r"argument scores .* as many batch size as boxes has, 2"),
        (lambda: _call(scores=(2, 3, 6)), r"argument scores .* as many boxes as boxes has, 5"),
        (lambda: _call(limit=R.const(1.0, "float32")), r"argument max_output_boxes_per_class .* an integer"),
        (lambda: _call(limit=R.const([1, 2], "int64")), r"max_output_boxes_per_class .* a tensor of one element"),
        (lambda: _call(output_format="caffe"), r"output_format='caffe'; expected \"onnx\" or \"tensorflow\""),
    ],
)
def test_a_wrong_call_names_operand_and_expectation(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()
