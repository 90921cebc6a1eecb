"""Pooling of regions, beside the evaluator that ONNX comes with, and its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import regraft as rx
from regraft.gradient import Gradient
from regraft.ir import Call, Function, OpTypeError, SymVar, TensorType, Var
from regraft.op import vision
from regraft.script import relax as R
from tests.gradient.checks import check_gradient, check_second_order, numbers
from tests.kit import assert_close
from tests.op.harness import check

REGIONS = np.array(
    [[1, 0.5, 1.25, 3.5, 6.0], [0, 2.0, -3.0, 9.5, 5.5], [1, 4.0, 4.0, 4.25, 4.5], [0, -2.5, 3.0, 2.0, 20.0]]
)
"""Within the image, beyond it on several sides, and smaller than an element."""


def onnx_roi_align(data: np.ndarray, rois: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
    """The results of ONNX's evaluator for the attributes of `vision.roi_align`."""
    node = helper.make_node(
        "RoiAlign",
        ["x", "rois", "batch"],
        ["y"],
        output_height=attrs["pooled_size"][0],
        output_width=attrs["pooled_size"][1],
        spatial_scale=attrs.get("spatial_scale", 1.0),
        sampling_ratio=max(attrs.get("sample_ratio", -1), 0),
        coordinate_transformation_mode="half_pixel" if attrs.get("aligned") else "output_half_pixel",
        mode={"max_corner": "max"}.get(attrs.get("mode", "avg"), "avg"),
    )
    kinds = [("x", TensorProto.DOUBLE), ("rois", TensorProto.DOUBLE), ("batch", TensorProto.INT64)]
    inputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
    feeds = {"x": data.astype(np.float64), "rois": rois[:, 1:].astype(np.float64), "batch": rois[:, 0].astype(np.int64)}
    return np.asarray(ReferenceEvaluator(model).run(None, feeds)[0]).astype(data.dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("mode", ["avg", "max_corner"])
def test_pooled_regions_agree_with_onnx(mode: str, aligned: bool, dtype: Any) -> None:
    data, rois = numbers(2, 3, 7, 5).astype(dtype), REGIONS.astype(dtype)
    attrs: dict[str, Any] = {
        "pooled_size": (2, 3), "spatial_scale": 0.5, "sample_ratio": 2, "aligned": aligned, "mode": mode,
    }  # fmt: skip
    check(lambda *x: vision.roi_align(*x, **attrs), [data, rois], onnx_roi_align(data, rois, attrs))


@pytest.mark.parametrize("mode", ["avg", "max_corner"])
def test_a_bin_has_as_many_samples_as_elements_by_default(mode: str) -> None:
    data = numbers(2, 3, 7, 5)
    attrs: dict[str, Any] = {"pooled_size": (2, 1), "spatial_scale": 1.0, "mode": mode}
    expected = onnx_roi_align(data, REGIONS, attrs)
    check(lambda *x: vision.roi_align(*x, **attrs), [data, REGIONS], expected)


def test_there_may_be_no_region() -> None:
    data, rois = numbers(2, 3, 7, 5), np.zeros((0, 5))
    check(lambda *x: vision.roi_align(*x, (2, 1), 1.0), [data, rois], np.zeros((0, 3, 2, 1)))


@pytest.mark.parametrize("target", ["numpy", "torch", "onnxruntime"])
@pytest.mark.parametrize("mode", ["avg", "max_corner"])
def test_images_and_regions_may_have_any_sizes(mode: str, target: str) -> None:
    n, k, h, w = (SymVar(name) for name in "nkhw")
    params = [Var("x", TensorType((n, 3, h, w), "float32")), Var("r", TensorType((k, 5), "float32"))]
    main = rx.build(Function(params, vision.roi_align(*params, (2, 3), 0.5, mode=mode)), target=target)["main"]
    for height, width, count in ((7, 5, 4), (4, 9, 2), (6, 6, 1)):
        data, rois = numbers(2, 3, height, width).astype(np.float32), REGIONS[:count].astype(np.float32)
        attrs: dict[str, Any] = {"pooled_size": (2, 3), "spatial_scale": 0.5, "mode": mode}
        assert_close(np.asarray(main(data, rois)), onnx_roi_align(data, rois, attrs))


def test_the_greatest_sample_is_that_of_windows_of_one_sample() -> None:
    data, wide = numbers(2, 3, 7, 5), REGIONS.copy()
    wide[2] = [1, 4.0, 2.0, 6.0, 5.0]  # a region narrower than an element is widened by its bins
    fine = onnx_roi_align(data, wide, {"pooled_size": (6, 4), "sample_ratio": 1})
    expected = fine.reshape(4, 3, 3, 2, 2, 2).max(axis=(3, 5))
    check(lambda *x: vision.roi_align(*x, (3, 2), 1.0, 2, mode="max"), [data, wide], expected)


def test_channels_may_be_last() -> None:
    data = numbers(2, 3, 7, 5)
    expected = onnx_roi_align(data, REGIONS, {"pooled_size": (2, 3), "sample_ratio": 2}).transpose(0, 2, 3, 1)
    check(
        lambda *x: vision.roi_align(*x, (2, 3), 1.0, 2, layout="NHWC"), [data.transpose(0, 2, 3, 1), REGIONS], expected
    )


def test_an_infinite_element_that_no_sample_touches_plays_no_part() -> None:
    data = np.zeros((1, 1, 4, 4), np.float32)
    data[0, 0, 3, 3] = np.inf
    rois = np.array([[0, 0.0, 0.0, 2.0, 2.0]], np.float32)
    check(lambda *x: vision.roi_align(*x, 1, 1.0, 1), [data, rois], np.zeros((1, 1, 1, 1), np.float32))


@pytest.mark.parametrize("attrs", [
    {"sample_ratio": 2},
    {"sample_ratio": 2, "aligned": True, "mode": "max"},
    {"sample_ratio": 2, "mode": "max_corner", "layout": "NHWC"},
    {"aligned": True},
], ids=str)  # fmt: skip
def test_pooled_regions_have_the_gradient_of_finite_differences(attrs: dict[str, Any]) -> None:
    image = numbers(2, 3, 5, 4) if attrs.get("layout") != "NHWC" else numbers(2, 5, 4, 3)

    def build(x: Any) -> Call:
        return vision.roi_align(x, R.const(REGIONS, "float64"), (2, 3), 0.5, **attrs)

    check_gradient(build, image)


@pytest.mark.parametrize("mode", ["avg", "max", "max_corner"])
def test_the_gradient_runs_on_every_engine_and_leaves_the_regions_out(mode: str) -> None:
    params = [Var("x", TensorType((2, 3, 7, 6), "float32")), Var("r", TensorType((4, 5), "float32"))]
    loss = R.sum(R.sin(vision.roi_align(*params, (2, 3), 0.5, mode=mode)))
    adjoint = Gradient("main")(rx.IRModule({"main": Function(params, loss)}))
    arrays = [array.astype(np.float32) for array in (numbers(2, 3, 7, 6), REGIONS)]
    _, (expected, regions) = rx.build(adjoint, target="numpy")["main_adjoint"](*arrays)
    assert np.abs(expected).max() > 0
    assert not np.any(regions)
    for target in ("torch", "onnxruntime"):
        _, (found, _) = rx.build(adjoint, target=target)["main_adjoint"](*arrays)
        assert_close(np.asarray(found), np.asarray(expected))


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_pooled_regions_can_be_differentiated_twice(mode: str) -> None:
    rois = R.const(REGIONS[:2], "float64")
    check_second_order(lambda x: R.sin(vision.roi_align(x, rois, 2, 0.5, 2, mode=mode)), numbers(2, 1, 4, 3))


def test_the_type_of_pooled_regions_follows_their_number() -> None:
    n, k = SymVar("n"), SymVar("k")
    x, rois = Var("x", TensorType((n, 3, 8, 9), "float32")), Var("r", TensorType((k, 5), "float32"))
    assert vision.roi_align(x, rois, (2, 4), 1.0).ty == TensorType((k, 3, 2, 4), "float32")
    assert vision.roi_align(Var("u", TensorType(dtype=None)), rois, 2, 1.0).ty == TensorType(None, None, 4)


X = Var("x", TensorType((1, 3, 4, 5), "float32"))
ROIS = Var("r", TensorType((2, 5), "float32"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: vision.roi_align(X, X, 2, 1.0), r"argument rois .* 2 dimensions: \(regions, 5\)"),
        (lambda: vision.roi_align(X, Var("r", TensorType((2, 4), "float32")), 2, 1.0), r"5 columns: the number in"),
        (lambda: vision.roi_align(X, ROIS, 2, 1.0, mode="sum"), r"mode='sum'; expected one of avg, max, max_corner"),
        (lambda: vision.roi_align(X, ROIS, 0, 1.0), r"pooled_size=\(0, 0\); expected ints of at least 1"),
        (lambda: vision.roi_align(X, Var("r", TensorType((2, 5), "float64")), 2, 1.0), r"the dtype of data, float32"),
    ],
)
def test_a_wrong_call_names_operand_and_expectation(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()
