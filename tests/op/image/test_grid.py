"""Sampling by a grid, and grids of affine maps, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.nn import functional

from regraft.ir import Call, OpTypeError, ShapeExpr, ShapeType, SymVar, TensorType, Var
from regraft.op import image
from tests.kit import normal as random
from tests.op.harness import check


def torch_sample(x: np.ndarray, grid: np.ndarray, method: str, padding_mode: str, align_corners: bool) -> np.ndarray:
    last = torch.from_numpy(np.moveaxis(grid.astype(np.float64), 1, -1).copy())
    wide = torch.from_numpy(x.astype(np.float64))
    return functional.grid_sample(wide, last, method, padding_mode, align_corners).numpy().astype(x.dtype)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("method", ["bilinear", "nearest", "bicubic"])
def test_a_sampled_image_agrees_with_pytorch(method: str, padding_mode: str, align_corners: bool) -> None:
    x, grid = random((2, 3, 5, 6)), random((2, 2, 4, 7), seed=1) * 1.5
    expected = torch_sample(x, grid, method, padding_mode, align_corners)
    check(lambda x, g: image.grid_sample(x, g, method, "NCHW", padding_mode, align_corners), [x, grid], expected)
    check(
        lambda x, g: image.grid_sample(x, g, method, "NHWC", padding_mode, align_corners),
        [x.transpose(0, 2, 3, 1), grid],
        expected.transpose(0, 2, 3, 1),
    )


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("method", ["bilinear", "nearest"])
def test_a_sampled_volume_agrees_with_pytorch(method: str, padding_mode: str) -> None:
    x, grid = random((2, 3, 4, 5, 6)), random((2, 3, 2, 3, 4), seed=1)
    expected = torch_sample(x, grid, method, padding_mode, False)
    check(lambda x, g: image.grid_sample(x, g, method, "NCDHW", padding_mode), [x, grid], expected)


def test_narrow_floats_are_mixed_in_float32() -> None:
    for dtype in (np.float16, ml_dtypes.bfloat16):
        x, grid = random((1, 2, 5, 6)).astype(dtype), random((1, 2, 3, 4), seed=1)
        check(image.grid_sample, [x, grid], torch_sample(x, grid, "bilinear", "zeros", False))


def test_an_infinite_edge_does_not_reach_beyond_the_image() -> None:
    x = np.full((1, 1, 2, 2), np.inf, np.float32)
    check(image.grid_sample, [x, np.full((1, 2, 1, 1), 5.0, np.float32)], np.zeros((1, 1, 1, 1), np.float32))


def test_sampling_of_no_images_is_empty() -> None:
    check(
        image.grid_sample,
        [np.zeros((0, 3, 4, 5), np.float32), np.zeros((0, 2, 6, 7), np.float32)],
        np.zeros((0, 3, 6, 7), np.float32),
    )


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", [(4, 7), (1, 3), (2, 3, 5)])
def test_an_affine_grid_agrees_with_pytorch(size: tuple[int, ...], align_corners: bool) -> None:
    rank = len(size)
    theta = random((2, rank, rank + 1))
    exact = functional.affine_grid(torch.from_numpy(theta.astype(np.float64)), [2, 1, *size], align_corners).numpy()
    check(lambda t: image.affine_grid(t, size, align_corners), [theta], np.moveaxis(exact, -1, 1).astype(np.float32))


def test_types_are_as_precise_as_the_operands() -> None:
    n, m = SymVar("n"), SymVar("m")
    x, grid = Var("x", TensorType((n, 3, 5, 6), "float16")), Var("g", TensorType((n, 2, m, 7), "float32"))
    assert image.grid_sample(x, grid).ty == TensorType((n, 3, m, 7), "float16")
    assert image.grid_sample(Var("u", TensorType(dtype=None)), grid).ty == TensorType(None, None, 4)
    theta = Var("t", TensorType((n, 2, 3), "float32"))
    assert image.affine_grid(theta, ShapeExpr([m, 4])).ty == TensorType((n, 2, m, 4), "float32")
    assert image.affine_grid(theta, 4).ty == TensorType((n, 2, 4, 4), "float32")
    assert image.affine_grid(theta, Var("s", ShapeType(None, 2))).ty == TensorType(None, "float32", 4)
    assert image.affine_grid(Var("u", TensorType(None, "float32")), (m, 4)).ty == TensorType(None, "float32", 4)


def var(*shape: int, dtype: str = "float32") -> Var:
    return Var("x", TensorType(shape, dtype))


X, G = var(2, 3, 5, 6), var(2, 2, 7, 8)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: image.grid_sample(X, var(2, 7, 8, 2)), r"argument grid .* 2 coordinates on axis 1"),
        (lambda: image.grid_sample(X, var(1, 2, 7, 8)), r"argument grid .* the batch size of data, 2"),
        (lambda: image.grid_sample(X, var(2, 2, 7)), r"argument grid .* 4 dimensions"),
        (lambda: image.grid_sample(X, G, "linear"), r"method='linear'; expected one of bilinear"),
        (lambda: image.grid_sample(X, G, padding_mode="wrap"), r"padding_mode='wrap'; expected one of zeros"),
        (lambda: image.grid_sample(X, G, layout="NCW"), r"layout='NCW'; expected an order of the letters NCHW or"),
        (lambda: image.grid_sample(X, G, "bicubic", "NCDHW"), r"method='bicubic'; expected .* three spatial axes"),
        (lambda: image.grid_sample(var(2, 3, 5, 6, dtype="int8"), G), r"argument data .* floating"),
        (lambda: image.affine_grid(var(2, 3, 3), (4, 5, 6)), r"one column more than rows, 4"),
        (lambda: image.affine_grid(var(2, 4, 5), (4, 5)), r"shape \(batch, 2, 3\) or \(batch, 3, 4\)"),
        (lambda: image.affine_grid(var(2, 2, 3), (4, 5, 6)), r"argument size .* 2 sizes"),
    ],
)
def test_a_wrong_grid_names_operand_and_expectation(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()
