"""Resizing in the modes that ONNX has beyond the operators on images."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import regraft as rx
from regraft.formats import from_onnx
from tests.formats.onnx.single_node import assert_same, check_node, one_node, run_here, run_onnxruntime, run_there

X = np.random.default_rng(0).standard_normal((2, 3, 5, 7)).astype(np.float32)


def factors(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "half_pixel_symmetric"])
@pytest.mark.parametrize("scales", [(1, 1, 0.55, 1.3), (1, 0.7, 2.45, 1), (1.6, 1, 1, 0.43)], ids=str)
def test_a_factor_that_is_no_ratio_of_sizes_is_kept(mode: str, coordinates: str, scales: tuple[float, ...]) -> None:
    inputs = {"x": X, "roi": None, "scales": factors(*scales)}
    check_node(
        "Resize", inputs, mode=mode, coordinate_transformation_mode=coordinates, fixed=["scales"], atol=2e-5, rtol=1e-4
    )


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize("scales", [(1, 1, 0.4, 0.65), (1, 1, 0.9, 1.7)], ids=str)
def test_a_shrunk_axis_is_filtered_with_antialias(mode: str, exclude: int, scales: tuple[float, ...]) -> None:
    inputs = {"x": X, "roi": None, "scales": factors(*scales)}
    check_node(
        "Resize", inputs, mode=mode, antialias=1, exclude_outside=exclude, fixed=["scales"], atol=2e-5, rtol=1e-4
    )


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("scales", [(1, 1, 0.65, 1.3), (1, 1, 2.3, 0.55)], ids=str)
def test_the_nearest_element_is_that_of_the_factor(rounding: str, scales: tuple[float, ...]) -> None:
    inputs = {"x": X, "roi": None, "scales": factors(*scales)}
    model = one_node("Resize", inputs, opset=19, mode="nearest", nearest_mode=rounding, fixed=["scales"])
    expected = run_onnxruntime(model, inputs)
    for target in ("numpy", "onnxruntime"):
        assert_same(run_here(model, inputs, target), expected)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("axes", [(2, 3), (3, 2), None], ids=str)
def test_a_part_of_an_image_is_cut_out(mode: str, axes: tuple[int, ...] | None) -> None:
    region = [0.1, -0.2, 0.9, 1.4] if axes else [0, 0, 0.1, -0.2, 1, 1, 0.9, 1.4]
    sizes = [4, 6] if axes else [2, 3, 4, 6]
    inputs = {"x": X, "roi": factors(*region), "scales": None, "sizes": np.array(sizes)}
    attrs: dict[str, Any] = {"axes": axes} if axes else {}
    check_node(
        "Resize",
        inputs,
        mode=mode,
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=7.0,
        fixed=["roi", "sizes"],
        atol=1e-5,
        **attrs,
    )


def test_a_linear_filter_may_leave_out_what_is_beyond_the_edge() -> None:
    inputs = {"x": X, "roi": None, "scales": None, "sizes": np.array([2, 3, 8, 4])}
    check_node("Resize", inputs, mode="linear", exclude_outside=1, fixed=["sizes"])


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_the_ratio_of_sides_is_kept_by_one_factor_for_all(policy: str) -> None:
    inputs = {"x": X, "roi": None, "scales": None, "sizes": np.array([9, 8])}
    check_node(
        "Resize", inputs, mode="linear", axes=[2, 3], keep_aspect_ratio_policy=policy, fixed=["sizes"], atol=1e-5
    )


def test_four_axes_may_change() -> None:
    inputs = {"x": X, "roi": None, "scales": None, "sizes": np.array([3, 4, 8, 4])}
    check_node("Resize", inputs, mode="linear", fixed=["sizes"], atol=1e-5)


def test_integers_are_rounded_towards_zero() -> None:
    image = np.array([[[[-7, 8, 1]]]], np.int32)
    inputs = {"x": image, "roi": None, "scales": factors(1, 1, 1, 0.7)}
    model = one_node("Resize", inputs, mode="linear", fixed=["scales"])
    [found] = run_here(model, inputs)
    [exact] = run_there(one_node("Resize", {**inputs, "x": image.astype(np.float32)}, mode="linear"), {
        **inputs, "x": image.astype(np.float32),
    })  # fmt: skip
    np.testing.assert_array_equal(found, np.trunc(exact).astype(np.int32))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_sizes_may_be_computed_at_run_time(mode: str) -> None:
    inputs = {"x": X, "roi": None, "scales": None, "sizes": np.array([2, 3, 8, 4])}
    check_node("Resize", inputs, mode=mode, targets=["numpy"], atol=1e-5)


def test_more_axes_than_those_of_images_may_be_resized_at_run_time() -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 2, 3, 4, 5)).astype(np.float32)
    inputs = {"x": x, "roi": None, "scales": None, "sizes": np.array([3, 4, 2, 3, 8, 7])}
    check_node("Resize", inputs, mode="linear", atol=1e-5)


def test_a_batch_that_is_resized_at_run_time_is_refused_as_it_runs() -> None:
    inputs = {"x": X, "roi": None, "scales": None, "sizes": np.array([4, 3, 8, 4])}
    main = rx.build(from_onnx(one_node("Resize", inputs, mode="linear")), target="numpy")["main"]
    with pytest.raises(rx.RegraftError, match="4"):
        main(X, inputs["sizes"])


@pytest.mark.parametrize(
    ("inputs", "attrs"),
    [
        ({"scales": factors(1, 1, 2.3, 0.6)}, {"mode": "linear"}),
        ({"scales": factors(1, 1, 0.55, 0.6)}, {"mode": "cubic", "antialias": 1}),
        ({"scales": None, "sizes": np.array([2, 3, 4, 5])}, {"keep_aspect_ratio_policy": "not_larger"}),
        ({"scales": None, "sizes": np.array([2, 3, 4, 5])}, {"antialias": 1, "mode": "linear"}),
    ],
)
def test_what_is_computed_at_run_time_counts_as_what_is_known(inputs: dict[str, Any], attrs: dict[str, Any]) -> None:
    check_node("Resize", {"x": X, "roi": None, **inputs}, atol=2e-5, rtol=1e-4, **attrs)


def test_upsample_is_read_by_its_scales() -> None:
    model = one_node("Upsample", {"x": X, "scales": factors(1, 1, 2, 3)}, opset=9, fixed=["scales"])
    [found] = run_here(model, {"x": X})
    np.testing.assert_array_equal(found, X.repeat(2, axis=2).repeat(3, axis=3))
    node = onnx.helper.make_node("Upsample", ["x"], ["y0"], scales=[1.0, 1.0, 2.0, 3.0])
    model.graph.node[0].CopyFrom(node)
    del model.graph.initializer[:]
    model.opset_import[0].version = 7
    np.testing.assert_array_equal(run_here(model, {"x": X})[0], found)
    at_run_time = one_node("Upsample", {"x": X, "scales": factors(1, 1, 2, 3)}, opset=9)
    np.testing.assert_array_equal(run_here(at_run_time, {"x": X, "scales": factors(1, 1, 2, 3)})[0], found)


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_symmetric_half_pixels_are_nearest_to_the_elements_that_onnx_runtime_takes(rounding: str) -> None:
    rng = np.random.default_rng(3)
    attributes: dict[str, Any] = {"coordinate_transformation_mode": "half_pixel_symmetric", "nearest_mode": rounding}
    for size, target in [(28, 67), (20, 26), (30, 9), (26, 1), *rng.integers(2, 60, (12, 2)).tolist()]:
        x = np.arange(size, dtype=np.float32)[None]
        inputs = {"x": x, "": None, "scales": None, "sizes": np.asarray([1, target])}
        model = one_node("Resize", inputs, opset=19, fixed=["sizes"], mode="nearest", **attributes)
        np.testing.assert_array_equal(run_here(model, inputs)[0], run_onnxruntime(model, inputs)[0])
