"""The gradients of resizing, of sampling at the places of a grid, and of grids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regraft.gradient import Gradient
from regraft.ir import SymVar, TensorType
from regraft.script import relax as R
from tests.gradient.checks import check_gradient, check_second_order, loss_module, numbers

IMAGE = numbers(2, 3, 5, 4)


@pytest.mark.parametrize("size", [(3, 7), (10, 8), (1, 4)])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize(("method", "mode"), [("linear", "bilinear"), ("cubic", "bicubic")])
def test_resizing_has_the_gradient_of_both_oracles(size: tuple[int, int], align: bool, method: str, mode: str) -> None:
    check_gradient(
        lambda x: R.image.resize2d(
            x, size, method=method, coordinate_transformation_mode="align_corners" if align else "half_pixel"
        ),
        IMAGE,
        reference=lambda x: F.interpolate(x, size, mode=mode, align_corners=align),
    )


@pytest.mark.parametrize(
    ("coordinates", "rounding", "mode"),
    [("asymmetric", "floor", "nearest"), ("half_pixel", "round_prefer_ceil", "nearest-exact")],
)
def test_resizing_to_the_nearest_element_has_the_gradient_of_both_oracles(
    coordinates: str, rounding: str, mode: str
) -> None:
    attrs = {"coordinate_transformation_mode": coordinates, "rounding_method": rounding}
    check_gradient(
        lambda x: R.image.resize2d(x, (7, 6), method="nearest_neighbor", **attrs),
        IMAGE,
        reference=lambda x: F.interpolate(x, (7, 6), mode=mode),
    )


@pytest.mark.parametrize(
    "attrs",
    [
        {"layout": "NHWC"},
        {"coordinate_transformation_mode": "pytorch_half_pixel"},
        {"method": "cubic", "cubic_exclude": 1, "cubic_alpha": -0.5},
        {"method": "nearest_neighbor", "coordinate_transformation_mode": "tf_half_pixel_for_nn"},
        {
            "coordinate_transformation_mode": "tf_crop_and_resize",
            "roi": (0.2, -0.3, 1.4, 0.9),
            "extrapolation_value": 7.0,
        },
    ],
    ids=str,
)
def test_every_way_of_resizing_has_the_gradient_of_finite_differences(attrs: dict[str, Any]) -> None:
    check_gradient(lambda x: R.image.resize2d(x, (6, 3), **attrs), IMAGE)
    check_second_order(lambda x: R.sin(R.image.resize2d(x, (2, 3), **attrs)), IMAGE[:1, :, :3])


@pytest.mark.parametrize("method", ["nearest_neighbor", "linear", "cubic"])
def test_resizing_a_volume_has_the_gradient_of_finite_differences(method: str) -> None:
    check_gradient(
        lambda x: R.image.resize3d(x, (4, 2, 5), layout="NDHWC", method=method), numbers(2, 3, 4, 2, 1), rtol=1e-5
    )


SYMBOLIC = [TensorType((SymVar("n"), 3, SymVar("h"), SymVar("w")), "float64")]


@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"coordinate_transformation_mode": "align_corners"},
        {"method": "cubic", "cubic_exclude": 1},
        {"method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric", "rounding_method": "floor"},
        {"coordinate_transformation_mode": "tf_crop_and_resize", "roi": (0.2, -0.3, 1.4, 0.9)},
    ],
)
def test_resizing_symbolic_sizes_has_the_gradient_of_finite_differences(attrs: dict[str, Any]) -> None:
    check_gradient(lambda x: R.sin(R.image.resize2d(x, (6, 8), **attrs)), IMAGE, types=SYMBOLIC)


def test_resizing_to_a_multiple_of_a_symbolic_size_has_the_gradient_of_finite_differences() -> None:
    h, w = SYMBOLIC[0].shape[2:]
    check_gradient(lambda x: R.sin(R.image.resize2d(x, R.shape([2 * h, 3 * w]))), IMAGE, types=SYMBOLIC)


@pytest.mark.parametrize("method", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
def test_sampling_symbolic_sizes_has_the_gradient_of_finite_differences(
    method: str, padding_mode: str, align: bool
) -> None:
    n, h, w = SymVar("n"), SymVar("h"), SymVar("w")
    types = [TensorType((n, 3, h, w), "float64"), TensorType((n, 2, SymVar("p"), 3), "float64")]

    def sample(x: Any, grid: Any) -> Any:
        return R.image.grid_sample(x, grid, method, "NCHW", padding_mode, align)

    check_gradient(sample, IMAGE, GRID, types=types)
    if padding_mode != "zeros":
        check_gradient(sample, IMAGE[:, :, :1], GRID, types=types)


@pytest.mark.parametrize("align", [False, True])
def test_a_grid_of_symbolic_sizes_has_the_gradient_of_finite_differences(align: bool) -> None:
    n, h = SymVar("n"), SymVar("h")
    types = [TensorType((n, 2, 3), "float64"), TensorType((n, 1, h, 4), "float64")]

    def grid_beside(theta: Any, x: Any) -> Any:
        return R.sin(R.image.affine_grid(theta, R.shape([h, 4]), align) + x)

    check_gradient(grid_beside, numbers(2, 2, 3), numbers(2, 1, 5, 4), types=types)


GRID = numbers(2, 2, 4, 3, low=-1.3, high=1.3, seed=1)


@pytest.mark.parametrize("method", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
def test_sampling_has_the_gradient_of_both_oracles(method: str, padding_mode: str, align: bool) -> None:
    def reference(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid.permute(0, 2, 3, 1), method, padding_mode, align)

    check_gradient(
        lambda x, grid: R.image.grid_sample(x, grid, method, "NCHW", padding_mode, align),
        IMAGE,
        GRID,
        reference=reference,
    )


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
def test_sampling_a_volume_has_the_gradient_of_both_oracles(padding_mode: str, align: bool) -> None:
    def reference(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid.permute(0, 2, 3, 4, 1), "bilinear", padding_mode, align)

    check_gradient(
        lambda x, grid: R.image.grid_sample(x, grid, "bilinear", "NCDHW", padding_mode, align),
        numbers(2, 3, 4, 5, 2),
        numbers(2, 3, 2, 1, 5, low=-1.2, high=1.2, seed=1),
        reference=reference,
        rtol=1e-5,
    )


def test_sampling_in_another_layout_has_the_gradient_of_finite_differences() -> None:
    check_gradient(lambda x, grid: R.image.grid_sample(x, grid, layout="HNWC"), numbers(5, 2, 4, 3), GRID)


def test_sampling_can_be_differentiated_twice() -> None:
    small, grid = numbers(1, 2, 3, 4), numbers(1, 2, 2, 2, seed=1, low=-0.9, high=0.9)
    check_second_order(lambda *x: R.sin(R.image.grid_sample(*x)), small, grid)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(4, 3), (2, 5, 3)])
def test_the_grid_of_an_affine_map_has_the_gradient_of_both_oracles(align: bool, size: tuple[int, ...]) -> None:
    rank = len(size)
    check_gradient(
        lambda theta: R.image.affine_grid(theta, size, align),
        numbers(2, rank, rank + 1),
        reference=lambda theta: F.affine_grid(theta, [2, 1, *size], align).movedim(-1, 1),
    )


def test_sampling_in_half_precision_keeps_the_dtypes() -> None:
    narrow = [IMAGE.astype("float16"), GRID.astype("float32")]
    module = loss_module(lambda *x: R.astype(R.image.grid_sample(*x), "float64"), narrow)
    adjoint = Gradient("main")(module)["main_adjoint"]
    assert [field.dtype for field in adjoint.ret_ty.fields[1].fields] == ["float16", "float32"]
    assert np.dtype(narrow[0].dtype) == np.float16
