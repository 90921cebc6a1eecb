"""The greatest elements of regions, beside ONNX Runtime's kernel and plain loops, and their adjoint."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor
from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft.gradient import GradientError
from regraft.ir import Call, Function, OpTypeError, SymVar, TensorType, Var
from regraft.op import vision
from regraft.script import relax as R
from tests.formats.onnx.single_node import assert_same, one_node, run_here, run_onnxruntime
from tests.gradient.checks import apart, check_gradient
from tests.op.harness import check

REGIONS = np.array(
    [[1, 0.0, 1.0, 4.0, 9.0], [0, 2.0, 0.0, 20.0, 5.0], [1, 3.0, 3.0, 3.0, 3.0], [0, 30.0, 2.0, 40.0, 4.0]]
)
"""Within the image, beyond its edge in part and wholly, and a single element."""


def looped(data: np.ndarray, rois: np.ndarray, pooled: tuple[int, int], scale: float) -> np.ndarray:
    found = np.zeros((len(rois), data.shape[1], *pooled))
    for number, (image, *corners) in enumerate(rois.tolist()):
        left, top, right, bottom = (floor(corner * scale + 0.5) for corner in corners)
        for down in range(pooled[0]):
            for across in range(pooled[1]):
                spans: list[slice] = []
                for place, bins, first, last, size in (
                    (down, pooled[0], top, bottom, data.shape[2]),
                    (across, pooled[1], left, right, data.shape[3]),
                ):
                    extent = max(last - first + 1, 1)
                    start, end = first + floor(place * extent / bins), first + ceil((place + 1) * extent / bins)
                    spans.append(slice(min(max(start, 0), size), min(max(end, 0), size)))
                part = data[int(image), :, spans[0], spans[1]]
                if part.size:
                    found[number, :, down, across] = part.max(axis=(1, 2))
    return found.astype(data.dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(("pooled", "scale"), [((2, 3), 1.0), ((3, 1), 0.5), ((4, 5), 0.3)])
def test_the_greatest_elements_are_those_of_plain_loops(pooled: tuple[int, int], scale: float, dtype: Any) -> None:
    data, rois = apart(2, 3, 7, 6).astype(dtype), REGIONS.astype(dtype)
    check(lambda *x: vision.roi_pool(*x, pooled, scale), [data, rois], looped(data, rois, pooled, scale))


def test_a_node_of_onnx_is_read_as_onnxruntime_runs_it() -> None:
    inputs = {"x": apart(2, 3, 7, 6).astype(np.float32), "rois": REGIONS.astype(np.float32)}
    model = one_node("MaxRoiPool", inputs, opset=16, pooled_shape=[2, 3], spatial_scale=0.5)
    for target in ("numpy", "onnxruntime"):
        assert_same(run_here(model, inputs, target), run_onnxruntime(model, inputs))


def test_channels_may_be_last_and_sizes_unknown() -> None:
    n, k, h, w = (SymVar(name) for name in "nkhw")
    params = [Var("x", TensorType((n, h, w, 3), "float64")), Var("r", TensorType((k, 5), "float64"))]
    function = Function(params, vision.roi_pool(*params, (2, 3), 1.0, layout="NHWC"))
    data = apart(2, 3, 7, 6)
    expected = looped(data, REGIONS, (2, 3), 1.0).transpose(0, 2, 3, 1)
    for target in ("numpy", "torch", "onnxruntime"):
        found = rx.build(function, target=target)["main"](data.transpose(0, 2, 3, 1).copy(), REGIONS)
        np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_the_greatest_elements_have_the_gradient_of_finite_differences(layout: str) -> None:
    image = apart(2, 3, 5, 4) if layout == "NCHW" else apart(2, 5, 4, 3)
    check_gradient(lambda x: vision.roi_pool(x, R.const(REGIONS, "float64"), (2, 3), 0.5, layout), image)


@pytest.mark.parametrize("target", ["torch", "onnxruntime"])
def test_the_adjoint_runs_on_every_engine(target: str) -> None:
    shapes = [(4, 3, 2, 3), (2, 3, 7, 6), (4, 5)]
    params = [Var(f"x{place}", TensorType(shape, "float32")) for place, shape in enumerate(shapes)]
    function = Function(params, vision.roi_pool_backward(*params, (2, 3), 1.0))
    arrays = [apart(*shapes[0]).astype(np.float32), apart(*shapes[1]).astype(np.float32), REGIONS.astype(np.float32)]
    expected = np.asarray(rx.build(function, target="numpy")["main"](*arrays))
    np.testing.assert_allclose(np.asarray(rx.build(function, target=target)["main"](*arrays)), expected, atol=1e-6)


def test_the_adjoint_is_not_differentiated_again() -> None:
    adjoint, data = Var("g", TensorType((2, 1, 2, 2), "float64")), Var("x", TensorType((2, 1, 4, 3), "float64"))
    call = vision.roi_pool_backward(adjoint, data, Var("r", TensorType((2, 5), "float64")), 2, 0.5)
    assert call.ty == data.ty
    assert call.op.gradient is not None
    with pytest.raises(GradientError, match="roi_pool can be differentiated once"):
        call.op.gradient(call, Var("y", call.ty), Var("a", call.ty))


X = Var("x", TensorType((1, 3, 4, 5), "float32"))
ROIS = Var("r", TensorType((2, 5), "float32"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: vision.roi_pool(X, X, 2, 1.0), r"argument rois .* 2 dimensions: \(regions, 5\)"),
        (lambda: vision.roi_pool(X, ROIS, (2, 0), 1.0), r"pooled_size=\(2, 0\); expected ints of at least 1"),
        (lambda: vision.roi_pool(X, ROIS, 2, 1.0, "NCW"), r"layout='NCW'"),
        (lambda: vision.roi_pool_backward(X, X, ROIS, 2, 1.0), r"output_grad .* \(2, 3, 2, 2\)"),
    ],
)
def test_a_wrong_call_names_operand_and_expectation(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()
