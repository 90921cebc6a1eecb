"""Images as columns and back, beside PyTorch and ONNX's evaluator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regraft.ir import Call, OpTypeError, ShapeType, SymVar, TensorType, Var
from regraft.op import nn
from regraft.script import relax as R
from tests.formats.onnx.single_node import check_node
from tests.gradient.checks import check_gradient, check_second_order, numbers
from tests.op.harness import check

WINDOWS: list[dict[str, Any]] = [
    {"kernel_size": (2, 3)},
    {"kernel_size": (3, 2), "strides": (2, 1), "padding": (1, 2)},
    {"kernel_size": (2, 2), "strides": 3, "dilation": (2, 3), "padding": 1},
]


def torch_names(attrs: dict[str, Any]) -> dict[str, Any]:
    return {{"strides": "stride"}.get(name, name): value for name, value in attrs.items()}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("attrs", WINDOWS, ids=str)
def test_columns_and_images_agree_with_pytorch(attrs: dict[str, Any], dtype: Any) -> None:
    x = numbers(2, 3, 7, 6).astype(dtype)
    wide = torch.from_numpy(x.astype(np.float64))
    columns = F.unfold(wide, **torch_names(attrs))
    check(lambda x: nn.im2col(x, **attrs), [x], columns.numpy().astype(dtype))
    filled = numbers(*columns.shape).astype(dtype)
    image = F.fold(torch.from_numpy(filled.astype(np.float64)), (7, 6), **torch_names(attrs))
    check(lambda x: nn.col2im(x, (7, 6), **attrs), [filled], image.numpy().astype(dtype))


def test_padding_may_differ_before_and_after() -> None:
    x = numbers(2, 3, 5, 4)
    padded = F.pad(torch.from_numpy(x), (3, 0, 1, 2))
    columns = F.unfold(padded, (2, 3), stride=(2, 1))
    attrs: dict[str, Any] = {"kernel_size": (2, 3), "strides": (2, 1), "padding": (1, 3, 2, 0)}
    check(lambda x: nn.im2col(x, **attrs), [x], columns.numpy())
    image = F.fold(columns, (8, 7), (2, 3), stride=(2, 1)).numpy()[:, :, 1:6, 3:]
    check(lambda x: nn.col2im(x, (5, 4), **attrs), [columns.numpy()], image)


@pytest.mark.parametrize("sizes", [(6,), (4, 3, 5)], ids=str)
def test_there_may_be_any_number_of_spatial_axes(sizes: tuple[int, ...]) -> None:
    rank = len(sizes)
    kernel, strides, pads = (2, 1, 3)[:rank], (2, 1, 1)[:rank], [1] * (2 * rank)
    x = numbers(2, 3, *sizes)
    view = np.lib.stride_tricks.sliding_window_view(
        np.pad(x, [(0, 0), (0, 0), *[(1, 1)] * rank]), kernel, range(2, rank + 2)
    )
    view = view[(slice(None), slice(None), *[slice(None, None, step) for step in strides])]
    order = (0, 1, *range(rank + 2, 2 * rank + 2), *range(2, rank + 2))
    columns = view.transpose(order).reshape(2, 3 * int(np.prod(kernel)), -1)
    check(lambda x: nn.im2col(x, kernel, strides, pads), [x], columns)
    narrow = columns.astype(np.float32)
    inputs = {"x": narrow, "image": np.array(sizes), "block": np.array(kernel)}
    check_node("Col2Im", inputs, strides=strides, pads=pads, fixed=["image", "block"])


def test_integers_are_moved_and_summed() -> None:
    x = np.arange(12, dtype=np.int64).reshape(1, 1, 3, 4)
    columns = F.unfold(torch.from_numpy(x).double(), 2).numpy().astype(np.int64)
    check(lambda x: nn.im2col(x, (2, 2)), [x], columns)
    image = F.fold(torch.from_numpy(columns).double(), (3, 4), 2).numpy().astype(np.int64)
    check(lambda x: nn.col2im(x, (3, 4), (2, 2)), [columns], image)


@pytest.mark.parametrize("attrs", WINDOWS, ids=str)
def test_each_has_the_other_as_gradient(attrs: dict[str, Any]) -> None:
    x = numbers(2, 2, 6, 5)
    check_gradient(lambda x: nn.im2col(x, **attrs), x, reference=lambda x: F.unfold(x, **torch_names(attrs)))
    columns = numbers(*F.unfold(torch.from_numpy(x), **torch_names(attrs)).shape)
    check_gradient(
        lambda x: nn.col2im(x, (6, 5), **attrs), columns, reference=lambda x: F.fold(x, (6, 5), **torch_names(attrs))
    )
    check_second_order(lambda x: R.sin(nn.im2col(x, **attrs)), x[:1])


def test_the_types_follow_the_sizes() -> None:
    n, h = SymVar("n"), SymVar("h")
    x = Var("x", TensorType((n, 3, h, 8), "float32"))
    assert nn.im2col(x, (2, 4), (1, 2)).ty == TensorType((n, 24, (h - 1) * 3), "float32")
    columns = Var("c", TensorType((n, 24, (h - 1) * 3), "float32"))
    assert nn.col2im(columns, (h, 8), (2, 4), (1, 2)).ty == x.ty
    unknown = Var("u", TensorType(dtype=None))
    assert nn.im2col(unknown, (2, 2)).ty == TensorType(None, None, 3)
    assert nn.col2im(unknown, Var("s", ShapeType(None, 2)), (2, 2)).ty == TensorType(None, None, 4)


X = Var("x", TensorType((1, 3, 4, 5), "float32"))
COLUMNS = Var("c", TensorType((1, 12, 12), "float32"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: nn.im2col(X, 2), r"argument data .* 3 dimensions: batch, channels and 1 spatial axes"),
        (lambda: nn.im2col(X, (2, 6)), r"argument data .* a window of 6 elements fits on, not 5 \+ 0 padding"),
        (lambda: nn.im2col(X, (0, 2)), r"kernel_size=\(0, 2\); expected ints of at least 1"),
        (lambda: nn.col2im(COLUMNS, (4, 5), (2, 3)), r"argument data .* 9 columns, one for each window"),
        (lambda: nn.col2im(COLUMNS, (3, 7), (1, 5)), r"argument data .* a multiple of 5 rows"),
        (lambda: nn.col2im(COLUMNS, (3, 4, 5), (2, 2)), r"argument size .* 2 sizes, one for each spatial axis"),
        (lambda: nn.col2im(X, (4, 5), (2, 2)), r"argument data .* 3 dimensions"),
    ],
)
def test_a_wrong_call_names_operand_and_expectation(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()
