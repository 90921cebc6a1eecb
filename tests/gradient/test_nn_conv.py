"""The gradients of convolutions and transposed ones: strides, dilation, groups, uneven padding, any layout."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regraft.gradient import Gradient, GradientError
from regraft.ir import SymVar, TensorType
from regraft.script import relax as R
from tests.gradient.checks import check_gradient, check_second_order, gradients, loss_module, numbers

SIZES = (7, 6, 5)
KERNEL = (3, 2, 2)
CONV = (R.nn.conv1d, R.nn.conv2d, R.nn.conv3d)
TRANSPOSE = (R.nn.conv1d_transpose, R.nn.conv2d_transpose, R.nn.conv3d_transpose)
TORCH_CONV = (F.conv1d, F.conv2d, F.conv3d)
TORCH_TRANSPOSE = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)


def operands(rank: int, groups: int, *, transposed: bool = False) -> list[np.ndarray]:
    """Data and a kernel whose sizes are all different."""
    channels, outputs = 2 * groups, 3 * groups
    kernel = (channels, outputs // groups) if transposed else (outputs, channels // groups)
    return [numbers(2, channels, *SIZES[:rank]), numbers(*kernel, *KERNEL[:rank], seed=1)]


def uneven(rank: int) -> tuple[list[int], list[int]]:
    """More padding after than before, and PyTorch's order of it: last axis first."""
    before, after = [1, 0, 2][:rank], [2, 1, 0][:rank]
    flat = [width for pads in reversed(list(zip(before, after, strict=True))) for width in pads]
    return [*before, *after], flat


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("stride", "dilation", "groups"), [(1, 1, 1), (2, 1, 2), (1, 2, 2), (3, 2, 1)])
def test_a_convolution_has_the_gradient_of_both_oracles(rank: int, stride: int, dilation: int, groups: int) -> None:
    padding, flat = uneven(rank)
    attrs: dict[str, Any] = {"dilation": dilation, "groups": groups}

    def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return TORCH_CONV[rank - 1](F.pad(x, flat), w, stride=stride, **attrs)

    check_gradient(
        lambda x, w: CONV[rank - 1](x, w, strides=stride, padding=padding, **attrs),
        *operands(rank, groups),
        reference=reference,
        differences=rank < 3,
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    ("stride", "dilation", "groups", "extra"), [(1, 1, 1, 0), (2, 1, 2, 1), (1, 2, 2, 0), (3, 2, 1, 2)]
)
def test_a_transposed_convolution_has_the_gradient_of_both_oracles(
    rank: int, stride: int, dilation: int, groups: int, extra: int
) -> None:
    def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        whole = TORCH_TRANSPOSE[rank - 1](x, w, None, stride, 0, 0, groups, dilation)
        whole = F.pad(whole, [0, extra] * rank)
        spans = [slice(b, size - a) for b, a, size in zip(before, after, whole.shape[2:], strict=True)]
        return whole[(..., *spans)]

    before, after = [1, 0, 2][:rank], [0, 1, 1][:rank]
    check_gradient(
        lambda x, w: TRANSPOSE[rank - 1](x, w, stride, [*before, *after], extra, dilation, groups),
        *operands(rank, groups, transposed=True),
        reference=reference,
        differences=rank < 3,
    )


LAYOUTS = list(product(["NHWC", "HCWN"], ["HWIO", "OHWI"], ["NCHW", "WNCH"]))


@pytest.mark.parametrize(("data", "kernel", "out"), LAYOUTS)
@pytest.mark.parametrize("groups", [1, 2])
def test_a_layout_moves_the_axes_of_the_gradient_and_nothing_else(
    data: str, kernel: str, out: str, groups: int
) -> None:
    x, w = operands(2, groups)
    attrs = {"strides": 2, "padding": (1, 0, 2, 1), "dilation": (2, 1), "groups": groups}
    plain = gradients(loss_module(lambda x, w: R.sum(R.sin(R.nn.conv2d(x, w, **attrs))), [x, w]), [x, w])
    moved = [x.transpose(["NCHW".index(c) for c in data]), w.transpose(["OIHW".index(c) for c in kernel])]
    layouts = {"data_layout": data, "kernel_layout": kernel, "out_layout": out}
    module = loss_module(lambda x, w: R.sum(R.sin(R.nn.conv2d(x, w, **attrs, **layouts))), moved)
    for got, want, have, order in zip(gradients(module, moved), plain, (data, kernel), ("NCHW", "OIHW"), strict=True):
        np.testing.assert_allclose(got, want.transpose([order.index(c) for c in have]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("out", ["NCHW", "CHWN"])
def test_a_layout_moves_the_axes_of_a_transposed_convolution(out: str) -> None:
    x, w = operands(2, 2, transposed=True)
    check_gradient(
        lambda x, w: R.nn.conv2d_transpose(x, w, 2, groups=2, data_layout="NHWC", kernel_layout="HWOI", out_layout=out),
        x.transpose(0, 2, 3, 1),
        w.transpose(2, 3, 1, 0),
        reference=lambda x, w: torch.permute(
            F.conv_transpose2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), stride=2, groups=2),
            ["NCHW".index(letter) for letter in out],
        ),
        differences=False,
    )


def test_a_depthwise_convolution_has_the_gradient_of_both_oracles() -> None:
    check_gradient(
        lambda x, w: R.nn.conv2d(x, w, padding=1, groups=4),
        numbers(2, 4, 6, 5),
        numbers(4, 1, 3, 2),
        reference=lambda x, w: F.conv2d(x, w, padding=1, groups=4),
    )


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_can_be_differentiated_twice(rank: int, groups: int) -> None:
    check_second_order(
        lambda x, w: R.tanh(CONV[rank - 1](x, w, strides=2, padding=1, groups=groups)),
        *operands(rank, groups),
        reference=lambda x, w: torch.tanh(TORCH_CONV[rank - 1](x, w, stride=2, padding=1, groups=groups)),
        differences=False,
    )
    check_second_order(
        lambda x, w: R.tanh(TRANSPOSE[rank - 1](x, w, 2, 1, 1, groups=groups)),
        *operands(rank, groups, transposed=True),
        reference=lambda x, w: torch.tanh(TORCH_TRANSPOSE[rank - 1](x, w, None, 2, 1, 1, groups)),
        differences=False,
    )


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_symbolic_sizes_have_the_gradient_of_finite_differences(stride: int, groups: int) -> None:
    x, w = operands(2, groups)
    data = TensorType((SymVar("n"), x.shape[1], SymVar("h"), SymVar("w")), "float64")
    types = [data, TensorType(w.shape, "float64")]
    attrs = {"strides": stride, "padding": 1, "groups": groups}
    check_gradient(lambda x, w: R.sin(R.nn.conv2d(x, w, **attrs)), x, w, types=types)


def test_a_wider_result_gives_each_operand_a_gradient_of_its_own_dtype() -> None:
    x, w = operands(2, 2)
    narrow = [x.astype("float32"), w.astype("float32")]
    found = gradients(loss_module(lambda x, w: R.nn.conv2d(x, w, groups=2, out_dtype="float64"), narrow), narrow)
    expected = gradients(loss_module(lambda x, w: R.nn.conv2d(x, w, groups=2), [x, w]), [x, w])
    for got, want in zip(found, expected, strict=True):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_an_empty_batch_has_no_gradient_for_data_and_zeros_for_the_kernel() -> None:
    x, w = numbers(0, 2, 7, 6), numbers(3, 2, 3, 2)
    check_gradient(R.nn.conv2d, x, w, reference=F.conv2d)


def test_data_of_unknown_shape_says_what_the_gradient_needs() -> None:
    x, w = operands(2, 1)
    types = [TensorType(None, "float64", 4), TensorType(w.shape, "float64")]
    module = loss_module(lambda x, w: R.sum(R.nn.conv2d(x, w)), [x, w], types)
    with pytest.raises(GradientError, match=r"(?s)relax.nn.conv2d: the gradient needs the shape of data.*match_cast"):
        Gradient("main")(module)
