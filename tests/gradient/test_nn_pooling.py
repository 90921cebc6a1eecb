"""The gradients of pooling, adaptive pooling and padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regraft.ir import SymVar, TensorType
from regraft.script import relax as R
from tests.gradient.checks import apart, check_gradient, check_second_order, gradients, loss_module, numbers

SIZES = (7, 6, 5)
MAX = (R.nn.max_pool1d, R.nn.max_pool2d, R.nn.max_pool3d)
AVG = (R.nn.avg_pool1d, R.nn.avg_pool2d, R.nn.avg_pool3d)
ADAPTIVE = (R.nn.adaptive_avg_pool1d, R.nn.adaptive_avg_pool2d, R.nn.adaptive_avg_pool3d)
TORCH_MAX = (F.max_pool1d, F.max_pool2d, F.max_pool3d)
TORCH_AVG = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)
TORCH_ADAPTIVE = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)


def data(rank: int) -> np.ndarray:
    return apart(2, 3, *SIZES[:rank])


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 1, 2), (3, 0, 1)])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_max_pooling_has_the_gradient_of_both_oracles(
    rank: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> None:
    window = (3, 2, 3)[:rank]
    check_gradient(
        lambda x: MAX[rank - 1](x, window, stride, padding, dilation, ceil_mode),
        data(rank),
        reference=lambda x: TORCH_MAX[rank - 1](x, window, stride, padding, dilation, ceil_mode),
        differences=rank < 3 and stride > 1,
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_first_of_equal_elements_gets_the_gradient(rank: int) -> None:
    x = np.random.default_rng(3).integers(0, 3, (2, 3, *SIZES[:rank])).astype("float64")
    check_gradient(
        lambda x: MAX[rank - 1](x, 3, 2, 1),
        x,
        reference=lambda x: TORCH_MAX[rank - 1](x, 3, 2, 1),
        differences=False,
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("stride", "padding"), [(1, 0), (2, 1), (3, 0)])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("count_include_pad", [False, True])
def test_average_pooling_has_the_gradient_of_both_oracles(
    rank: int, stride: int, padding: int, ceil_mode: bool, count_include_pad: bool
) -> None:
    window = (3, 2, 3)[:rank]
    check_gradient(
        lambda x: AVG[rank - 1](x, window, stride, padding, 1, ceil_mode, count_include_pad),
        data(rank),
        reference=lambda x: TORCH_AVG[rank - 1](x, window, stride, padding, ceil_mode, count_include_pad),
        differences=rank < 3 and stride > 1,
    )


@pytest.mark.parametrize("pool", [R.nn.max_pool2d, R.nn.avg_pool2d])
def test_uneven_padding_and_layouts_have_the_gradient_of_finite_differences(pool: Any) -> None:
    attrs = {"padding": (1, 0, 0, 1), "layout": "NHWC", "out_layout": "CNWH"}
    check_gradient(lambda x: pool(x, (3, 2), (2, 1), **attrs), apart(2, 5, 6, 3))


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("pools", [MAX, AVG])
def test_layouts_of_other_ranks_have_the_gradient_of_finite_differences(rank: int, pools: Any) -> None:
    layout, out = {1: ("NWC", "CWN"), 3: ("DNHWC", "NDHCW")}[rank]
    x = apart(*{1: (2, 7, 3), 3: (4, 1, 3, 5, 2)}[rank])
    check_gradient(lambda x: pools[rank - 1](x, 2, 2, layout=layout, out_layout=out), x)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_pooling_can_be_differentiated_twice(rank: int, ceil_mode: bool) -> None:
    for ours, theirs in ((MAX, TORCH_MAX), (AVG, TORCH_AVG)):
        check_second_order(
            lambda x, pool=ours[rank - 1]: R.sin(pool(x, 3, 2, 1, ceil_mode=ceil_mode, count_include_pad=True)),
            data(rank),
            reference=lambda x, pool=theirs[rank - 1]: torch.sin(pool(x, 3, 2, 1, ceil_mode=ceil_mode)),
            differences=False,
        )


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("pools", [MAX, AVG])
def test_pooling_of_symbolic_sizes_has_the_gradient_of_finite_differences(rank: int, pools: Any) -> None:
    x = apart(2, 1, *(5, 4, 3)[:rank])
    types = [TensorType((SymVar("n"), 1, *[SymVar(f"s{axis}") for axis in range(rank)]), "float64")]
    check_gradient(lambda x: R.sin(pools[rank - 1](x, 2, 2)), x, types=types)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("target", [1, 2, 4])
def test_adaptive_pooling_has_the_gradient_of_both_oracles(rank: int, target: int) -> None:
    targets = (target, 3, 2)[:rank]
    check_gradient(
        lambda x: ADAPTIVE[rank - 1](x, targets),
        data(rank),
        reference=lambda x: TORCH_ADAPTIVE[rank - 1](x, targets),
        differences=rank < 3,
    )


def test_adaptive_pooling_in_other_layouts_has_the_gradient_of_finite_differences() -> None:
    check_gradient(lambda x: R.nn.adaptive_avg_pool2d(x, (2, 3), "NHWC", "CNHW"), numbers(2, 5, 4, 3))
    check_gradient(lambda x: R.nn.adaptive_avg_pool2d(x, None, "NHWC", "CNHW"), numbers(2, 5, 4, 3))


@pytest.mark.parametrize("target", [1, 2, 4])
def test_adaptive_pooling_of_symbolic_sizes_has_the_gradient_of_finite_differences(target: int) -> None:
    types = [TensorType((2, 3, SymVar("h"), SymVar("w")), "float64")]
    check_gradient(lambda x: R.sin(R.nn.adaptive_avg_pool2d(x, (target, 2))), numbers(2, 3, 5, 4), types=types)


PADS = {
    "constant": [(0, 0, 1, 2, 3, 0), (0, 0, -1, 2, 1, -2)],
    "reflect": [(0, 0, 1, 2, 3, 0), (0, 0, 0, 0, 2, -1), (0, 0, 0, 0, 9, 7)],
    "replicate": [(1, 0, 1, 2, 3, 0), (0, 0, -1, 2, 0, 3)],
    "circular": [(0, 0, 1, 2, 3, 0), (0, 0, -1, 1, 1, -2)],
}


@pytest.mark.parametrize(("mode", "widths"), [(mode, widths) for mode, all_ in PADS.items() for widths in all_])
def test_padding_takes_the_gradient_back_to_where_it_came_from(mode: str, widths: tuple[int, ...]) -> None:
    check_gradient(lambda x: R.nn.pad(x, widths, mode, 7.0), numbers(2, 3, 4))
    check_second_order(lambda x: R.sin(R.nn.pad(x, widths, mode)), numbers(2, 3, 4))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_has_the_gradient_of_pytorch(mode: str) -> None:
    check_gradient(
        lambda x: R.nn.pad(x, (0, 0, 0, 0, 1, 2, 3, 1), mode),
        numbers(2, 3, 5, 4),
        reference=lambda x: F.pad(x, (3, 1, 1, 2), mode),
    )


@pytest.mark.parametrize("mode", PADS)
def test_padding_of_symbolic_sizes_has_the_gradient_of_finite_differences(mode: str) -> None:
    types = [TensorType((SymVar("n"), SymVar("m")), "float64")]
    for widths in [(1, 2, 0, 3), (5, 0, -1, 4)]:
        check_gradient(lambda x, widths=widths: R.sin(R.nn.pad(x, widths, mode)), numbers(3, 4), types=types)


def test_means_in_half_precision_keep_its_dtype() -> None:
    x = numbers(2, 3, 6, 6).astype("float16")
    module = loss_module(lambda x: R.astype(R.nn.adaptive_avg_pool2d(x, 4), "float64"), [x])
    (found,) = gradients(module, [x])
    assert found.dtype == np.float16
