"""Resizing against ONNX's reference evaluator and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from torch.nn import functional

from regraft.ir import Call, OpTypeError, PrimValue, ShapeExpr, ShapeType, SymVar, TensorType, Var
from regraft.op import image
from tests.kit import normal
from tests.op.harness import check

random = partial(normal, scale=10)

ONNX_METHODS = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}


def onnx_resize(x: np.ndarray, size: tuple[int, ...], roi: tuple[float, ...] = (), **attributes: Any) -> np.ndarray:
    """ONNX's Resize of the last axes of ``x`` to ``size``; ``roi`` as Relax has it, without batch and channels."""
    rank = len(size)
    region = [0.0, 0.0, *roi[:rank], 1.0, 1.0, *roi[rank:]] if roi else []
    node = helper.make_node("Resize", ["x", "roi", "", "sizes"], ["y"], **attributes)
    names = [("x", TensorProto.DOUBLE), ("roi", TensorProto.DOUBLE), ("sizes", TensorProto.INT64)]
    graph = helper.make_graph(
        [node],
        "resize",
        [helper.make_tensor_value_info(name, kind, None) for name, kind in names],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    feeds = {
        "x": x.astype(np.float64),
        "roi": np.array(region, np.float64),
        "sizes": np.array([*x.shape[:2], *size], np.int64),
    }
    return np.asarray(ReferenceEvaluator(model).run(None, feeds)[0]).astype(x.dtype)


@pytest.mark.parametrize("size", [(9, 5), (3, 11), (4, 7), (1, 1), (8, 14), (2, 3)], ids=str)
@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_a_resized_image_agrees_with_onnx(method: str, mode: str, size: tuple[int, int]) -> None:
    x = random((2, 3, 4, 7))
    # ONNX's standard and TVM take place 0 for a single element of "pytorch_half_pixel"; its evaluator takes -0.5
    single = mode == "pytorch_half_pixel" and size == (1, 1)
    expected = x[:, :, :1, :1] if single else onnx_resize(x, size, mode=method, coordinate_transformation_mode=mode)
    check(lambda x: image.resize2d(x, size, method=method, coordinate_transformation_mode=mode), [x], expected)


@pytest.mark.parametrize("size", [(9, 5), (3, 11), (4, 7), (1, 1), (8, 14), (2, 3)], ids=str)
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
def test_the_nearest_element_agrees_with_onnx(mode: str, rounding: str, size: tuple[int, int]) -> None:
    x = random((2, 3, 4, 7))
    expected = onnx_resize(x, size, mode="nearest", coordinate_transformation_mode=mode, nearest_mode=rounding)
    check(
        lambda x: image.resize2d(
            x,
            size,
            method="nearest_neighbor",
            coordinate_transformation_mode=mode,
            rounding_method=rounding,
        ),
        [x],
        expected,
    )


def test_rounding_goes_by_default_to_even_or_down() -> None:
    x = np.arange(4, dtype=np.int32).reshape(1, 1, 1, 4)

    def nearest(rounding: str, mode: str = "half_pixel") -> Any:
        return lambda x: image.resize2d(
            x,
            (1, 2),
            method="nearest_neighbor",
            rounding_method=rounding,
            coordinate_transformation_mode=mode,
        )

    check(nearest("round"), [x], np.array([[[[0, 2]]]], np.int32))  # places 0.5 and 2.5
    check(nearest(""), [x], np.array([[[[0, 2]]]], np.int32))
    check(nearest("", "tf_half_pixel_for_nn"), [x], np.array([[[[1, 3]]]], np.int32))
    check(nearest("", "align_corners"), [x[..., :2]], np.array([[[[0, 1]]]], np.int32))


def test_a_place_on_an_element_is_that_element() -> None:
    x = np.arange(5, dtype=np.int64).reshape(1, 1, 1, 5)
    for factor in range(2, 60):
        build = lambda x, f=factor: image.resize2d(  # noqa: E731
            x,
            (1, 5 * f),
            method="nearest_neighbor",
            coordinate_transformation_mode="asymmetric",
            rounding_method="floor",
        )
        check(build, [x], x.repeat(factor, axis=3))


@pytest.mark.parametrize("method", ["nearest_neighbor", "linear", "cubic"])
def test_a_part_of_an_image_is_cut_out_and_filled_beyond_its_edge(method: str) -> None:
    x = random((1, 2, 5, 6))
    roi = (0.1, -0.2, 0.9, 1.4)
    given: dict[str, Any] = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    rounding = {"nearest_mode": "round_prefer_floor"} if method == "nearest_neighbor" else {}
    expected = onnx_resize(x, (4, 7), roi, mode=ONNX_METHODS[method], **given, **rounding)
    assert (expected == 7.0).any()
    check(
        lambda x: image.resize2d(x, (4, 7), roi, method=method, rounding_method="round_prefer_floor", **given),
        [x],
        expected,
    )


def test_a_cubic_may_leave_out_what_is_beyond_the_edge() -> None:
    x = random((1, 2, 5, 6))
    expected = onnx_resize(x, (8, 4), mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1)
    check(lambda x: image.resize2d(x, (8, 4), method="cubic", cubic_alpha=-0.5, cubic_exclude=1), [x], expected)


@pytest.mark.parametrize("method", ["nearest_neighbor", "linear", "cubic"])
def test_a_resized_volume_agrees_with_onnx(method: str) -> None:
    x = random((1, 2, 3, 4, 5))
    rounding = {"nearest_mode": "floor"} if method == "nearest_neighbor" else {}
    expected = onnx_resize(x, (5, 2, 7), mode=ONNX_METHODS[method], **rounding)
    check(lambda x: image.resize3d(x, (5, 2, 7), method=method), [x], expected)


def test_an_image_may_have_any_order_of_axes() -> None:
    x = random((2, 3, 4, 7))
    expected = onnx_resize(x, (9, 5), mode="linear").transpose(2, 3, 1, 0)
    check(lambda x: image.resize2d(x, (9, 5), layout="HWCN"), [x.transpose(2, 3, 1, 0)], expected)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16], ids=str)
def test_an_image_of_another_float_is_rounded_once(dtype: Any) -> None:
    x = random((1, 2, 4, 5), dtype)
    wide = torch.from_numpy(x.astype(np.float64))
    exact = functional.interpolate(wide, (7, 3), mode="bicubic").numpy().astype(dtype)
    check(lambda x: image.resize2d(x, (7, 3), method="cubic"), [x], exact)


def test_integers_are_mixed_and_rounded_towards_zero() -> None:
    x = np.array([[[[-7, 8, 1]]]], np.int8)
    check(lambda x: image.resize2d(x, (1, 2)), [x], np.trunc([[[[-3.25, 2.75]]]]).astype(np.int8))
    check(lambda x: image.resize2d(x, (1, 2), out_dtype="float32"), [x], np.array([[[[-3.25, 2.75]]]], np.float32))


def test_the_type_of_a_resized_image_follows_its_sizes() -> None:
    n, m = SymVar("n"), SymVar("m")
    x = Var("x", TensorType((n, 3, m, 5), "float32"))
    assert image.resize2d(x, (m * 2, 7)).ty == TensorType((n, 3, m * 2, 7), "float32")
    assert image.resize2d(x, 7).ty == image.resize2d(x, [7]).ty == image.resize2d(x, ShapeExpr([7, 7])).ty
    assert image.resize2d(x, Var("s", ShapeType(None, 2)), out_dtype="float16").ty == TensorType(None, "float16", 4)
    assert image.resize2d(Var("u", TensorType(dtype=None)), 7).ty == TensorType(None, None, 4)
    assert image.resize3d(Var("u", TensorType(dtype=None)), 7).ty == TensorType(None, None, 5)


def test_the_region_is_written_in_full() -> None:
    x = Var("x", TensorType((1, 3, 4, 5), "float32"))
    assert image.resize2d(x, 7).attrs.roi == (0.0, 0.0, 0.0, 0.0)
    assert image.resize2d(x, 7, 0.5).attrs.roi == (0.5, 0.5, 0.5, 0.5)
    printed = [PrimValue(value, "float32") for value in (0.0, 0.25, 1.0, 0.5)]
    assert image.resize2d(x, 7, printed).attrs.roi == (0.0, 0.25, 1.0, 0.5)


X = Var("x", TensorType((1, 3, 4, 5), "float32"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: image.resize2d(X, (1, 2, 3)), r"argument size .* 2 sizes, one for each spatial axis"),
        (lambda: image.resize3d(X, 7), r"argument data .* 5 dimensions, for layout='NCDHW'"),
        (lambda: image.resize2d(X, 7, method="area"), r"method='area'; expected one of 'nearest_neighbor', 'linear'"),
        (lambda: image.resize2d(X, 7, coordinate_transformation_mode="x"), r"coordinate_transformation_mode='x'"),
        (lambda: image.resize2d(X, 7, rounding_method="x"), r"rounding_method='x'; expected one of"),
        (lambda: image.resize2d(X, 7, (0.0, 1.0)), r"roi=\(0\.0, 1\.0\); expected 4 numbers: all starts"),
        (lambda: image.resize2d(Var("b", TensorType((1, 1, 2, 2), "bool")), 7), r"numbers, not bool"),
        (lambda: image.resize2d(Var("e", TensorType((1, 1, 0, 2), "int8")), 7), r"spatial axes that have elements"),
    ],
)
def test_a_wrong_resize_names_operand_and_expectation(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()
