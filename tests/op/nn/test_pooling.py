"""Pooling against PyTorch: ceil mode, dilation, uneven padding, what counts in a mean, layouts, integers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.nn import functional

from regraft.ir import Call, OpTypeError, SymVar, TensorType, Var
from regraft.ir.dims import ceildiv, dim_min
from regraft.op import nn
from tests.kit import normal
from tests.op.harness import check

random = partial(normal, scale=10)

MAX = {1: nn.max_pool1d, 2: nn.max_pool2d, 3: nn.max_pool3d}
AVG = {1: nn.avg_pool1d, 2: nn.avg_pool2d, 3: nn.avg_pool3d}
ADAPTIVE = {1: nn.adaptive_avg_pool1d, 2: nn.adaptive_avg_pool2d, 3: nn.adaptive_avg_pool3d}
TORCH_MAX: dict[int, Any] = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
TORCH_AVG: dict[int, Any] = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}
TORCH_ADAPTIVE: dict[int, Any] = {
    1: functional.adaptive_avg_pool1d,
    2: functional.adaptive_avg_pool2d,
    3: functional.adaptive_avg_pool3d,
}
SHAPES = {1: (2, 3, 11), 2: (2, 3, 9, 11), 3: (1, 2, 6, 9, 8)}


def wide(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.array(array, np.float64, order="C"))


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(
    ("size", "stride", "padding"), [(1, 1, 0), (2, 2, 0), (3, 2, 1), (3, 4, 1), (4, 3, 2), (2, 3, 1)]
)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pooling_agrees_with_pytorch(rank: int, size: int, stride: int, padding: int, ceil_mode: bool) -> None:
    x = random(SHAPES[rank])
    given: dict[str, Any] = {"padding": padding, "ceil_mode": ceil_mode}
    exact = TORCH_MAX[rank](wide(x), size, stride, **given).numpy().astype(np.float32)
    check(lambda x: MAX[rank](x, size, stride, **given), [x], exact)
    for counted in (False, True):
        exact = TORCH_AVG[rank](wide(x), size, stride, count_include_pad=counted, **given).numpy().astype(np.float32)
        check(lambda x, c=counted: AVG[rank](x, size, stride, count_include_pad=c, **given), [x], exact)


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_max_pooling_may_be_dilated(ceil_mode: bool) -> None:
    x = random((2, 3, 9, 11))
    exact = functional.max_pool2d(wide(x), (2, 3), (2, 1), (1, 1), (2, 3), ceil_mode).numpy().astype(np.float32)
    check(lambda x: nn.max_pool2d(x, (2, 3), (2, 1), 1, dilation=(2, 3), ceil_mode=ceil_mode), [x], exact)


def test_a_dilated_mean_counts_the_elements_that_its_windows_touch() -> None:
    x = np.array([[[1, 2, 3, 4, 5]]], np.float32)
    check(
        lambda x: nn.avg_pool1d(x, 2, 1, 1, 2, count_include_pad=False),
        [x],
        np.array([[[2, 2, 3, 4, 4]]], np.float32),
    )
    check(lambda x: nn.avg_pool1d(x, 2, 1, 1, 2), [x], np.array([[[1, 2, 3, 4, 2]]], np.float32))


def test_padding_may_be_uneven() -> None:
    x = random((2, 3, 5, 6))
    padded = np.pad(x, [(0, 0), (0, 0), (1, 0), (0, 2)])
    exact = functional.avg_pool2d(wide(padded), 3, 2).numpy().astype(np.float32)
    check(lambda x: nn.avg_pool2d(x, 3, 2, padding=(1, 0, 0, 2), count_include_pad=True), [x], exact)
    least = np.pad(x, [(0, 0), (0, 0), (1, 0), (0, 2)], constant_values=-np.inf)
    exact = functional.max_pool2d(wide(least), 3, 2).numpy().astype(np.float32)
    check(lambda x: nn.max_pool2d(x, 3, 2, padding=(1, 0, 0, 2)), [x], exact)


@pytest.mark.parametrize(("layout", "out_layout"), [("NHWC", None), ("HCWN", "NCHW"), ("NCHW", "NHWC")])
def test_pooling_takes_any_order_of_axes(layout: str, out_layout: str | None) -> None:
    x = random((2, 3, 5, 7))

    def arrange(array: np.ndarray, order: str) -> np.ndarray:
        return array.transpose(["NCHW".index(letter) for letter in order])

    given: dict[str, Any] = {"layout": layout, "out_layout": out_layout}
    exact = functional.max_pool2d(wide(x), (2, 3), (2, 1)).numpy().astype(np.float32)
    check(
        lambda x: nn.max_pool2d(x, (2, 3), (2, 1), **given),
        [arrange(x, layout)],
        arrange(exact, out_layout or layout),
    )
    exact = functional.avg_pool2d(wide(x), (2, 3), (2, 1)).numpy().astype(np.float32)
    check(
        lambda x: nn.avg_pool2d(x, (2, 3), (2, 1), **given),
        [arrange(x, layout)],
        arrange(exact, out_layout or layout),
    )
    exact = functional.adaptive_avg_pool2d(wide(x), (2, 3)).numpy().astype(np.float32)
    check(
        lambda x: nn.adaptive_avg_pool2d(x, (2, 3), **given),
        [arrange(x, layout)],
        arrange(exact, out_layout or layout),
    )


@pytest.mark.parametrize("size", [1, 3, 4, 7, 20])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_adaptive_pooling_agrees_with_pytorch(rank: int, size: int) -> None:
    x = random(SHAPES[rank])
    exact = TORCH_ADAPTIVE[rank](wide(x), size).numpy().astype(np.float32)
    check(lambda x: ADAPTIVE[rank](x, size), [x], exact)
    check(ADAPTIVE[rank], [x], x)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16], ids=str)
def test_narrow_floats_are_averaged_exactly_and_rounded_once(dtype: Any) -> None:
    x = random((2, 3, 9, 11), dtype)
    check(
        lambda x: nn.max_pool2d(x, 3, 2, 1),
        [x],
        functional.max_pool2d(wide(x), 3, 2, 1).numpy().astype(dtype),
    )
    exact = functional.avg_pool2d(wide(x), 3, 2, 1, count_include_pad=False).numpy().astype(dtype)
    check(lambda x: nn.avg_pool2d(x, 3, 2, 1), [x], exact)
    check(
        lambda x: nn.adaptive_avg_pool2d(x, 4),
        [x],
        functional.adaptive_avg_pool2d(wide(x), 4).numpy().astype(dtype),
    )


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_means_of_integers_do_not_overflow_and_are_rounded_towards_zero(dtype: Any) -> None:
    x = np.array([[[100, 101, 102, 120, 127, 126]]], dtype)
    x = x if dtype == np.uint8 else x * np.array([1, -1, 1, -1, 1, -1], dtype)
    pairs = np.stack([x[0, 0, :-1], x[0, 0, 1:]]).astype(np.float64).mean(0)
    check(lambda x: nn.avg_pool1d(x, 2), [x], np.trunc(pairs).astype(dtype).reshape(1, 1, 5))
    thirds = x.astype(np.float64).reshape(1, 1, 2, 3).mean(-1)
    check(lambda x: nn.adaptive_avg_pool1d(x, 2), [x], np.trunc(thirds).astype(dtype))
    most = np.maximum(x[..., :-1], x[..., 1:])
    check(lambda x: nn.max_pool1d(x, 2, padding=(0, 0)), [x], most)


def test_a_nan_reaches_its_windows_only() -> None:
    x = random((1, 1, 6))
    x[0, 0, 2] = np.nan
    expected = functional.max_pool1d(wide(x), 2, 2).numpy().astype(np.float32)
    check(lambda x: nn.max_pool1d(x, 2, 2), [x], expected, onnx_too=False)  # ONNX Runtime passes over NaN
    x[0, 0, 2] = np.inf
    for build, oracle in (
        (lambda x: nn.avg_pool1d(x, 2, 2), functional.avg_pool1d(wide(x), 2, 2)),
        (lambda x: nn.adaptive_avg_pool1d(x, 3), functional.adaptive_avg_pool1d(wide(x), 3)),
    ):
        check(build, [x], oracle.numpy().astype(np.float32))


def test_pooling_of_no_images_is_empty() -> None:
    x = np.zeros((0, 3, 5, 6), np.float32)
    check(lambda x: nn.max_pool2d(x, 2), [x], np.zeros((0, 3, 4, 5), np.float32))
    check(lambda x: nn.avg_pool2d(x, 2, 2), [x], np.zeros((0, 3, 2, 3), np.float32))
    check(lambda x: nn.adaptive_avg_pool2d(x, 2), [x], np.zeros((0, 3, 2, 2), np.float32))


def test_the_sizes_of_pooling_follow_symbolic_ones() -> None:
    n, m = SymVar("n"), SymVar("m")
    x = Var("x", TensorType((n, 3, m, 8), "float32"))
    assert nn.max_pool2d(x, 3, 2, 1).ty == TensorType((n, 3, (m - 1) // 2 + 1, 4), "float32")
    ceil = dim_min(ceildiv(m - 2, 2) + 1, ceildiv(m, 2))
    assert nn.avg_pool2d(x, 2, 2, ceil_mode=True).ty == TensorType((n, 3, ceil, 4), "float32")
    assert nn.adaptive_avg_pool2d(x, (2, 5)).ty == TensorType((n, 3, 2, 5), "float32")
    assert nn.adaptive_avg_pool2d(x, out_layout="NHWC").ty == TensorType((n, m, 8, 3), "float32")
    for ty in (TensorType(None, "float16"), TensorType(None, "float16", 4)):
        u = Var("u", ty)
        for build in (nn.max_pool2d, nn.avg_pool2d, nn.adaptive_avg_pool2d):
            assert build(u).ty == TensorType(None, "float16", 4)


def test_padding_counts_by_default_in_one_and_three_dimensions_only() -> None:
    counts = [AVG[rank](Var("x", TensorType(None, "float32"))).attrs.count_include_pad for rank in (1, 2, 3)]
    assert counts == [True, False, True]


X = Var("x", TensorType((2, 3, 5, 6), "float32"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: nn.max_pool2d(X, 6),
            r"max_pool2d: argument data .* window of 6 elements fits on, not 5 \+ 0 padding",
        ),
        (lambda: nn.max_pool2d(X, 0), r"pool_size=\(0, 0\); expected ints of at least 1"),
        (lambda: nn.max_pool1d(X, 2), r"a tensor of 3 dimensions, for layout='NCW'"),
        (lambda: nn.avg_pool2d(X, 2, layout="NCHW16x"), r"an order of the letters NCHW"),
        (
            lambda: nn.avg_pool2d(X, 2, out_layout="NCW"),
            r"out_layout='NCW'; expected an order of the letters NCHW",
        ),
        (lambda: nn.avg_pool2d(Var("b", TensorType((1, 1, 5, 5), "bool")), 2), r"numbers, not bool"),
        (lambda: nn.adaptive_avg_pool2d(X, 0), r"output_size=\(0, 0\); expected ints of at least 1"),
        (lambda: nn.adaptive_avg_pool2d(X, (1, 2, 3)), r"expected 1 or 2 ints"),
    ],
)
def test_wrong_pooling_names_operand_and_expectation(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()
